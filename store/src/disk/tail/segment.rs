//! One life of a journal file, in memory.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use rethread_events::ids::{Hash, Position, Seq, ThreadId};

use super::TailKeys;
use crate::head::Head;
use crate::keys::KeyChange;
use crate::record::Record;

/// The contents of one life of a journal file.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) epoch: u64,
    /// The last group, once it takes no more.
    pub(crate) group: u64,
    /// The position of the first record.
    pub(crate) base: Position,
    /// By position from `base` on; `None` where a stream was deleted.
    pub(crate) records: Vec<Option<Record>>,
    pub(crate) streams: HashMap<ThreadId, Part>,
    pub(crate) blobs: HashMap<Hash, TailBlob>,
    /// `None` where a value was removed.
    pub(crate) values: BTreeMap<String, Option<Vec<u8>>>,
    pub(crate) keys: TailKeys,
    /// Bytes of payloads, blobs and values, and of what describes them, about.
    pub(crate) bytes: usize,
    /// How many operations it holds.
    pub(crate) n_entries: usize,
    /// Claims of the store to these blobs in older places are void: they were removed here.
    pub(crate) released: HashSet<Hash>,
    /// Whether a stream was deleted in it, or a blob released.
    pub(crate) has_deletes: bool,
}

/// The part of a stream that lies in a segment.
#[derive(Debug)]
pub(crate) struct Part {
    /// `None`: it was deleted.
    pub(crate) head: Option<Head>,
    /// Data of the stream in older places is void: it was deleted here, and a new stream may have begun.
    pub(crate) replaces: bool,
    /// The hash that the first record here is chained to.
    pub(crate) before: Hash,
    /// Its records, as indexes into the segment's.
    pub(crate) own: Vec<u32>,
}

/// A blob that lies in a segment.
#[derive(Debug)]
pub(crate) struct TailBlob {
    /// `None`: an older place has the bytes, this one adds owners.
    pub(crate) bytes: Option<Arc<[u8]>>,
    pub(crate) owners: BTreeSet<Option<ThreadId>>,
}

impl Segment {
    pub(crate) fn new(epoch: u64, base: Position) -> Self {
        Self {
            epoch,
            group: 0,
            base,
            records: Vec::new(),
            streams: HashMap::new(),
            blobs: HashMap::new(),
            values: BTreeMap::new(),
            keys: TailKeys::default(),
            bytes: 0,
            n_entries: 0,
            released: HashSet::new(),
            has_deletes: false,
        }
    }

    pub(crate) fn next_position(&self) -> Position {
        Position(self.base.0 + self.records.len() as u64)
    }

    /// Adds the records of one append, in order; `head` is the stream's after them.
    pub(crate) fn append(
        &mut self,
        thread: ThreadId,
        before: Hash,
        head: Head,
        records: impl IntoIterator<Item = Record>,
    ) {
        let part = match self.streams.entry(thread) {
            Slot::Occupied(slot) => slot.into_mut(),
            Slot::Vacant(slot) => slot.insert(Part { head: None, replaces: false, before, own: Vec::new() }),
        };
        if part.own.is_empty() {
            part.before = before;
        }
        part.head = Some(head);
        for record in records {
            part.own.push(self.records.len() as u32);
            self.bytes += record.payload.len() + 64;
            self.records.push(Some(record));
        }
        self.n_entries += 1;
    }

    /// Changes the keys of a stream, after its records were appended.
    pub(crate) fn change_keys(&mut self, thread: ThreadId, changes: &[KeyChange]) {
        for change in changes {
            self.keys.change(thread, change);
            self.bytes += 2 * change.key().len() + 64;
        }
    }

    pub(crate) fn blob(&mut self, owner: Option<ThreadId>, hash: Hash, bytes: Option<Arc<[u8]>>) {
        self.bytes += bytes.as_ref().map_or(0, |bytes| bytes.len()) + 64;
        let blob = self.blobs.entry(hash).or_insert_with(|| TailBlob { bytes: None, owners: BTreeSet::new() });
        blob.owners.insert(owner);
        if bytes.is_some() {
            blob.bytes = bytes;
        }
        self.n_entries += 1;
    }

    pub(crate) fn value(&mut self, name: String, value: Option<Vec<u8>>) {
        self.bytes += name.len() + value.as_ref().map_or(0, Vec::len) + 64;
        self.values.insert(name, value);
        self.n_entries += 1;
    }

    pub(crate) fn delete(&mut self, thread: ThreadId) {
        let gone = Part { head: None, replaces: true, before: Hash::ZERO, own: Vec::new() };
        if let Some(part) = self.streams.insert(thread, gone) {
            for index in part.own {
                self.records[index as usize] = None;
            }
        }
        self.blobs.retain(|_, blob| !(blob.owners.remove(&Some(thread)) && blob.owners.is_empty()));
        self.keys.delete(thread);
        self.has_deletes = true;
        self.n_entries += 1;
        self.bytes += 64;
    }

    /// The store itself names the blob no longer.
    pub(crate) fn release(&mut self, hash: Hash) {
        if let Slot::Occupied(mut slot) = self.blobs.entry(hash)
            && slot.get_mut().owners.remove(&None)
            && slot.get().owners.is_empty()
        {
            slot.remove();
        }
        self.released.insert(hash);
        self.has_deletes = true;
        self.n_entries += 1;
        self.bytes += 64;
    }

    /// The stream's own records here with a seq in the range.
    pub(super) fn range(&self, part: &Part, range: &Range<Seq>, limit: usize, out: &mut Vec<Record>) {
        let seq_of = |index: &u32| self.records[*index as usize].as_ref().map(|record| record.seq);
        let first = part.own.partition_point(|index| seq_of(index) < Some(range.start));
        let records = part.own[first..].iter().filter_map(|i| self.records[*i as usize].as_ref());
        out.extend(records.take_while(|record| record.seq < range.end).take(limit).cloned());
    }

    /// Whether what older places hold of the stream does not count.
    pub(super) fn replaces(&self, thread: ThreadId) -> bool {
        self.streams.get(&thread).is_some_and(|part| part.replaces)
    }

    /// The first of the stream's own records here.
    pub(crate) fn first_own(&self, part: &Part) -> Option<Seq> {
        self.records[*part.own.first()? as usize].as_ref().map(|record| record.seq)
    }
}
