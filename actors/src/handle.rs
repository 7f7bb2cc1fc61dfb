//! What a service holds: the runtime, and its threads.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use rethread_events::bin::Ordered;
use rethread_events::event::{Event, ForkChanges, event_type_named};
use rethread_events::fault::ExecutionError;
use rethread_events::ids::{CallId, Position, Seq, ThreadId, Time};
use rethread_events::json::Json;
use rethread_events::message::Message;
use rethread_events::thread::{Input, State, Status, Thread, Totals};
use rethread_events::workflow::{Fault, Faults, Surroundings, Workflow, WorkflowRef};
use rethread_store::{Filter, ForkPoint, Kind, Store, StoreError, StreamInfo, Tag};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::activity::{Rest, Until};
use crate::builder::{OwnSystem, RuntimeBuilder, on_a_thread};
use crate::error::RuntimeError;
use crate::inner::Inner;
use crate::load;
use crate::recorded::RecordedEvent;
use crate::thread_actor::{Begin, Halt, Look, Tell};

/// How many records are read at a time.
const PAGE: usize = 512;
/// How often a message is given to the successor of an actor that went away before it took the message.
const TRIES: usize = 5;

/// The runtime: threads of workflows on a durable log. Cheap to clone and to share between threads and tasks; all
/// clones are one runtime. Dropping the last one stops it like a crash would: without harm, but without waiting.
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<Shared>,
}

struct Shared {
    inner: Arc<Inner>,
    system: Mutex<Option<OwnSystem>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.inner.begin_shutdown();
        if let Some(own) = self.system.get_mut().take() {
            own.system.stop();
        }
    }
}

/// How a thread is started.
#[derive(Debug, Clone)]
pub struct StartThread {
    workflow: Arc<Workflow>,
    input: Json,
    workspace: Option<String>,
    id: Option<ThreadId>,
}

impl StartThread {
    /// A run of this workflow with this input.
    pub fn new(workflow: impl Into<Arc<Workflow>>, input: impl Into<Json>) -> Self {
        Self { workflow: workflow.into(), input: input.into(), workspace: None, id: None }
    }

    /// The folder its tools work in, in place of the runtime's.
    #[must_use]
    pub fn workspace(mut self, folder: impl Into<String>) -> Self {
        self.workspace = Some(folder.into());
        self
    }

    /// The id it gets. Starting a second thread with the same id is a conflict, so an id of the caller's makes
    /// starting safe to repeat.
    #[must_use]
    pub fn id(mut self, id: ThreadId) -> Self {
        self.id = Some(id);
        self
    }
}

/// What a fork is made of.
#[derive(Debug, Clone, Default)]
pub struct ForkRequest {
    /// The last seq that is inherited; the thread's last one when absent.
    pub at: Option<Seq>,
    /// What is different from there on.
    pub changes: ForkChanges,
    /// The definition to go on with; the parent's when absent.
    pub workflow: Option<Arc<Workflow>>,
}

/// What a thread has come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The thread.
    pub thread_id: ThreadId,
    /// How far it is.
    pub status: Status,
    /// The output of its last node.
    pub output: Option<Value>,
    /// Why it failed.
    pub error: Option<ExecutionError>,
    /// Its sums.
    pub totals: Totals,
    /// The whole state.
    pub state: State,
    /// The position of its last event.
    pub last_position: Position,
}

impl Outcome {
    fn new(state: State, last_position: Position) -> Self {
        Self {
            thread_id: state.thread(),
            status: state.status(),
            output: state.output().map(|output| output.clone().into_value()),
            error: state.error(),
            totals: *state.totals(),
            state,
            last_position,
        }
    }

    /// Whether the thread reached an end.
    pub fn success(&self) -> bool {
        self.status == Status::Completed
    }

    /// What `run --json` prints.
    pub fn to_json(&self) -> Value {
        let mut json = self.state.outcome_json();
        json["last_position"] = self.last_position.0.into();
        json
    }
}

/// A thread in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadSummary {
    /// The thread.
    pub thread_id: ThreadId,
    /// How far it is.
    pub status: Status,
    /// The workflow it began on.
    pub workflow: Option<WorkflowRef>,
    /// When it began; for a fork, when it was forked.
    pub started_at: Time,
    /// When its last event happened.
    pub last_at: Time,
    /// Its last event.
    pub last_seq: Seq,
    /// The place of that event in the whole log.
    pub last_position: Position,
    /// The thread it was forked from, and the last seq it inherits.
    pub forked_from: Option<(ThreadId, Seq)>,
}

impl ThreadSummary {
    /// What `threads --json` prints of it.
    pub fn to_json(&self) -> Value {
        serde_json::json!({
            "thread_id": self.thread_id,
            "status": self.status,
            "workflow": self.workflow.as_ref().map(|workflow| &workflow.name),
            "workflow_hash": self.workflow.as_ref().map(|workflow| workflow.hash),
            "started_at": self.started_at,
            "last_at": self.last_at,
            "last_seq": self.last_seq,
            "last_position": self.last_position,
            "forked_from": self
                .forked_from
                .map(|(thread, seq)| serde_json::json!({ "thread_id": thread, "seq": seq })),
        })
    }
}

/// Which threads a list holds.
#[derive(Debug, Clone, Default)]
pub struct ThreadFilter {
    /// Only those with one of these statuses; empty for all.
    pub status: Vec<Status>,
    /// Only those after this one, by id, so by time of creation.
    pub after: Option<ThreadId>,
    /// At most so many; 0 for all.
    pub limit: usize,
}

impl Runtime {
    /// Puts a runtime together.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }

    pub(crate) fn new(inner: Arc<Inner>, system: OwnSystem) -> Self {
        Self { shared: Arc::new(Shared { inner, system: Mutex::new(Some(system)) }) }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.shared.inner
    }

    /// The log.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner().store
    }

    /// What the workflow needs and this runtime lacks; empty when it can run here.
    pub fn check(&self, workflow: &Workflow) -> Vec<Fault> {
        let inner = self.inner();
        workflow.check(&Surroundings {
            tools: inner.tools.list().iter().map(|tool| tool.name().to_owned()).collect(),
            profiles: inner.models.profiles(),
            providers: inner.models.providers(),
            processors: std::collections::BTreeSet::new(),
        })
    }

    /// Starts a thread; it is durable when this answers, and goes on by itself.
    ///
    /// # Errors
    /// `Workflow` when it needs a tool, profile or provider that is not there; `Busy`, `TooLarge`; `Store` when the
    /// log cannot take it. Nothing was started then.
    pub async fn start_thread(
        &self,
        workflow: impl Into<Arc<Workflow>>,
        input: impl Into<Json>,
    ) -> Result<ThreadHandle, RuntimeError> {
        self.start(StartThread::new(workflow, input)).await
    }

    /// Starts a thread with more said about how. See [`Runtime::start_thread`].
    pub async fn start(&self, start: StartThread) -> Result<ThreadHandle, RuntimeError> {
        let inner = self.inner();
        self.fits("an input", &start.input.0)?;
        self.keep(&start.workflow).await?;
        let id = start.id.unwrap_or_else(Inner::new_thread_id);
        let started = Thread::started(&start.workflow, start.input, start.workspace, Inner::now());
        let (reply, answer) = oneshot::channel();
        inner.begin(id, Begin::New { workflow: start.workflow, started, reply })?;
        answer.await.map_err(|_| RuntimeError::ActorStopped(id))??;
        Ok(self.handle(id))
    }

    /// Keeps the definition in the log, once, after looking whether it can run here.
    async fn keep(&self, workflow: &Arc<Workflow>) -> Result<(), RuntimeError> {
        let inner = self.inner();
        let faults = self.check(workflow);
        if !faults.is_empty() {
            return Err(RuntimeError::Workflow(Faults(faults)));
        }
        if !inner.definitions.knows(workflow.hash()) {
            let (inner, workflow) = (inner.clone(), workflow.clone());
            self.blocking(move || inner.definitions.keep(&workflow)).await??;
        }
        Ok(())
    }

    fn fits(&self, what: &'static str, value: &Value) -> Result<(), RuntimeError> {
        let bytes_max = self.inner().limits.input_bytes_max;
        let bytes = json_bytes(value);
        if bytes > bytes_max { Err(RuntimeError::TooLarge { what, bytes, bytes_max }) } else { Ok(()) }
    }

    /// The thread with this id. It is looked for when it is used.
    pub fn thread(&self, id: ThreadId) -> ThreadHandle {
        self.handle(id)
    }

    fn handle(&self, id: ThreadId) -> ThreadHandle {
        ThreadHandle { runtime: self.clone(), id }
    }

    /// Threads, oldest first.
    pub async fn threads(&self, filter: ThreadFilter) -> Result<Vec<ThreadSummary>, RuntimeError> {
        let store = self.store().clone();
        self.blocking(move || {
            let tags: Vec<_> = filter.status.iter().map(|status| Tag(status.code())).collect();
            let limit = if filter.limit == 0 { usize::MAX } else { filter.limit };
            let (mut found, mut after) = (Vec::new(), filter.after);
            while found.len() < limit {
                let page = store.streams(after, &tags, PAGE.min(limit - found.len()))?;
                let Some(last) = page.last() else { break };
                after = Some(last.thread);
                for info in page {
                    found.push(summary(&*store, &info)?);
                }
            }
            Ok(found)
        })
        .await?
    }

    /// Events of the whole log from a position on: those that are there, then those that come. Filtered by
    /// documented names; all when `names` is empty.
    ///
    /// # Errors
    /// `Store(Invalid)` for a name that no event has.
    pub fn events(&self, from: Position, names: &[&str]) -> Result<Events, RuntimeError> {
        let kinds = kinds(names)?;
        let records = self.store().subscribe(from, Filter { threads: Vec::new(), kinds });
        Ok(Events::new(records.map(|record| RecordedEvent::decode(record?)).boxed()))
    }

    /// A named place in the log that survives restarts: where a subscriber goes on. `None` when it never saved one.
    pub async fn cursor(&self, name: &str) -> Result<Option<Position>, RuntimeError> {
        let (store, name) = (self.store().clone(), cursor_name(name));
        let value = self.blocking(move || store.value(&name)).await??;
        Ok(value.and_then(|bytes| bytes.try_into().ok()).map(|bytes| Position(u64::from_be_bytes(bytes))))
    }

    /// Saves the place after an event that was dealt with; durable when it answers. What was dealt with after the
    /// last save is seen again after a crash: at least once.
    pub async fn save_cursor(&self, name: &str, next: Position) -> Result<(), RuntimeError> {
        let (store, name) = (self.store().clone(), cursor_name(name));
        Ok(self.blocking(move || store.put_value(&name, &next.0.to_be_bytes())).await??)
    }

    /// Stops: nothing new begins; running calls may end within the grace time and are left to recovery after it;
    /// everything that was acknowledged is in the log, which is then closed. Calling it again waits for nothing.
    ///
    /// # Errors
    /// When the log could not be closed in good order; it is recovered when it is next opened.
    pub async fn shutdown(&self) -> Result<(), RuntimeError> {
        let inner = self.inner().clone();
        let own = self.shared.system.lock().take();
        let Some(own) = own else {
            return Ok(());
        };
        inner.begin_shutdown();
        let grace = Duration::from_millis(inner.limits.shutdown_grace_ms);
        self.blocking(move || {
            for (_, actor) in inner.live() {
                actor.do_send(Halt { grace });
            }
            // Appends under way end within the store's own limits; a second more than the grace time is for them.
            let deadline = std::time::Instant::now() + grace + Duration::from_secs(1);
            while inner.n_live() > 0 && std::time::Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            own.system.stop();
            let _ = own.thread.join();
            inner.activity.close();
            inner.store.close()
        })
        .await??;
        Ok(())
    }

    /// Runs something that blocks, whatever is around.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RuntimeError> {
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => runtime.spawn_blocking(work).await.map_err(|_| RuntimeError::ShuttingDown),
            Err(_) => on_a_thread("rethread-blocking", work).await.map_err(|_| RuntimeError::ShuttingDown),
        }
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("n_live", &self.inner().n_live()).finish_non_exhaustive()
    }
}

/// One thread of a runtime. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ThreadHandle {
    runtime: Runtime,
    id: ThreadId,
}

impl ThreadHandle {
    /// Its id.
    pub fn id(&self) -> ThreadId {
        self.id
    }

    /// Waits for its end. A thread that is not live is brought back.
    pub async fn outcome(&self) -> Result<Outcome, RuntimeError> {
        self.wait(Until::Ended).await
    }

    /// Waits until it has ended, waits for a person, or is paused.
    pub async fn at_rest(&self) -> Result<Outcome, RuntimeError> {
        self.wait(Until::AtRest).await
    }

    async fn wait(&self, until: Until) -> Result<Outcome, RuntimeError> {
        let inner = self.runtime.inner();
        loop {
            let waiting = inner.activity.wait(self.id, until);
            // After the waiter stands, so that an end in between is not missed.
            if let Some(actor) = inner.actor(self.id) {
                actor.do_send(Look);
            } else {
                let loaded = self.load(None).await?;
                let status = loaded.state.status();
                // One whose time came while nobody ran it is not at rest: it has something to do.
                let is_due = loaded.state.next_deadline().is_some_and(|at| at <= Inner::now());
                let at_rest = matches!(status, Status::Waiting | Status::Paused) && until == Until::AtRest && !is_due;
                if status.is_ended() || at_rest {
                    return Ok(Outcome::new(loaded.state, loaded.last_position));
                }
                self.start_up()?;
            }
            match waiting.rest().await {
                Some(Ok(Rest { state, last_position })) => return Ok(Outcome::new(state, last_position)),
                Some(Err(error)) => return Err(error),
                None if inner.is_shutting_down() => return Err(RuntimeError::ShuttingDown),
                None => {}
            }
        }
    }

    fn start_up(&self) -> Result<(), RuntimeError> {
        self.runtime.inner().activate(self.id).map(|_| ())
    }

    /// Brings the thread back if it is not live, so that it goes on.
    pub async fn wake(&self) -> Result<(), RuntimeError> {
        self.info().await?;
        self.start_up()
    }

    async fn load(&self, seq: Option<Seq>) -> Result<load::Loaded, RuntimeError> {
        let (store, id) = (self.runtime.store().clone(), self.id);
        self.runtime
            .blocking(move || match seq {
                None => load::present(&*store, id),
                Some(seq) => load::at(&*store, id, seq),
            })
            .await?
    }

    async fn info(&self) -> Result<StreamInfo, RuntimeError> {
        let (store, id) = (self.runtime.store().clone(), self.id);
        self.runtime.blocking(move || stream(&*store, id)).await?
    }

    /// What is known of it at a glance.
    pub async fn summary(&self) -> Result<ThreadSummary, RuntimeError> {
        let (store, id) = (self.runtime.store().clone(), self.id);
        self.runtime.blocking(move || summary(&*store, &stream(&*store, id)?)).await?
    }

    /// The first seq that is its own and not inherited.
    pub async fn first_own_seq(&self) -> Result<Seq, RuntimeError> {
        Ok(self.info().await?.fork_of.map_or(Seq(0), |point| point.seq.next()))
    }

    /// Its state after its last durable event.
    pub async fn state(&self) -> Result<State, RuntimeError> {
        Ok(self.load(None).await?.state)
    }

    /// Its state after event `seq`.
    pub async fn state_at(&self, seq: Seq) -> Result<State, RuntimeError> {
        Ok(self.load(Some(seq)).await?.state)
    }

    /// The seq of a checkpoint.
    pub async fn checkpoint_seq(&self, label: &str) -> Result<Option<Seq>, RuntimeError> {
        let state = self.state().await?;
        Ok(state.checkpoints().iter().find(|checkpoint| checkpoint.label == label).map(|checkpoint| checkpoint.seq))
    }

    /// Its events from `from` on, inherited ones included: those that are there, then those that come. Ends after
    /// the event that ends the thread.
    pub fn events(&self, from: Seq) -> Events {
        let (runtime, id) = (self.runtime.clone(), self.id);
        let records = futures::stream::once(async move {
            let store = runtime.store().clone();
            let start = store.next_position();
            let past = {
                let store = store.clone();
                runtime.blocking(move || stream(&*store, id)).await
            };
            match past {
                Ok(Ok(_)) => past_and_future(&runtime, id, from, start),
                Ok(Err(error)) | Err(error) => futures::stream::once(async { Err(error) }).boxed(),
            }
        });
        let events =
            futures::stream::unfold((records.flatten().boxed(), End::NotYet), move |(mut records, end)| async move {
                if end == End::Here {
                    return None;
                }
                let event = records.next().await?;
                let end = match &event {
                    Ok(event) => end.after(event, id),
                    Err(_) => End::Here,
                };
                Some((event, (records, end)))
            });
        Events::new(events.boxed())
    }

    /// Its events that are in the log now, from `from` on.
    pub async fn recorded_events(&self, from: Seq) -> Result<Vec<RecordedEvent>, RuntimeError> {
        let (store, id) = (self.runtime.store().clone(), self.id);
        self.runtime
            .blocking(move || {
                let end = stream(&*store, id)?.last_seq.next();
                let (mut events, mut next) = (Vec::new(), from);
                while next < end {
                    let page = store.read_stream(id, next..end, PAGE)?;
                    let Some(last) = page.last() else { break };
                    next = last.seq.next();
                    for record in page {
                        events.push(RecordedEvent::decode(record)?);
                    }
                }
                Ok(events)
            })
            .await?
    }

    /// Tells the thread something; durable when it answers, with the position of the last event it led to.
    async fn tell(&self, input: Input) -> Result<Option<Position>, RuntimeError> {
        let inner = self.runtime.inner();
        if !inner.is_live(self.id) {
            self.info().await?;
        }
        for _ in 0..TRIES {
            let actor = inner.activate(self.id)?;
            let (reply, answer) = oneshot::channel();
            if actor.send(Tell { input: input.clone(), reply: Some(reply) }).await.is_err() {
                // It went away; its successor takes the message.
                inner.forget(self.id, &actor);
                continue;
            }
            match answer.await {
                Ok(answered) => return answered,
                Err(_) => inner.forget(self.id, &actor),
            }
        }
        Err(RuntimeError::ActorStopped(self.id))
    }

    /// Nothing new begins until [`ThreadHandle::resume`].
    pub async fn pause(&self, reason: Option<String>) -> Result<(), RuntimeError> {
        self.tell(Input::Pause { reason }).await.map(drop)
    }

    /// Ends a pause.
    pub async fn resume(&self) -> Result<(), RuntimeError> {
        self.tell(Input::Resume).await.map(drop)
    }

    /// Ends the thread in good order: what is running is called off, each open call gets its last event.
    pub async fn cancel(&self, reason: Option<String>) -> Result<(), RuntimeError> {
        self.tell(Input::Cancel { reason }).await.map(drop)
    }

    /// Ends the thread in an error.
    pub async fn abort(&self, reason: Option<String>) -> Result<(), RuntimeError> {
        self.tell(Input::Abort { reason }).await.map(drop)
    }

    /// Gives this moment a name.
    pub async fn checkpoint(&self, label: impl Into<String>) -> Result<(), RuntimeError> {
        self.tell(Input::Checkpoint { label: label.into() }).await.map(drop)
    }

    /// Puts a message into the conversation; the next model call sees it.
    pub async fn add_message(&self, message: Message) -> Result<(), RuntimeError> {
        let value = serde_json::to_value(&message).unwrap_or_default();
        self.runtime.fits("a message", &value)?;
        self.tell(Input::AddMessage(message)).await.map(drop)
    }

    /// Sets variables.
    pub async fn set_variables(&self, variables: Ordered<Json>) -> Result<(), RuntimeError> {
        for value in variables.values() {
            self.runtime.fits("a variable", &value.0)?;
        }
        self.tell(Input::SetVariables(variables)).await.map(drop)
    }

    /// Answers a question. The same answer twice is accepted once.
    ///
    /// # Errors
    /// `NoInteraction` for one that was never asked; `Rejected` for one that is closed or was answered otherwise,
    /// and for an answer that the workflow cannot use. Nothing changed then.
    pub async fn respond(&self, interaction: CallId, answer: impl Into<Json>) -> Result<(), RuntimeError> {
        let data = answer.into();
        self.runtime.fits("an answer", &data.0)?;
        self.tell(Input::Respond { interaction, data }).await.map(drop)
    }

    /// Takes a question back.
    pub async fn cancel_interaction(&self, interaction: CallId) -> Result<(), RuntimeError> {
        self.tell(Input::CancelInteraction { interaction }).await.map(drop)
    }

    /// Starts a new thread that goes on from a moment of this one. Calls that were open at that moment are treated as
    /// after a crash: what may be repeated is asked again, what may not ends as indeterminate.
    pub async fn fork(&self, fork: ForkRequest) -> Result<Self, RuntimeError> {
        let inner = self.runtime.inner();
        let at = match fork.at {
            Some(at) => at,
            None => self.info().await?.last_seq,
        };
        for value in fork.changes.variables.values() {
            self.runtime.fits("a variable", &value.0)?;
        }
        let parent = self.load(Some(at)).await?.state;
        let mut changes = fork.changes;
        let workflow = match fork.workflow {
            Some(workflow) => {
                self.runtime.keep(&workflow).await?;
                fits_the_fork(&parent, &workflow).map_err(RuntimeError::Workflow)?;
                changes.workflow = Some(workflow.reference());
                workflow
            }
            None => {
                let (inner, parent, id) = (inner.clone(), parent.clone(), self.id);
                self.runtime.blocking(move || inner.definitions.of(id, &parent)).await??
            }
        };
        for node in changes.prompts.keys() {
            if !workflow.has_node(&node.as_str().into()) {
                let fault = Fault::new(format!("prompts.{node}"), format!("the workflow has no node `{node}`"));
                return Err(RuntimeError::Workflow(Faults::one(fault)));
            }
        }
        if let Some(profile) = &changes.profile
            && !inner.models.profiles().contains(profile.as_str())
        {
            let fault = Fault::new("profile", format!("there is no profile `{profile}`"));
            return Err(RuntimeError::Workflow(Faults::one(fault)));
        }
        let id = Inner::new_thread_id();
        let (reply, answer) = oneshot::channel();
        inner.begin(id, Begin::Fork { parent: Box::new(parent), changes, workflow, reply })?;
        answer.await.map_err(|_| RuntimeError::ActorStopped(id))??;
        Ok(Self { runtime: self.runtime.clone(), id })
    }

    /// Deletes the thread with its snapshot and the blobs that only it names.
    ///
    /// # Errors
    /// `Store(InUse)` while forks inherit from it; `Rejected` while it has not ended: cancel it first.
    pub async fn delete(&self) -> Result<(), RuntimeError> {
        let info = self.info().await?;
        if !Status::from_code(info.tag.0).is_some_and(Status::is_ended) {
            let source = rethread_events::thread::Rejected::Invalid("it has not ended: cancel it first".into());
            return Err(RuntimeError::Rejected { thread: self.id, source });
        }
        let (store, id) = (self.runtime.store().clone(), self.id);
        Ok(self.runtime.blocking(move || store.delete(id)).await??)
    }
}

/// Whether a thread at that moment can go on with another definition.
fn fits_the_fork(state: &State, workflow: &Workflow) -> Result<(), Faults> {
    match state.node_name() {
        Some(node) if !state.is_ended() && !workflow.has_node(node) => {
            let fault =
                Fault::new("nodes", format!("the thread is at node `{node}`, which this workflow does not have"));
            Err(Faults::one(fault.hint("fork at a moment before that node, or keep the node")))
        }
        _ => Ok(()),
    }
}

/// Events as a stream. Ends when the runtime shuts down.
pub struct Events {
    inner: BoxStream<'static, Result<RecordedEvent, RuntimeError>>,
}

impl Events {
    fn new(inner: BoxStream<'static, Result<RecordedEvent, RuntimeError>>) -> Self {
        Self { inner }
    }
}

impl Stream for Events {
    type Item = Result<RecordedEvent, RuntimeError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.inner.as_mut().poll_next(cx)
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

/// What the stream of a thread holds from `from` on, then what follows in the log from `start` on. A record that
/// both have is given once.
fn past_and_future(
    runtime: &Runtime,
    id: ThreadId,
    from: Seq,
    start: Position,
) -> BoxStream<'static, Result<RecordedEvent, RuntimeError>> {
    let past = {
        let runtime = runtime.clone();
        futures::stream::unfold(Some(from), move |next| {
            let runtime = runtime.clone();
            async move {
                let next = next?;
                let store = runtime.store().clone();
                let page = runtime.blocking(move || store.read_stream(id, next..Seq(u64::MAX), PAGE)).await;
                match page {
                    Ok(Ok(page)) => {
                        let next = (page.len() == PAGE).then(|| page.last().map(|last| last.seq.next())).flatten();
                        Some((page.into_iter().map(Ok).collect(), next))
                    }
                    Ok(Err(error)) => Some((vec![Err(RuntimeError::from(error))], None)),
                    Err(error) => Some((vec![Err(error)], None)),
                }
            }
        })
        .map(futures::stream::iter)
        .flatten()
    };
    let future = runtime.store().subscribe(start, Filter { threads: vec![id], kinds: Vec::new() });
    let mut next = from;
    past.chain(future.map(|record| record.map_err(RuntimeError::from)))
        .filter_map(move |record| {
            let event = match record {
                Ok(record) if record.seq < next => None,
                Ok(record) => {
                    next = record.seq.next();
                    Some(RecordedEvent::decode(record))
                }
                Err(error) => Some(Err(error)),
            };
            futures::future::ready(event)
        })
        .boxed()
}

/// Whether the events of a thread have come to their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    NotYet,
    /// In the part that a fork inherits; what says that it was forked comes behind it.
    Inherited,
    Here,
}

impl End {
    fn after(self, recorded: &RecordedEvent, thread: ThreadId) -> Self {
        let ends =
            matches!(recorded.event, Event::ThreadCompleted(_) | Event::ThreadFailed(_) | Event::ThreadCancelled(_));
        match (self, recorded.record.thread == thread) {
            (Self::NotYet, false) if ends => Self::Inherited,
            (Self::NotYet, true) if ends => Self::Here,
            (Self::NotYet, _) => Self::NotYet,
            (Self::Inherited, false) => Self::Inherited,
            (Self::Inherited, true) | (Self::Here, _) => Self::Here,
        }
    }
}

fn stream(store: &dyn Store, id: ThreadId) -> Result<StreamInfo, RuntimeError> {
    store.stream(id).map_err(|error| match error {
        StoreError::NotFound { .. } => RuntimeError::NoThread(id),
        error => error.into(),
    })
}

fn summary(store: &dyn Store, info: &StreamInfo) -> Result<ThreadSummary, RuntimeError> {
    let first = store.read_stream(info.thread, Seq(0)..Seq(1), 1)?;
    let workflow = match first.into_iter().next().map(RecordedEvent::decode).transpose()?.map(|first| first.event) {
        Some(Event::ThreadStarted(started)) => Some(started.workflow),
        _ => None,
    };
    Ok(ThreadSummary {
        thread_id: info.thread,
        status: Status::from_code(info.tag.0).unwrap_or(Status::Pending),
        workflow,
        started_at: info.first_at,
        last_at: info.last_at,
        last_seq: info.last_seq,
        last_position: info.last_position,
        forked_from: info.fork_of.map(|ForkPoint { parent, seq }| (parent, seq)),
    })
}

fn kinds(names: &[&str]) -> Result<Vec<Kind>, RuntimeError> {
    names
        .iter()
        .map(|name| match event_type_named(name) {
            Some(event_type) => Ok(Kind(event_type.code)),
            None => Err(StoreError::Invalid(format!("no event is called {name}")).into()),
        })
        .collect()
}

fn cursor_name(name: &str) -> String {
    format!("cursor/{name}")
}

/// The bytes of a value's JSON, within a few per cent, without writing it.
fn json_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| json_bytes(item) + 1).sum::<usize>() + 2,
        Value::Object(entries) => entries.iter().map(|(key, item)| key.len() + json_bytes(item) + 4).sum::<usize>() + 2,
    }
}
