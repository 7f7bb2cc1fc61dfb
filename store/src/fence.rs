//! Fences: after an append of a stream failed, nothing more is taken for it until its caller has seen the failure.
//!
//! A caller may queue an append before the one before it was answered. When that one fails, the next was decided
//! without knowing it, and must fail too, even if its expectation happens to hold because another writer
//! appended meanwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rethread_events::ids::ThreadId;

use crate::error::StoreError;

/// The streams with failures that were not seen yet, and how many.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fences {
    raised: Arc<Mutex<HashMap<ThreadId, usize>>>,
    /// How many streams are in the map: every append asks, and hardly ever is there one.
    n: Arc<AtomicUsize>,
}

impl Fences {
    pub(crate) fn is_raised(&self, thread: ThreadId) -> bool {
        // The count is stored before the writer asks for the queue's next ticket: an append that does not see it has
        // an earlier one, and the writer refuses those.
        self.n.load(Ordering::SeqCst) > 0 && self.raised.lock().contains_key(&thread)
    }

    /// The failure on its way to the caller; the fence stays until it was taken or dropped.
    pub(crate) fn raise(&self, thread: ThreadId, error: StoreError) -> Refusal {
        let mut raised = self.raised.lock();
        *raised.entry(thread).or_insert(0) += 1;
        self.n.store(raised.len(), Ordering::SeqCst);
        drop(raised);
        Refusal { error: Some(error), thread, fences: self.clone() }
    }
}

/// A failure that was not seen yet.
#[derive(Debug)]
pub(crate) struct Refusal {
    error: Option<StoreError>,
    thread: ThreadId,
    fences: Fences,
}

impl Refusal {
    pub(crate) fn into_error(mut self) -> StoreError {
        self.error.take().unwrap_or(StoreError::Closed)
    }
}

impl Drop for Refusal {
    fn drop(&mut self) {
        let mut raised = self.fences.raised.lock();
        if let Some(count) = raised.get_mut(&self.thread) {
            *count -= 1;
            if *count == 0 {
                raised.remove(&self.thread);
                self.fences.n.store(raised.len(), Ordering::SeqCst);
            }
        }
    }
}
