//! Reading: the tail for what is recent, sled for the rest.

mod blobs;
mod keys;
mod position;
mod streams;

use std::ops::Range;
use std::sync::Arc;

use rethread_events::ids::{Hash, Position, Seq, ThreadId};

use super::cache::{Cache, Key};
use super::chunk::{self, Row};
use super::index::{Index, Place};
use super::packs::Packs;
use super::tail::{Known, Tail};
use crate::contract::ForkPoint;
use crate::error::{Damage, StoreError};
use crate::head::Head;
use crate::plan;
use crate::record::Record;

/// How many places of runs are looked up at a time.
const RUNS: usize = 64;

/// Everything that reading needs.
pub(crate) struct Reader {
    pub(crate) tail: Tail,
    pub(crate) index: Index,
    pub(crate) packs: Packs,
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

    /// Reads a part of a stream, and repeats the read if the stream was deleted meanwhile: the first read may look
    /// damaged, or mix the stream with a new one that began under its id.
    pub(crate) fn of_one_life<T>(
        &self,
        thread: ThreadId,
        mut read: impl FnMut(Head) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        loop {
            let n_deletes = self.tail.n_deletes();
            let head = self.head(thread)?;
            let found = read(head);
            // The last position of a stream is that of no other.
            if self.tail.n_deletes() == n_deletes || self.find_head(thread)? == Some(head) {
                return found;
            }
        }
    }

    /// As [`crate::LogReader::read_stream`].
    pub(crate) fn range(&self, thread: ThreadId, range: Range<Seq>, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.of_one_life(thread, |head| self.range_of(thread, head, range.clone(), limit))
    }

    fn range_of(
        &self,
        thread: ThreadId,
        mut head: Head,
        range: Range<Seq>,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
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
                            format!("thread {owner}, which it inherits from, is missing"),
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
        let fresh = self.cache.fresh();
        let rows: Arc<[Row]> = self.read_chunk(seal, number)?.into();
        self.cache.insert(key, &rows, fresh);
        Ok(rows)
    }

    pub(crate) fn read_chunk(&self, seal: Position, number: u32) -> Result<Vec<Row>, StoreError> {
        let damaged_in = |file, what: &str| {
            StoreError::Damaged(Damage {
                position: Some(seal),
                file: Some(file),
                what: format!("{what} (chunk {number} of those from this position on)"),
                ..Damage::default()
            })
        };
        let damaged = |what: &str| damaged_in(self.index.file_path(), what);
        let mut spot = self.index.chunk(seal, number)?.ok_or_else(|| damaged("a chunk is missing"))?;
        loop {
            let file = self.packs.path(spot.pack);
            let rows = match self.packs.read(spot) {
                Ok(bytes) => chunk::unpack(&bytes).map_err(|_| damaged_in(file, "a chunk is not what was written")),
                Err(StoreError::Damaged(damage)) => Err(damaged_in(file, &damage.what)),
                Err(error) => Err(error),
            };
            let Err(error) = rows else { return rows };
            // A delete moves a chunk that others share, and then frees where it lay.
            match self.index.chunk(seal, number)? {
                Some(moved) if moved != spot => spot = moved,
                _ => return Err(error),
            }
        }
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

#[cfg(test)]
mod tests;
