//! Context processors of the application: they read the conversation and the variables, and return another
//! conversation.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rethread_events::codec::OrderedMap;
use rethread_events::event::{ContextProcessed, ContextProcessingFailed};
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::{NodeId, ThreadId};
use rethread_events::json::Json;
use rethread_events::message::Message;
use rethread_events::thread::{Processed, ProcessorRun, State, is_built_in_processor};
use tokio_util::sync::CancellationToken;

use crate::application_call::ApplicationCall;
use crate::crashes::Step;
use crate::spans::json_of;

/// The longest name of a context processor, in bytes.
const NAME_BYTES_MAX: usize = 200;

/// What a context processor can read.
#[derive(Debug, Clone)]
pub struct ProcessorContext {
    /// The thread.
    pub thread: ThreadId,
    /// The node that runs the processor.
    pub node: NodeId,
    /// The configuration from the node, with its expressions evaluated.
    pub config: OrderedMap<Json>,
    /// The conversation. [`rethread_events::event::ContextItem::Kept`] names its messages by their indexes in this
    /// list.
    pub messages: Vec<Arc<Message>>,
    /// The state at this moment: variables, path, totals.
    pub state: State,
    /// The number of this attempt; a processor whose result is lost in a crash is called again.
    pub attempt: u32,
    /// Cancelled when the result is no longer needed: it took too long, or the thread ended.
    pub cancel: CancellationToken,
}

type Processor = dyn Fn(ProcessorContext) -> BoxFuture<'static, Result<Processed, ExecutionError>> + Send + Sync;

/// The processors of a runtime, by name.
#[derive(Default)]
pub(crate) struct Processors(BTreeMap<String, Arc<Processor>>);

impl Processors {
    /// Adds a processor. The error describes what is wrong with its name.
    pub(crate) fn add<F, Fut>(&mut self, name: String, processor: F) -> Result<(), String>
    where
        F: Fn(ProcessorContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Processed, ExecutionError>> + Send + 'static,
    {
        if name.trim().is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(format!("a context processor's name has 1 to {NAME_BYTES_MAX} bytes"));
        }
        if is_built_in_processor(&name) {
            return Err(format!("the context processor `{name}` is built in: choose another name"));
        }
        if self.0.contains_key(&name) {
            return Err(format!("there are two context processors `{name}`"));
        }
        self.0.insert(name, Arc::new(move |cx| processor(cx).boxed()));
        Ok(())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Runs a processor, and reports its result.
    pub(crate) fn run(&self, run: &ProcessorRun, cx: ProcessorContext, call: ApplicationCall) {
        call.span.asks(|| json_of(&cx.messages));
        let processor = self.0.get(&run.processor).cloned().ok_or_else(|| {
            let message = format!("there is no context processor `{}` in this runtime", run.processor);
            ExecutionError::new(ErrorKind::Configuration, message)
        });
        let step = Step::call(cx.thread, run.call, format!("context processor `{}`, call {}", run.processor, run.call));
        // A panic of the function itself is contained as one of its future is.
        let work = async move { processor?(cx).await };
        actix_rt::spawn(async move {
            let Some(answer) = call.run(step, work).await else { return };
            let ApplicationCall { port, span, .. } = call;
            span.ends(&answer, |processed| json_of(&processed.output));
            let (node_id, call_id) = (None, port.call);
            match answer {
                Ok(Processed { messages, variables, output }) => {
                    port.report(ContextProcessed { node_id, call_id, messages, variables, output });
                }
                Err(error) => port.report(ContextProcessingFailed { node_id, call_id, error }),
            }
        });
    }
}
