//! The sorted keys of threads in the log: what of a thread is found without reading it.
//!
//! Which keys a thread has follows from its state alone. Each append writes the difference together with the events, so
//! the keys in the log are always those of the durable state.

use rethread_events::event::{OnParentEnd, StartedByParent};
use rethread_events::ids::{Hash, RunId, Seq, ThreadId, Time};
use rethread_events::thread::{AwaitedRun, OpenCall, SignalRun, State, Status};
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
/// The first byte of keys of threads that wait for the end of a thread.
const THREAD: u8 = b'w';
/// The first byte of keys of children that may be cancelled with their parent.
const CHILD: u8 = b'c';
/// The first byte of keys of threads with branches whose final sums are not counted.
const UNCOUNTED: u8 = b'u';
/// What is between the names of fields in a key.
const FIELDS_APART: &str = "\u{1f}";

/// The keys that a thread in this state has. `search` names the variables by which its workflow lets it be found.
pub(crate) fn keys_of(state: &State, search: &[String]) -> Vec<Vec<u8>> {
    let mut keys = keys_of_waits(state);
    keys.extend(queue_keys::of(state));
    keys.extend(state.thread_wait().map(thread_key));
    keys.extend(child_key(state));
    keys.extend((!state.uncounted_branches().is_empty()).then(|| vec![UNCOUNTED]));
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

fn thread_key(run: &AwaitedRun) -> Vec<u8> {
    key_of_thread(run.thread)
}

fn key_of_thread(awaited: ThreadId) -> Vec<u8> {
    [&[THREAD], &awaited.as_bytes()[..]].concat()
}

/// Whether a wait for the end of a thread is among these keys.
pub(crate) fn has_thread_wait(keys: &[Vec<u8>]) -> bool {
    keys.iter().any(|key| key.first() == Some(&THREAD))
}

/// The key of a child that may be cancelled with its parent.
fn child_key(state: &State) -> Option<Vec<u8>> {
    ChildKey::of(state).map(|key| key.bytes())
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

/// A thread that is waited for, and one that waits for it.
pub(crate) type ThreadWait = (ThreadId, ThreadId);

/// Whether any thread waits for the end of a thread. Blocks.
pub(crate) fn has_thread_waits(store: &dyn LogReader) -> Result<bool, StoreError> {
    Ok(!store.keys(&KeyRange::prefix(&[THREAD]), None, 1)?.is_empty())
}

/// The threads that wait for the end of this one, after this one of them, at most `limit`. Blocks.
pub(crate) fn waiting_for(
    store: &dyn LogReader,
    awaited: ThreadId,
    after: Option<ThreadId>,
    limit: usize,
) -> Result<Vec<ThreadId>, StoreError> {
    let key = key_of_thread(awaited);
    let after = after.map(|waiter| (&key[..], waiter));
    let found = store.keys(&KeyRange::one(&key), after, limit)?;
    Ok(found.into_iter().map(|(_, waiter)| waiter).collect())
}

/// All waits for the end of a thread, after this one, at most `limit`. Blocks.
pub(crate) fn thread_waits(
    store: &dyn LogReader,
    after: Option<ThreadWait>,
    limit: usize,
) -> Result<Vec<ThreadWait>, StoreError> {
    let after = after.map(|(awaited, waiter)| (key_of_thread(awaited), waiter));
    let after = after.as_ref().map(|(key, waiter)| (&key[..], *waiter));
    let found = store.keys(&KeyRange::prefix(&[THREAD]), after, limit)?;
    Ok(found.into_iter().filter_map(|(key, waiter)| Some((thread_in(&key)?, waiter))).collect())
}

fn thread_in(key: &[u8]) -> Option<ThreadId> {
    Some(ThreadId::from_bytes(key.get(1..17)?.try_into().ok()?))
}

/// A child that may be cancelled when the run that started it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChildKey {
    pub(crate) parent: ThreadId,
    /// The run of the parent.
    pub(crate) run: RunId,
    pub(crate) policy: OnParentEnd,
    pub(crate) child: ThreadId,
}

impl ChildKey {
    pub(crate) fn new(child: ThreadId, by: &StartedByParent) -> Self {
        Self { parent: by.parent, run: by.run_id, policy: by.on_parent_end, child }
    }

    /// The key of this thread, if it is such a child and its first run goes on.
    pub(crate) fn of(state: &State) -> Option<Self> {
        let by = state.started_by().filter(|by| by.on_parent_end != OnParentEnd::Leave)?;
        let goes_on = state.run_number() == 1 && state.run_ended().is_none();
        goes_on.then(|| Self::new(state.thread(), by))
    }

    fn bytes(&self) -> Vec<u8> {
        let policy = match self.policy {
            OnParentEnd::Leave => 0,
            OnParentEnd::CancelIfCancelled => 1,
            OnParentEnd::Cancel => 2,
        };
        [&[CHILD], &self.parent.as_bytes()[..], &self.run.0.0.to_be_bytes(), &[policy]].concat()
    }

    fn read(key: &[u8], child: ThreadId) -> Option<Self> {
        let policy = match key.get(25)? {
            1 => OnParentEnd::CancelIfCancelled,
            2 => OnParentEnd::Cancel,
            _ => return None,
        };
        let run = RunId(Seq(u64::from_be_bytes(key.get(17..25)?.try_into().ok()?)));
        Some(Self { parent: thread_in(key)?, run, policy, child })
    }
}

/// The children of this thread, or of all, that may be cancelled with it, after this one, at most `limit`. Blocks.
pub(crate) fn children(
    store: &dyn LogReader,
    parent: Option<ThreadId>,
    after: Option<ChildKey>,
    limit: usize,
) -> Result<Vec<ChildKey>, StoreError> {
    let prefix = parent.map_or_else(|| vec![CHILD], |parent| [&[CHILD], &parent.as_bytes()[..]].concat());
    let after = after.map(|after| (after.bytes(), after.child));
    let after = after.as_ref().map(|(key, child)| (&key[..], *child));
    let found = store.keys(&KeyRange::prefix(&prefix), after, limit)?;
    Ok(found.into_iter().filter_map(|(key, child)| ChildKey::read(&key, child)).collect())
}

/// The threads with branches whose final sums are not counted, after this one, at most `limit`. Blocks.
pub(crate) fn uncounted(
    store: &dyn LogReader,
    after: Option<ThreadId>,
    limit: usize,
) -> Result<Vec<ThreadId>, StoreError> {
    let key = [UNCOUNTED];
    let found = store.keys(&KeyRange::one(&key), after.map(|thread| (&key[..], thread)), limit)?;
    Ok(found.into_iter().map(|(_, thread)| thread).collect())
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
