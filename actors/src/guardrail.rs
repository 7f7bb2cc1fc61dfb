//! Guardrails of the application: functions that say whether an input, an answer or a tool call may be used.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rethread_events::codec::OrderedMap;
use rethread_events::event::{CheckedContent, GuardrailCheck, GuardrailCompleted, GuardrailOutcome};
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::{NodeId, ThreadId};
use rethread_events::json::Json;
use rethread_events::thread::{ApplicationRun, State, Work};
use tokio_util::sync::CancellationToken;

use crate::application_call::ApplicationCall;
use crate::crashes::Step;
use crate::spans::json_of;

/// The longest name of a function for guardrails, in bytes.
const NAME_BYTES_MAX: usize = 200;

/// What the function of a guardrail can read.
#[derive(Debug, Clone)]
pub struct GuardrailContext {
    /// The thread.
    pub thread: ThreadId,
    /// The node whose guardrail it is.
    pub node: NodeId,
    /// The name of the guardrail in the node.
    pub guardrail: String,
    /// The configuration from the node, with its expressions evaluated.
    pub config: OrderedMap<Json>,
    /// What kind of content is checked.
    pub content: CheckedContent,
    /// The content: a text, or for a tool call an object with `name` and `arguments`.
    pub checked: Json,
    /// The state at this moment: conversation, variables, totals.
    pub state: State,
    /// The number of this attempt; a function whose outcome is lost in a crash is called again.
    pub attempt: u32,
    /// Cancelled when the outcome is no longer needed: it took too long, or the thread ended.
    pub cancel: CancellationToken,
}

impl GuardrailContext {
    /// Returns what the function of the check that is open can read, and the function's name; `None` if none is open.
    pub(crate) fn new(state: State, run: &ApplicationRun, cancel: CancellationToken) -> Option<(Self, String)> {
        let node = state.node_run()?;
        let Work::Llm(agent_loop) = &node.work else { return None };
        let (guardrail, content, checked) = agent_loop.guardrail_at_work(state.conversation())?;
        let GuardrailCheck::Function { name, config, .. } = &guardrail.check else { return None };
        let (function, config) = (name.clone(), config.clone());
        let (guardrail, node, attempt) = (guardrail.name.clone(), node.node.clone(), run.attempt);
        let thread = state.thread();
        Some((Self { thread, node, guardrail, config, content, checked, state, attempt, cancel }, function))
    }
}

type Function = dyn Fn(GuardrailContext) -> BoxFuture<'static, Result<GuardrailOutcome, ExecutionError>> + Send + Sync;

/// The functions for guardrails of a runtime, by name.
#[derive(Default)]
pub(crate) struct Guardrails(BTreeMap<String, Arc<Function>>);

impl Guardrails {
    /// Adds a function. The error describes what is wrong with its name.
    pub(crate) fn add<F, Fut>(&mut self, name: String, function: F) -> Result<(), String>
    where
        F: Fn(GuardrailContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<GuardrailOutcome, ExecutionError>> + Send + 'static,
    {
        if name.trim().is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(format!("the name of a function for guardrails has 1 to {NAME_BYTES_MAX} bytes"));
        }
        if self.0.contains_key(&name) {
            return Err(format!("there are two functions `{name}` for guardrails"));
        }
        self.0.insert(name, Arc::new(move |cx| function(cx).boxed()));
        Ok(())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Calls a function, and reports its outcome.
    pub(crate) fn ask(&self, (cx, name): (GuardrailContext, String), call: ApplicationCall) {
        call.span.asks(|| json_of(&cx.checked));
        let function = self.0.get(&name).cloned().ok_or_else(|| {
            let message = format!("there is no function `{name}` for guardrails in this runtime");
            ExecutionError::new(ErrorKind::Configuration, message)
                .caused_by("register it with RuntimeBuilder::guardrail, and fork the thread from before the node")
        });
        let id = call.port.call;
        let step = Step::call(cx.thread, id, format!("guardrail `{}`, call {id}", cx.guardrail));
        // A panic of the function itself is contained as one of its future is.
        let work = async move { function?(cx).await };
        actix_rt::spawn(async move {
            let Some(outcome) = call.run(step, work).await else { return };
            let ApplicationCall { port, span, .. } = call;
            span.ends(&outcome, json_of);
            port.report(match outcome {
                Ok(outcome) => GuardrailCompleted::of(port.call, outcome),
                Err(error) => GuardrailCompleted::failed(port.call, error),
            });
        });
    }
}
