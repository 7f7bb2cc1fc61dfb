//! From the log to a state: the one way a thread comes back, whether to go on or to be looked at.

use rethread_events::bin;
use rethread_events::event::Event;
use rethread_events::ids::{Hash, Position, Seq, ThreadId};
use rethread_events::thread::{STATE_VERSION, State};
use rethread_store::{Snapshot, Store, StoreError, StreamInfo};

use crate::error::RuntimeError;
use crate::kept_states::KeptStates;

/// How many records are read at a time. A page ends before a multiple of it.
pub(crate) const PAGE: u64 = 500;

/// A state and where it stands in the log.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(crate) state: State,
    pub(crate) last_position: Position,
    pub(crate) last_hash: Hash,
    /// The seq of the snapshot it was built on.
    pub(crate) snapshot: Option<Seq>,
}

/// The state of a thread after its last event, from its snapshot where there is a good one. Blocks.
pub(crate) fn present(store: &dyn Store, thread: ThreadId) -> Result<Loaded, RuntimeError> {
    let info = stream(store, thread)?;
    let snapshot = store.snapshot(thread)?.filter(|snapshot| snapshot.version == STATE_VERSION);
    if let Some(snapshot) = snapshot
        && let Some(loaded) = from_snapshot(store, thread, &snapshot)?
    {
        return fold(store, thread, loaded, info.last_seq.next());
    }
    fold(store, thread, Loaded::empty(thread), info.last_seq.next())
}

/// As [`present`], from one of these states where one is of this thread. Blocks. For whoever looks at a thread again and
/// again.
pub(crate) fn present_from(store: &dyn Store, thread: ThreadId, kept: &KeptStates) -> Result<Loaded, RuntimeError> {
    let last = stream(store, thread)?.last_seq;
    at_from(store, thread, last, kept)
}

/// The state of a thread after event `seq`, from one of these states where one is of this thread and before it. Blocks.
/// Gives each state that is worth keeping on the way.
pub(crate) fn at_from(
    store: &dyn Store,
    thread: ThreadId,
    seq: Seq,
    kept: &KeptStates,
) -> Result<Loaded, RuntimeError> {
    let info = stream(store, thread)?;
    if seq > info.last_seq {
        return Err(RuntimeError::NoSeq { thread, seq, last: info.last_seq });
    }
    let mut loaded = match kept.before(thread, seq) {
        Some(known) if is_of(store, thread, &known)? => known,
        _ => Loaded::empty(thread),
    };
    let snapshot = store.snapshot(thread)?;
    if let Some(snapshot) = snapshot.filter(|s| s.version == STATE_VERSION && s.seq <= seq)
        && snapshot.seq >= loaded.state.next_seq()
        && let Some(newer) = from_snapshot(store, thread, &snapshot)?
    {
        loaded = newer;
    }
    fold_to(store, thread, loaded, seq.next(), |loaded| {
        if KeptStates::is_kept_at(loaded.state.next_seq()) {
            kept.keep(thread, loaded);
        }
    })
}

/// Whether the log still has the record that a state ends with: a thread may have been deleted and imported again.
fn is_of(store: &dyn Store, thread: ThreadId, known: &Loaded) -> Result<bool, RuntimeError> {
    let Some(last) = known.state.last_seq() else { return Ok(false) };
    let records = store.read_stream(thread, last..last.next(), 1)?;
    Ok(records.first().is_some_and(|record| record.hash == known.last_hash))
}

/// The state of a thread after event `seq`. Blocks. Folds from the beginning unless the snapshot is before `seq`.
pub(crate) fn at(store: &dyn Store, thread: ThreadId, seq: Seq) -> Result<Loaded, RuntimeError> {
    let info = stream(store, thread)?;
    if seq > info.last_seq {
        return Err(RuntimeError::NoSeq { thread, seq, last: info.last_seq });
    }
    let snapshot = store.snapshot(thread)?;
    if let Some(snapshot) = snapshot.filter(|s| s.version == STATE_VERSION && s.seq <= seq)
        && let Some(loaded) = from_snapshot(store, thread, &snapshot)?
    {
        return fold(store, thread, loaded, seq.next());
    }
    fold(store, thread, Loaded::empty(thread), seq.next())
}

/// The fold of a whole thread, without its snapshot: what `verify` compares the snapshot with. Blocks.
pub(crate) fn from_the_first(store: &dyn Store, thread: ThreadId, end: Seq) -> Result<Loaded, RuntimeError> {
    fold(store, thread, Loaded::empty(thread), end)
}

/// Where its stream stands. Blocks.
pub(crate) fn stream(store: &dyn Store, thread: ThreadId) -> Result<StreamInfo, RuntimeError> {
    store.stream(thread).map_err(|error| match error {
        StoreError::NotFound { .. } => RuntimeError::NoThread(thread),
        error => error.into(),
    })
}

impl Loaded {
    fn empty(thread: ThreadId) -> Self {
        Self { state: State::new(thread), last_position: Position(0), last_hash: Hash::ZERO, snapshot: None }
    }
}

/// The state in a snapshot, when it is the fold of the very records that are in the log: the hash of the record at
/// its seq says so.
fn from_snapshot(store: &dyn Store, thread: ThreadId, snapshot: &Snapshot) -> Result<Option<Loaded>, RuntimeError> {
    let records = store.read_stream(thread, snapshot.seq..snapshot.seq.next(), 1)?;
    let Some(record) = records.first().filter(|record| record.hash == snapshot.hash) else {
        tracing::warn!(%thread, seq = %snapshot.seq, "the snapshot is not of this stream and is passed over");
        return Ok(None);
    };
    match bin::decode::<State>(&snapshot.state) {
        Ok(state) if state.thread() == thread && state.next_seq() == snapshot.seq.next() => Ok(Some(Loaded {
            state,
            last_position: record.position,
            last_hash: record.hash,
            snapshot: Some(snapshot.seq),
        })),
        _ => {
            tracing::warn!(%thread, seq = %snapshot.seq, "the snapshot cannot be read and is passed over");
            Ok(None)
        }
    }
}

fn fold(store: &dyn Store, thread: ThreadId, loaded: Loaded, end: Seq) -> Result<Loaded, RuntimeError> {
    fold_to(store, thread, loaded, end, |_| {})
}

/// The state after the event before `end`. Shows it at the end of each page on the way.
///
/// Reading and folding take turns: with the next pages read and decoded by helpers meanwhile, a fold of 140 000 events
/// took longer (96 against 75 ms on two processors), because events are then freed by another thread than made them.
fn fold_to(
    store: &dyn Store,
    thread: ThreadId,
    mut loaded: Loaded,
    end: Seq,
    mut on_the_way: impl FnMut(&Loaded),
) -> Result<Loaded, RuntimeError> {
    let mut next = loaded.state.next_seq();
    while next < end {
        let page_end = Seq((next.0 / PAGE + 1) * PAGE).min(end);
        let records = store.read_stream(thread, next..page_end, PAGE as usize)?;
        let Some(last) = records.last() else {
            return Err(RuntimeError::NoSeq { thread, seq: next, last: Seq(next.0.saturating_sub(1)) });
        };
        loaded.last_position = last.position;
        loaded.last_hash = last.hash;
        next = last.seq.next();
        for record in &records {
            let event = Event::decode(record.kind.0, record.version, &record.payload)
                .map_err(|source| RuntimeError::Event { thread, seq: record.seq, source })?;
            loaded.state.apply(record.recorded_at, &event)?;
        }
        if next < end {
            on_the_way(&loaded);
        }
    }
    Ok(loaded)
}
