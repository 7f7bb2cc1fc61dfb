//! Strategies of the application: they decide the next step of an agent loop.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use rethread_events::codec::OrderedMap;
use rethread_events::event::{
    LlmExecutionRequest, LoopStrategy, StrategyDecided, StrategyDecision, StrategyDecisionFailed,
};
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::{NodeId, ThreadId};
use rethread_events::json::Json;
use rethread_events::message::Message;
use rethread_events::thread::{ApplicationRun, State, Turn, Work};
use tokio_util::sync::CancellationToken;

use crate::application_call::ApplicationCall;
use crate::crashes::Step;
use crate::spans::json_of;

/// The longest name of a strategy, in bytes.
const NAME_BYTES_MAX: usize = 200;

/// What a strategy can read.
#[derive(Debug, Clone)]
pub struct StrategyContext {
    /// The thread.
    pub thread: ThreadId,
    /// The node that runs the strategy.
    pub node: NodeId,
    /// The configuration from the node, with its expressions evaluated.
    pub config: OrderedMap<Json>,
    /// The request of the node: prompt, model, tools, limits.
    pub request: Arc<LlmExecutionRequest>,
    /// The position in the loop.
    pub turn: Turn,
    /// How many model calls the loop has made.
    pub iteration: u32,
    /// The conversation.
    pub messages: Vec<Arc<Message>>,
    /// The state at this moment: variables, path, totals.
    pub state: State,
    /// The number of this attempt; a strategy whose decision is lost in a crash is called again.
    pub attempt: u32,
    /// Cancelled when the decision is no longer needed: it took too long, or the thread ended.
    pub cancel: CancellationToken,
}

impl StrategyContext {
    /// Returns what the strategy of the running agent loop can read; `None` if no loop runs.
    pub(crate) fn new(state: State, run: &ApplicationRun, cancel: CancellationToken) -> Option<Self> {
        let node = state.node_run()?;
        let Work::Llm(agent_loop) = &node.work else { return None };
        let LoopStrategy::Custom(custom) = &agent_loop.request.strategy else { return None };
        Some(Self {
            thread: state.thread(),
            node: node.node.clone(),
            config: custom.config.clone(),
            request: agent_loop.request.clone(),
            turn: agent_loop.turn(),
            iteration: agent_loop.iteration,
            messages: state.conversation().before(run.call).iter().map(|entry| entry.message.clone()).collect(),
            attempt: run.attempt,
            cancel,
            state,
        })
    }

    pub(crate) fn name(&self) -> &str {
        match &self.request.strategy {
            LoopStrategy::Custom(custom) => &custom.name,
            LoopStrategy::React {} | LoopStrategy::PlanAndExecute(_) | LoopStrategy::MultiLlm(_) => "",
        }
    }
}

/// A strategy of the application for the agent loop of an `llm` node: `strategy: {custom: {name: …}}`.
///
/// It is called when the node begins, after each answer of a model, and after tools have run. Its decision is an event,
/// so a replay never calls it, and after a crash a thread continues from its last decision. Its calls, tools, limits
/// and approvals are those of any agent loop; it only decides the next step. It may decide four times for each model
/// call that the node allows.
///
/// It runs on the event loops of the runtime, so it must not block. It may be called more than once for one decision,
/// after a crash: so it keeps its data in the conversation and the variables, and not in itself. If it panics, fails,
/// takes longer than the node allows (60 s by default) or decides something impossible, the node fails.
///
/// ```
/// use futures_util::future::{BoxFuture, FutureExt};
/// use rethread::event::StrategyDecision;
/// use rethread::{ExecutionError, Message, Role, Runtime, Strategy, StrategyContext, Turn};
///
/// /// Lets the model look over its answer once.
/// struct SecondThoughts;
///
/// impl Strategy for SecondThoughts {
///     fn decide(&self, cx: StrategyContext) -> BoxFuture<'static, Result<StrategyDecision, ExecutionError>> {
///         let call_model = |text: Option<&str>| StrategyDecision::CallModel {
///             messages: text.map(|text| Message::text(Role::User, text).into()).into_iter().collect(),
///             model: None,
///             tools: None,
///         };
///         let next = match cx.turn {
///             Turn::Begun | Turn::ToolsEnded => call_model(None),
///             Turn::ToolsAsked(calls) => StrategyDecision::RunTools { calls },
///             Turn::Answered { .. } if cx.iteration == 1 => call_model(Some("Are you sure? Look over it once more.")),
///             Turn::Answered { content, .. } => StrategyDecision::Answer { content },
///         };
///         async move { Ok(next) }.boxed()
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workflow = rethread::parse_workflow(br#"
///     version: "1"
///     name: careful
///     nodes:
///       - id: answer
///         llm:
///           provider: mock
///           model: scripted
///           user_prompt: "{{ input }}"
///           strategy: {custom: {name: second_thoughts}}
///           extra: {script: {answers: [{text: "41"}, {text: "42"}]}}
/// "#)?;
/// let runtime = Runtime::builder().in_memory().strategy("second_thoughts", SecondThoughts).start().await?;
/// let outcome = runtime.start_thread(workflow, "6 times 7?").await?.outcome().await?;
/// assert_eq!(outcome.output.unwrap(), "42");
/// runtime.shutdown().await?;
/// # Ok(())
/// # }
/// ```
pub trait Strategy: Send + Sync + 'static {
    /// Decides the next step. An error fails the node with it; its kind and whether it is retryable decide whether the
    /// node is tried again.
    fn decide(&self, cx: StrategyContext) -> BoxFuture<'static, Result<StrategyDecision, ExecutionError>>;
}

/// The strategies of a runtime, by name.
#[derive(Default)]
pub(crate) struct Strategies(BTreeMap<String, Arc<dyn Strategy>>);

impl Strategies {
    /// Adds a strategy. The error describes what is wrong with its name.
    pub(crate) fn add(&mut self, name: String, strategy: impl Strategy) -> Result<(), String> {
        if name.trim().is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(format!("a strategy's name has 1 to {NAME_BYTES_MAX} bytes"));
        }
        if self.0.contains_key(&name) {
            return Err(format!("there are two strategies `{name}`"));
        }
        self.0.insert(name, Arc::new(strategy));
        Ok(())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Calls a strategy, and reports its decision.
    pub(crate) fn ask(&self, cx: StrategyContext, call: ApplicationCall) {
        let strategy = self.0.get(cx.name()).cloned().ok_or_else(|| {
            let message = format!("there is no strategy `{}` in this runtime", cx.name());
            ExecutionError::new(ErrorKind::Configuration, message)
                .caused_by("register it with RuntimeBuilder::strategy, and fork the thread from before the node")
        });
        let id = call.port.call;
        let step = Step::call(cx.thread, id, format!("strategy `{}`, call {id}", cx.name()));
        // A panic of the function itself is contained as one of its future is.
        let work = async move { strategy?.decide(cx).await };
        actix_rt::spawn(async move {
            let Some(decision) = call.run(step, work).await else { return };
            let ApplicationCall { port, span, .. } = call;
            span.ends(&decision, json_of);
            let (node_id, call_id) = (None, port.call);
            match decision {
                Ok(next) => port.report(StrategyDecided { node_id, call_id, next }),
                Err(error) => port.report(StrategyDecisionFailed { node_id, call_id, error }),
            }
        });
    }
}
