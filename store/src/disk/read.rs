//! Reading: the tail for what is recent, sled for the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use rethread_events::ids::{Hash, Position, Seq, ThreadId};

use super::cache::{Cache, Key};
use super::chunk::{self, Row};
use super::index::{Index, Place};
use super::tail::{Known, Tail};
use crate::contract::{ForkPoint, StreamInfo, Tag};
use crate::error::{Damage, StoreError};
use crate::follow::Source;
use crate::head::Head;
use crate::plan;
use crate::record::Record;

/// How many places of runs are looked up at a time.
const RUNS: usize = 64;

/// Everything that reading needs.
pub(crate) struct Reader {
    pub(crate) tail: Tail,
    pub(crate) index: Index,
    pub(crate) cache: Cache,
    /// Lists what can be listed, where the rest cannot be read at all.
    pub(crate) is_salvage: bool,
}

impl Reader {
    pub(crate) fn find_head(&self, thread: ThreadId) -> Result<Option<Head>, StoreError> {
        match self.tail.known(thread) {
            Known::Is(head) => Ok(Some(head)),
            Known::Deleted => Ok(None),
            Known::No => self.index.head(thread),
        }
    }

    pub(crate) fn head(&self, thread: ThreadId) -> Result<Head, StoreError> {
        self.find_head(thread)?.ok_or_else(|| plan::no_thread(thread))
    }

    /// The hash of the record at a fork point.
    pub(crate) fn hash_at(&self, point: ForkPoint) -> Result<Hash, StoreError> {
        let records = self.range(point.parent, point.seq..point.seq.next(), 1)?;
        records.first().map(|record| record.hash).ok_or_else(|| plan::no_thread(point.parent))
    }

    /// As [`crate::Store::read_stream`].
    pub(crate) fn range(&self, thread: ThreadId, range: Range<Seq>, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.try_range(thread, range, limit).or_else(|error| match error {
            // A stream that was deleted while it was read looks damaged, and is simply gone.
            StoreError::Damaged(_) => match self.find_head(thread)? {
                None => Err(plan::no_thread(thread)),
                Some(_) => Err(error),
            },
            error => Err(error),
        })
    }

    fn try_range(&self, thread: ThreadId, range: Range<Seq>, limit: usize) -> Result<Vec<Record>, StoreError> {
        let mut head = self.head(thread)?;
        // From the stream up through those it inherits from, as far as the range reaches.
        let (mut parts, mut owner, mut end) = (Vec::new(), thread, range.end);
        loop {
            let first = head.first_own();
            parts.push((owner, head, range.start.max(first)..end));
            match head.fork_of {
                Some(point) if range.start < first => {
                    owner = point.parent;
                    end = end.min(first);
                    head = self.head(owner).map_err(|error| match error {
                        StoreError::NotFound { .. } => lost(
                            thread,
                            range.start,
                            None,
                            format!("thread {owner}, which it inherits from, is not there"),
                        ),
                        error => error,
                    })?;
                }
                _ => break,
            }
        }
        let mut found = Vec::new();
        for (owner, head, range) in parts.into_iter().rev() {
            if found.len() == limit {
                break;
            }
            self.own_range(owner, &head, range, limit - found.len(), &mut found)?;
        }
        Ok(found)
    }

    fn own_range(
        &self,
        thread: ThreadId,
        head: &Head,
        range: Range<Seq>,
        limit: usize,
        out: &mut Vec<Record>,
    ) -> Result<(), StoreError> {
        let end = range.end.min(head.last_seq.next());
        if range.start >= end {
            return Ok(());
        }
        let range = range.start..end;
        let tail = self.tail.range(thread, &range, limit);
        let n_before = out.len();
        if range.start < tail.sealed_end {
            self.sealed(thread, range.start..end.min(tail.sealed_end), limit, out)?;
        }
        let room = limit - (out.len() - n_before);
        out.extend(tail.records.into_iter().take(room));
        let wanted = usize::try_from(end.0 - range.start.0).unwrap_or(usize::MAX).min(limit);
        let n = out.len() - n_before;
        if n < wanted {
            let seq = Seq(range.start.0 + n as u64);
            return Err(lost(thread, seq, None, "a record is missing".into()));
        }
        Ok(())
    }

    /// Own records of a stream that are in sled, all of the range or `limit`.
    fn sealed(
        &self,
        thread: ThreadId,
        range: Range<Seq>,
        limit: usize,
        out: &mut Vec<Record>,
    ) -> Result<(), StoreError> {
        let (mut next, mut room) = (range.start, limit);
        while next < range.end && room > 0 {
            let places = self.index.runs(thread, next, RUNS)?;
            let from = next;
            for place in places {
                if next >= range.end || room == 0 {
                    break;
                }
                if place.first.0 + place.n <= next.0 {
                    continue;
                }
                if place.first > next {
                    return Err(lost(thread, next, None, "a run of records is missing".into()));
                }
                let rows = self.run(thread, &place)?;
                let skip = (next.0 - place.first.0) as usize;
                let n = usize::try_from(range.end.0 - next.0).unwrap_or(usize::MAX).min(room);
                for row in rows.iter().skip(skip).take(n) {
                    out.push(self.whole(row)?);
                    next = next.next();
                    room -= 1;
                }
            }
            if next == from {
                return Err(lost(thread, next, None, "a run of records is missing".into()));
            }
        }
        Ok(())
    }

    /// The rows of a run.
    fn run(&self, thread: ThreadId, place: &Place) -> Result<RunRows, StoreError> {
        let chunk = self.chunk(place.seal, place.chunk).map_err(|error| match error {
            StoreError::Damaged(damage) => StoreError::Damaged(Damage {
                thread: Some(thread),
                seq: Some(place.first),
                position: Some(place.seal),
                ..damage
            }),
            error => error,
        })?;
        let at = |seq: Seq| chunk.partition_point(|row| (row.record.thread, row.record.seq) < (thread, seq));
        let range = at(place.first)..at(Seq(place.first.0 + place.n));
        if range.len() as u64 != place.n {
            let what = "a run of records is not where the index says".into();
            return Err(lost(thread, place.first, Some(place.seal), what));
        }
        Ok(RunRows { chunk, range })
    }

    /// The unpacked chunk.
    fn chunk(&self, seal: Position, number: u32) -> Result<Arc<[Row]>, StoreError> {
        let key = Key::Chunk(seal, number);
        if let Some(rows) = self.cache.find(key) {
            return Ok(rows);
        }
        let rows: Arc<[Row]> = self.read_chunk(seal, number)?.into();
        self.cache.keep(key, &rows);
        Ok(rows)
    }

    pub(crate) fn read_chunk(&self, seal: Position, number: u32) -> Result<Vec<Row>, StoreError> {
        let damaged = |what: &str| {
            StoreError::Damaged(Damage {
                position: Some(seal),
                file: Some(self.index.file_path()),
                what: format!("{what} (number {number} of those from this position on)"),
                ..Damage::default()
            })
        };
        let bytes = self.index.chunk(seal, number)?.ok_or_else(|| damaged("a chunk is missing"))?;
        chunk::unpack(&bytes).map_err(|_| damaged("a chunk is not what was written"))
    }

    /// The record with its payload, wherever that is.
    pub(crate) fn whole(&self, row: &Row) -> Result<Record, StoreError> {
        let mut record = row.record.clone();
        if let Some(hash) = row.blob {
            let found = self.index.pieces(|trees| &trees.blobs, hash.as_bytes());
            let bytes = match found {
                Ok(Some(bytes)) => bytes,
                Ok(None) | Err(StoreError::Damaged(_)) => {
                    let what = format!("the payload, blob {hash}, cannot be read");
                    return Err(lost(record.thread, record.seq, Some(record.position), what));
                }
                Err(error) => return Err(error),
            };
            record.payload = bytes.into();
        }
        Ok(record)
    }

    /// As [`crate::Store::read_all`].
    pub(crate) fn all(&self, from: Position, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.try_all(from, limit).or_else(|error| match error {
            // A delete that reached sled in between looks like damage, and is none the second time.
            StoreError::Damaged(_) => self.try_all(from, limit),
            error => Err(error),
        })
    }

    fn try_all(&self, from: Position, limit: usize) -> Result<Vec<Record>, StoreError> {
        let (recent, base, deleted) = self.tail.records(from, limit);
        if from >= base {
            return Ok(recent);
        }
        let (mut found, mut next) = (Vec::new(), from);
        while next < base && found.len() < limit {
            let missing = || {
                StoreError::Damaged(Damage {
                    position: Some(next),
                    file: Some(self.index.file_path()),
                    what: "records are missing".into(),
                    ..Damage::default()
                })
            };
            let (seal, end, n_chunks) = self.index.seal_at(next)?.ok_or_else(missing)?;
            if seal > next {
                return Err(missing());
            }
            let rows = self.seal(seal, n_chunks)?;
            let first = rows.partition_point(|row| row.record.position < next);
            for row in rows[first..].iter().filter(|row| !deleted.contains(&row.record.thread)) {
                if found.len() == limit {
                    break;
                }
                found.push(self.whole(row)?);
            }
            next = end;
        }
        let room = limit - found.len();
        found.extend(recent.into_iter().take(room));
        Ok(found)
    }

    /// All rows of a seal, by position.
    fn seal(&self, seal: Position, n_chunks: u32) -> Result<Arc<[Row]>, StoreError> {
        let key = Key::Seal(seal);
        if let Some(rows) = self.cache.find(key) {
            return Ok(rows);
        }
        let mut rows = Vec::new();
        for number in 0..n_chunks {
            rows.extend(self.read_chunk(seal, number)?);
        }
        rows.sort_unstable_by_key(|row| row.record.position);
        let rows = rows.into();
        self.cache.keep(key, &rows);
        Ok(rows)
    }

    /// As [`crate::Store::streams`].
    pub(crate) fn streams(
        &self,
        after: Option<ThreadId>,
        tags: &[Tag],
        limit: usize,
    ) -> Result<Vec<StreamInfo>, StoreError> {
        let wanted = |head: &Head| tags.is_empty() || tags.contains(&head.tag);
        let recent = self.recent_heads(after);
        let mut found = BTreeMap::new();
        for (thread, head) in &recent {
            if let Some(head) = head.filter(|head| wanted(head)) {
                found.insert(*thread, head);
            }
        }
        let mut after = after;
        loop {
            let listed = self.index.listed(after, tags, limit.saturating_add(1));
            let (ids, complete_to) = match listed {
                Err(StoreError::Damaged(_)) if self.is_salvage => break,
                listed => listed?,
            };
            for thread in ids {
                if recent.contains_key(&thread) {
                    continue;
                }
                // Read one by one: the answer is short, and the list of a tag holds only ids.
                if let Some(head) = self.index.head(thread)?.filter(|head| wanted(head)) {
                    found.insert(thread, head);
                }
            }
            let Some(complete_to) = complete_to else { break };
            if found.range(..=complete_to).count() >= limit {
                break;
            }
            after = Some(complete_to);
        }
        Ok(found.into_iter().take(limit).map(|(thread, head)| head.info(thread)).collect())
    }

    fn recent_heads(&self, after: Option<ThreadId>) -> BTreeMap<ThreadId, Option<Head>> {
        let state = self.tail.state.read();
        let mut heads = BTreeMap::new();
        for segment in state.segments() {
            for (thread, part) in &segment.streams {
                if after.is_none_or(|after| *thread > after) {
                    heads.insert(*thread, part.head);
                }
            }
        }
        heads
    }

    /// Up to 16 streams that inherit from this one.
    pub(crate) fn forks(&self, thread: ThreadId) -> Result<Vec<ThreadId>, StoreError> {
        let recent = self.recent_heads(None);
        let mut forks: BTreeSet<ThreadId> = recent
            .iter()
            .filter(|(_, head)| head.and_then(|head| head.fork_of).is_some_and(|point| point.parent == thread))
            .map(|(child, _)| *child)
            .collect();
        let sealed = self.index.forks(thread)?;
        // What the tail knows of a child is newer: it may have been deleted, and have begun anew.
        forks.extend(sealed.into_iter().filter(|child| !recent.contains_key(child)));
        Ok(forks.into_iter().take(16).collect())
    }

    /// Whether the blob is there and this owner already named it.
    pub(crate) fn has_owner(&self, hash: Hash, owner: Option<ThreadId>) -> Result<bool, StoreError> {
        let state = self.tail.state.read();
        let names = |blob: &super::tail::TailBlob| blob.owners.contains(&owner);
        if state.segments().any(|segment| segment.blobs.get(&hash).is_some_and(names)) {
            return Ok(true);
        }
        if state.has_deletes() {
            return Ok(false);
        }
        drop(state);
        Ok(self.index.has_owner(hash, owner)? && self.index.has_blob(hash)?)
    }

    /// Whether anybody still names the blob. Its bytes may outlast a delete until that has reached sled.
    fn is_named(&self, hash: Hash) -> Result<bool, StoreError> {
        let sealed = {
            let state = self.tail.state.read();
            if !state.has_deletes() || state.names(hash) {
                return Ok(true);
            }
            drop(state);
            self.index.owners(hash)?
        };
        let state = self.tail.state.read();
        Ok(state.names(hash) || sealed.into_iter().any(|owner| !state.is_void(owner, true)))
    }

    pub(crate) fn has_blob(&self, hash: Hash) -> Result<bool, StoreError> {
        if self.tail.state.read().blob(hash).is_some() {
            return Ok(true);
        }
        self.index.has_blob(hash)
    }

    pub(crate) fn blob(&self, hash: Hash) -> Result<Vec<u8>, StoreError> {
        if !self.is_named(hash)? {
            return Err(StoreError::NotFound { what: "blob", name: hash.to_string() });
        }
        if let Some(bytes) = self.tail.state.read().blob(hash) {
            return Ok(bytes.to_vec());
        }
        let missing = || StoreError::NotFound { what: "blob", name: hash.to_string() };
        let bytes = match self.index.pieces(|trees| &trees.blobs, hash.as_bytes()) {
            Ok(bytes) => bytes.ok_or_else(missing)?,
            // A delete takes the owners first: without any, this one is just being taken away.
            Err(StoreError::Damaged(_)) if self.index.owners(hash)?.is_empty() => {
                return Err(missing());
            }
            Err(error) => return Err(error),
        };
        if Hash::of(&bytes) != hash {
            return Err(self.index.damaged(format!("blob {hash} is not what was written")));
        }
        Ok(bytes)
    }

    pub(crate) fn value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        {
            let state = self.tail.state.read();
            if let Some(value) = state.segments().rev().find_map(|segment| segment.values.get(name)) {
                return Ok(value.clone());
            }
        }
        self.index.pieces(|trees| &trees.values, &super::index::value_key(name))
    }

    pub(crate) fn values(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let mut recent = BTreeMap::new();
        {
            let state = self.tail.state.read();
            for segment in state.segments() {
                let from = segment.values.range(prefix.to_string()..);
                let named = from.take_while(|(name, _)| name.starts_with(prefix));
                recent.extend(named.map(|(name, value)| (name.clone(), value.clone())));
            }
        }
        let mut found = BTreeMap::new();
        for name in self.index.value_names(prefix)? {
            if recent.contains_key(&name) {
                continue;
            }
            let key = super::index::value_key(&name);
            if let Some(value) = self.index.pieces(|trees| &trees.values, &key)? {
                found.insert(name, value);
            }
        }
        found.extend(recent.into_iter().filter_map(|(name, value)| Some((name, value?))));
        Ok(found.into_iter().collect())
    }
}

struct RunRows {
    chunk: Arc<[Row]>,
    range: Range<usize>,
}

impl std::ops::Deref for RunRows {
    type Target = [Row];
    fn deref(&self) -> &[Row] {
        &self.chunk[self.range.clone()]
    }
}

fn lost(thread: ThreadId, seq: Seq, position: Option<Position>, what: String) -> StoreError {
    StoreError::Damaged(Damage { thread: Some(thread), seq: Some(seq), position, file: None, what })
}

impl Source for Reader {
    fn records(&self, from: Position, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.all(from, limit)
    }

    fn own_records(&self, thread: ThreadId, from: Position, limit: usize) -> Result<Vec<Record>, StoreError> {
        let (recent, older) = self.tail.range_from(thread, from, limit);
        if !older {
            return Ok(recent);
        }
        // Somewhere before the place that is looked for; from there on it is a walk along the stream.
        let Some(head) = self.find_head(thread)? else { return Ok(Vec::new()) };
        let near = self.index.run_before(thread, from)?;
        let mut next = near.map_or(head.first_own(), |place| place.first);
        let mut found: Vec<Record> = Vec::new();
        while found.len() < limit {
            let records = self.range(thread, next..Seq(u64::MAX), limit)?;
            let Some(last) = records.last() else { break };
            next = last.seq.next();
            let n_before = found.len();
            let room = limit - n_before;
            found.extend(records.into_iter().filter(|record| record.position >= from).take(room));
        }
        Ok(found)
    }

    fn in_memory(&self, from: Position) -> bool {
        from >= self.tail.base()
    }
}
