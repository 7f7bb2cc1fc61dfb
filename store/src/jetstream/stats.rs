//! What is counted for those who operate the log.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::error::StoreError;
use crate::stream_metrics::Durations;

/// Counts since the log was opened.
#[derive(Default)]
pub(super) struct Stats {
    pub(super) taken_out: AtomicU64,
    pub(super) behind: AtomicU64,
    pub(super) in_doubt: AtomicU64,
    pub(super) unavailable: AtomicU64,
    writes: Mutex<Durations>,
}

impl Stats {
    pub(super) fn applied(&self, took: Duration) {
        self.writes.lock().add(took);
    }

    pub(super) fn failed(&self, error: &StoreError) {
        let counter = match error {
            StoreError::InDoubt { .. } => &self.in_doubt,
            StoreError::Unavailable { .. } => &self.unavailable,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn writes(&self) -> Durations {
        self.writes.lock().clone()
    }
}
