//! What the task that lets runs begin has to know: which queues have changed, and whether there is room.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rethread_store::KeyChange;
use tokio::sync::Notify;

use crate::stream_keys::QueueId;

/// Which queues have changed, and who waits for room.
#[derive(Default)]
pub(crate) struct ChangedQueues {
    pub(crate) wanted: Mutex<Wanted>,
    pub(crate) changed: Notify,
    pub(crate) waits_for_room: AtomicBool,
    /// How many runs are about to begin.
    pub(crate) beginning: Mutex<usize>,
}

/// The queues that are to be looked at.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) all: bool,
    pub(crate) queues: HashSet<QueueId>,
}

impl ChangedQueues {
    /// These keys of a stream have changed, durably.
    pub(crate) fn keys_changed(&self, changes: &[KeyChange]) {
        let mut queues = QueueId::changed(changes).peekable();
        if queues.peek().is_some() {
            self.wanted.lock().queues.extend(queues);
            self.changed.notify_one();
        }
    }

    /// Anything may have changed: threads were deleted or imported.
    pub(crate) fn all_changed(&self) {
        self.wanted.lock().all = true;
        self.changed.notify_one();
    }

    /// A thread has left the memory.
    pub(crate) fn has_room(&self) {
        if self.waits_for_room.load(Ordering::Relaxed) {
            self.all_changed();
        }
    }

    /// Whether runs wait for room in memory: a start that is not to wait is refused.
    pub(crate) fn wait_for_room(&self) -> bool {
        self.waits_for_room.load(Ordering::Relaxed)
    }
}
