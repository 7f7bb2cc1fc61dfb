//! Whether threads of the log wait for the end of a thread: most logs have none, and pay next to nothing at the end of a thread.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use rethread_events::ids::ThreadId;

const UNKNOWN: u8 = 0;
const NONE: u8 = 1;
const SOME: u8 = 2;

/// Whether threads of the log wait for the end of a thread.
#[derive(Default)]
pub(crate) struct ThreadWaits {
    state: AtomicU8,
    /// Whether other runtimes have the log: they add waits without notice.
    is_shared: bool,
    /// Threads that were activated because another thread waits for them.
    activated: Mutex<BTreeSet<ThreadId>>,
    /// Threads that ended, and whose waits are not looked up yet; `None` while no task looks them up.
    ended: Mutex<Option<Vec<ThreadId>>>,
}

impl ThreadWaits {
    pub(crate) fn new(is_shared: bool) -> Self {
        Self { is_shared, ..Self::default() }
    }

    /// Called before a wait is appended.
    pub(crate) fn begins(&self) {
        self.state.store(SOME, Ordering::SeqCst);
    }

    /// Whether this thread is to be activated because another thread waits for it: once, since threads that wait for
    /// each other would activate each other without end.
    pub(crate) fn activates(&self, thread: ThreadId) -> bool {
        self.activated.lock().insert(thread)
    }

    /// The thread could not be activated.
    pub(crate) fn not_activated(&self, thread: ThreadId) {
        self.activated.lock().remove(&thread);
    }

    /// Whether it is known that no thread waits. Does not block.
    pub(crate) fn has_none(&self) -> bool {
        self.state.load(Ordering::SeqCst) == NONE
    }

    /// Adds a thread that has ended. Returns true if no task takes such threads: the caller starts one.
    pub(crate) fn ended(&self, thread: ThreadId) -> bool {
        let mut ended = self.ended.lock();
        let is_first = ended.is_none();
        ended.get_or_insert_default().push(thread);
        is_first
    }

    /// Takes the threads that have ended since. After `None` the task that takes them ends.
    pub(crate) fn take_ended(&self) -> Option<Vec<ThreadId>> {
        let mut ended = self.ended.lock();
        let taken = ended.take().filter(|taken| !taken.is_empty());
        *ended = taken.is_some().then(Vec::new);
        taken
    }

    /// Returns false if no thread waits. `find` reads the log, and is called until the answer is known: where other runtimes
    /// have the log, until there is a wait.
    pub(crate) fn may_have<E>(&self, find: impl FnOnce() -> Result<bool, E>) -> Result<bool, E> {
        match self.state.load(Ordering::SeqCst) {
            UNKNOWN => {
                let found = match find()? {
                    true => SOME,
                    false if self.is_shared => UNKNOWN,
                    false => NONE,
                };
                // A wait that began meanwhile is known better.
                let _ = self.state.compare_exchange(UNKNOWN, found, Ordering::SeqCst, Ordering::SeqCst);
                Ok(self.state.load(Ordering::SeqCst) == SOME)
            }
            known => Ok(known == SOME),
        }
    }
}

#[cfg(test)]
mod tests;
