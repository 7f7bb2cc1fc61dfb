//! The place of a run in a queue.

use bincode::{Decode, Encode};
use serde::Serialize;

use crate::event::ThreadQueued;
use crate::ids::{Hash, Time};

/// The place of a run in a queue, also after it has begun.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize)]
pub struct QueuePlace {
    /// The queue, and the order in it.
    #[serde(flatten)]
    pub queued: ThreadQueued,
    /// When it joined the queue.
    pub since: Time,
    /// When the run began; absent while it waits.
    pub dequeued_at: Option<Time>,
}

impl QueuePlace {
    /// Whether the run waits.
    pub fn is_waiting(&self) -> bool {
        self.dequeued_at.is_none()
    }
}

/// A start that counts for the rate of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct QueueStart {
    /// The queue, as [`ThreadQueued::queue`] says it.
    pub queue: Hash,
    /// When the run began.
    pub at: Time,
    /// The end of its period: from then on it does not count.
    pub until: Time,
}

/// The state of a thread that concerns queues.
#[derive(Debug, Clone, PartialEq, Default, Encode, Decode)]
pub(in crate::thread) struct Queueing {
    pub(in crate::thread) place: Option<Box<QueuePlace>>,
    /// Whether the run began on a definition without a queue: it joins none, also on another definition.
    pub(in crate::thread) is_exempt: bool,
    /// The starts of its runs that may still count for the rates of their queues, oldest first.
    pub(in crate::thread) starts: Vec<QueueStart>,
}
