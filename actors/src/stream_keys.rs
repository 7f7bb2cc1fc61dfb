//! The sorted keys of threads in the log: what of a thread is found without reading it.
//!
//! Which keys a thread has follows from its state alone. Each append writes the difference together with the events, so
//! the keys in the log are always those of the durable state.

use rethread_events::ids::{Hash, ThreadId, Time};
use rethread_events::thread::{OpenCall, SignalRun, State, Status};
use rethread_events::workflow::search_entry;
use rethread_store::{KeyChange, KeyRange, LogReader, StoreError};
use serde_json::Value;

use crate::queue_keys;

/// The first byte of keys that hold the time at which a suspended thread goes on.
const TIMER: u8 = b't';
/// The first byte of keys of threads that wait for a signal.
const SIGNAL: u8 = b's';
/// The first byte of keys of threads with a search attribute.
const SEARCH: u8 = b'a';
/// What is between the names of fields in a key.
const FIELDS_APART: &str = "\u{1f}";

/// The keys that a thread in this state has. `search` names the variables by which its workflow lets it be found.
pub(crate) fn keys_of(state: &State, search: &[String]) -> Vec<Vec<u8>> {
    let mut keys = keys_of_waits(state);
    keys.extend(queue_keys::of(state));
    // Empty for nearly all workflows, so that they pay nothing.
    if !search.is_empty() && state.branch().is_none_or(|branch| branch.owner.is_none()) {
        let variables = state.variables();
        let entries = search.iter().filter_map(|name| search_entry(name, &variables.get(name)?.0));
        keys.extend(entries.map(search_key));
    }
    keys
}

/// Whether a thread in this state is activated by what its keys in the log lead to: it costs no memory meanwhile.
pub(crate) fn is_activated_by_keys(state: &State) -> bool {
    matches!(state.status(), Status::Suspended | Status::Queued)
}

/// Whether the time at which the thread goes on is among its keys.
pub(crate) fn has_timer(keys: &[Vec<u8>]) -> bool {
    keys.iter().any(|key| key.first() == Some(&TIMER))
}

/// The key of threads with an entry of a search attribute. Nothing of the value can be read in it.
pub(crate) fn search_key(entry: Hash) -> Vec<u8> {
    [&[SEARCH], &entry.as_bytes()[..]].concat()
}

fn keys_of_waits(state: &State) -> Vec<Vec<u8>> {
    match state.status() {
        Status::Suspended => {
            let timer = state.next_deadline().map(timer_key);
            timer.into_iter().chain(awaited_signals(state)).collect()
        }
        // A signal is received at any time, a pause included.
        Status::Pending
        | Status::Running
        | Status::Waiting
        | Status::Paused
        | Status::Completed
        | Status::Cancelled
        | Status::Error
        | Status::Interrupted
        | Status::Queued => awaited_signals(state).collect(),
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

fn awaited_signals(state: &State) -> impl Iterator<Item = Vec<u8>> {
    state.open_calls().iter().filter(|open| open.is_wanted()).filter_map(OpenCall::signal).map(signal_key)
}

/// The key of a thread that waits for a signal: its name, the names of the fields that it is found by, and the hash of their
/// values. Names hold no zero byte.
fn signal_key(run: &SignalRun) -> Vec<u8> {
    let fields: Vec<_> = run.fields.keys().map(String::as_str).collect();
    let mut sorted = fields.clone();
    sorted.sort_unstable();
    let values: Vec<_> = sorted.iter().map(|field| run.fields.get(*field).map(|value| &*value.0)).collect();
    key_of_signal(&run.name, &sorted, &values)
}

fn key_of_signal(name: &str, fields: &[&str], values: &[Option<&Value>]) -> Vec<u8> {
    let mut key = signals_of(name);
    key.extend(fields.join(FIELDS_APART).as_bytes());
    key.push(0);
    key.extend(Hash::of(serde_json::to_string(values).unwrap_or_default().as_bytes()).as_bytes());
    key
}

fn signals_of(name: &str) -> Vec<u8> {
    [&[SIGNAL], name.as_bytes(), &[0]].concat()
}

/// The threads that wait for a signal with this payload, at most `limit`. Blocks. Costs two look-ups for each set of fields
/// that signals of this name are found by, and what it returns.
pub(crate) fn awaiting(
    store: &dyn LogReader,
    name: &str,
    payload: &Value,
    limit: usize,
) -> Result<Vec<ThreadId>, StoreError> {
    let prefix = signals_of(name);
    let mut range = KeyRange::prefix(&prefix);
    let mut threads = Vec::new();
    while let Some((first, _)) = store.keys(&range, None, 1)?.pop() {
        let rest = first.get(prefix.len()..).unwrap_or_default();
        let fields = rest.split(|byte| *byte == 0).next().unwrap_or_default();
        let names = String::from_utf8_lossy(fields);
        let names: Vec<_> = names.split(FIELDS_APART).filter(|name| !name.is_empty()).collect();
        let values: Option<Vec<_>> = names.iter().map(|name| payload.get(*name).map(Some)).collect();
        if let Some(values) = values {
            let wanted = KeyRange::one(&key_of_signal(name, &names, &values));
            let found = store.keys(&wanted, None, limit.saturating_sub(threads.len()))?;
            threads.extend(found.into_iter().map(|(_, thread)| thread));
        }
        if threads.len() >= limit {
            break;
        }
        // Past all keys with these fields.
        range.start = [&prefix[..], fields, &[1]].concat();
    }
    Ok(threads)
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
