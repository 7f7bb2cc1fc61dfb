//! Questions of tools that run: put to the thread, which records them and the answers, and brought back to the tool.

use actix::Addr;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rethread_events::event::Decision;
use rethread_events::fault::ExecutionError;
use rethread_events::ids::CallId;
use rethread_events::thread::{Input, ToolQuestion};
use rethread_tools::{AskPerson, Question, Reply};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::thread_actor::{AskForTool, Tell, ThreadActor};

/// What people say to a tool: a decision, or nothing when the question was closed without one.
pub(crate) type Told = Option<Decision>;

/// Asks on behalf of one attempt at one call.
pub(crate) struct ToolAsks {
    pub(crate) thread: Addr<ThreadActor>,
    pub(crate) call: CallId,
    pub(crate) attempt: u32,
    pub(crate) cancel: CancellationToken,
}

impl AskPerson for ToolAsks {
    fn ask(&self, question: Question) -> BoxFuture<'static, Result<Reply, ExecutionError>> {
        let (thread, call, attempt, cancel) = (self.thread.clone(), self.call, self.attempt, self.cancel.clone());
        async move {
            let Question { key: _, from, message, schema, url, cancel: withdrawn } = question;
            let (answer, told) = oneshot::channel();
            let input = Input::ToolAsks { call, attempt, question: ToolQuestion { from, message, schema, url } };
            let asked = thread.send(AskForTool { input, cancel: cancel.clone(), answer }).await;
            // The thread is gone, or takes no question: nobody is there to answer.
            let Some(interaction) = asked.ok().flatten() else { return Ok(Reply::Cancel) };
            let _withdraw = Withdraw { thread, interaction, cancel };
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

/// Takes the question back when nobody waits for its answer any more. One that is closed already stays as it is.
struct Withdraw {
    thread: Addr<ThreadActor>,
    interaction: CallId,
    cancel: CancellationToken,
}

impl Drop for Withdraw {
    fn drop(&mut self) {
        let input = Input::CancelInteraction { interaction: self.interaction };
        self.thread.do_send(Tell::said(input, &self.cancel));
    }
}
