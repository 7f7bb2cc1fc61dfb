//! Whether threads of the log wait for the end of a thread: most logs have none, and pay nothing at the end of a thread.

use std::sync::atomic::{AtomicU8, Ordering};

const UNKNOWN: u8 = 0;
const NONE: u8 = 1;
const SOME: u8 = 2;

/// Whether threads of the log wait for the end of a thread.
#[derive(Default)]
pub(crate) struct ThreadWaits(AtomicU8);

impl ThreadWaits {
    /// Called before a wait is appended.
    pub(crate) fn begins(&self) {
        self.0.store(SOME, Ordering::SeqCst);
    }

    /// Returns false if no thread waits. `find` reads the log, and is called until the answer is known.
    pub(crate) fn may_have<E>(&self, find: impl FnOnce() -> Result<bool, E>) -> Result<bool, E> {
        match self.0.load(Ordering::SeqCst) {
            UNKNOWN => {
                let found = if find()? { SOME } else { NONE };
                // A wait that began meanwhile is known better.
                let _ = self.0.compare_exchange(UNKNOWN, found, Ordering::SeqCst, Ordering::SeqCst);
                Ok(self.0.load(Ordering::SeqCst) == SOME)
            }
            known => Ok(known == SOME),
        }
    }
}

#[cfg(test)]
mod tests;
