//! The records and what belongs to them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use parking_lot::RwLock;
use rethread_events::ids::{Hash, Position, Seq, ThreadId};

use crate::contract::{Appended, ForkPoint, Snapshot};
use crate::error::StoreError;
use crate::head::Head;
use crate::keys::{KeyChange, KeySet};
use crate::plan::{self, Addition, Recent};
use crate::record::Record;
use crate::subscription::Source;

#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) state: RwLock<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) closed: bool,
    /// By position; `None` where a stream was deleted.
    pub(super) records: Vec<Option<Record>>,
    pub(super) streams: BTreeMap<ThreadId, Stream>,
    pub(super) blobs: HashMap<Hash, Blob>,
    pub(super) values: BTreeMap<String, Vec<u8>>,
    /// Those of all streams.
    pub(super) keys: BTreeSet<(Vec<u8>, ThreadId)>,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) head: Head,
    pub(super) recent: Recent,
    /// Positions of its own records.
    pub(super) own: Vec<usize>,
    pub(super) snapshots: BTreeMap<Seq, Snapshot>,
    pub(super) keys: KeySet,
}

#[derive(Debug, Default)]
pub(super) struct Blob {
    pub(super) bytes: Vec<u8>,
    pub(super) owners: BTreeSet<Option<ThreadId>>,
}

impl State {
    pub(super) fn add(&mut self, mut addition: Addition) -> Result<Appended, StoreError> {
        let thread = addition.thread;
        let head = self.streams.get(&thread).map(|stream| stream.head);
        let mut recent = self.streams.get(&thread).map(|stream| stream.recent).unwrap_or_default();
        let before = self.hash_before(thread, addition.expected, addition.fork_of, head)?;
        let keys = self.streams.get(&thread).map(|stream| stream.keys.clone()).unwrap_or_default();
        let (keys, changes) = keys.after(thread, std::mem::take(&mut addition.keys))?;
        for change in changes {
            match change {
                KeyChange::Add(key) => self.keys.insert((key, thread)),
                KeyChange::Remove(key) => self.keys.remove(&(key, thread)),
            };
        }
        let first = Position(self.records.len() as u64);
        let records = &mut self.records;
        let next = addition.place(head.as_ref(), before, &recent, first, |record| records.push(Some(record)));
        recent.push(addition.expected, first);
        let own = first.0 as usize..self.records.len();
        let stream = self.streams.entry(thread).or_insert_with(|| Stream {
            head: next,
            recent,
            own: Vec::new(),
            snapshots: BTreeMap::new(),
            keys: KeySet::default(),
        });
        (stream.head, stream.recent, stream.keys) = (next, recent, keys);
        stream.own.extend(own.clone());
        Ok(Appended {
            first_position: first,
            last_position: next.last_position,
            last_seq: next.last_seq,
            hash: next.hash,
            group: own.len() as u32,
        })
    }

    pub(super) fn name_blob(&mut self, owner: Option<ThreadId>, hash: Hash, bytes: &[u8]) {
        let blob = self.blobs.entry(hash).or_insert_with(|| Blob { bytes: bytes.to_vec(), owners: BTreeSet::new() });
        blob.owners.insert(owner);
    }

    /// The hash that the next record is chained to, once the expectation was found to hold.
    pub(super) fn hash_before(
        &self,
        thread: ThreadId,
        expected: Seq,
        fork_of: Option<ForkPoint>,
        head: Option<Head>,
    ) -> Result<Hash, StoreError> {
        plan::check(thread, expected, fork_of, head.as_ref())?;
        match (head, fork_of) {
            (Some(head), _) => Ok(head.hash),
            (None, None) => Ok(Hash::ZERO),
            (None, Some(point)) => {
                let parent = self.streams.get(&point.parent).map(|stream| &stream.head);
                plan::check_fork(point, parent)?;
                self.hash_at(point)
            }
        }
    }

    pub(super) fn hash_at(&self, point: ForkPoint) -> Result<Hash, StoreError> {
        let records = self.range(point.parent, point.seq..point.seq.next(), 1)?;
        records.first().map(|record| record.hash).ok_or_else(|| plan::no_thread(point.parent))
    }

    pub(super) fn stream(&self, thread: ThreadId) -> Result<&Stream, StoreError> {
        self.streams.get(&thread).ok_or_else(|| plan::no_thread(thread))
    }

    pub(super) fn range(&self, thread: ThreadId, range: Range<Seq>, limit: usize) -> Result<Vec<Record>, StoreError> {
        let stream = self.stream(thread)?;
        let mut found = Vec::new();
        if let Some(point) = stream.head.fork_of
            && range.start <= point.seq
        {
            let end = range.end.min(point.seq.next());
            found = self.range(point.parent, range.start..end, limit)?;
        }
        let first = stream.head.first_own();
        let skip = range.start.0.saturating_sub(first.0) as usize;
        let own = stream.own.iter().skip(skip).filter_map(|at| self.records[*at].as_ref());
        let room = limit - found.len();
        found.extend(own.take_while(|record| record.seq < range.end).take(room).cloned());
        Ok(found)
    }

    pub(super) fn forks_of(&self, thread: ThreadId, after: Option<ThreadId>, limit: usize) -> Vec<ThreadId> {
        let inherits = |id: &ThreadId, stream: &Stream| {
            stream.head.fork_of.is_some_and(|point| point.parent == thread) && after.is_none_or(|after| *id > after)
        };
        self.streams.iter().filter(|(id, stream)| inherits(id, stream)).map(|(id, _)| *id).take(limit).collect()
    }
}

impl Log {
    pub(super) fn read<T>(&self, read: impl FnOnce(&State) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let state = self.state.read();
        if state.closed {
            return Err(StoreError::Closed);
        }
        read(&state)
    }
}

impl Source for Log {
    fn records(&self, from: Position, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.read(|state| {
            let from = usize::try_from(from.0).unwrap_or(usize::MAX).min(state.records.len());
            Ok(state.records[from..].iter().flatten().take(limit).cloned().collect())
        })
    }

    fn own_records(&self, thread: ThreadId, from: Position, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.read(|state| {
            let Some(stream) = state.streams.get(&thread) else { return Ok(Vec::new()) };
            let first = stream.own.partition_point(|at| (*at as u64) < from.0);
            let own = stream.own[first..].iter().filter_map(|at| state.records[*at].clone());
            Ok(own.take(limit).collect())
        })
    }

    fn in_memory(&self, _from: Position) -> bool {
        true
    }
}
