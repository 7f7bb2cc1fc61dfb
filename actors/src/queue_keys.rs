//! The sorted keys of runs in queues: those that wait, in their order, and what the limits of a queue count.

use std::collections::HashMap;

use rethread_events::event::{QueueLimits, StartRate, ThreadQueued};
use rethread_events::ids::{Hash, ThreadId, Time};
use rethread_events::json::Json;
use rethread_events::thread::{State, Status};
use rethread_store::{KeyChange, KeyRange, LogReader, StoreError};
use serde::{Deserialize, Serialize};

/// The first byte of keys of runs that wait in a queue.
const QUEUED: u8 = b'q';
/// The first byte of keys of runs that have begun in the queue of a workflow, and have not ended.
const RUNNING: u8 = b'r';
/// The first byte of keys of starts that a rate counts.
const STARTED: u8 = b'b';

/// The keys of the queue that a thread in this state has.
pub(crate) fn of(state: &State) -> impl Iterator<Item = Vec<u8>> {
    let starts = state.queue_starts().iter().map(|start| start_key(QueueId::of(start.queue), start.at));
    of_run(state).into_iter().chain(starts)
}

/// The id of a queue in keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct QueueId([u8; QUEUE_BYTES]);

/// The length of the id: the first bytes of the hash of the queue.
const QUEUE_BYTES: usize = 16;

impl QueueId {
    fn of(queue: Hash) -> Self {
        let mut bytes = [0; QUEUE_BYTES];
        bytes.copy_from_slice(&queue.as_bytes()[..QUEUE_BYTES]);
        Self(bytes)
    }

    /// The queue of the runs that only wait for room in memory: those of all runtimes that have the log.
    pub(crate) fn of_room() -> Self {
        Self::of(ThreadQueued::queue_for_room())
    }

    /// Its place among the slots of threads.
    pub(crate) fn place(self) -> ThreadId {
        ThreadId::from_bytes(self.0)
    }

    fn prefix(self, kind: u8) -> Vec<u8> {
        [&[kind], &self.0[..]].concat()
    }

    /// Returns the queues whose keys are among these changes.
    pub(crate) fn changed(changes: &[KeyChange]) -> impl Iterator<Item = Self> {
        changes.iter().filter_map(|change| {
            let (KeyChange::Add(key) | KeyChange::Remove(key)) = change;
            let (kind, rest) = key.split_first()?;
            let bytes = rest.get(..QUEUE_BYTES).filter(|_| matches!(*kind, QUEUED | RUNNING))?;
            Some(Self(bytes.try_into().ok()?))
        })
    }
}

/// A queued run, decoded from its key. Keys sort in the order in which the runs of one group begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueuedKey {
    pub(crate) thread: ThreadId,
    /// The priority, reversed: a smaller rank begins first.
    rank: u64,
    group: u64,
    /// Since when it waits.
    pub(crate) since: Time,
    pub(crate) not_before: Time,
    pub(crate) limits: QueueLimits,
}

fn of_run(state: &State) -> Option<Vec<u8>> {
    let place = state.queue_place().filter(|_| !state.is_ended())?;
    let (queued, queue) = (&place.queued, QueueId::of(place.queued.queue()));
    if !place.is_waiting() {
        // Also without a limit: a later definition of the workflow may have one.
        return queued.workflow.is_some().then(|| queue.prefix(RUNNING));
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
    group.map_or(0, |group| Hash::of(group.0.to_string().as_bytes()).number())
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
        // The last run of each group that was read.
        let mut last: HashMap<u64, (Vec<u8>, ThreadId)> = HashMap::new();
        let mut n_without = 0;
        // Until none of the groups has another run.
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
