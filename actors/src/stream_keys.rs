//! The sorted keys of threads in the log: what of a thread is found without reading it.
//!
//! Which keys a thread has follows from its state alone. Each append writes the difference together with the events, so
//! the keys in the log are always those of the durable state.

use rethread_events::ids::{ThreadId, Time};
use rethread_events::thread::{State, Status};
use rethread_store::{KeyChange, KeyRange, LogReader, StoreError};

/// The first byte of keys that hold the time at which a suspended thread goes on.
const TIMER: u8 = b't';

/// The keys that a thread in this state has.
pub(crate) fn keys_of(state: &State) -> Vec<Vec<u8>> {
    match state.status() {
        Status::Suspended => state.next_deadline().map(timer_key).into_iter().collect(),
        Status::Pending
        | Status::Running
        | Status::Waiting
        | Status::Paused
        | Status::Completed
        | Status::Cancelled
        | Status::Error
        | Status::Interrupted => Vec::new(),
    }
}

/// What leads from these keys to those.
pub(crate) fn changes(before: &[Vec<u8>], after: &[Vec<u8>]) -> Vec<KeyChange> {
    let gone = before.iter().filter(|key| !after.contains(key)).cloned().map(KeyChange::Remove);
    gone.chain(after.iter().filter(|key| !before.contains(key)).cloned().map(KeyChange::Add)).collect()
}

fn timer_key(at: Time) -> Vec<u8> {
    let mut key = vec![TIMER];
    key.extend(at.unix_us().to_be_bytes());
    key
}

/// A suspended thread, and when it goes on.
pub(crate) type Timer = (Time, ThreadId);

/// Suspended threads after this one, the next to go on first, at most `limit`. Blocks.
pub(crate) fn timers(store: &dyn LogReader, after: Option<Timer>, limit: usize) -> Result<Vec<Timer>, StoreError> {
    let after = after.map(|(at, thread)| (timer_key(at), thread));
    let after = after.as_ref().map(|(key, thread)| (&key[..], *thread));
    let time_of = |(key, thread): (Vec<u8>, ThreadId)| {
        let bytes = key.get(1..)?.try_into().ok()?;
        Some((Time::from_unix_us(u64::from_be_bytes(bytes)), thread))
    };
    let found = store.keys(&KeyRange::prefix(&[TIMER]), after, limit)?;
    Ok(found.into_iter().filter_map(time_of).collect())
}

#[cfg(test)]
mod tests;
