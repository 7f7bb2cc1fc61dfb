//! Begins what a request asks for: a thread, its next run, or the rest of a run that waited for a person. A run that was
//! begun before is followed again.

use std::sync::Arc;

use actix_web::HttpRequest;
use rethread::operate::{BranchFilter, Labels, LogAccess as _, ThreadQuery};
use rethread::runs::{OnMessage, RunId, RunRequest};
use rethread::{Event, Hash, Json, RecordedEvent, Seq, StartThread, State, Status, ThreadId, Workflow};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::answers::uncovered;
use super::asked::{Asked, Begun};
use super::input::Input;
use crate::serve::doors::conversation::invalid;
use crate::serve::doors::following::{Inside, Run};
use crate::serve::guard;
use crate::serve::idempotency::{Key, blocking};
use crate::serve::problem::{Kind, Problem};
use crate::serve::request;
use crate::serve::server::Shared;
use crate::serve::workflows::{Chosen, For};

/// The labels of a thread that this door started: the id that the client gave it, and that of its first run.
const THREAD_LABEL: &str = "agui_thread";
const RUN_LABEL: &str = "agui_run";
/// How many threads with the label of a thread are examined: the thread itself, its forks, and those of other tokens.
const SEARCH_PAGE: usize = 50;
const SEARCH_PAGES_MAX: usize = 100;
/// How many locks there are. Threads that share one wait for each other while they begin.
const LOCKS: usize = 64;

/// Locks by the thread of a request: two requests for a new thread start one.
pub(crate) struct Locks([Arc<Mutex<()>>; LOCKS]);

impl Default for Locks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Arc::default()))
    }
}

impl Locks {
    fn of(&self, labels: &Labels, thread: &str) -> Arc<Mutex<()>> {
        let hash = Hash::of(format!("{labels}\0{thread}").as_bytes());
        let place = usize::from(hash.as_bytes()[0]) % LOCKS;
        self.0[place].clone()
    }
}

/// Begins the run of a request.
pub(super) async fn begin(
    server: &Shared,
    request: &HttpRequest,
    name: String,
    input: Input,
) -> Result<Begun, Problem> {
    let chosen = Chosen { workflow: Some(name), hash: None, definition: None };
    let workflow = chosen.find(server, For::Running).await?;
    let workflow = workflow.ok_or_else(|| Problem::new(Kind::NoWorkflow, "name a workflow in the path"))?;
    let bound = guard::bound_to(request);
    let one_at_a_time = Arc::new(server.agui.of(&bound, &input.thread_id).lock_owned().await);
    let mut found = find(server, request, &bound, &input.thread_id).await?;
    let mut keyed = None;
    if found.is_none() && server.settings.is_shared {
        // One of the servers begins a thread of this name.
        let (key, operation) = (Key::named(&input.thread_id), format!("agui {bound}"));
        let begun = server.keys.begin(&key, &operation, &[], server.runtime.new_thread_id()).await?;
        // The log here is now as far as that of the one that had it before.
        found = find(server, request, &bound, &input.thread_id).await?;
        match found {
            Some(_) => begun.forget().await,
            None => keyed = Some(begun),
        }
    }
    // The run is known by its id for as long as keys are kept, also when its thread is deleted.
    let new = || keyed.as_ref().map_or_else(|| server.runtime.new_thread_id(), |keyed| keyed.thread);
    let (key, operation) = (Key::named(&input.run_id), format!("agui {bound}\0{}", input.thread_id));
    let mut of_run = server.keys.begin(&key, &operation, &[], found.unwrap_or_else(new)).await?;
    if of_run.was_begun && found != Some(of_run.thread) {
        let detail = format!(
            "thread {}, which this `runId` was sent to, was deleted: send the message with another `runId`",
            of_run.thread
        );
        return Err(Problem::new(Kind::NoThread, detail).at("thread_id", of_run.thread));
    }
    let begun = begin_run(server, request, workflow, input, found, of_run.thread, one_at_a_time.clone()).await;
    match &begun {
        Ok(_) => of_run.has_begun().await,
        Err(problem) if problem.is_refusal() && !of_run.is_repeated => of_run.forget().await,
        Err(_) => {}
    }
    if let Some(keyed) = keyed.filter(|_| begun.is_ok()) {
        keyed.forget().await;
    }
    begun
}

/// Begins the run in the thread that was found, or in a new one with this id.
async fn begin_run(
    server: &Shared,
    request: &HttpRequest,
    workflow: Arc<Workflow>,
    mut input: Input,
    found: Option<ThreadId>,
    new: ThreadId,
    one_at_a_time: Arc<OwnedMutexGuard<()>>,
) -> Result<Begun, Problem> {
    let bound = guard::bound_to(request);
    if let Some(id) = found {
        let thread = server.runtime.thread(id).by(guard::principal(server, request));
        let caller = request::traceparent(request);
        let asked = Asked { server: server.clone(), workflow, thread, input, caller };
        // If the client leaves, the handler is dropped, and what was begun is completed.
        let begun = tokio::spawn(async move {
            let _one_at_a_time = one_at_a_time;
            asked.go_on().await
        });
        return begun.await.map_err(|_| Problem::stopping())?;
    }
    if !input.resume.is_empty() {
        let detail = format!("there is no thread `{}` with interrupts to be answered", input.thread_id);
        return Err(Problem::new(Kind::NoThread, detail).at("parameter", "resume"));
    }
    let mut conversation = input.conversation()?;
    let mut variables = conversation.variables(&workflow)?;
    variables.extend(input.variables(&workflow, None)?.iter().map(|(name, value)| (name.clone(), value.clone())));
    let labels = labelled(bound, &input.thread_id)
        .and_then(|labels| labels.with(RUN_LABEL, &input.run_id).map_err(|error| invalid("runId", error)))?;
    let (text, past) = (conversation.input(), conversation.past_with_media());
    let start = StartThread::new(workflow.clone(), text).id(new).labels(labels).messages(past).variables(variables);
    let mut start = start.traceparent(request::traceparent(request));
    if let Some(folder) = &server.settings.workspace {
        start = start.workspace(folder);
    }
    let runtime = server.runtime.clone();
    // If the client leaves, the handler is dropped. The next request for this thread is to find it.
    let started = tokio::spawn(async move {
        let _one_at_a_time = one_at_a_time;
        runtime.start(start).await
    });
    let thread = started.await.map_err(|_| Problem::stopping())??.by(guard::principal(server, request));
    let run = Run { thread, id: RunId(Seq(0)), from: Seq(0), inside: Inside::default(), workflow };
    Ok(Begun { run, before: None, after: None, warnings: input.warnings })
}

/// The labels of a thread that the client calls so.
fn labelled(bound: Labels, thread: &str) -> Result<Labels, Problem> {
    bound.with(THREAD_LABEL, thread).map_err(|error| invalid("threadId", error))
}

/// Finds the thread that the client means: the one that this door started under that id for the same labels, or the one
/// whose own id it is.
async fn find(
    server: &Shared,
    request: &HttpRequest,
    bound: &Labels,
    thread: &str,
) -> Result<Option<ThreadId>, Problem> {
    let labels = labelled(bound.clone(), thread)?;
    let of_door = |(key, _): &(&str, &str)| ![THREAD_LABEL, RUN_LABEL].contains(key);
    let mut after = None;
    for _ in 0..SEARCH_PAGES_MAX {
        let query = ThreadQuery {
            labels: labels.clone(),
            branch_of: BranchFilter::TopLevel,
            oldest_first: true,
            after,
            limit: SEARCH_PAGE,
            ..ThreadQuery::default()
        };
        let page = server.runtime.thread_page(query).await?;
        // Forks have the labels as well, and so have threads that other tokens started with more labels.
        let found = page
            .threads
            .iter()
            .find(|found| found.forked_from.is_none() && found.labels.iter().filter(of_door).eq(bound.iter()));
        match (found, page.next) {
            (Some(found), _) => return Ok(Some(found.thread_id)),
            (None, Some(next)) => after = Some(next),
            (None, None) => {
                let Ok(id) = thread.parse() else { return Ok(None) };
                let seen = match guard::check_thread(server, request, id).await {
                    Ok(()) => server.runtime.thread(id).summary().await.map_err(Problem::from),
                    Err(problem) => Err(problem),
                };
                return match seen {
                    Ok(_) => Ok(Some(id)),
                    Err(problem) if problem.kind() == Kind::NoThread => Ok(None),
                    Err(problem) => Err(problem),
                };
            }
        }
    }
    Err(Problem::new(Kind::Conflict, format!("too many threads are called `{thread}`: choose another id")))
}

impl Asked {
    /// Begins the next run of a thread, or follows one that was begun before.
    async fn go_on(mut self) -> Result<Begun, Problem> {
        // Before the questions are read: what comes later is told.
        let end = self.server.runtime.next_position();
        let state = self.thread.state().await?;
        if let Some((run, from, input)) = self.repeated(&state).await? {
            self.check_repeated(&input)?;
            return self.follow(run, from).await;
        }
        if state.status() == Status::Paused {
            let detail =
                format!("the thread is paused: it continues after POST /v1/threads/{}/resume", self.thread.id());
            return Err(Problem::new(Kind::Conflict, detail));
        }
        let open = if state.is_ended() { Vec::new() } else { self.thread.inbox().await? };
        let has_results = !self.input.tool_results().is_empty();
        if !self.input.resume.is_empty() || has_results {
            // Answers to no question that is open may be those of a request that is sent again.
            return match self.answers(&state, &open).await? {
                Some(given) => self.give(&state, end, given).await,
                None if has_results && self.input.resume.is_empty() => self.called(&state, &open).await,
                None => self.resumed(&open).await,
            };
        }
        if !open.is_empty() {
            return Err(uncovered(open.iter()));
        }
        let conversation = self.input.last_message()?;
        conversation.refuse_media()?;
        let mut variables = conversation.variables(&self.workflow)?;
        let set = self.input.variables(&self.workflow, Some(&state))?;
        variables.extend(set.iter().map(|(name, value)| (name.clone(), value.clone())));
        // Each request has an answer of its own, so it waits for the run in progress.
        let mut run = RunRequest::new(conversation.input())
            .variables(variables)
            .on_message(OnMessage::Queue)
            .traceparent(self.caller)
            .key(&self.input.run_id);
        if state.workflow().is_some_and(|present| present.name != self.workflow.name()) {
            run = run.workflow(self.workflow.clone());
        }
        let accepted = self.thread.run(run).await?;
        self.follow(accepted.run_id, accepted.seq).await
    }

    /// Returns the run that a request with this id began, the event that brought it, and its input.
    async fn repeated(&self, state: &State) -> Result<Option<(RunId, Seq, Json)>, Problem> {
        let run = &*self.input.run_id;
        let is_first = state.forked_from().is_none() && state.labels().get(RUN_LABEL) == Some(run);
        let seq = if is_first { Some(Seq(0)) } else { state.request_of_key(run) };
        let Some(seq) = seq else { return Ok(None) };
        let event = self.event(self.thread.id(), seq).await?;
        let run = if let Some(Event::ThreadStarted(e)) = event {
            Some((RunId(seq), seq, e.input))
        } else if let Some(Event::RunStarted(e)) = event {
            Some((e.run_id, seq, e.input))
        } else if let Some(Event::RunQueued(e)) = event {
            Some((e.run_id, seq, e.input))
        } else {
            None
        };
        run.map(Some).ok_or_else(|| reused("this `runId` was used for a message that began no run"))
    }

    /// Checks that a request whose `runId` is known asks for the same run.
    fn check_repeated(&mut self, input: &Json) -> Result<(), Problem> {
        if !self.input.resume.is_empty() || !self.input.tool_results().is_empty() {
            return Err(reused("this `runId` began a run, and a request with answers has a `runId` of its own"));
        }
        let given = self.input.last_message()?.input();
        let is_same = given == *input || self.workflow.accept_input(given).is_ok_and(|read| read == *input);
        if is_same { Ok(()) } else { Err(reused("this `runId` began a run with another message")) }
    }

    async fn event(&self, thread: ThreadId, seq: Seq) -> Result<Option<Event>, Problem> {
        let store = self.server.runtime.store();
        let record = blocking(move || store.record(thread, seq)).await??;
        Ok(record.map(RecordedEvent::decode).transpose()?.map(|recorded| recorded.event))
    }
}

fn reused(why: &str) -> Problem {
    Problem::new(Kind::KeyReused, format!("{why}: choose another `runId`")).at("parameter", "runId")
}
