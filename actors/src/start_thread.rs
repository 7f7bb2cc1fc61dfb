//! Starts threads.

use std::sync::Arc;

use rethread_events::codec::OrderedMap;
use rethread_events::event::{StartedByParent, ThreadStarted};
use rethread_events::ids::{NodeId, Seq, ThreadId, TraceId};
use rethread_events::json::Json;
use rethread_events::labels::Labels;
use rethread_events::message::Message;
use rethread_events::text::json_bytes;
use rethread_events::thread::{First, Start, Thread};
use rethread_events::trace_context::TraceParent;
use rethread_events::workflow::Workflow;
use rethread_store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock;
use crate::deliver::settle;
use crate::error::{ControlError, NextMove, ReadError, RuntimeError, StartThreadError, TooLarge};
use crate::label_limits::StartPermit;
use crate::port::Reply;
use crate::runtime::Runtime;
use crate::shared::Shared;
use crate::shared::ask::{ask, retry_elsewhere};
use crate::shared::request::{Parts, Request, StartRequest};
use crate::thread_actor::messages::{Begin, Origin};
use crate::thread_handle::ThreadHandle;

/// What happens to a start if as many threads are live as allowed ([`Limits::live_threads_max`](crate::Limits)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnBusy {
    /// It is refused: `Busy`.
    #[default]
    Refuse,
    /// The thread is durable, and waits in the log until there is a free place: its status is `queued`. Waiting threads
    /// begin in the order of their starts, one of each set of labels in turn. Meanwhile starts that do not wait are
    /// refused.
    Queue,
}

/// How often a start takes the place of another one with its id that has failed.
const BEGIN_TRIES: usize = 16;

/// How a thread is started.
#[derive(Debug, Clone)]
pub struct StartThread {
    workflow: Arc<Workflow>,
    input: Result<Json, StartThreadError>,
    id: Option<ThreadId>,
    on_busy: OnBusy,
    /// The parent, with the trace of its call, if it is a child.
    parent: Option<(StartedByParent, TraceId)>,
    /// The other settings; its input is set last.
    given: Start,
}

impl StartThread {
    /// Creates a start of this workflow with this input: a text, a JSON value, or any value that can be serialized as
    /// JSON.
    pub fn new(workflow: impl Into<Arc<Workflow>>, input: impl Serialize) -> Self {
        let input = serde_json::to_value(input).map(Json::from);
        let input = input.map_err(|why| StartThreadError::NoJson(why.to_string()));
        Self {
            workflow: workflow.into(),
            input,
            id: None,
            on_busy: OnBusy::default(),
            parent: None,
            given: Start::default(),
        }
    }

    /// Sets what happens if as many threads are live as allowed; the default is to refuse the start.
    #[must_use]
    pub fn on_busy(mut self, on_busy: OnBusy) -> Self {
        self.on_busy = on_busy;
        self
    }

    /// A start that another runtime asks for.
    pub(crate) fn of_request(
        workflow: Arc<Workflow>,
        parent: Option<(StartedByParent, TraceId)>,
        (waits_for_room, given): (bool, Start),
    ) -> Self {
        let on_busy = if waits_for_room { OnBusy::Queue } else { OnBusy::Refuse };
        Self { workflow, input: Ok(given.input.clone()), id: None, on_busy, parent, given }
    }

    /// What another runtime needs to start it, once it was checked as far as this one can.
    ///
    /// # Errors
    /// As [`Runtime::start`].
    pub(crate) fn request_parts(&self, runtime: &Runtime) -> Result<Parts, StartThreadError> {
        let input = self.input.clone()?;
        runtime.fits("an input", &input.0)?;
        runtime.past_fits(&self.given)?;
        Ok((self.workflow.hash(), self.parent, self.on_busy == OnBusy::Queue, Start { input, ..self.given.clone() }))
    }

    /// Replaces the workflow.
    pub(crate) fn workflow(self, workflow: Workflow) -> Self {
        Self { workflow: workflow.into(), ..self }
    }

    /// Makes it a child of this thread.
    pub(crate) fn parent(self, parent: StartedByParent, trace: TraceId) -> Self {
        Self { parent: Some((parent, trace)), ..self }
    }

    /// Sets the folder its tools work in, instead of the runtime's.
    #[must_use]
    pub fn workspace(mut self, folder: impl Into<String>) -> Self {
        self.given.workspace = Some(folder.into());
        self
    }

    /// Sets its id. A second thread with the same id is a conflict, so a caller that chooses the id can repeat the
    /// start safely.
    #[must_use]
    pub fn id(mut self, id: ThreadId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets its labels, by which threads are listed, limited and deleted. Its forks and branches have them, too.
    #[must_use]
    pub fn labels(mut self, labels: Labels) -> Self {
        self.given.labels = labels;
        self
    }

    /// Sets an earlier conversation, which the first run continues. It is recorded in the first event of the thread. It
    /// may contain tool calls with their results right after them, images, documents, and reasoning with the signatures
    /// of its provider. Instructions are not part of it: they are the `system_prompt` of a node.
    /// [`crate::runs::read_conversation`] reads the JSON of OpenAI and Anthropic.
    #[must_use]
    pub fn messages(mut self, messages: impl IntoIterator<Item = Message>) -> Self {
        self.given.messages = messages.into_iter().map(Arc::new).collect();
        self
    }

    /// Sets variables in addition to those of the definition, or instead of them.
    #[must_use]
    pub fn variables(mut self, variables: OrderedMap<Json>) -> Self {
        self.given.variables = variables;
        self
    }

    /// Sets the span of the caller: the first run is part of its trace.
    #[must_use]
    pub fn traceparent(mut self, caller: impl Into<Option<TraceParent>>) -> Self {
        self.given.traceparent = caller.into();
        self
    }

    /// Sets the node to begin with, instead of the first one: one of the workflow itself, not of a sub-workflow.
    #[must_use]
    pub fn entry(mut self, node: impl Into<NodeId>) -> Self {
        self.given.entry = Some(node.into());
        self
    }
}

impl Runtime {
    /// Starts a thread. When this returns, the thread is durable and runs. The input is a text, a JSON value, or any
    /// value that can be serialized as JSON.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = rethread::Runtime::builder().in_memory().start().await?;
    /// # let workflow = rethread::parse_workflow(br#"
    /// #     version: "1"
    /// #     name: sum
    /// #     nodes: [{id: add, context_processor: {processor: extract, config: {variable: sum, expression: "{'total': input.a + input.b}"}}}]
    /// # "#)?;
    /// #[derive(serde::Serialize)]
    /// struct Order {
    ///     a: u32,
    ///     b: u32,
    /// }
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Bill {
    ///     total: u32,
    /// }
    ///
    /// let thread = runtime.start_thread(workflow, &Order { a: 2, b: 3 }).await?;
    /// let bill: Bill = thread.outcome_as().await?;
    /// assert_eq!(bill.total, 5);
    /// # runtime.shutdown().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NoJson` if the input cannot be serialized as JSON; `Input` if it does not fit the workflow's `input_schema`, or
    /// the messages, variables or entry of [`Runtime::start`] are invalid; `Workflow` if it needs a tool, profile or
    /// provider that this runtime lacks; `Busy`, `LabelLimit`, `TooLarge`; `Store` if the log cannot store it. Nothing
    /// was started then.
    pub async fn start_thread(
        &self,
        workflow: impl Into<Arc<Workflow>>,
        input: impl Serialize,
    ) -> Result<ThreadHandle, StartThreadError> {
        self.start(StartThread::new(workflow, input)).await
    }

    /// Starts a thread with more settings. See [`Runtime::start_thread`].
    pub async fn start(&self, start: StartThread) -> Result<ThreadHandle, StartThreadError> {
        let id = start.id.unwrap_or_else(|| self.registry().new_thread_id());
        match &self.services().shared {
            None => self.start_here(id, start).await,
            Some(shared) if start.id.is_none() && start.workflow.spec().queue.is_none() => {
                self.start_on_any_runtime(shared, id, start).await
            }
            Some(_) => self.start_at_its_runtime(id, start).await,
        }
    }

    /// Starts a thread here, or at another runtime while this one has no room for it.
    async fn start_on_any_runtime(
        &self,
        shared: &Shared,
        id: ThreadId,
        start: StartThread,
    ) -> Result<ThreadHandle, StartThreadError> {
        let refuses = |error: &StartThreadError| matches!(error, StartThreadError::Runtime(RuntimeError::Busy { .. }));
        let waits = start.on_busy == OnBusy::Queue;
        if !(waits && self.is_at_capacity()) {
            match self.start_at_its_runtime(id, start.clone()).await {
                Err(error) if refuses(&error) => {}
                started => return started,
            }
        }
        // It waits for room at none of them while one has some.
        let there = StartThread { on_busy: OnBusy::Refuse, ..start.clone() };
        let (parts, _held) = (there.request_parts(self)?, self.keep(&start.workflow).await?);
        let mut others = shared.log.others();
        // So that they do not all ask the same one first.
        let first = usize::from(id.as_bytes()[14]) % others.len().max(1);
        others.rotate_left(first);
        for slots in others.iter().filter(|slots| !slots.is_empty()) {
            let id = slots.place(self.registry().new_thread_id());
            match self.request_start(id, &parts).await {
                Err(StartThreadError::Runtime(
                    RuntimeError::Elsewhere(_) | RuntimeError::Remote { next_move: NextMove::Retry, .. },
                )) => {}
                started => return started,
            }
        }
        self.start_at_its_runtime(id, start).await
    }

    async fn request_start(&self, id: ThreadId, parts: &Parts) -> Result<ThreadHandle, StartThreadError> {
        let asked = ask(self.registry(), id, &Request::Start(StartRequest::new(id, parts))).await;
        asked.map(|_| self.thread(id)).map_err(|error| StartThreadError::of_begin(id, error))
    }

    /// Whether a run that may wait for room would wait here.
    fn is_at_capacity(&self) -> bool {
        self.registry().queues.wait_for_room() || self.registry().is_crowded()
    }

    /// Returns an id for a new thread. Where several runtimes have the log, it is one that this runtime can run.
    pub fn new_thread_id(&self) -> ThreadId {
        self.registry().new_thread_id()
    }

    /// Starts a thread at the runtime to which its id belongs.
    async fn start_at_its_runtime(&self, id: ThreadId, start: StartThread) -> Result<ThreadHandle, StartThreadError> {
        let registry = self.registry();
        let attempt = || async {
            if registry.has_slot(id) {
                return self.start_here(id, start.clone()).await;
            }
            let (parts, _held) = (start.request_parts(self)?, self.keep(&start.workflow).await?);
            self.request_start(id, &parts).await
        };
        retry_elsewhere(registry, attempt).await
    }

    /// Starts a thread that belongs to this runtime.
    ///
    /// # Errors
    /// Also `Elsewhere`.
    pub(crate) async fn start_here(&self, id: ThreadId, start: StartThread) -> Result<ThreadHandle, StartThreadError> {
        let input = start.input?;
        self.fits("an input", &input.0)?;
        self.past_fits(&start.given)?;
        self.runnable(&start.workflow).map_err(StartThreadError::Workflow)?;
        let given = Start { input, ..start.given };
        let started = self.started(&start.workflow, given).await?;
        let mut held = self.keep(&start.workflow).await?;
        let wanted = self.registry().recent_ends.want(id);
        let permit = self.permit_of_new(id, &started.labels).await?;
        let (reply, answer) = Reply::channel(permit);
        let others_wait = self.registry().queues.wait_for_room();
        let waits = start.on_busy == OnBusy::Queue && (others_wait || self.registry().is_crowded());
        // A run that may wait in a queue leaves the memory at once.
        let needs_room = start.on_busy == OnBusy::Refuse && start.workflow.spec().queue.is_none();
        if needs_room && others_wait {
            let (n, n_max) = (self.registry().n_live(), self.services().limits.live_threads_max);
            return Err(RuntimeError::Busy { what: "live threads, and more wait for room", n, n_max }.into());
        }
        let (parent, trace) = start.parent.unzip();
        let trace = trace.or(started.traceparent.map(|caller| caller.trace));
        let (workflow, first) = (start.workflow, First { started, parent });
        let origin = Origin::Nothing { first: Box::new(first), waits };
        self.begin(id, Begin { workflow, origin, trace, needs_room, reply }).await?;
        held.begun();
        let answered = answer.await.map_err(|_| RuntimeError::ActorStopped(id))?;
        held.over();
        answered.map_err(|error| StartThreadError::of_begin(id, error))?;
        Ok(ThreadHandle::started(self.clone(), id, wanted))
    }

    /// Begins a thread.
    ///
    /// # Errors
    /// `Store(Conflict)` if the thread exists. If its start is under way, that is said once it is durable: until then it may
    /// fail, and whoever repeats a start takes the conflict for its success.
    pub(crate) async fn begin(&self, id: ThreadId, begin: Begin) -> Result<(), RuntimeError> {
        let mut begin = Some(Box::new(begin));
        for _ in 0..BEGIN_TRIES {
            let begun = self.registry().begin(id, &mut begin);
            if !matches!(begun, Err(RuntimeError::Store(StoreError::Conflict { .. }))) {
                return begun;
            }
            let store = self.store().clone();
            match self.blocking(move || store.stream(id)).await? {
                Ok(_) => return begun,
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            match settle(self.registry(), id).await {
                Ok(()) => return begun,
                // The other start has failed: this one takes its place.
                Err(ControlError::Read(ReadError::NoThread(_))) => {}
                Err(error) => match RuntimeError::of_control(id, &error) {
                    // Its actor has gone: the log says what came of it.
                    RuntimeError::ActorStopped(_) => {}
                    error => return Err(error),
                },
            }
        }
        Err(RuntimeError::ActorStopped(id))
    }

    /// Returns the permit of a thread or fork with this id, if no limit of its labels is reached.
    ///
    /// # Errors
    /// `LabelLimit`; `Store(Conflict)` if the thread exists: a repeated start with its id is a conflict, even if a
    /// limit is reached now.
    pub(crate) async fn permit_of_new(
        &self,
        id: ThreadId,
        labels: &Labels,
    ) -> Result<Option<Arc<StartPermit>>, RuntimeError> {
        let reached = match self.services().labels.begin(id, labels) {
            Ok(permit) => return Ok(permit),
            Err(reached) => reached,
        };
        let store = self.store().clone();
        match self.blocking(move || store.stream(id)).await? {
            Ok(info) => {
                let (expected, actual) = (Seq(0), info.last_seq.next());
                Err(StoreError::Conflict { thread: id, expected, actual }.into())
            }
            Err(StoreError::NotFound { .. }) => Err(reached.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the first event of a thread, if its input fits.
    pub(crate) async fn started(
        &self,
        workflow: &Arc<Workflow>,
        given: Start,
    ) -> Result<ThreadStarted, StartThreadError> {
        let now = clock::now();
        let started = if workflow.spec().input_schema.is_none() && given.messages.is_empty() {
            Thread::started(workflow, given, now)
        } else {
            // The check takes longer for a large schema, input or conversation.
            let workflow = workflow.clone();
            self.blocking(move || Thread::started(&workflow, given, now)).await?
        };
        started.map_err(StartThreadError::Input)
    }

    fn past_fits(&self, given: &Start) -> Result<(), TooLarge> {
        let bytes_max = self.services().limits.input_bytes_max;
        let bytes_of = |message| serde_json::to_value(message).map_or(usize::MAX, |value| json_bytes(&value));
        let messages = given.messages.iter().map(bytes_of);
        let variables = given.variables.iter().map(|(name, value)| name.len().saturating_add(json_bytes(&value.0)));
        let bytes = messages.chain(variables).fold(0_usize, usize::saturating_add);
        let what = "what a thread begins with";
        if bytes > bytes_max { Err(TooLarge { what, bytes, bytes_max }) } else { Ok(()) }
    }

    pub(crate) fn fits(&self, what: &'static str, value: &Value) -> Result<(), TooLarge> {
        let bytes_max = self.services().limits.input_bytes_max;
        let bytes = json_bytes(value);
        if bytes > bytes_max { Err(TooLarge { what, bytes, bytes_max }) } else { Ok(()) }
    }
}
