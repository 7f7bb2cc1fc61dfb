//! Ports: how the work of a thread reports to the thread.

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use actix::{Message, Recipient};
use rethread_events::event::CallEvent;
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

/// Where one attempt at a call reports to.
#[derive(Clone)]
pub(crate) struct Port {
    pub(crate) call: CallId,
    pub(crate) attempt: u32,
    /// Cancelled when the thread no longer wants the call.
    pub(crate) cancel: CancellationToken,
    to: Recipient<Report>,
}

impl Port {
    pub(crate) fn new(key: (CallId, u32), cancel: CancellationToken, to: Recipient<Report>) -> Self {
        Self { call: key.0, attempt: key.1, cancel, to }
    }

    /// Reports, even if the mailbox of the thread is full.
    pub(crate) fn report(&self, event: impl Into<CallEvent>) {
        self.send_input(Input::reported(self.attempt, event));
    }

    /// Reports, and returns when the thread has handled it.
    pub(crate) async fn report_and_wait(&self, event: impl Into<CallEvent>) {
        // A thread that has stopped needs no report.
        let _ = self.to.send(self.about(Input::reported(self.attempt, event), None)).await;
    }

    /// Reports unless the mailbox of the thread is full.
    pub(crate) fn report_if_room(&self, event: impl Into<CallEvent>) {
        let _ = self.to.try_send(self.about(Input::reported(self.attempt, event), None));
    }

    /// Gives the thread an input about a question, even if its mailbox is full.
    pub(crate) fn send_input(&self, input: Input) {
        self.to.do_send(self.about(input, None));
    }

    /// As [`Port::tell`]. Returns why the thread rejected the input, if it did.
    pub(crate) async fn send_input_checked(&self, input: Input) -> Result<(), ControlError> {
        let (reply, rejected) = Reply::channel(None);
        self.to.do_send(self.about(input, Some(reply)));
        rejected.await.unwrap_or(Ok(None)).map(drop)
    }

    fn about(&self, input: Input, reply: Option<Reply>) -> Report {
        Report { input, reply, cancel: self.cancel.clone() }
    }
}
