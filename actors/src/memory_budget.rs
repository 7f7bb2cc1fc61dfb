//! The memory budget for reports that the log has no room for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The memory budget for reports that the log has no room for; one for the whole runtime.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    bytes: AtomicUsize,
    bytes_max: usize,
}

/// A reserved part of the budget; released when it is dropped.
pub(crate) struct Reservation {
    room: Arc<MemoryBudget>,
    bytes: usize,
}

impl MemoryBudget {
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicUsize::new(0), bytes_max })
    }

    /// Reserves this many bytes; `None` if fewer are free.
    pub(crate) fn place(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let taken = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            taken.checked_add(bytes).filter(|taken| *taken <= self.bytes_max)
        });
        taken.ok().map(|_| Reservation { room: self.clone(), bytes })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.room.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
