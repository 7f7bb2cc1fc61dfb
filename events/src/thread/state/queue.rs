//! The place of a run in a queue.

use bincode::{Decode, Encode};
use serde::Serialize;

use super::State;
use crate::event::ThreadQueued;
use crate::ids::{Hash, Time};

/// The place of a run in a queue, also after it has begun.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize)]
pub struct QueuePlace {
    /// The queue, and the order in it.
    #[serde(flatten)]
    pub queued: ThreadQueued,
    /// Since when it has it.
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
    /// From when on it does not count.
    pub until: Time,
}

/// The state of a thread that concerns queues.
#[derive(Debug, Clone, PartialEq, Default, Encode, Decode)]
pub(in crate::thread) struct Queueing {
    pub(in crate::thread) place: Option<Box<QueuePlace>>,
    /// Whether the run began on a definition without a queue: it never joins one, even after a migration.
    pub(in crate::thread) is_exempt: bool,
    /// The starts of its runs that may still count for the rates of their queues, oldest first.
    pub(in crate::thread) starts: Vec<QueueStart>,
}

impl State {
    /// The place of the run in a queue; none if its workflow has no queue.
    pub fn queue_place(&self) -> Option<&QueuePlace> {
        self.queueing.place.as_deref()
    }

    /// The starts of its runs that may still count for the rates of their queues: the last 500.
    pub fn queue_starts(&self) -> &[QueueStart] {
        &self.queueing.starts
    }

    /// Whether the run is to join the queue of its workflow.
    pub(in crate::thread) fn joins_queue(&self) -> bool {
        let is_branch = self.branch().is_some_and(|branch| branch.owner.is_some());
        self.queueing.place.is_none() && !self.queueing.is_exempt && !is_branch && !self.run_has_ended()
    }

    /// Returns whether the run waits in a queue: no part of it begins, and its clocks are stopped.
    pub(in crate::thread) fn is_queued(&self) -> bool {
        self.queue_place().is_some_and(QueuePlace::is_waiting)
    }
}
