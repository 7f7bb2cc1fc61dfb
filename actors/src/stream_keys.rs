//! The sorted keys of threads in the log: what of a thread is found without reading it.
//!
//! Which keys a thread has follows from its state alone. Each append writes the difference together with the events, so
//! the keys in the log are always those of the durable state.

use rethread_events::event::{QueueLimits, StartRate};
use rethread_events::ids::{Hash, ThreadId, Time};
use rethread_events::json::Json;
use rethread_events::thread::{OpenCall, SignalRun, State, Status};
use rethread_events::workflow::search_entry;
use rethread_store::{KeyChange, KeyRange, LogReader, StoreError};
use serde_json::Value;
use std::collections::HashMap;

/// The first byte of keys that hold the time at which a suspended thread goes on.
const TIMER: u8 = b't';
/// The first byte of keys of threads that wait for a signal.
const SIGNAL: u8 = b's';
/// The first byte of keys of runs that wait in a queue.
const QUEUED: u8 = b'q';
/// The first byte of keys of runs that have begun in a queue with a limit of concurrency, and have not ended.
const RUNNING: u8 = b'r';
/// The first byte of keys of starts that a rate counts.
const STARTED: u8 = b'b';
/// The first byte of keys of threads with a search attribute.
const SEARCH: u8 = b'a';
/// What is between the names of fields in a key.
const FIELDS_APART: &str = "\u{1f}";

/// The keys that a thread in this state has. `search` names the variables by which its workflow lets it be found.
pub(crate) fn keys_of(state: &State, search: &[String]) -> Vec<Vec<u8>> {
    let mut keys = keys_of_waits(state);
    keys.extend(of_queue(state));
    keys.extend(state.queue_starts().iter().map(|start| start_key(QueueId::of(start.queue), start.at)));
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

/// What a queue is known by in keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QueueId([u8; QUEUE_BYTES]);

/// How many bytes of the hash of a queue are in keys.
const QUEUE_BYTES: usize = 16;

impl QueueId {
    fn of(queue: Hash) -> Self {
        let mut bytes = [0; QUEUE_BYTES];
        bytes.copy_from_slice(&queue.as_bytes()[..QUEUE_BYTES]);
        Self(bytes)
    }

    fn prefix(self, kind: u8) -> Vec<u8> {
        [&[kind], &self.0[..]].concat()
    }

    /// The queues that these changes of keys are of.
    pub(crate) fn changed(changes: &[KeyChange]) -> impl Iterator<Item = Self> {
        changes.iter().filter_map(|change| {
            let (KeyChange::Add(key) | KeyChange::Remove(key)) = change;
            let (kind, rest) = key.split_first()?;
            let bytes = rest.get(..QUEUE_BYTES).filter(|_| matches!(*kind, QUEUED | RUNNING))?;
            Some(Self(bytes.try_into().ok()?))
        })
    }
}

/// A run that waits in a queue, as its key says it: in this order they begin, but for groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueuedKey {
    pub(crate) thread: ThreadId,
    /// Larger for a smaller priority.
    rank: u64,
    group: u64,
    /// Since when it waits.
    pub(crate) since: Time,
    pub(crate) not_before: Time,
    pub(crate) limits: QueueLimits,
}

fn of_queue(state: &State) -> Option<Vec<u8>> {
    let place = state.queue_place().filter(|_| !state.is_ended())?;
    let (queued, queue) = (&place.queued, QueueId::of(place.queued.queue()));
    if !place.is_waiting() {
        return queued.limits.concurrency.is_some().then(|| queue.prefix(RUNNING));
    }
    if state.status() != Status::Queued {
        return None;
    }
    let mut key = queue.prefix(QUEUED);
    // The order of signed numbers, reversed.
    key.extend((!(queued.priority as u64 ^ (1 << 63))).to_be_bytes());
    key.extend(group_of(queued.group.as_ref()).to_be_bytes());
    key.extend(place.since.unix_us().to_be_bytes());
    key.extend(queued.not_before.unwrap_or_default().unix_us().to_be_bytes());
    let QueueLimits { concurrency, rate, debounce } = queued.limits;
    key.extend(concurrency.unwrap_or(u32::MAX).to_be_bytes());
    key.extend(rate.map_or(0, |rate| rate.starts).to_be_bytes());
    key.extend(rate.map_or(0, |rate| rate.per_ms).to_be_bytes());
    key.push(u8::from(debounce));
    Some(key)
}

fn group_of(group: Option<&Json>) -> u64 {
    let Some(group) = group else { return 0 };
    let hash = Hash::of(group.0.to_string().as_bytes());
    hash.as_bytes().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn queued_key((key, thread): (Vec<u8>, ThreadId)) -> Option<QueuedKey> {
    fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
        let (taken, left) = rest.split_first_chunk()?;
        *rest = left;
        Some(*taken)
    }
    let mut rest = key.get(1 + QUEUE_BYTES..)?;
    let (rank, group) = (u64::from_be_bytes(take(&mut rest)?), u64::from_be_bytes(take(&mut rest)?));
    let since = Time::from_unix_us(u64::from_be_bytes(take(&mut rest)?));
    let not_before = Time::from_unix_us(u64::from_be_bytes(take(&mut rest)?));
    let concurrency = Some(u32::from_be_bytes(take(&mut rest)?)).filter(|n| *n < u32::MAX);
    let (starts, per_ms) = (u32::from_be_bytes(take(&mut rest)?), u64::from_be_bytes(take(&mut rest)?));
    let rate = (starts > 0).then_some(StartRate { starts, per_ms });
    let [debounce] = take(&mut rest)?;
    let limits = QueueLimits { concurrency, rate, debounce: debounce != 0 };
    Some(QueuedKey { thread, rank, group, since, not_before, limits })
}

fn start_key(queue: QueueId, at: Time) -> Vec<u8> {
    let mut key = queue.prefix(STARTED);
    key.extend(at.unix_us().to_be_bytes());
    key
}

/// The queues with runs that wait, from the first after `after` on, at most `limit`. Blocks. Costs a look-up for each.
pub(crate) fn queues(store: &dyn LogReader, after: Option<QueueId>, limit: usize) -> Result<Vec<QueueId>, StoreError> {
    let mut range = KeyRange::prefix(&[QUEUED]);
    if let Some(next) = after.map(|after| KeyRange::prefix(&after.prefix(QUEUED)).end) {
        range.start = next.unwrap_or_else(|| vec![QUEUED + 1]);
    }
    let mut queues = Vec::new();
    while queues.len() < limit
        && let Some((key, _)) = store.keys(&range, None, 1)?.pop()
    {
        let Some(bytes) = key.get(1..=QUEUE_BYTES).and_then(|bytes| bytes.try_into().ok()) else { break };
        queues.push(QueueId(bytes));
        range.start = KeyRange::prefix(&QueueId(bytes).prefix(QUEUED)).end.unwrap_or_else(|| vec![QUEUED + 1]);
    }
    Ok(queues)
}

/// The first runs that wait in a queue, at most `limit`. Blocks.
pub(crate) fn queued(store: &dyn LogReader, queue: QueueId, limit: usize) -> Result<Vec<QueuedKey>, StoreError> {
    let found = store.keys(&KeyRange::prefix(&queue.prefix(QUEUED)), None, limit)?;
    Ok(found.into_iter().filter_map(queued_key).collect())
}

/// How many runs of a queue have begun and not ended; at most `limit`. Blocks.
pub(crate) fn n_running(store: &dyn LogReader, queue: QueueId, limit: usize) -> Result<usize, StoreError> {
    Ok(store.keys(&KeyRange::prefix(&queue.prefix(RUNNING)), None, limit)?.len())
}

/// The starts of a queue from this time on, oldest first, at most `limit`. Blocks.
pub(crate) fn starts(store: &dyn LogReader, queue: QueueId, from: Time, limit: usize) -> Result<Vec<Time>, StoreError> {
    let range = KeyRange { start: start_key(queue, from), ..KeyRange::prefix(&queue.prefix(STARTED)) };
    let time_of = |(key, _): (Vec<u8>, ThreadId)| {
        let bytes = key.get(1 + QUEUE_BYTES..)?.try_into().ok()?;
        Some(Time::from_unix_us(u64::from_be_bytes(bytes)))
    };
    Ok(store.keys(&range, None, limit)?.into_iter().filter_map(time_of).collect())
}

/// The group of a queue whose run began last.
pub(crate) type Turn = u64;

/// The next runs of a queue, at most `n`, without those that `is_left_out`: those of the largest priority first, and of the
/// same priority one of each group in turn, the group after `turn` first. Blocks. Costs two look-ups for each run.
pub(crate) fn next_in_queue(
    store: &dyn LogReader,
    queue: QueueId,
    mut turn: Turn,
    n: usize,
    is_left_out: impl Fn(ThreadId) -> bool,
) -> Result<Vec<(ThreadId, Turn)>, StoreError> {
    let prefix = queue.prefix(QUEUED);
    let end = KeyRange::prefix(&prefix).end;
    let key_at =
        |parts: &[u64]| parts.iter().fold(prefix.clone(), |key, part| [&key[..], &part.to_be_bytes()].concat());
    let first = |start: Vec<u8>| -> Result<Option<QueuedKey>, StoreError> {
        Ok(store.keys(&KeyRange { start, end: end.clone() }, None, 1)?.pop().and_then(queued_key))
    };
    let mut chosen: Vec<(ThreadId, Turn)> = Vec::new();
    let mut rank = first(prefix.clone())?.map(|head| head.rank);
    while let Some(of_rank) = rank.filter(|_| chosen.len() < n) {
        // The last run of each group that was looked at.
        let mut last: HashMap<u64, (Vec<u8>, ThreadId)> = HashMap::new();
        let mut n_without = 0;
        // Until all groups that were met have no more.
        while chosen.len() < n && n_without <= last.len() {
            let next = match turn.checked_add(1) {
                Some(next) => first(key_at(&[of_rank, next]))?.filter(|next| next.rank == of_rank),
                None => None,
            };
            let next = match next {
                Some(next) => Some(next),
                None => first(key_at(&[of_rank]))?.filter(|next| next.rank == of_rank),
            };
            let Some(QueuedKey { group, .. }) = next else { break };
            turn = group;
            let of_group = KeyRange::prefix(&key_at(&[of_rank, group]));
            n_without += 1;
            loop {
                let after = last.get(&group).map(|(key, thread)| (&key[..], *thread));
                let Some((key, thread)) = store.keys(&of_group, after, 1)?.pop() else { break };
                last.insert(group, (key, thread));
                if !is_left_out(thread) {
                    n_without = 0;
                    chosen.push((thread, group));
                    break;
                }
            }
        }
        rank = match of_rank.checked_add(1) {
            Some(next) => first(key_at(&[next]))?.map(|next| next.rank),
            None => None,
        };
    }
    Ok(chosen)
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
