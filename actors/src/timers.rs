//! Deadlines of threads that are not live: a thread that waits for a person costs an entry here and nothing else.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rethread_events::ids::{ThreadId, Time};
use tokio::sync::Notify;

use crate::clock;

/// The longest sleep before the clock is checked.
const SLEEP_MAX: Duration = Duration::from_secs(30);

/// How often the clock is checked while timers in the log are pending.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Returns how long to sleep before the next check of the clock. The clock that measures sleeps stops while the machine
/// sleeps, and does not follow when the time is set: a long wait is slept in parts.
pub(crate) fn until(at: Time, now: Time) -> Duration {
    Duration::from_micros(at.unix_us().saturating_sub(now.unix_us())).min(SLEEP_MAX)
}

#[derive(Default)]
pub(crate) struct Timers {
    due: Mutex<Due>,
    changed: Notify,
}

#[derive(Default)]
struct Due {
    by_time: BTreeSet<(Time, ThreadId)>,
    by_thread: HashMap<ThreadId, Time>,
}

impl Timers {
    /// Wakes the thread at that time, or at the time set before if that is earlier: the call of an actor that leaves
    /// may come after that of its successor, which came and left meanwhile.
    pub(crate) fn set(&self, thread: ThreadId, at: Time) {
        let mut due = self.due.lock();
        if due.by_thread.get(&thread).is_some_and(|before| *before <= at) {
            return;
        }
        due.remove(thread);
        let first = due.by_time.first().is_none_or(|(earliest, _)| at < *earliest);
        due.by_time.insert((at, thread));
        due.by_thread.insert(thread, at);
        drop(due);
        if first {
            self.changed.notify_one();
        }
    }

    /// Removes the timer of the thread.
    pub(crate) fn clear(&self, thread: ThreadId) {
        self.due.lock().remove(thread);
    }

    /// Returns the threads that are due, and the time of the next one.
    pub(crate) fn take_due(&self, now: Time) -> (Vec<ThreadId>, Option<Time>) {
        let mut due = self.due.lock();
        let mut threads = Vec::new();
        while let Some(&(at, thread)) = due.by_time.first() {
            if at > now {
                return (threads, Some(at));
            }
            due.remove(thread);
            threads.push(thread);
        }
        (threads, None)
    }

    /// Waits until an earlier time is set.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// The time of the next timer in the log, as far as it was read.
#[derive(Default)]
pub(crate) struct NextInLog {
    next: Mutex<Option<Time>>,
    is_anew: AtomicBool,
    earlier: Notify,
}

impl NextInLog {
    /// The timers of the log are to be read from the first one on.
    pub(crate) fn begin_again(&self) {
        self.is_anew.store(true, Ordering::Release);
        self.earlier.notify_one();
    }

    /// Whether they are, since the last call.
    pub(crate) fn begins_again(&self) -> bool {
        self.is_anew.swap(false, Ordering::AcqRel)
    }

    /// Records that the log has a timer for this time.
    pub(crate) fn added(&self, at: Time) {
        if self.next.lock().is_none_or(|next| at < next) {
            self.earlier.notify_one();
        }
    }

    /// Waits until the clock reaches this time, or the log gets an earlier timer.
    pub(crate) async fn wait(&self, next: Option<Time>) {
        *self.next.lock() = next;
        loop {
            let now = clock::now();
            if next.is_some_and(|next| next <= now) {
                return;
            }
            // Short parts: a clock that is set forward is noticed soon.
            let wait = next.map_or(CLOCK_CHECK_INTERVAL, |next| until(next, now).min(CLOCK_CHECK_INTERVAL));
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.earlier.notified() => return,
            }
        }
    }
}

impl Due {
    fn remove(&mut self, thread: ThreadId) {
        if let Some(at) = self.by_thread.remove(&thread) {
            self.by_time.remove(&(at, thread));
        }
    }
}

#[cfg(test)]
mod tests;
