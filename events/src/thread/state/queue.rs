//! The queue of the run of a thread.

use super::{QueuePlace, QueueStart, State};

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
