//! The settings of a runtime.

mod start;
// Without all features, parts of it are unused.
#[cfg(any(feature = "commands", feature = "files", feature = "mcp"))]
mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use actix::System;
use rethread_events::event::GuardrailOutcome;
use rethread_events::fault::ExecutionError;
use rethread_events::memory::MemoryOptions;
use rethread_events::principal::Principal;
use rethread_events::thread::Processed;
use rethread_llm::{Client, Profiles};
use rethread_store::{MemoryStore, Store};
use rethread_tools::{Registry, Reserved, Tool};

use crate::guardrail::{GuardrailContext, Guardrails};
use crate::interaction::UserInteractionHandler;
use crate::limits::Limits;
use crate::mode::Mode;
use crate::monitor::Monitor;
use crate::processor::{ProcessorContext, Processors};
use crate::strategy::{Strategies, Strategy};
use crate::tool_services::Plan;
use crate::trace_contexts::TraceContext;

/// The settings of a [`Runtime`](crate::Runtime), see [`Runtime::builder`](crate::Runtime::builder).
/// [`RuntimeBuilder::start`] opens the log and starts it.
#[must_use = "a builder does nothing until `start`"]
pub struct RuntimeBuilder {
    store: StoreConfig,
    #[cfg(feature = "jetstream")]
    stream: Option<rethread_store::JetStreamOptions>,
    profiles: Profiles,
    clients: BTreeMap<String, Arc<dyn Client>>,
    tools: Registry,
    faults: Vec<String>,
    workspace: Option<PathBuf>,
    reserved: Reserved,
    handler: Option<Arc<dyn UserInteractionHandler>>,
    processors: Processors,
    strategies: Strategies,
    guardrails: Guardrails,
    tool_services: Plan,
    workspace_in_prompt: bool,
    content_in_spans: bool,
    trace_context: TraceContext,
    monitors: Vec<Arc<dyn Monitor>>,
    limits: Limits,
    metrics_of: BTreeSet<String>,
    metrics_values_max: usize,
    arbiters: usize,
    mode: Mode,
    principal: Principal,
    label: String,
}

enum StoreConfig {
    Folder(PathBuf),
    Given(Arc<dyn Store>),
}

impl RuntimeBuilder {
    pub(crate) fn new() -> Self {
        Self {
            store: StoreConfig::Folder(PathBuf::from(".rethread")),
            #[cfg(feature = "jetstream")]
            stream: None,
            profiles: Profiles::empty(),
            clients: BTreeMap::new(),
            tools: Registry::new(),
            faults: Vec::new(),
            workspace: None,
            reserved: Reserved::default(),
            handler: None,
            processors: Processors::default(),
            strategies: Strategies::default(),
            guardrails: Guardrails::default(),
            tool_services: Plan::default(),
            workspace_in_prompt: true,
            content_in_spans: false,
            trace_context: TraceContext::Off,
            monitors: Vec::new(),
            limits: Limits::default(),
            metrics_of: BTreeSet::new(),
            metrics_values_max: 0,
            arbiters: std::thread::available_parallelism().map_or(1, usize::from),
            mode: Mode::Run,
            principal: Principal::default(),
            label: "an embedding program".into(),
        }
    }

    /// Sets the principal that is recorded for operations through a handle without one of its own
    /// ([`ThreadHandle::by`]). The default is [`Principal::Embedded`].
    ///
    /// [`ThreadHandle::by`]: crate::ThreadHandle::by
    pub fn principal(mut self, principal: impl Into<Principal>) -> Self {
        self.principal = principal.into();
        self
    }

    /// Stores the log in this folder; the default is `./.rethread`.
    pub fn data_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.store = StoreConfig::Folder(folder.into());
        self
    }

    /// Stores the log in a stream of NATS JetStream. The folder of [`RuntimeBuilder::data_dir`] holds its replica, which is
    /// filled again if it is lost. One runtime works on the log at a time.
    #[cfg(feature = "jetstream")]
    pub fn in_stream(mut self, options: rethread_store::JetStreamOptions) -> Self {
        self.stream = Some(options);
        self
    }

    /// Stores the log in memory: it is lost when the runtime stops.
    pub fn in_memory(self) -> Self {
        self.store(Arc::new(MemoryStore::new()))
    }

    /// Stores the log in a store of the application. The runtime closes it at shutdown. [`Store`] has an example.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = StoreConfig::Given(store);
        self
    }

    /// Sets the name of this process in the error of another process that finds the log locked.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Sets the profiles that workflows can name.
    pub fn profiles(mut self, profiles: Profiles) -> Self {
        self.profiles = profiles;
        self
    }

    /// Adds a model client of the application, which workflows name as `provider`.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use futures_util::future::{BoxFuture, FutureExt};
    /// use rethread::llm::client::{Health, ModelEntry};
    /// use rethread::llm::message::{FinishReason, Usage};
    /// use rethread::llm::{CallContext, Client, LlmError, Request, Response};
    /// use rethread::{Message, Role, Runtime};
    ///
    /// /// Repeats the last message.
    /// struct Echo;
    ///
    /// impl Client for Echo {
    ///     fn provider(&self) -> &str {
    ///         "echo"
    ///     }
    ///
    ///     fn call<'a>(&'a self, request: &'a Request, _: CallContext<'a>) -> BoxFuture<'a, Result<Response, LlmError>> {
    ///         let text = request.messages.last().map(|message| message.joined_text()).unwrap_or_default();
    ///         let response = Response {
    ///             message: Message::text(Role::Assistant, text),
    ///             finish_reason: FinishReason::Stop,
    ///             finish_reason_raw: None,
    ///             usage: Usage { input_tokens: Some(1), output_tokens: Some(1), ..Usage::default() },
    ///             provider: "echo".into(),
    ///             model: Some(request.model.clone()),
    ///             response_id: None,
    ///             request_id: None,
    ///             cost: None,
    ///             cached: false,
    ///             usage_counted: None,
    ///             fallback_from: None,
    ///         };
    ///         async move { Ok(response) }.boxed()
    ///     }
    ///
    ///     fn check(&self) -> BoxFuture<'_, Health> {
    ///         let health = Health {
    ///             provider: "echo".into(),
    ///             reachable: true,
    ///             key_accepted: None,
    ///             model_available: None,
    ///             took_ms: 0,
    ///             error: None,
    ///         };
    ///         async move { health }.boxed()
    ///     }
    ///
    ///     fn models(&self) -> BoxFuture<'_, Result<Vec<ModelEntry>, LlmError>> {
    ///         async { Ok(Vec::new()) }.boxed()
    ///     }
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let workflow = rethread::parse_workflow(br#"
    ///     version: "1"
    ///     name: echo
    ///     nodes: [{id: say, llm: {provider: echo, model: any, user_prompt: "Say {{ input }}"}}]
    /// "#)?;
    /// let runtime = Runtime::builder().in_memory().client("echo", Arc::new(Echo)).start().await?;
    /// let said: String = runtime.start_thread(workflow, "hello").await?.outcome_as().await?;
    /// assert_eq!(said, "Say hello");
    /// # runtime.shutdown().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn client(mut self, provider: impl Into<String>, client: Arc<dyn Client>) -> Self {
        self.clients.insert(provider.into(), client);
        self
    }

    /// Adds a tool. [`RuntimeBuilder::start`] fails if another tool has its name.
    ///
    /// ```
    /// use rethread::{ErrorKind, ExecutionError, Recovery, Runtime, Tool, ToolContext};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Divide {
    ///     /// What is divided.
    ///     a: i64,
    ///     /// The divisor.
    ///     b: i64,
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let divide = Tool::from_fn("divide", "Divides whole numbers.", |args: Divide, _: ToolContext| async move {
    ///     let quotient = args.a.checked_div(args.b);
    ///     quotient.map(|n| n.to_string()).ok_or(ExecutionError::new(ErrorKind::Failed, "cannot divide by zero"))
    /// })
    /// .recovery(Recovery::Safe);
    ///
    /// let workflow = rethread::parse_workflow(br#"
    ///     version: "1"
    ///     name: quotient
    ///     nodes: [{id: divide, tool: {tool_name: divide, parameters: {a: 6, b: 2}}}]
    /// "#)?;
    /// let runtime = Runtime::builder().in_memory().tool(divide).start().await?;
    /// let outcome = runtime.start_thread(workflow, "").await?.outcome().await?;
    /// assert_eq!(outcome.output.unwrap(), "3");
    /// # runtime.shutdown().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn tool(mut self, tool: Tool) -> Self {
        if let Err(error) = self.tools.register(tool) {
            self.faults.push(error.to_string());
        }
        self
    }

    /// Offers the tools `remember`, `search_memory` and `forget`, by which threads store texts for later threads. Threads
    /// with the same values of the labels in `options` share a namespace; a thread that lacks one of them is refused.
    /// Without this call there are no such tools.
    ///
    /// ```
    /// use rethread::operate::memory::MemoryOptions;
    /// use rethread::{Runtime, StartThread};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().in_memory().memory(MemoryOptions::by_labels(["user"])).start().await?;
    /// let workflow = rethread::parse_workflow(br#"
    ///     version: "1"
    ///     name: taste
    ///     nodes: [{id: keep, tool: {tool_name: remember, parameters: {text: "Ada drinks tea."}}}]
    /// "#)?;
    /// let labels = "user=ada".parse()?;
    /// runtime.start(StartThread::new(workflow, "").labels(labels)).await?.outcome().await?;
    /// let memories = runtime.memories(&"user=ada".parse()?).await?;
    /// assert_eq!(memories[0].text, "Ada drinks tea.");
    /// # runtime.shutdown().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn memory(mut self, options: MemoryOptions) -> Self {
        self.tool_services.memory = Some(options);
        self
    }

    /// Uses the tools of this registry, which can change while threads run, instead of all tools that were added
    /// before.
    pub fn tools(mut self, registry: Registry) -> Self {
        self.tools = registry;
        self
    }

    /// Sets whether models with tools get the workspace folder of the tools at the end of their instructions (`##
    /// Current Workspace` and its absolute path). The default is yes, unless the workflow has `workspace_in_prompt:
    /// false`. The instructions are recorded with the request.
    pub fn workspace_in_prompt(mut self, is_told: bool) -> Self {
        self.workspace_in_prompt = is_told;
        self
    }

    /// Sets whether the `tracing` spans of calls contain content: `input` (the messages sent to a model, the arguments
    /// of a tool, the question to a person) and `output` (the answer, or the text of the error), at most 16 KiB of
    /// each. The default is no, because people entrust this content to the application. API keys are in no span.
    ///
    /// The spans, all of level INFO and with the target `rethread::spans`:
    ///
    /// - `thread`, while a thread is in memory: `thread`, `workflow`, `outcome` (its status when it is passivated, so a
    ///   thread that waits for long has several such spans), `duration_ms`;
    /// - `node` in it, for each try: `node`, `attempt`, `outcome`, `duration_ms`;
    /// - `call` in that, for each attempt: `call` (its id), `attempt`, `kind` (`model`, `tool`, `person`, `processor`,
    ///   `strategy`), `callee` (the name of the model, tool, processor or strategy), `outcome`, `duration_ms`.
    ///
    /// `outcome` of nodes and calls is `completed`, `cancelled`, or the kind of the error. A tool runs inside the span
    /// of its call.
    pub fn content_in_spans(mut self, is_held: bool) -> Self {
        self.content_in_spans = is_held;
        self
    }

    /// Sets whether calls pass on the trace that they are part of: as the header `traceparent` to models, as `_meta` to tools
    /// of MCP servers, and as [`ToolContext::traceparent`](crate::ToolContext) to others. The default is
    /// [`TraceContext::Off`].
    pub fn trace_context(mut self, passed_on: TraceContext) -> Self {
        self.trace_context = passed_on;
        self
    }

    /// Sets the folder that tools work in; the default is the current one. A thread can have another. Tools cannot
    /// access the data directory ([`RuntimeBuilder::data_dir`]), even if it lies inside a workspace.
    pub fn workspace(mut self, folder: impl AsRef<Path>) -> Self {
        self.workspace = Some(folder.as_ref().to_owned());
        self
    }

    /// Reserves paths that tools cannot access, even if they lie inside a workspace: the configuration of the
    /// application, for example. Commands cannot access them if they are isolated, see [`rethread_tools::Isolation`].
    pub fn reserve(mut self, reserved: Reserved) -> Self {
        self.reserved = reserved;
        self
    }

    /// Sets the handler that answers the questions of workflows to people. Without one they wait for
    /// [`crate::ThreadHandle::respond`].
    pub fn interaction_handler(mut self, handler: impl UserInteractionHandler) -> Self {
        self.handler = Some(Arc::new(handler));
        self
    }

    /// Adds a context processor, which `context_processor` nodes with this name run on the conversation. It runs on the
    /// event loops of the runtime, so it must not block. It may run more than once for the same answer, after a crash.
    /// If it panics, fails, takes longer than the node allows (60 s by default), or returns a conversation that no
    /// model accepts (a tool call without its result), the node fails and the conversation stays unchanged.
    /// [`RuntimeBuilder::start`] fails if another processor, also a built-in one, has the name.
    pub fn context_processor<F, Fut>(mut self, name: impl Into<String>, processor: F) -> Self
    where
        F: Fn(ProcessorContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Processed, ExecutionError>> + Send + 'static,
    {
        if let Err(fault) = self.processors.add(name.into(), processor) {
            self.faults.push(fault);
        }
        self
    }

    /// Adds a monitor, which is called when a model answered, a tool call ended, tokens were used or a conversation was
    /// summarised.
    pub fn monitor(mut self, monitor: impl Monitor) -> Self {
        self.monitors.push(Arc::new(monitor));
        self
    }

    /// Adds a strategy of agent loops, which decides the next step of `llm` nodes with `strategy: {custom: {name: …}}`
    /// of this name. [`RuntimeBuilder::start`] fails if another strategy has the name.
    pub fn strategy(mut self, name: impl Into<String>, strategy: impl Strategy) -> Self {
        if let Err(fault) = self.strategies.add(name.into(), strategy) {
            self.faults.push(fault);
        }
        self
    }

    /// Adds a function for guardrails, which `llm` nodes call by this name (`guardrails: [{function: …}]`) to check an
    /// input, an answer or a tool call. It runs on the event loops of the runtime, so it must not block. It may run more
    /// than once for one check, after a crash. If it panics, fails or takes longer than the node allows (60 s by default),
    /// what it was to check is rejected. [`RuntimeBuilder::start`] fails if another function has the name.
    ///
    /// ```
    /// use rethread::Runtime;
    /// use rethread::functions::GuardrailOutcome;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder()
    ///     .in_memory()
    ///     .guardrail("max_words", |cx| async move {
    ///         let max = cx.config["max"].0.as_u64().unwrap_or(10) as usize;
    ///         let words: Vec<_> = cx.checked.0.as_str().unwrap_or_default().split(' ').collect();
    ///         Ok(if words.len() <= max {
    ///             GuardrailOutcome::Allow {}
    ///         } else {
    ///             let with = words[..max].join(" ").into();
    ///             GuardrailOutcome::Replace { with, reason: format!("{} words", words.len()) }
    ///         })
    ///     })
    ///     .start()
    ///     .await?;
    /// let workflow = rethread::parse_workflow(br#"
    ///     version: "1"
    ///     name: brief
    ///     nodes:
    ///       - id: answer
    ///         llm:
    ///           provider: mock
    ///           model: scripted
    ///           user_prompt: "{{ input }}"
    ///           guardrails: [{name: brief, on: answer, function: max_words, config: {max: 2}}]
    ///           extra: {script: {answers: [{text: "one two three"}]}}
    /// "#)?;
    /// let outcome = runtime.start_thread(workflow, "Count.").await?.outcome().await?;
    /// assert_eq!(outcome.output.unwrap(), "one two");
    /// runtime.shutdown().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn guardrail<F, Fut>(mut self, name: impl Into<String>, function: F) -> Self
    where
        F: Fn(GuardrailContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<GuardrailOutcome, ExecutionError>> + Send + 'static,
    {
        if let Err(fault) = self.guardrails.add(name.into(), function) {
            self.faults.push(fault);
        }
        self
    }

    /// Changes the limits.
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    /// Counts threads, starts, model calls, tokens and cost for each value of the labels with these keys, see
    /// [`crate::operate::Metrics`]. The first `values_max` values of a key have counts of their own; all others are
    /// counted together.
    pub fn metrics_by_label<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>, values_max: usize) -> Self {
        self.metrics_of = keys.into_iter().map(Into::into).collect();
        self.metrics_values_max = values_max;
        self
    }

    /// Sets how many arbiters (event loops, each on its own OS thread) run the threads; the default is one per core.
    pub fn arbiters(mut self, n: usize) -> Self {
        self.arbiters = n;
        self
    }

    /// Sets what the runtime does with the threads of the log; the default is [`Mode::Run`].
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }
}

/// The actix system of a runtime, on a thread of its own.
pub(crate) struct OwnSystem {
    pub(crate) system: System,
    pub(crate) thread: std::thread::JoinHandle<()>,
}
