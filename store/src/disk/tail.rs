//! Records that are durable in the journal and not yet in sled: readable by position and by stream.

mod keys;
mod segment;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use rethread_events::ids::{Hash, Position, Seq, ThreadId};

pub(crate) use keys::TailKeys;
pub(crate) use segment::{Part, Segment};

use crate::disk::index::thread_of_row;
use crate::head::Head;
use crate::record::Record;

/// The tail's entry of a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Known {
    Is(Head),
    Deleted,
    /// No recent change: read sled.
    No,
}

/// The stream's own records of a range, as far as the tail has them.
#[derive(Debug)]
pub(crate) struct TailRange {
    pub(crate) records: Vec<Record>,
    /// Own records before this seq are in sled.
    pub(crate) sealed_end: Seq,
}

/// The two segments that are not in sled yet: one that is being moved there, one that takes what comes.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) state: RwLock<State>,
    n_deletes: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) active: Segment,
    pub(crate) sealing: Option<Arc<Segment>>,
}

impl State {
    /// From old to new.
    pub(crate) fn segments(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.sealing.as_deref().into_iter().chain(std::iter::once(&self.active))
    }

    pub(crate) fn known(&self, thread: ThreadId) -> Known {
        for segment in self.segments().rev() {
            if let Some(part) = segment.streams.get(&thread) {
                return part.head.map_or(Known::Deleted, Known::Is);
            }
        }
        Known::No
    }

    /// Which lives of the journal are here, from old to new.
    pub(crate) fn lives(&self) -> (Option<u64>, u64) {
        (self.sealing.as_ref().map(|segment| segment.epoch), self.active.epoch)
    }

    /// The first position that is here.
    pub(crate) fn base(&self) -> Position {
        self.sealing.as_ref().map_or(self.active.base, |sealing| sealing.base)
    }

    /// Whether the bytes of a blob are here.
    pub(crate) fn blob(&self, hash: Hash) -> Option<Arc<[u8]>> {
        self.segments().rev().find_map(|segment| segment.blobs.get(&hash)?.bytes.clone())
    }

    /// Whether a claim to a blob counts no more, that of a deleted stream or of the store; `sealed` is one that sled knows
    /// of.
    pub(crate) fn is_void(&self, hash: Hash, owner: Option<ThreadId>, sealed: bool) -> bool {
        let in_segment = |segment: &Segment| match owner {
            Some(owner) => segment.replaces(owner),
            None => segment.released.contains(&hash),
        };
        in_segment(&self.active) || sealed && self.sealing.as_deref().is_some_and(in_segment)
    }

    /// Whether the tail has a claim to the blob.
    pub(crate) fn names(&self, hash: Hash) -> bool {
        let owns = |segment: &Segment, is_active: bool| {
            segment
                .blobs
                .get(&hash)
                .is_some_and(|blob| blob.owners.iter().any(|owner| is_active || !self.is_void(hash, *owner, false)))
        };
        owns(&self.active, true) || self.sealing.as_ref().is_some_and(|sealing| owns(sealing, false))
    }

    /// Returns whether this owner names the blob here. Entries of the sealing segment for an owner that was deleted
    /// since do not count: the delete removes them.
    pub(crate) fn has_owner(&self, hash: Hash, owner: Option<ThreadId>) -> bool {
        let owns = |segment: &Segment| segment.blobs.get(&hash).is_some_and(|blob| blob.owners.contains(&owner));
        owns(&self.active) || self.sealing.as_deref().is_some_and(owns) && !self.is_void(hash, owner, false)
    }

    /// The threads after `after` that name the blob here.
    pub(crate) fn owners(&self, hash: Hash, after: Option<ThreadId>) -> BTreeSet<ThreadId> {
        let recent = self.segments().filter_map(|segment| segment.blobs.get(&hash));
        let owners = recent.flat_map(|blob| blob.owners.iter().copied().flatten());
        owners.filter(|owner| after < Some(*owner) && self.has_owner(hash, Some(*owner))).collect()
    }

    pub(crate) fn has_deletes(&self) -> bool {
        self.segments().any(|segment| segment.has_deletes)
    }

    /// The streams of which what is in sled does not count.
    pub(crate) fn deleted(&self) -> HashSet<ThreadId> {
        let replaced = self.segments().filter(|segment| segment.has_deletes).flat_map(|segment| &segment.streams);
        replaced.filter(|(_, part)| part.replaces).map(|(thread, _)| *thread).collect()
    }

    /// Rows of `keys` with whether they are there now, as far as this says anything of them. Not all of them when the rows
    /// after some `limit` that are there are left out.
    pub(crate) fn keys(&self, rows: &RangeInclusive<Vec<u8>>, limit: usize) -> BTreeMap<Vec<u8>, bool> {
        let (mut found, mut rows) = (BTreeMap::new(), rows.clone());
        for segment in self.segments().rev() {
            let is_older = segment.epoch != self.active.epoch;
            let is_gone =
                |row: &[u8]| is_older && thread_of_row(row).is_some_and(|thread| self.active.replaces(thread));
            let (mut n_there, mut last) = (0, None);
            for (row, is_there) in segment.keys.sorted(&rows) {
                if found.contains_key(row) || is_gone(row) {
                    continue;
                }
                found.insert(row.to_vec(), is_there);
                n_there += usize::from(is_there);
                if n_there == limit {
                    last = Some(row.to_vec());
                    break;
                }
            }
            if let Some(last) = last {
                rows = rows.into_inner().0..=last;
            }
        }
        found
    }

    /// As above, for rows of `keys_of` of one thread; also returns whether sled's rows of it are void.
    pub(crate) fn keys_of(&self, thread: ThreadId) -> (BTreeMap<Vec<u8>, bool>, bool) {
        let (mut found, mut is_replaced) = (BTreeMap::new(), false);
        for segment in self.segments() {
            if segment.replaces(thread) {
                found.clear();
                is_replaced = true;
            }
            found.extend(segment.keys.of(thread).map(|(row, is_there)| (row.to_vec(), is_there)));
        }
        (found, is_replaced)
    }
}

impl Tail {
    pub(crate) fn from(state: State) -> Self {
        Self { state: RwLock::new(state), n_deletes: AtomicU64::new(0) }
    }

    /// How many streams were deleted since the log was opened. If that is the same before and after a read, nothing was
    /// deleted in between.
    pub(crate) fn n_deletes(&self) -> u64 {
        self.n_deletes.load(Ordering::Acquire)
    }

    /// Counts a deletion of a stream: must be called before the deletion is visible.
    pub(crate) fn count_delete(&self) {
        self.n_deletes.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn known(&self, thread: ThreadId) -> Known {
        self.state.read().known(thread)
    }

    pub(crate) fn base(&self) -> Position {
        self.state.read().base()
    }

    /// Whether what sled has of a stream does not count any more: it was deleted.
    pub(crate) fn replaces(&self, thread: ThreadId) -> bool {
        self.state.read().segments().any(|segment| segment.replaces(thread))
    }

    /// Up to `limit` records from position `from` on; the position before which they are in sled; the streams of
    /// which what is in sled does not count.
    pub(crate) fn records(&self, from: Position, limit: usize) -> (Vec<Record>, Position, HashSet<ThreadId>) {
        let state = self.state.read();
        let mut found = Vec::new();
        for segment in state.segments() {
            let skip = from.0.saturating_sub(segment.base.0);
            let skip = usize::try_from(skip).unwrap_or(usize::MAX).min(segment.records.len());
            let room = limit - found.len();
            let records = segment.records[skip..].iter().flatten();
            if segment.epoch == state.active.epoch || !state.active.has_deletes {
                found.extend(records.take(room).cloned());
            } else {
                // Records that were deleted since are still in the segment that is being moved, which does not change.
                let kept = records.filter(|record| !state.active.replaces(record.thread));
                found.extend(kept.take(room).cloned());
            }
        }
        let deleted = if from < state.base() { state.deleted() } else { HashSet::new() };
        (found, state.base(), deleted)
    }

    /// The own records of a stream whose seq is in the range. Records before `sealed_end` are in sled; when some
    /// of the range may be there, as many are given here as fit `limit` in any case.
    pub(crate) fn range(&self, thread: ThreadId, range: &Range<Seq>, limit: usize) -> TailRange {
        let state = self.state.read();
        let mut found = TailRange { records: Vec::new(), sealed_end: Seq(u64::MAX) };
        for segment in state.segments() {
            let Some(part) = segment.streams.get(&thread) else { continue };
            if part.replaces {
                found = TailRange { records: Vec::new(), sealed_end: Seq(0) };
            }
            if let Some(first) = segment.first_own(part) {
                found.sealed_end = found.sealed_end.min(first);
            }
            let room = limit - found.records.len();
            segment.range(part, range, room, &mut found.records);
        }
        found
    }

    /// The stream's own records at or after a position, and whether older places may have some before them.
    pub(crate) fn range_from(&self, thread: ThreadId, from: Position, limit: usize) -> (Vec<Record>, bool) {
        let state = self.state.read();
        let (mut found, mut older) = (Vec::new(), from < state.base());
        for segment in state.segments() {
            let Some(part) = segment.streams.get(&thread) else { continue };
            if part.replaces {
                found.clear();
                older = false;
            }
            let skip = from.0.saturating_sub(segment.base.0);
            let first = part.own.partition_point(|index| u64::from(*index) < skip);
            let own = part.own[first..].iter().filter_map(|i| segment.records[*i as usize].clone());
            let room = limit - found.len();
            found.extend(own.take(room));
        }
        (found, older)
    }
}
