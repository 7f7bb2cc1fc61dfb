//! What the publisher is notified of.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use super::applier::{Outcome, Progress};
use crate::disk::queue::Queue;
use crate::error::StoreError;

/// A notification.
#[derive(Debug)]
pub(super) enum Event {
    /// Messages were applied; the results of operations, by the number of their last message.
    Applied { progress: Progress, results: Vec<(u64, Outcome)> },
    /// A message of that epoch came after one that did not come.
    Lost { epoch: u64 },
    /// The processes that write the log changed. `own` is the epoch of this one, if it is one of them; `holder` names the
    /// one that did it.
    Changed { own: Option<u64>, holder: String },
    /// The replica failed: nothing more is applied.
    Failed(StoreError),
    /// The servers did not acknowledge a message.
    Unacknowledged { attempt: u64 },
    /// The last sequence of the stream at some time after an attempt to publish.
    Reached { attempt: u64, sequence: u64 },
}

/// Where notifications are sent.
#[derive(Clone)]
pub(super) struct Outbox {
    pub(super) events: Sender<Event>,
    /// The queue that the publisher waits at.
    pub(super) queue: Arc<Queue>,
}

impl Outbox {
    pub(super) fn send(&self, event: Event) {
        // After the publisher has ended nothing waits for it.
        let _ = self.events.send(event);
        self.queue.wake_writer();
    }
}
