//! The additions of an append to a stream, and the records that follow from them.

use bytes::Bytes;
use rethread_events::ids::{Hash, Position, RunId, Seq, ThreadId, Time, TraceId};

use super::{import_fits, no_records, payload_fits};
use crate::contract::{Append, ForkPoint, Tag};
use crate::error::StoreError;
use crate::head::Head;
use crate::keys::KeyChange;
use crate::record::{Cause, Kind, NewRecord, Record};

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
    pub(crate) run: Option<RunId>,
    pub(crate) payload: Bytes,
}

impl From<NewRecord> for Item {
    fn from(new: NewRecord) -> Self {
        let NewRecord { kind, version, recorded_at, cause, run, payload } = new;
        Self { kind, version, recorded_at, cause, run, payload: payload.into() }
    }
}

/// The additions of an append to a stream, before it has a position in the log.
#[derive(Debug)]
pub(crate) struct Addition {
    pub(crate) thread: ThreadId,
    pub(crate) expected: Seq,
    pub(crate) fork_of: Option<ForkPoint>,
    pub(crate) trace: Option<TraceId>,
    pub(crate) tag: Tag,
    pub(crate) items: Vec<Item>,
    pub(crate) keys: Vec<KeyChange>,
}

impl From<Append> for Addition {
    fn from(append: Append) -> Self {
        let Append { thread, expected, fork_of, trace, tag, records, blobs: _, keys, is_awaited: _ } = append;
        let items = records.into_iter().map(Item::from).collect();
        Self { thread, expected, fork_of, trace, tag, items, keys }
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
                run: new.run,
                hash: next.hash,
                payload: new.payload.clone(),
            });
        }
        next
    }

    /// As above, in parts of about `bytes_max` each, at least one, if the first record gets position `first`.
    pub(crate) fn split(self, first: Position, bytes_max: usize) -> Vec<Self> {
        let Self { thread, mut expected, mut fork_of, trace, tag, items, mut keys } = self;
        let mut parts: Vec<Self> = Vec::new();
        let mut bytes = usize::MAX;
        for mut item in items {
            if let Some(Cause::SameAppend(index)) = item.cause {
                item.cause = Some(Cause::At(Position(first.0 + u64::from(index))));
            }
            if bytes >= bytes_max {
                // Only the first part begins the stream, and has its keys.
                let (fork_of, keys) = (fork_of.take(), std::mem::take(&mut keys));
                parts.push(Self { thread, expected, fork_of, trace, tag, items: Vec::new(), keys });
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
    keys: Vec<Vec<u8>>,
) -> Result<Addition, StoreError> {
    let Some(first) = records.first() else {
        return Err(no_records());
    };
    let (thread, trace, first_position) = (first.thread, first.trace, first.position);
    let expected = fork_of.map_or(Seq(0), |point| point.seq.next());
    let (mut hash, mut bytes) = (before, 0_usize);
    let mut indexes = std::collections::HashMap::with_capacity(records.len());
    for (index, record) in records.iter().enumerate() {
        let wrong = |what: &str| {
            StoreError::Invalid(format!("the import of thread {thread} is inconsistent at seq {}: {what}", record.seq))
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
            return Err(wrong("its hash is not chained to the record before it"));
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
                run: record.run,
                payload: record.payload,
            }
        })
        .collect();
    let keys = keys.into_iter().map(KeyChange::Add).collect();
    Ok(Addition { thread, expected, fork_of, trace: Some(trace), tag, items, keys })
}
