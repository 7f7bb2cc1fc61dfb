//! Notifications for the task that starts queued runs: which queues have changed, and which wait for room in memory.

use std::collections::HashSet;

use parking_lot::Mutex;
use rethread_store::KeyChange;
use tokio::sync::Notify;

use crate::queue_keys::QueueId;

/// The queues that have changed, and those that wait for room in memory.
#[derive(Default)]
pub(crate) struct ChangedQueues {
    pub(crate) wanted: Mutex<Wanted>,
    pub(crate) changed: Notify,
    /// The queues with runs that could begin if there were room in memory.
    waiting_for_room: Mutex<HashSet<QueueId>>,
    /// How many places in memory are reserved for runs that are being started.
    pub(crate) beginning: Mutex<usize>,
}

/// The queues to serve.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) all: bool,
    pub(crate) queues: HashSet<QueueId>,
}

impl ChangedQueues {
    /// Called when changes of the keys of a stream are durable.
    pub(crate) fn keys_changed(&self, changes: &[KeyChange]) {
        let mut queues = QueueId::changed(changes).peekable();
        if queues.peek().is_some() {
            self.wanted.lock().queues.extend(queues);
            self.changed.notify_one();
        }
    }

    /// Called when a queue has changed at another runtime.
    pub(crate) fn changed_elsewhere(&self, queue: QueueId) {
        self.wanted.lock().queues.insert(queue);
        self.changed.notify_one();
    }

    /// Called when any queue may have changed: the runtime starts or gets slots, or an imported thread resumes here.
    pub(crate) fn all_changed(&self) {
        self.wanted.lock().all = true;
        self.changed.notify_one();
    }

    /// Called when a thread has left memory.
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

    /// Returns whether runs wait for room in memory. Then a start that does not wait is refused.
    pub(crate) fn wait_for_room(&self) -> bool {
        !self.waiting_for_room.lock().is_empty()
    }
}
