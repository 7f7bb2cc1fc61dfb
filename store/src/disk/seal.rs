//! Sealing: moving a segment from the journal into sled. Done again from the start after a crash in the middle, so
//! every step may meet what an earlier attempt left.

mod delete;
mod snapshots;

use std::collections::BTreeSet;
use std::sync::Arc;

use rethread_events::ids::{Hash, Position, ThreadId};

pub(crate) use snapshots::{decode_snapshot, write_snapshots};

use super::chunk::{self, Link, pack};
use super::index::{
    Index, Place, Watermark, chunk_key, pair_key, run_key, value_key, write_place, write_seal, write_watermark,
};
use super::limits::SEAL_BYTES;
use super::pieces;
use super::read::Reader;
use super::tail::{Part, Segment};
use crate::contract::Snapshot;
use crate::error::StoreError;
use crate::head::Head;
use delete::{delete, remove_orphan};

/// Writes a segment to sled, durable when it returns.
pub(crate) fn seal(
    reader: &Reader,
    segment: &Segment,
    snapshots: &[(ThreadId, Arc<Snapshot>)],
) -> Result<(), StoreError> {
    let index = &reader.index;
    remove_leftovers(index, segment.base)?;
    let mut orphans = BTreeSet::new();
    for (thread, part) in &segment.streams {
        if part.replaces {
            delete(reader, *thread, segment.base, &mut orphans)?;
        }
    }
    write_records(index, segment)?;
    write_blobs(index, segment)?;
    for hash in orphans {
        remove_orphan(index, hash)?;
    }
    for (thread, part) in &segment.streams {
        if let Some(head) = &part.head {
            write_head(index, *thread, head)?;
        }
    }
    for (name, value) in &segment.values {
        let key = value_key(name);
        index.with(|trees| match value {
            Some(value) => pieces::write(&trees.values, &key, value),
            None => pieces::remove(&trees.values, &key),
        })?;
    }
    write_snapshots(reader, snapshots)?;
    let watermark = Watermark { epoch: segment.epoch, position: segment.next_position(), group: segment.group };
    index.with(|trees| trees.meta.insert("watermark", write_watermark(&watermark)))?;
    index.sync()?;
    if segment.has_deletes {
        reader.cache.clear();
    }
    Ok(())
}

/// Takes away what an attempt that did not finish left behind.
fn remove_leftovers(index: &Index, base: Position) -> Result<(), StoreError> {
    index.with(|trees| {
        for key in trees.chunks.range(chunk_key(base, 0)..).keys() {
            trees.chunks.remove(key?)?;
        }
        for key in trees.seals.range(base.0.to_be_bytes()..).keys() {
            trees.seals.remove(key?)?;
        }
        Ok(())
    })
}

/// Cuts the records into seals and those into chunks.
fn write_records(index: &Index, segment: &Segment) -> Result<(), StoreError> {
    let mut start = 0;
    let mut streams: Vec<(ThreadId, &Part)> = segment.streams.iter().map(|(thread, part)| (*thread, part)).collect();
    streams.sort_unstable_by_key(|(thread, _)| *thread);
    while start < segment.records.len() {
        let mut bytes = 0;
        let n = segment.records[start..]
            .iter()
            .take_while(|record| {
                let within = bytes < SEAL_BYTES;
                bytes += record.as_ref().map_or(0, |record| record.payload.len() + 64);
                within
            })
            .count();
        write_seal_of(index, segment, &streams, start..start + n)?;
        start += n;
    }
    Ok(())
}

fn write_seal_of(
    index: &Index,
    segment: &Segment,
    streams: &[(ThreadId, &Part)],
    range: std::ops::Range<usize>,
) -> Result<(), StoreError> {
    let seal = Position(segment.base.0 + range.start as u64);
    let end = Position(segment.base.0 + range.end as u64);
    let mut links: Vec<Link<'_>> = Vec::with_capacity(range.len());
    for (thread, part) in streams {
        let first = part.own.partition_point(|at| (*at as usize) < range.start);
        let own = part.own[first..].iter().take_while(|at| (**at as usize) < range.end);
        let mut before = match first.checked_sub(1) {
            Some(earlier) => segment.records[part.own[earlier] as usize].as_ref().map_or(Hash::ZERO, |last| last.hash),
            None => part.before,
        };
        for record in own.filter_map(|at| segment.records[*at as usize].as_ref()) {
            let blob = chunk::is_blob(&record.payload).then(|| Hash::of(&record.payload));
            links.push(Link { record, before, blob });
            before = record.hash;
            if let Some(hash) = blob {
                write_blob(index, hash, Some(&record.payload), [Some(*thread)])?;
            }
        }
    }
    let mut number = 0;
    pack(&links, |bytes, runs| {
        index.with(|trees| {
            trees.chunks.insert(chunk_key(seal, number), bytes)?;
            for run in runs {
                let place = Place { first: run.first, seal, chunk: number, n: run.n };
                trees.runs.insert(run_key(run.thread, run.first), write_place(&place))?;
            }
            Ok(())
        })?;
        number += 1;
        Ok::<(), StoreError>(())
    })?;
    index.with(|trees| trees.seals.insert(seal.0.to_be_bytes(), write_seal(end, number))).map(|_| ())
}

fn write_head(index: &Index, thread: ThreadId, head: &Head) -> Result<(), StoreError> {
    let before = index.head(thread)?;
    let id = thread.as_bytes();
    index.with(|trees| {
        // The head last: as long as it is the old one, the old tag is known and can be taken away.
        match before {
            Some(before) if before.tag == head.tag => {}
            Some(before) => {
                trees.tags.insert(pair_key(&[head.tag.0], id), &[])?;
                trees.tags.remove(pair_key(&[before.tag.0], id))?;
            }
            None => {
                trees.tags.insert(pair_key(&[head.tag.0], id), &[])?;
                if let Some(point) = head.fork_of {
                    trees.forks.insert(pair_key(point.parent.as_bytes(), id), &[])?;
                }
            }
        }
        trees.heads.insert(id, head.encode(thread)).map(|_| ())
    })
}

fn write_blobs(index: &Index, segment: &Segment) -> Result<(), StoreError> {
    for (hash, blob) in &segment.blobs {
        write_blob(index, *hash, blob.bytes.as_deref(), blob.owners.iter().copied())?;
    }
    Ok(())
}

fn write_blob(
    index: &Index,
    hash: Hash,
    bytes: Option<&[u8]>,
    owners: impl IntoIterator<Item = Option<ThreadId>>,
) -> Result<(), StoreError> {
    let is_there = index.has_blob(hash)?;
    index.with(|trees| {
        if let Some(bytes) = bytes.filter(|_| !is_there) {
            pieces::write(&trees.blobs, hash.as_bytes(), bytes)?;
        }
        for owner in owners {
            let id = owner.as_ref().map_or(&[][..], |owner| owner.as_bytes());
            trees.owners.insert(pair_key(hash.as_bytes(), id), &[])?;
            if owner.is_some() {
                trees.owned.insert(pair_key(id, hash.as_bytes()), &[])?;
            }
        }
        Ok(())
    })
}
