//! Questions of running tools. The thread records them and the answers, and returns the answers to the tool.

use std::collections::HashMap;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rethread_events::event::Decision;
use rethread_events::fault::ExecutionError;
use rethread_events::ids::CallId;
use rethread_events::thread::{Input, ToolQuestion};
use rethread_tools::{AskPerson, Question, Reply};
use tokio::sync::oneshot;

use crate::port::{Port, ToolAnswer};

/// The tools that wait for answers, by question.
pub(crate) type Asking = HashMap<CallId, oneshot::Sender<ToolAnswer>>;

/// Asks on behalf of one attempt at one call.
pub(crate) struct ToolAsks {
    pub(crate) port: Port,
}

impl AskPerson for ToolAsks {
    fn ask(&self, question: Question) -> BoxFuture<'static, Result<Reply, ExecutionError>> {
        let port = self.port.clone();
        async move {
            let Question { key: _, from, message, schema, url, cancel: withdrawn } = question;
            let (answer, told) = oneshot::channel();
            let question = ToolQuestion { from, message, schema, url };
            let input = Input::ToolAsks { call: port.call, attempt: port.attempt, question };
            // Without an id no answer will come.
            let Some(interaction) = port.ask(input, answer).await else { return Ok(Reply::Cancel) };
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
