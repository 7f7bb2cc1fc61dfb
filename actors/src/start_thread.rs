//! Starting a thread, and looking before whether it can run here.

use std::sync::Arc;

use rethread_events::event::ThreadStarted;
use rethread_events::ids::ThreadId;
use rethread_events::json::Json;
use rethread_events::labels::Labels;
use rethread_events::text::json_bytes;
use rethread_events::thread::Thread;
use rethread_events::workflow::{Env, Fault, Faults, Workflow};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::clock;
use crate::definitions::Held;
use crate::error::{RuntimeError, StartThreadError, TooLarge};
use crate::runtime::Runtime;
use crate::thread_actor::messages::{Begin, Origin};
use crate::thread_handle::ThreadHandle;

/// How a thread is started.
#[derive(Debug, Clone)]
pub struct StartThread {
    workflow: Arc<Workflow>,
    input: Result<Json, StartThreadError>,
    workspace: Option<String>,
    id: Option<ThreadId>,
    labels: Labels,
}

impl StartThread {
    /// A run of this workflow with this input: a text, a JSON value, or any value that can be written as JSON.
    pub fn new(workflow: impl Into<Arc<Workflow>>, input: impl Serialize) -> Self {
        let input = serde_json::to_value(input).map(Json::from);
        let input = input.map_err(|why| StartThreadError::NoJson(why.to_string()));
        Self { workflow: workflow.into(), input, workspace: None, id: None, labels: Labels::new() }
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

    /// Its labels, by which threads are listed, limited and deleted. Forks and branches of the thread have them, too.
    #[must_use]
    pub fn labels(mut self, labels: Labels) -> Self {
        self.labels = labels;
        self
    }
}

impl Runtime {
    /// What the workflow needs and this runtime lacks; empty when it can run here.
    pub fn check(&self, workflow: &Workflow) -> Vec<Fault> {
        let mut faults = workflow.check(&self.surroundings());
        faults.extend(workflow.unpriced(|model| self.services().models.is_priced(model)));
        faults.extend(workflow.unavailable(|model| self.services().models.unavailable(model)));
        if !cfg!(feature = "tokens") {
            faults.extend(workflow.counted_limits());
        }
        faults
    }

    /// What workflows can use here.
    pub fn surroundings(&self) -> Env {
        let services = self.services();
        let tools = services.tools.list();
        Env {
            tools: tools.iter().map(|tool| tool.name().to_owned()).collect(),
            schemas: tools.iter().map(|tool| (tool.name().to_owned(), tool.spec().parameters.clone())).collect(),
            profiles: services.models.profiles(),
            providers: services.models.providers(),
            processors: services.processors.names().cloned().collect(),
            strategies: services.strategies.names().cloned().collect(),
            ..Env::default()
        }
    }

    /// Starts a thread; it is durable when this answers, and goes on by itself. The input is a text, a JSON value, or any
    /// value that can be written as JSON.
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
    /// `NoJson` when the input cannot be written as JSON; `Input` when it does not fit the workflow's `input_schema`;
    /// `Workflow` when it needs a tool, profile or provider that is not there; `Busy`, `TooLarge`; `Store` when the log
    /// cannot take it. Nothing was started then.
    pub async fn start_thread(
        &self,
        workflow: impl Into<Arc<Workflow>>,
        input: impl Serialize,
    ) -> Result<ThreadHandle, StartThreadError> {
        self.start(StartThread::new(workflow, input)).await
    }

    /// Starts a thread with more said about how. See [`Runtime::start_thread`].
    pub async fn start(&self, start: StartThread) -> Result<ThreadHandle, StartThreadError> {
        let input = start.input?;
        self.fits("an input", &input.0)?;
        self.runnable(&start.workflow).map_err(StartThreadError::Workflow)?;
        let started = self.started(&start.workflow, input, start.workspace).await?;
        let started = ThreadStarted { labels: start.labels, ..started };
        let mut held = self.keep(&start.workflow).await?;
        let id = start.id.unwrap_or_else(clock::new_thread_id);
        let wanted = self.registry().recent_ends.want(id);
        let (reply, answer) = oneshot::channel();
        let (workflow, origin, trace) = (start.workflow, Origin::Nothing(Box::new(started)), None);
        self.registry().begin(id, Begin { workflow, origin, trace, reply })?;
        held.begun();
        let answered = answer.await.map_err(|_| RuntimeError::ActorStopped(id))?;
        held.over();
        answered.map_err(|error| StartThreadError::of_begin(id, error))?;
        Ok(ThreadHandle::started(self.clone(), id, wanted))
    }

    /// The first event of a thread, if its input fits.
    async fn started(
        &self,
        workflow: &Arc<Workflow>,
        input: Json,
        workspace: Option<String>,
    ) -> Result<ThreadStarted, StartThreadError> {
        let now = clock::now();
        let started = if workflow.spec().input_schema.is_none() {
            Thread::started(workflow, input, workspace, now)
        } else {
            // A check takes as long as the schema and the input are large.
            let workflow = workflow.clone();
            self.blocking(move || Thread::started(&workflow, input, workspace, now)).await?
        };
        started.map_err(StartThreadError::Input)
    }

    /// Returns what the workflow needs and this runtime lacks as an error.
    pub(crate) fn runnable(&self, workflow: &Workflow) -> Result<(), Faults> {
        let faults = self.check(workflow);
        if faults.is_empty() { Ok(()) } else { Err(Faults(faults)) }
    }

    /// Stores the definition in the log, once.
    pub(crate) async fn keep(&self, workflow: &Arc<Workflow>) -> Result<Held, RuntimeError> {
        let services = self.services();
        if let Some(held) = services.definitions.hold_known(workflow.hash()) {
            return Ok(held);
        }
        let (services, workflow) = (services.clone(), workflow.clone());
        Ok(self.blocking(move || services.definitions.keep(&workflow)).await??)
    }

    pub(crate) fn fits(&self, what: &'static str, value: &Value) -> Result<(), TooLarge> {
        let bytes_max = self.services().limits.input_bytes_max;
        let bytes = json_bytes(value);
        if bytes > bytes_max { Err(TooLarge { what, bytes, bytes_max }) } else { Ok(()) }
    }
}
