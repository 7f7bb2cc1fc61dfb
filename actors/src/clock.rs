//! The clock, and ids made from it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rethread_events::ids::{ThreadId, Time};

/// The current time. The runtime reads the clock only here.
pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_unix_us(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// An id for a new thread.
pub(crate) fn new_thread_id() -> ThreadId {
    ThreadId::from_bytes(*uuid::Uuid::now_v7().as_bytes())
}

/// A duration in whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
