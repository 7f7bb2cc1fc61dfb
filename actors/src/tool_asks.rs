//! Questions of running tools. The thread records them and the answers, and returns the answers to the tool.

use std::collections::HashMap;

use actix::{Message, Recipient};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rethread_events::event::Decision;
use rethread_events::fault::ExecutionError;
use rethread_events::ids::CallId;
use rethread_events::thread::{Input, ToolQuestion};
use rethread_tools::{AskPerson, Question, Reply};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::port::Port;

/// The answer of a person to a tool: a decision, or `None` if the question was closed without one.
pub(crate) type ToolAnswer = Option<Decision>;

/// The tools that wait for answers, by question.
pub(crate) type Asking = HashMap<CallId, oneshot::Sender<ToolAnswer>>;

/// A question of a running tool to a person. The reply is the question's id once the machine has it. `answer` receives
/// the decision when that is durable, and nothing if the thread stops before.
pub(crate) struct AskForTool {
    pub(crate) input: Input,
    pub(crate) cancel: CancellationToken,
    pub(crate) answer: oneshot::Sender<ToolAnswer>,
}

impl Message for AskForTool {
    type Result = Option<CallId>;
}

/// Asks on behalf of one attempt at one call.
pub(crate) struct ToolAsks {
    pub(crate) port: Port,
    pub(crate) asks: Recipient<AskForTool>,
}

impl AskPerson for ToolAsks {
    fn ask(&self, question: Question) -> BoxFuture<'static, Result<Reply, ExecutionError>> {
        let (port, asks) = (self.port.clone(), self.asks.clone());
        async move {
            let Question { key: _, from, message, schema, url, cancel: withdrawn } = question;
            let (answer, told) = oneshot::channel();
            let question = ToolQuestion { from, message, schema, url };
            let input = Input::ToolAsks { call: port.call, attempt: port.attempt, question };
            let asked = asks.send(AskForTool { input, cancel: port.cancel.clone(), answer }).await;
            // The thread has stopped, or rejects the question: no answer will come.
            let Some(interaction) = asked.ok().flatten() else { return Ok(Reply::Cancel) };
            let _withdraw = Withdraw { port, interaction };
            let told = tokio::select! {
                told = told => told.ok().flatten(),
                () = withdrawn.cancelled() => None,
            };
            Ok(match told {
                Some(Decision::Answer { content }) => Reply::Accept(content),
                Some(Decision::Reject { .. }) => Reply::Decline,
                Some(Decision::Approve {} | Decision::Edit { .. }) | None => Reply::Cancel,
            })
        }
        .boxed()
    }
}

/// Withdraws the question when its answer is no longer awaited. Has no effect on a closed question.
struct Withdraw {
    port: Port,
    interaction: CallId,
}

impl Drop for Withdraw {
    fn drop(&mut self) {
        self.port.send_input(Input::CancelInteraction { interaction: self.interaction });
    }
}
