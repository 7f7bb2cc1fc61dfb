//! From an append to records: the checks and the chain that every backend shares.

use std::sync::Arc;

use rethread_events::ids::{Hash, Position, Seq, ThreadId, Time, TraceId};

use crate::contract::{Append, ForkPoint, Tag};
use crate::error::StoreError;
use crate::head::Head;
use crate::record::{Cause, Kind, NewRecord, Record};

/// The largest payload, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;
/// The largest append, in bytes of payload, and 32 for each record.
pub const APPEND_BYTES_MAX: usize = 66 << 20;
/// The largest import, in bytes of payload, and 32 for each record.
pub const IMPORT_BYTES_MAX: usize = 512 << 20;
/// The largest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 10;
/// The longest name of a value, in bytes.
pub const NAME_BYTES_MAX: usize = 512;

/// How large an append is, or why nothing like it can ever be written.
pub(crate) fn measure(records: &[NewRecord]) -> Result<usize, StoreError> {
    if records.is_empty() {
        return Err(StoreError::Invalid("an append needs at least one record".into()));
    }
    let mut total = 0_usize;
    for (index, record) in records.iter().enumerate() {
        payload_fits(record.payload.len())?;
        total += record.payload.len() + 32;
        if let Some(Cause::Own(_)) = record.cause
            && index > 0
        {
            return Err(StoreError::Invalid(format!(
                "record {index} of an append names its cause by seq, which only the first may"
            )));
        }
        if let Some(Cause::SameAppend(cause)) = record.cause
            && cause as usize >= index
        {
            return Err(StoreError::Invalid(format!(
                "record {index} of an append names record {cause} as its cause, which is not before it"
            )));
        }
    }
    append_fits(total)?;
    Ok(total)
}

pub(crate) fn payload_fits(bytes: usize) -> Result<(), StoreError> {
    fits("a payload", bytes, PAYLOAD_BYTES_MAX)
}

pub(crate) fn append_fits(bytes: usize) -> Result<(), StoreError> {
    fits("an append", bytes, APPEND_BYTES_MAX)
}

pub(crate) fn import_fits(bytes: usize) -> Result<(), StoreError> {
    fits("an import", bytes, IMPORT_BYTES_MAX)
}

pub(crate) fn value_fits(name: &str, value: &[u8]) -> Result<(), StoreError> {
    if name.is_empty() || name.contains('\0') {
        let what = "the name of a value holds at least one character and no zero byte";
        return Err(StoreError::Invalid(what.into()));
    }
    fits("the name of a value", name.len(), NAME_BYTES_MAX)?;
    fits("a value", value.len(), VALUE_BYTES_MAX)
}

fn fits(what: &'static str, bytes: usize, bytes_max: usize) -> Result<(), StoreError> {
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(StoreError::TooLarge { what, bytes: bytes as u64, bytes_max: bytes_max as u64 })
}

/// The expectation holds, and what is expected of a new stream was given.
pub(crate) fn check(
    thread: ThreadId,
    expected: Seq,
    fork_of: Option<ForkPoint>,
    head: Option<&Head>,
) -> Result<(), StoreError> {
    let actual = match (head, fork_of) {
        (Some(head), None) => head.last_seq.next(),
        // A stream begins once; that somebody began it already is a conflict like any other.
        (Some(head), Some(_)) => {
            return Err(StoreError::Conflict { thread, expected, actual: head.last_seq.next() });
        }
        (None, None) => Seq(0),
        (None, Some(point)) => {
            if point.parent == thread {
                return Err(StoreError::Invalid(format!("thread {thread} cannot fork itself")));
            }
            point.seq.next()
        }
    };
    if expected != actual {
        return Err(StoreError::Conflict { thread, expected, actual });
    }
    Ok(())
}

/// The fork point is in the parent.
pub(crate) fn check_fork(point: ForkPoint, parent: Option<&Head>) -> Result<(), StoreError> {
    let Some(parent) = parent else { return Err(no_thread(point.parent)) };
    if point.seq > parent.last_seq {
        return Err(StoreError::NotFound {
            what: "seq to fork from",
            name: format!("{} in thread {}, which ends at {}", point.seq, point.parent, parent.last_seq),
        });
    }
    Ok(())
}

pub(crate) fn nothing() -> StoreError {
    StoreError::Invalid("an import needs at least one record".into())
}

pub(crate) fn no_thread(thread: ThreadId) -> StoreError {
    StoreError::NotFound { what: "thread", name: thread.to_string() }
}

/// Where the last appends of a stream begin, the newest first.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Recent([Option<(Seq, Position)>; 4]);

impl Recent {
    /// An append was placed.
    pub(crate) fn push(&mut self, first: Seq, position: Position) {
        self.0.rotate_right(1);
        self.0[0] = Some((first, position));
    }

    /// The position of a record of one of these appends.
    fn position(&self, seq: Seq) -> Option<Position> {
        let (first, position) = self.0.iter().flatten().find(|(first, _)| *first <= seq)?;
        Some(Position(position.0 + (seq.0 - first.0)))
    }
}

/// A new record with its payload as readers will share it.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    pub(crate) version: u16,
    pub(crate) recorded_at: Time,
    pub(crate) cause: Option<Cause>,
    pub(crate) payload: Arc<[u8]>,
}

impl From<NewRecord> for Item {
    fn from(new: NewRecord) -> Self {
        let NewRecord { kind, version, recorded_at, cause, payload } = new;
        Self { kind, version, recorded_at, cause, payload: payload.into() }
    }
}

/// What an append adds to a stream, before it has a place in the log.
#[derive(Debug)]
pub(crate) struct Addition {
    pub(crate) thread: ThreadId,
    pub(crate) expected: Seq,
    pub(crate) fork_of: Option<ForkPoint>,
    pub(crate) trace: Option<TraceId>,
    pub(crate) tag: Tag,
    pub(crate) items: Vec<Item>,
}

impl From<Append> for Addition {
    fn from(append: Append) -> Self {
        let Append { thread, expected, fork_of, trace, tag, records } = append;
        let items = records.into_iter().map(Item::from).collect();
        Self { thread, expected, fork_of, trace, tag, items }
    }
}

impl Addition {
    /// The records with their places and hashes, and the head after them. `before` is the hash that the first one
    /// is chained to.
    pub(crate) fn place(
        &self,
        head: Option<&Head>,
        before: Hash,
        recent: &Recent,
        first: Position,
        mut each: impl FnMut(Record),
    ) -> Head {
        let trace = head.map_or_else(|| self.trace.unwrap_or(self.thread.into()), |head| head.trace);
        let mut next = Head {
            last_seq: self.expected,
            last_position: first,
            hash: before,
            tag: self.tag,
            first_at: head.map_or_else(|| self.items[0].recorded_at, |head| head.first_at),
            last_at: self.items[0].recorded_at,
            fork_of: head.map_or(self.fork_of, |head| head.fork_of),
            trace,
        };
        for (index, new) in self.items.iter().enumerate() {
            next.last_seq = Seq(self.expected.0 + index as u64);
            next.last_position = Position(first.0 + index as u64);
            next.last_at = new.recorded_at;
            next.hash = Record::chain(
                next.hash,
                self.thread,
                next.last_seq,
                new.recorded_at,
                trace,
                new.kind,
                new.version,
                &new.payload,
            );
            each(Record {
                position: next.last_position,
                thread: self.thread,
                seq: next.last_seq,
                kind: new.kind,
                version: new.version,
                recorded_at: new.recorded_at,
                trace,
                cause: new.cause.and_then(|cause| match cause {
                    Cause::At(position) => Some(position),
                    Cause::SameAppend(index) => Some(Position(first.0 + u64::from(index))),
                    Cause::Own(seq) => recent.position(seq),
                }),
                hash: next.hash,
                payload: Arc::clone(&new.payload),
            });
        }
        next
    }

    /// The same in parts of about `bytes_max` each, at least one, when the first record gets position `first`.
    pub(crate) fn split(self, first: Position, bytes_max: usize) -> Vec<Self> {
        let Self { thread, mut expected, mut fork_of, trace, tag, items } = self;
        let mut parts: Vec<Self> = Vec::new();
        let mut bytes = usize::MAX;
        for mut item in items {
            if let Some(Cause::SameAppend(index)) = item.cause {
                item.cause = Some(Cause::At(Position(first.0 + u64::from(index))));
            }
            if bytes >= bytes_max {
                // Only the first part begins the stream.
                let fork_of = fork_of.take();
                parts.push(Self { thread, expected, fork_of, trace, tag, items: Vec::new() });
                bytes = 0;
            }
            if let Some(part) = parts.last_mut() {
                bytes += item.payload.len() + 32;
                expected = expected.next();
                part.items.push(item);
            }
        }
        parts
    }

    /// How many positions it takes.
    pub(crate) fn n_records(&self) -> u64 {
        self.items.len() as u64
    }
}

/// An exported stream as an addition, after its chain was checked against `before`, the hash it begins from.
pub(crate) fn import(
    fork_of: Option<ForkPoint>,
    before: Hash,
    tag: Tag,
    records: Vec<Record>,
) -> Result<Addition, StoreError> {
    let Some(first) = records.first() else {
        return Err(nothing());
    };
    let (thread, trace, first_position) = (first.thread, first.trace, first.position);
    let expected = fork_of.map_or(Seq(0), |point| point.seq.next());
    let (mut hash, mut bytes) = (before, 0_usize);
    let mut indexes = std::collections::HashMap::with_capacity(records.len());
    for (index, record) in records.iter().enumerate() {
        let wrong = |what: &str| {
            StoreError::Invalid(format!(
                "the import of thread {thread} does not hold together at seq {}: {what}",
                record.seq
            ))
        };
        if record.thread != thread || record.trace != trace {
            return Err(wrong("another thread or trace than the record before it"));
        }
        if record.seq.0 != expected.0 + index as u64 {
            return Err(wrong(&format!("seq {} was expected", expected.0 + index as u64)));
        }
        payload_fits(record.payload.len())?;
        bytes += record.payload.len() + 32;
        hash = Record::chain(
            hash,
            thread,
            record.seq,
            record.recorded_at,
            trace,
            record.kind,
            record.version,
            &record.payload,
        );
        if hash != record.hash {
            return Err(wrong("its hash does not follow from the record before it"));
        }
        indexes.insert(record.position, index);
    }
    import_fits(bytes)?;
    let items = records
        .into_iter()
        .enumerate()
        .map(|(at, record)| {
            Item {
                kind: record.kind,
                version: record.version,
                recorded_at: record.recorded_at,
                // Positions are new: a cause inside the stream moves with it, one outside has no place here.
                cause: record
                    .cause
                    .filter(|cause| *cause >= first_position)
                    .and_then(|cause| indexes.get(&cause))
                    .filter(|index| **index < at)
                    .map(|index| Cause::SameAppend(*index as u32)),
                payload: record.payload,
            }
        })
        .collect();
    Ok(Addition { thread, expected, fork_of, trace: Some(trace), tag, items })
}
