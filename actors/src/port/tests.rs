//! A mock of the thread for the tests of an executor.

use actix::{Actor, Context, Handler};
use rethread_events::ids::Seq;
use tokio::sync::mpsc;

use super::*;
use crate::tool_asks::AskForTool;

/// Keeps the reports, and takes no question.
struct Thread(mpsc::UnboundedSender<Input>);

impl Actor for Thread {
    type Context = Context<Self>;
}

impl Handler<Report> for Thread {
    type Result = ();

    fn handle(&mut self, message: Report, _ctx: &mut Context<Self>) {
        let _ = self.0.send(message.input);
    }
}

impl Handler<AskForTool> for Thread {
    type Result = Option<CallId>;

    fn handle(&mut self, _message: AskForTool, _ctx: &mut Context<Self>) -> Option<CallId> {
        None
    }
}

/// The port of the first attempt at call 7, where its tool asks, and what is reported to it.
pub(crate) fn port() -> (Port, Recipient<AskForTool>, mpsc::UnboundedReceiver<Input>) {
    let (sender, reports) = mpsc::unbounded_channel();
    let thread = Thread(sender).start();
    let port = Port::new((CallId(Seq(7)), 1), CancellationToken::new(), thread.clone().recipient());
    (port, thread.recipient(), reports)
}
