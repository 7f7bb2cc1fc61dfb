//! Ports: how the work of a thread reports to the thread.

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use actix::{Actor, Addr, Context, Handler, Message};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rethread_events::event::{CallEvent, Decision};
use rethread_events::ids::{CallId, Seq};
use rethread_events::thread::Input;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::error::ControlError;
use crate::label_limits::StartPermit;

/// The seq of the first event an input led to, once all of them are durable; `None` when it changed nothing.
pub(crate) type Replied = Result<Option<Seq>, ControlError>;

/// Where the sender of an input waits for the result. Contains the permit of a start until the result is known, also if
/// the sender has stopped waiting.
pub(crate) struct Reply {
    to: oneshot::Sender<Replied>,
    permit: Option<Arc<StartPermit>>,
}

impl Reply {
    pub(crate) fn channel(permit: Option<Arc<StartPermit>>) -> (Self, oneshot::Receiver<Replied>) {
        let (to, replied) = oneshot::channel();
        (Self { to, permit }, replied)
    }

    pub(crate) fn send(self, replied: Replied) {
        if let (Some(permit), Ok(Some(_))) = (self.permit, &replied) {
            permit.accept();
        }
        // A sender that stopped waiting needs no reply.
        drop(self.to.send(replied));
    }
}

/// The result of a call, or a progress report. No other copy exists, so the thread keeps it in memory while the log has
/// no room.
pub(crate) struct Report {
    pub(crate) input: Input,
    /// Receives a rejection of the input.
    pub(crate) reply: Option<Reply>,
    /// Cancelled when the call is closed: its reports are ignored then.
    pub(crate) cancel: CancellationToken,
}

impl Message for Report {
    type Result = ();
}

/// The answer of a person to a tool: a decision, or `None` if the question was closed without one.
pub(crate) type ToolAnswer = Option<Decision>;

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

/// A call of the thread no longer waits for a permit: its deadline is known again.
pub(crate) struct PermitGranted;

impl Message for PermitGranted {
    type Result = ();
}

/// The mailbox of the thread of a call. All that works on the call shares one, because each copy of an actor's address
/// is allocated.
pub(crate) trait Mailbox: Send + Sync {
    /// Adds a report, even if the mailbox is full.
    fn report(&self, report: Report);

    /// Adds a report unless the mailbox is full.
    fn report_if_room(&self, report: Report);

    /// Adds a report, and completes when the thread has handled it or has stopped.
    fn report_and_wait(&self, report: Report) -> BoxFuture<'static, ()>;

    /// Adds a question. Returns its id; `None` if the thread has stopped or rejects it.
    fn ask(&self, question: AskForTool) -> BoxFuture<'static, Option<CallId>>;

    /// Adds that a call has a permit.
    fn permit_granted(&self);
}

impl<A> Mailbox for Addr<A>
where
    A: Actor<Context = Context<A>> + Handler<Report> + Handler<AskForTool> + Handler<PermitGranted>,
{
    fn report(&self, report: Report) {
        self.do_send(report);
    }

    fn report_if_room(&self, report: Report) {
        let _ = self.try_send(report);
    }

    fn report_and_wait(&self, report: Report) -> BoxFuture<'static, ()> {
        self.send(report).map(drop).boxed()
    }

    fn ask(&self, question: AskForTool) -> BoxFuture<'static, Option<CallId>> {
        self.send(question).map(|asked| asked.ok().flatten()).boxed()
    }

    fn permit_granted(&self) {
        self.do_send(PermitGranted);
    }
}

/// Where one attempt at a call reports to.
#[derive(Clone)]
pub(crate) struct Port {
    pub(crate) call: CallId,
    pub(crate) attempt: u32,
    /// Cancelled when the thread no longer wants the call.
    pub(crate) cancel: CancellationToken,
    thread: Arc<dyn Mailbox>,
}

impl Port {
    pub(crate) fn new(key: (CallId, u32), cancel: CancellationToken, thread: Arc<dyn Mailbox>) -> Self {
        Self { call: key.0, attempt: key.1, cancel, thread }
    }

    /// Reports, even if the mailbox of the thread is full.
    pub(crate) fn report(&self, event: impl Into<CallEvent>) {
        self.send_input(Input::reported(self.attempt, event));
    }

    /// Reports, and returns when the thread has handled it.
    pub(crate) async fn report_and_wait(&self, event: impl Into<CallEvent>) {
        self.thread.report_and_wait(self.about(Input::reported(self.attempt, event), None)).await;
    }

    /// Reports unless the mailbox of the thread is full.
    pub(crate) fn report_if_room(&self, event: impl Into<CallEvent>) {
        self.thread.report_if_room(self.about(Input::reported(self.attempt, event), None));
    }

    /// Gives the thread an input about a question, even if its mailbox is full.
    pub(crate) fn send_input(&self, input: Input) {
        self.thread.report(self.about(input, None));
    }

    /// As [`Port::tell`]. Returns why the thread rejected the input, if it did.
    pub(crate) async fn send_input_checked(&self, input: Input) -> Result<(), ControlError> {
        let (reply, rejected) = Reply::channel(None);
        self.thread.report(self.about(input, Some(reply)));
        rejected.await.unwrap_or(Ok(None)).map(drop)
    }

    /// Asks a person for a tool. Returns the id of the question; `None` if the thread has stopped or rejects it.
    pub(crate) async fn ask(&self, input: Input, answer: oneshot::Sender<ToolAnswer>) -> Option<CallId> {
        self.thread.ask(AskForTool { input, cancel: self.cancel.clone(), answer }).await
    }

    fn about(&self, input: Input, reply: Option<Reply>) -> Report {
        Report { input, reply, cancel: self.cancel.clone() }
    }
}
