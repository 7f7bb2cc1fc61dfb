//! The ends of threads, in memory for the callers that started them, so that these need not read the log.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rethread_events::ids::ThreadId;

use crate::waiters::Rest;

/// The most ends that are in memory at once.
const ENDS_MAX: usize = 4_096;
/// The largest end that is kept, by the bytes of the events that were read and appended for it.
const BYTES_MAX: usize = 16 << 10;

/// How often threads were deleted. The end of a thread is not kept if any thread was deleted while its actor existed:
/// it may have been this one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Deletions(u64);

/// The ends of threads whose starter may ask for them. Each is returned once.
#[derive(Debug, Default)]
pub(crate) struct RecentEnds(Mutex<Ends>);

#[derive(Debug, Default)]
struct Ends {
    /// By thread, with the number of callers that want its end.
    wanted: HashMap<ThreadId, (usize, Option<Box<Rest>>)>,
    n_held: usize,
    deletions: Deletions,
}

/// A caller that may ask for the end of a thread, until this is dropped.
#[derive(Debug)]
pub(crate) struct Wanted {
    ends: Arc<RecentEnds>,
    thread: ThreadId,
}

impl Drop for Wanted {
    fn drop(&mut self) {
        let mut ends = self.ends.0.lock();
        let Some((n, _)) = ends.wanted.get_mut(&self.thread) else { return };
        *n -= 1;
        if *n == 0 {
            let rest = ends.release(self.thread);
            ends.wanted.remove(&self.thread);
            drop(ends);
            drop(rest);
        }
    }
}

impl Ends {
    fn release(&mut self, thread: ThreadId) -> Option<Box<Rest>> {
        let rest = self.wanted.get_mut(&thread)?.1.take()?;
        self.n_held -= 1;
        Some(rest)
    }
}

impl RecentEnds {
    /// Registers a caller for the end of a thread that is about to start.
    pub(crate) fn want(self: &Arc<Self>, thread: ThreadId) -> Wanted {
        self.0.lock().wanted.entry(thread).or_default().0 += 1;
        Wanted { ends: self.clone(), thread }
    }

    /// Called when the actor of a thread starts: removes an end that was kept, since it is outdated.
    pub(crate) fn starts(&self, thread: ThreadId) -> Deletions {
        let mut ends = self.0.lock();
        let gone = ends.release(thread);
        let deletions = ends.deletions;
        drop(ends);
        drop(gone);
        deletions
    }

    /// Keeps the end of a thread, which is durable. `bytes` bounds its size; `since` is from the start of its actor,
    /// which is still registered.
    pub(crate) fn keep(&self, thread: ThreadId, bytes: usize, since: Deletions, rest: Rest) {
        let mut ends = self.0.lock();
        if bytes > BYTES_MAX || ends.deletions != since || ends.n_held >= ENDS_MAX {
            return;
        }
        if let Some((_, held @ None)) = ends.wanted.get_mut(&thread) {
            *held = Some(Box::new(rest));
            ends.n_held += 1;
        }
    }

    /// Removes the end of the thread and returns it, if it was kept.
    pub(crate) fn take(&self, thread: ThreadId) -> Option<Rest> {
        let rest = self.0.lock().release(thread);
        rest.map(|rest| *rest)
    }

    /// Called when threads were deleted: removes all ends, so that callers read the log.
    pub(crate) fn deleted(&self) {
        let mut ends = self.0.lock();
        ends.deletions.0 += 1;
        ends.n_held = 0;
        let gone: Vec<_> = ends.wanted.values_mut().filter_map(|(_, rest)| rest.take()).collect();
        drop(ends);
        drop(gone);
    }
}

#[cfg(test)]
mod tests;
