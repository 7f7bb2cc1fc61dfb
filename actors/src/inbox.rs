//! The questions of all threads that wait for people.

use rethread_events::ids::{CallId, NodeId, ThreadId, Time};
use rethread_events::thread::{State, Status};
use rethread_store::{LogReader, Tag};

use crate::clock;
use crate::error::ReadError;
use crate::interaction::InteractionRequest;
use crate::load;
use crate::mode::Mode;
use crate::registry::ThreadRegistry;
use crate::runtime::Runtime;
use crate::thread_handle::ThreadHandle;

/// A question that waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenInteraction {
    /// The thread.
    pub thread: ThreadId,
    /// The name of the workflow.
    pub workflow: Option<String>,
    /// The node that asks.
    pub node: NodeId,
    /// The question.
    pub request: InteractionRequest,
}

impl OpenInteraction {
    /// Its global name: the thread's id and its own.
    pub fn key(&self) -> String {
        self.request.id.key(self.thread)
    }

    /// How long it has waited, in milliseconds.
    pub fn age_ms(&self, now: Time) -> u64 {
        now.ms_since(self.request.requested_at)
    }

    fn order(&self) -> (Time, ThreadId, CallId) {
        (self.request.requested_at, self.thread, self.request.id)
    }

    /// Returns whether it is an approval: of a tool call, or of an input or an answer that a guardrail has stopped.
    pub fn is_approval(&self) -> bool {
        self.request.operation_type.is_approval()
    }
}

/// The open questions.
#[derive(Debug, Default)]
pub struct Inbox {
    /// The questions, those that have waited longest first.
    pub open: Vec<OpenInteraction>,
    /// Threads that cannot be read, and why; their questions are unknown.
    pub unreadable: Vec<(ThreadId, ReadError)>,
}

impl Runtime {
    /// Returns the questions of all threads that people can answer now. Questions past their deadline are left out,
    /// although they may not be closed yet. Costs the load of every thread that has not ended: [`Runtime::inbox_page`]
    /// returns some of them.
    pub async fn inbox(&self) -> Result<Inbox, ReadError> {
        let store = self.store().clone();
        let threads = self.blocking(move || not_ended(&*store)).await??;
        let mut inbox = Inbox::default();
        for thread in threads {
            match self.thread(thread).interactions().await {
                Ok(open) => inbox.open.extend(open),
                // The thread was deleted meanwhile.
                Err(ReadError::NoThread(_)) => {}
                Err(error) => inbox.unreadable.push((thread, error)),
            }
        }
        inbox.open.sort_by_key(OpenInteraction::order);
        Ok(inbox)
    }

    /// Returns the time from which ages and deadlines are measured.
    pub fn now(&self) -> Time {
        clock::now()
    }
}

impl ThreadHandle {
    /// Returns the questions of the thread that people can answer now, in the order of their requests.
    pub async fn interactions(&self) -> Result<Vec<OpenInteraction>, ReadError> {
        let (registry, id) = (self.runtime().registry().clone(), self.id());
        let open = move || {
            let services = &registry.services;
            let loaded = services.crashes.folding(id, || load::present(&*services.store, id))?;
            Ok(open(&registry, &loaded.state, clock::now()))
        };
        self.runtime().blocking(open).await?
    }
}

impl ThreadHandle {
    /// The questions of the thread and of the branches that it runs, those that have waited longest first. Costs the
    /// load of each of them.
    pub async fn inbox(&self) -> Result<Vec<OpenInteraction>, ReadError> {
        let (registry, id) = (self.runtime().registry().clone(), self.id());
        let collect = move || {
            let (mut threads, mut found) = (vec![id], Vec::new());
            while let Some(thread) = threads.pop() {
                let services = &registry.services;
                let state = match services.crashes.folding(thread, || load::present(&*services.store, thread)) {
                    Ok(loaded) => loaded.state,
                    // A branch that is about to begin.
                    Err(ReadError::NoThread(_)) if thread != id => continue,
                    Err(error) => return Err(error),
                };
                threads.extend(state.running_branches().map(|branch| branch.child));
                found.extend(open(&registry, &state, clock::now()));
            }
            found.sort_by_key(OpenInteraction::order);
            Ok(found)
        };
        self.runtime().blocking(collect).await?
    }
}

/// Returns the threads that have not ended, without loading any of them. Blocks.
fn not_ended(store: &dyn LogReader) -> Result<Vec<ThreadId>, ReadError> {
    let status = Status::ALL.into_iter().filter(|status| !status.is_ended());
    let tags: Vec<_> = status.map(|status| Tag(status.code())).collect();
    let found: Result<_, _> = store.all_streams(None, &tags).map(|info| Ok(info?.thread)).collect();
    found
}

pub(crate) fn open(registry: &ThreadRegistry, state: &State, now: Time) -> Vec<OpenInteraction> {
    let Some(run) = state.node_run() else {
        return Vec::new();
    };
    let in_time = |deadline: Option<Time>| state.is_paused() || deadline.is_none_or(|deadline| deadline > now);
    // A question of a tool that no longer runs cannot be answered.
    let services = &registry.services;
    let runs = match services.mode {
        Mode::Run | Mode::RunOnDemand => registry.is_live(state.thread()),
        Mode::RunElsewhere => true,
        Mode::Observe | Mode::Salvage | Mode::Delete => false,
    };
    let is_heard = |tool_run: Option<CallId>| tool_run.is_none() || runs;
    let open = state.interactions().into_iter().filter(|ask| in_time(ask.deadline) && is_heard(ask.tool_run));
    open.map(|ask| OpenInteraction {
        thread: state.thread(),
        workflow: state.workflow().map(|workflow| workflow.name.clone()),
        node: run.node.clone(),
        request: InteractionRequest::new(ask, services.prompt_of(state, ask)),
    })
    .collect()
}
