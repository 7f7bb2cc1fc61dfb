//! What the task that lets runs begin has to know: which queues have changed, and whether there is room.

use std::collections::HashSet;

use parking_lot::Mutex;
use rethread_store::KeyChange;
use tokio::sync::Notify;

use crate::stream_keys::QueueId;

/// Which queues have changed, and who waits for room.
#[derive(Default)]
pub(crate) struct ChangedQueues {
    pub(crate) wanted: Mutex<Wanted>,
    pub(crate) changed: Notify,
    /// The queues with runs that could begin if there were room in memory.
    waiting_for_room: Mutex<HashSet<QueueId>>,
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

    /// Any queue may have changed: the runtime starts, or an imported thread resumes here.
    pub(crate) fn all_changed(&self) {
        self.wanted.lock().all = true;
        self.changed.notify_one();
    }

    /// A thread has left the memory.
    pub(crate) fn has_room(&self) {
        let waiting = self.waiting_for_room.lock();
        if !waiting.is_empty() {
            self.wanted.lock().queues.extend(&*waiting);
            self.changed.notify_one();
        }
    }

    /// Records whether runs of a queue wait for room in memory.
    pub(crate) fn set_waiting_for_room(&self, queue: QueueId, waits: bool) {
        let mut waiting = self.waiting_for_room.lock();
        if waits {
            waiting.insert(queue);
        } else {
            waiting.remove(&queue);
        }
    }

    /// Whether runs wait for room in memory: a start that is not to wait is refused.
    pub(crate) fn wait_for_room(&self) -> bool {
        !self.waiting_for_room.lock().is_empty()
    }
}
