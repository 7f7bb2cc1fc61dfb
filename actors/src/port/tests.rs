//! A mock of the thread for the tests of an executor.

use rethread_events::ids::Seq;
use tokio::sync::mpsc;

use super::*;

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

impl Handler<PermitGranted> for Thread {
    type Result = ();

    fn handle(&mut self, _message: PermitGranted, _ctx: &mut Context<Self>) {}
}

/// The mailbox of no thread, for what reports nothing.
impl Mailbox for () {
    fn report(&self, _report: Report) {}

    fn report_if_room(&self, _report: Report) {}

    fn report_and_wait(&self, _report: Report) -> BoxFuture<'static, ()> {
        futures_util::future::ready(()).boxed()
    }

    fn ask(&self, _question: AskForTool) -> BoxFuture<'static, Option<CallId>> {
        futures_util::future::ready(None).boxed()
    }

    fn permit_granted(&self) {}
}

/// The port of the first attempt at call 7, and what is reported to it.
pub(crate) fn port() -> (Port, mpsc::UnboundedReceiver<Input>) {
    let (sender, reports) = mpsc::unbounded_channel();
    (Port::new((CallId(Seq(7)), 1), CancellationToken::new(), Arc::new(Thread(sender).start())), reports)
}
