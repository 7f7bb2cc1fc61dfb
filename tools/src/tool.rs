//! One tool: what a model sees of it, its limits, and its function.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::json::Json;
use rethread_events::message::ToolSpec;
use rethread_events::tool::{McpPlace, PersonRole, Recovery};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{ToolContext, ToolOutput, schema_of};

pub(crate) type Answer = Result<ToolOutput, ExecutionError>;
type Run = dyn Fn(Value, ToolContext) -> BoxFuture<'static, Answer> + Send + Sync;
/// A call that has found a place to run. It begins when it is polled.
pub(crate) type Placed = BoxFuture<'static, Answer>;
type Place = dyn Fn(Value, ToolContext, Recovery) -> BoxFuture<'static, Result<Placed, ExecutionError>> + Send + Sync;

/// How a tool runs.
#[derive(Clone)]
enum Function {
    Run(Arc<Run>),
    /// It first finds a place, which may take long and changes nothing.
    Place(Arc<Place>),
}

/// Limits of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolOptions {
    /// How long one attempt may take. 60 s unless set.
    pub timeout_ms: u64,
    /// How often a call is tried again after an error that allows it. Who calls does the repeating; the registry
    /// makes one attempt. 0 unless set.
    pub retries: u32,
    /// How long to wait before that. 1 s unless set.
    pub retry_delay_ms: u64,
    /// How many calls run at once in this process; the others wait, at most `timeout_ms`. 16 unless set, never less
    /// than 1.
    pub concurrency_max: usize,
    /// The bytes of an answer's text. What is over is left out in the middle, the text says so, and all of it is
    /// handed on in [`ToolOutput::full`]. 32 KiB unless set.
    pub output_bytes_max: usize,
    /// The bytes of an answer's value and of its attachments, each. What is over is left out. 4 MiB unless set.
    pub attachment_bytes_max: usize,
}

impl Default for ToolOptions {
    fn default() -> Self {
        Self {
            timeout_ms: 60_000,
            retries: 0,
            retry_delay_ms: 1_000,
            concurrency_max: 16,
            output_bytes_max: 32 * 1024,
            attachment_bytes_max: 4 * 1024 * 1024,
        }
    }
}

/// A tool: a name, a description and a schema for the model, limits, and a function. Cheap to clone.
///
/// The default recovery class is `at_most_once`: a tool is assumed to change the world.
#[derive(Clone)]
pub struct Tool {
    spec: Arc<ToolSpec>,
    recovery: Recovery,
    person: PersonRole,
    options: ToolOptions,
    mcp: Option<Arc<McpPlace>>,
    function: Function,
}

impl Tool {
    /// A tool from an async function. Its schema is made from `A`; doc comments on the fields of `A` are what the
    /// model reads about them.
    ///
    /// The function must not block: a call that blocks its thread cannot be stopped, and other tasks of the thread
    /// wait too. Work that blocks belongs into [`Tool::from_blocking_fn`]. When the time is up or the call is called
    /// off, `cx.cancel` is cancelled, and shortly after the future is dropped.
    pub fn from_fn<A, O, F, Fut>(name: impl Into<String>, description: impl Into<String>, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        O: Into<ToolOutput>,
        F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, ExecutionError>> + Send + 'static,
    {
        Self::new(name, description, schema_of::<A>(), move |arguments, cx| {
            let work = typed(arguments).map(|arguments| function(arguments, cx));
            async move { Ok(work?.await?.into()) }
        })
    }

    /// A tool from a function that blocks: files, locks, long computation. It runs on a thread of its own.
    ///
    /// An OS thread cannot be stopped from outside. The function calls [`ToolContext::check`] every few milliseconds;
    /// one that does not continues after its call has timed out, and counts against `concurrency_max` until it returns.
    pub fn from_blocking_fn<A, O, F>(name: impl Into<String>, description: impl Into<String>, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: Into<ToolOutput>,
        F: Fn(A, ToolContext) -> Result<O, ExecutionError> + Send + Sync + 'static,
    {
        let function = Arc::new(function);
        Self::new(name, description, schema_of::<A>(), move |arguments, cx| {
            let function = Arc::clone(&function);
            async move {
                let arguments = typed::<A>(arguments)?;
                blocking(move || {
                    let _under_way = cx.begin_work.clone().map(|begin| begin());
                    function(arguments, cx).map(Into::into)
                })
                .await
            }
        })
    }

    /// A tool with a schema of its own, for functions that are known only at run time. The registry checks arguments
    /// against the schema before it calls.
    pub fn new<F, Fut>(name: impl Into<String>, description: impl Into<String>, parameters: Value, function: F) -> Self
    where
        F: Fn(Value, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Answer> + Send + 'static,
    {
        let spec = ToolSpec {
            name: name.into(),
            description: Some(description.into()).filter(|text| !text.is_empty()),
            parameters: Json::from(parameters),
        };
        Self {
            spec: Arc::new(spec),
            recovery: Recovery::default(),
            person: PersonRole::None,
            options: ToolOptions::default(),
            mcp: None,
            function: Function::Run(Arc::new(move |arguments, cx| function(arguments, cx).boxed())),
        }
    }

    /// The same tool, which first finds a place to run. Until that is found, nothing has begun and its time does not run.
    #[cfg(feature = "workers")]
    pub(crate) fn placed<F, Fut>(mut self, place: F) -> Self
    where
        F: Fn(Value, ToolContext, Recovery) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Placed, ExecutionError>> + Send + 'static,
    {
        self.function =
            Function::Place(Arc::new(move |arguments, cx, recovery| place(arguments, cx, recovery).boxed()));
        self
    }

    /// Sets the recovery class, for a call whose result was lost. `at_most_once` unless set.
    #[must_use]
    pub fn recovery(mut self, recovery: Recovery) -> Self {
        self.recovery = recovery;
        self
    }

    /// A person must approve each call before it runs. The person may change the arguments, refuse with a reason,
    /// or answer in the tool's place. The caller asks; the registry only runs calls.
    #[must_use]
    pub fn with_approval(mut self) -> Self {
        self.person = PersonRole::Approves;
        self
    }

    /// A person gives the result of each call. Such a tool never runs: its function is only for direct callers of the
    /// registry. Its arguments are `question`, a text, and may be `choices`, a list of texts, and
    /// `timeout_ms`, how long the person has; without it the question waits for ever.
    #[must_use]
    pub fn answered_by_person(mut self) -> Self {
        self.person = PersonRole::Answers;
        self
    }

    /// Sets all limits.
    #[must_use]
    pub fn options(mut self, options: ToolOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets [`ToolOptions::timeout_ms`].
    #[must_use]
    pub fn timeout_ms(mut self, timeout_ms: u64) -> Self {
        self.options.timeout_ms = timeout_ms;
        self
    }

    /// Sets [`ToolOptions::retries`].
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.options.retries = retries;
        self
    }

    /// Sets [`ToolOptions::retry_delay_ms`].
    #[must_use]
    pub fn retry_delay_ms(mut self, retry_delay_ms: u64) -> Self {
        self.options.retry_delay_ms = retry_delay_ms;
        self
    }

    /// Sets [`ToolOptions::concurrency_max`].
    #[must_use]
    pub fn concurrency_max(mut self, concurrency_max: usize) -> Self {
        self.options.concurrency_max = concurrency_max;
        self
    }

    /// Sets [`ToolOptions::output_bytes_max`].
    #[must_use]
    pub fn output_bytes_max(mut self, output_bytes_max: usize) -> Self {
        self.options.output_bytes_max = output_bytes_max;
        self
    }

    /// Sets [`ToolOptions::attachment_bytes_max`].
    #[must_use]
    pub fn attachment_bytes_max(mut self, attachment_bytes_max: usize) -> Self {
        self.options.attachment_bytes_max = attachment_bytes_max;
        self
    }

    /// Its name, unique in a registry.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Returns the description for models.
    pub fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Returns the recovery class, for a call whose result was lost.
    pub fn declared_recovery(&self) -> Recovery {
        self.recovery
    }

    /// Returns what a person has to do with its calls.
    pub fn person_role(&self) -> PersonRole {
        self.person
    }

    /// Returns where its MCP server is, if it is a tool of one.
    pub fn mcp(&self) -> Option<&McpPlace> {
        self.mcp.as_deref()
    }

    #[cfg(feature = "mcp")]
    pub(crate) fn of_mcp(mut self, place: Option<McpPlace>) -> Self {
        self.mcp = place.map(Arc::new);
        self
    }

    /// Its limits.
    pub fn limits(&self) -> &ToolOptions {
        &self.options
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.options.timeout_ms)
    }

    /// Finds a place for a call of a tool that needs one, otherwise `None`.
    pub(crate) fn place(
        &self,
        arguments: &Value,
        cx: &ToolContext,
    ) -> Option<BoxFuture<'static, Result<Placed, ExecutionError>>> {
        match &self.function {
            Function::Run(_) => None,
            Function::Place(place) => Some(place(arguments.clone(), cx.clone(), self.recovery)),
        }
    }

    /// The bare function: nothing is checked, limited or contained.
    pub(crate) async fn run(&self, arguments: Value, cx: ToolContext) -> Answer {
        match &self.function {
            Function::Run(run) => run(arguments, cx).await,
            Function::Place(place) => place(arguments, cx, self.recovery).await?.await,
        }
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("spec", &self.spec)
            .field("recovery", &self.recovery)
            .field("person", &self.person)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Runs `work` on a thread where it may block, and returns its answer or its panic.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ExecutionError> + Send + 'static,
) -> Result<T, ExecutionError> {
    // Its log lines belong to its call, on any thread.
    let span = tracing::Span::current();
    match tokio::task::spawn_blocking(move || span.in_scope(work)).await {
        Ok(answer) => answer,
        Err(error) => match error.try_into_panic() {
            // It is contained where every panic of a tool is.
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ExecutionError::new(ErrorKind::Cancelled, "the runtime is shutting down")),
        },
    }
}

/// The arguments as the function wants them. They have passed the schema, so what fails here is what a schema cannot
/// say.
pub(crate) fn typed<A: DeserializeOwned>(arguments: Value) -> Result<A, ExecutionError> {
    // A function without arguments takes `()`, whose JSON is null.
    let arguments = match arguments {
        Value::Object(map) if map.is_empty() => {
            return serde_json::from_value(Value::Object(map))
                .or_else(|error| serde_json::from_value(Value::Null).map_err(|_| error))
                .map_err(invalid_arguments);
        }
        other => other,
    };
    serde_json::from_value(arguments).map_err(invalid_arguments)
}

fn invalid_arguments(error: serde_json::Error) -> ExecutionError {
    ExecutionError::new(ErrorKind::InvalidArguments, format!("the arguments do not fit: {error}"))
}
