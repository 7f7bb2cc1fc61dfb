//! What threads came to, held in memory for the callers that started them: who asks after the end need not read the log.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rethread_events::ids::ThreadId;

use crate::waiters::Rest;

/// The most ends that are held at once.
const ENDS_MAX: usize = 4_096;
/// The largest that is held, by the bytes of the events that were read and appended for it.
const BYTES_MAX: usize = 16 << 10;

/// How often threads were deleted. The end of a thread is not held if any thread was deleted in its actor's life: it may
/// have been this one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Deletions(u64);

/// The ends of threads whose starter may ask for them. Each is handed out once.
#[derive(Debug, Default)]
pub(crate) struct RecentEnds(Mutex<Ends>);

#[derive(Debug, Default)]
struct Ends {
    /// By the threads that are wanted, as many times as they are.
    wanted: HashMap<ThreadId, (usize, Option<Box<Rest>>)>,
    n_held: usize,
    deletions: Deletions,
}

/// A caller may ask for the end of a thread, until this is dropped.
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
    /// The end of a thread that is about to start is wanted.
    pub(crate) fn want(self: &Arc<Self>, thread: ThreadId) -> Wanted {
        self.0.lock().wanted.entry(thread).or_default().0 += 1;
        Wanted { ends: self.clone(), thread }
    }

    /// The actor of a thread starts: an end that is held is the past.
    pub(crate) fn starts(&self, thread: ThreadId) -> Deletions {
        let mut ends = self.0.lock();
        let gone = ends.release(thread);
        let deletions = ends.deletions;
        drop(ends);
        drop(gone);
        deletions
    }

    /// The thread has ended, durably. `bytes` bounds its size; `since` is from the start of its actor, which the
    /// registry still has.
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

    /// What the thread came to, if it is held; it is not held any more.
    pub(crate) fn take(&self, thread: ThreadId) -> Option<Rest> {
        let rest = self.0.lock().release(thread);
        rest.map(|rest| *rest)
    }

    /// Threads were deleted: the log says which are left.
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
