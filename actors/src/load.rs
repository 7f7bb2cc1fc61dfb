//! Loads a thread: folds the log to a state, for running it or for reading it.

use std::ops::Range;

use rethread_events::codec;
use rethread_events::event::Event;
use rethread_events::ids::{Hash, Position, Seq, ThreadId};
use rethread_events::thread::{STATE_VERSION, State};
use rethread_store::{LogReader, Record, Snapshot, StoreError, StreamInfo};

use crate::error::{ReadError, RuntimeError};
use crate::kept_states::KeptStates;
use crate::short_steps::ShortSteps;
use crate::snapshots;

/// A state and its position in the log.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(crate) state: State,
    pub(crate) last_position: Position,
    pub(crate) last_hash: Hash,
    /// The seq of the snapshot that the fold started from.
    pub(crate) snapshot: Option<Seq>,
    /// How many bytes were read for it: the snapshot and the payloads of the events after it.
    pub(crate) bytes: usize,
    /// The last steps of the thread, if it was in memory.
    pub(crate) short_steps: ShortSteps,
}

/// Returns the state of a thread after its last event, from a snapshot if a good one exists. Blocks.
pub(crate) fn present(store: &dyn LogReader, thread: ThreadId) -> Result<Loaded, ReadError> {
    let info = stream(store, thread)?;
    to(store, &info, info.last_seq)
}

/// As [`present`], from one of these states if one is of this thread. Blocks. For repeated reads of a thread.
pub(crate) fn present_from(store: &dyn LogReader, thread: ThreadId, kept: &KeptStates) -> Result<Loaded, ReadError> {
    let last = stream(store, thread)?.last_seq;
    at_from(store, thread, last, kept)
}

/// Returns the state of a thread after event `seq`, from one of these states if one is of this thread and before it.
/// Blocks. Passes each state on the way that should be cached to the callback.
pub(crate) fn at_from(
    store: &dyn LogReader,
    thread: ThreadId,
    seq: Seq,
    kept: &KeptStates,
) -> Result<Loaded, ReadError> {
    let info = stream(store, thread)?;
    if seq > info.last_seq {
        return Err(ReadError::NoSeq { thread, seq, last: info.last_seq });
    }
    let known = match kept.before(thread, seq) {
        Some(known) => with_current_position(store, thread, known)?,
        None => None,
    };
    let mut loaded = known.unwrap_or_else(|| Loaded::empty(thread));
    let worth_reading = worth_reading(&loaded)..seq.next();
    if !worth_reading.is_empty()
        && let Some(newer) = from_snapshots(store, &info, worth_reading)?
    {
        kept.keep(thread, &newer);
        loaded = newer;
    }
    fold_to(store, thread, loaded, seq.next(), |loaded, record| {
        if record.seq < seq && KeptStates::is_kept_at(loaded.state.next_seq()) {
            kept.keep(thread, loaded);
        }
    })
}

/// Returns a cached state with its current position, if the log still has the record that it ends with. A thread that
/// was deleted and imported again has the same records at other positions.
fn with_current_position(store: &dyn LogReader, thread: ThreadId, known: Loaded) -> Result<Option<Loaded>, ReadError> {
    let Some(last) = known.state.last_seq() else { return Ok(None) };
    let record = store.record(thread, last)?.filter(|record| record.hash == known.last_hash);
    Ok(record.map(|record| Loaded { last_position: record.position, ..known }))
}

/// Returns the first seq of a snapshot that saves enough events to be worth reading.
fn worth_reading(loaded: &Loaded) -> Seq {
    Seq(loaded.state.next_seq().0 + snapshots::EVENTS_MIN - 1)
}

/// Returns the state of a thread after event `seq`, from a snapshot if a good one exists. Blocks.
pub(crate) fn at(store: &dyn LogReader, thread: ThreadId, seq: Seq) -> Result<Loaded, ReadError> {
    let info = stream(store, thread)?;
    if seq > info.last_seq {
        return Err(ReadError::NoSeq { thread, seq, last: info.last_seq });
    }
    to(store, &info, seq)
}

/// Returns the state of a thread before its event `seq`. Blocks.
pub(crate) fn before(store: &dyn LogReader, thread: ThreadId, seq: Seq) -> Result<State, ReadError> {
    match seq.0.checked_sub(1) {
        Some(last) => Ok(at(store, thread, Seq(last))?.state),
        None => Ok(State::new(thread)),
    }
}

fn to(store: &dyn LogReader, info: &StreamInfo, seq: Seq) -> Result<Loaded, ReadError> {
    let empty = Loaded::empty(info.thread);
    let loaded = from_snapshots(store, info, worth_reading(&empty)..seq.next())?;
    fold(store, info.thread, loaded.unwrap_or(empty), seq.next())
}

/// Returns the head of its stream. Blocks.
pub(crate) fn stream(store: &dyn LogReader, thread: ThreadId) -> Result<StreamInfo, ReadError> {
    store.stream(thread).map_err(|error| match error {
        StoreError::NotFound { .. } => ReadError::NoThread(thread),
        error => error.into(),
    })
}

/// Returns the state at a moment as that of the thread that recorded it, if a fork only inherits it: a fork from there
/// continues with the open calls of that thread, under its keys. Blocks.
pub(crate) fn as_recorded(store: &dyn LogReader, state: State) -> Result<State, ReadError> {
    let Some(last) = state.last_seq() else { return Ok(state) };
    let owner = recorded_by(store, state.thread(), last)?;
    // Inside a fork node, where no tool runs, it belongs to this thread alone.
    Ok(if owner == state.thread() { state } else { state.clone().inherited_by(owner).unwrap_or(state) })
}

/// Returns the thread that recorded the event with this seq: the thread itself, or the one that it inherits the event
/// from. Blocks.
pub(crate) fn recorded_by(store: &dyn LogReader, thread: ThreadId, seq: Seq) -> Result<ThreadId, ReadError> {
    let mut owner = stream(store, thread)?;
    while let Some(point) = owner.fork_of.filter(|point| seq <= point.seq) {
        owner = stream(store, point.parent)?;
    }
    Ok(owner.thread)
}

impl Loaded {
    /// Returns the state before the first event.
    pub(crate) fn empty(thread: ThreadId) -> Self {
        Self {
            state: State::new(thread),
            last_position: Position(0),
            last_hash: Hash::ZERO,
            snapshot: None,
            bytes: 0,
            short_steps: ShortSteps::default(),
        }
    }
}

/// Returns the state in the newest good snapshot whose seq is in the range, of the thread itself or of one that it
/// inherits from.
fn from_snapshots(store: &dyn LogReader, info: &StreamInfo, range: Range<Seq>) -> Result<Option<Loaded>, ReadError> {
    let (thread, mut owner, mut end) = (info.thread, *info, range.end);
    loop {
        let seqs = store.snapshots(owner.thread)?;
        for seq in seqs.into_iter().rev().filter(|seq| (range.start..end).contains(seq)) {
            let Some(snapshot) = store.snapshot(owner.thread, seq)? else { continue };
            if snapshot.version != STATE_VERSION {
                // Earlier snapshots are no newer.
                break;
            }
            if let Some(loaded) = from_snapshot(store, thread, owner.thread, &snapshot)? {
                return Ok(Some(loaded));
            }
        }
        let Some(point) = owner.fork_of else { return Ok(None) };
        end = end.min(point.seq.next());
        if end <= range.start {
            return Ok(None);
        }
        // A missing parent is reported when its records are read.
        let Ok(parent) = store.stream(point.parent) else { return Ok(None) };
        owner = parent;
    }
}

/// Returns the state in a snapshot, if it is the fold of the records in the log: the hash of the record at its seq
/// proves that.
fn from_snapshot(
    store: &dyn LogReader,
    thread: ThreadId,
    owner: ThreadId,
    snapshot: &Snapshot,
) -> Result<Option<Loaded>, ReadError> {
    let record = store.record(thread, snapshot.seq)?;
    let Some(record) = record.filter(|record| record.hash == snapshot.hash) else {
        tracing::warn!(%thread, seq = %snapshot.seq, "ignoring a snapshot of another stream");
        return Ok(None);
    };
    let state = match codec::decode::<State>(&snapshot.state) {
        Ok(state) if state.thread() == owner && state.next_seq() == snapshot.seq.next() => state,
        _ => {
            tracing::warn!(%thread, seq = %snapshot.seq, "ignoring an unreadable snapshot");
            return Ok(None);
        }
    };
    let state = if owner == thread { Some(state) } else { state.inherited_by(thread) };
    Ok(state.map(|state| Loaded {
        state,
        last_position: record.position,
        last_hash: record.hash,
        snapshot: Some(snapshot.seq),
        bytes: snapshot.state.len(),
        short_steps: ShortSteps::default(),
    }))
}

/// Folds the state up to the event before `end`.
pub(crate) fn fold(store: &dyn LogReader, thread: ThreadId, loaded: Loaded, end: Seq) -> Result<Loaded, ReadError> {
    fold_to(store, thread, loaded, end, |_, _| {})
}

/// Folds the state up to the event before `end`. Passes it to the callback after each event, with the record of the
/// event.
///
/// Reading and folding alternate: with the next pages read and decoded on other threads meanwhile, a fold of 140 000
/// events took longer (96 against 75 ms on two processors), because another thread than the allocating one then freed
/// the events.
pub(crate) fn fold_to(
    store: &dyn LogReader,
    thread: ThreadId,
    mut loaded: Loaded,
    end: Seq,
    mut after_each: impl FnMut(&Loaded, &Record),
) -> Result<Loaded, ReadError> {
    for record in store.records(thread, loaded.state.next_seq()..end) {
        let record = record?;
        let event = Event::decode(record.kind.0, record.version, &record.payload)
            .map_err(|source| RuntimeError::Event { thread, seq: record.seq, source })?;
        loaded.state.apply(record.recorded_at, &event)?;
        loaded.bytes += record.payload.len();
        loaded.last_position = record.position;
        loaded.last_hash = record.hash;
        after_each(&loaded, &record);
    }
    let next = loaded.state.next_seq();
    if next < end {
        return Err(ReadError::NoSeq { thread, seq: next, last: Seq(next.0.saturating_sub(1)) });
    }
    Ok(loaded)
}

#[cfg(test)]
mod tests;
