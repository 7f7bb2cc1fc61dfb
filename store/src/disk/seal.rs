//! Sealing: moving a segment from the journal into sled. Until the watermark is written, it is repeated from the start
//! after a failure or a crash, so every step may find remains of an earlier attempt. After the watermark the seal
//! counts, and only has to be made durable.

mod delete;
mod leftovers;
mod snapshots;

use std::collections::{BTreeSet, HashSet};

use rethread_events::ids::{Hash, Position, ThreadId};

pub(crate) use snapshots::{snapshot, snapshots, write_snapshots};

use super::chunk::{self, Link, Packer, Run};
use super::index::{
    Changes, Index, Place, Watermark, chunk_key, pair_key, run_key, value_key, write_place, write_seal, write_watermark,
};
use super::limits::SEAL_BYTES;
use super::packs::{ChunkLocation, PackWriter};
use super::pieces;
use super::read::Reader;
use super::tail::{Part, Segment};
use super::waiting::Waiting;
use crate::error::StoreError;
use crate::head::Head;
use crate::record::Record;
use delete::{delete, free_dead, remove_orphan, replace, rewrite};
use leftovers::remove_leftovers;

/// Moves a segment out of the journal, durable when it returns: chunks into the packs, then the rest into sled, which
/// makes them valid.
pub(crate) fn seal(reader: &Reader, segment: &Segment, snapshots: &[(ThreadId, Waiting)]) -> Result<(), StoreError> {
    let index = &reader.index;
    let watermark = match index.watermark()? {
        // An attempt before this one came so far, and what it wrote is what counts now, on the disk or not yet.
        Some(watermark) if watermark.epoch >= segment.epoch => watermark,
        _ => write(reader, segment, snapshots)?,
    };
    index.sync()?;
    reader.packs.set_end(watermark.packs);
    if segment.has_deletes {
        reader.cache.clear();
    }
    free_dead(index, &reader.packs)
}

/// Writes all of the segment, the watermark last; that is durable with the next sync of sled.
fn write(reader: &Reader, segment: &Segment, snapshots: &[(ThreadId, Waiting)]) -> Result<Watermark, StoreError> {
    let index = &reader.index;
    remove_leftovers(index, segment)?;
    let mut packs = reader.packs.begin(|| index.spots())?;
    let mut packer = Packer::default();
    let replaced: HashSet<ThreadId> =
        segment.streams.iter().filter(|(_, part)| part.replaces).map(|(thread, _)| *thread).collect();
    let rewritten = rewrite(reader, &replaced, segment.base, &mut packer, &mut packs)?;
    let sealed = pack_records(segment, &mut packer, &mut packs)?;
    let end = packs.finish()?;

    replace(index, &rewritten)?;
    let mut orphans = BTreeSet::new();
    for thread in replaced {
        delete(index, thread, &mut orphans)?;
    }
    for hash in &segment.released {
        index.with(|trees| trees.owners.remove(pair_key(hash.as_bytes(), &[])))?;
        orphans.insert(*hash);
    }
    let mut runs = Changes::new();
    for one in &sealed {
        one.write(index, &mut runs)?;
    }
    index.with(|trees| trees.runs.write(runs))?;
    write_blobs(index, segment)?;
    for hash in orphans {
        remove_orphan(index, hash)?;
    }
    let mut heads: Vec<(ThreadId, Head)> =
        segment.streams.iter().filter_map(|(thread, part)| Some((*thread, part.head?))).collect();
    heads.sort_unstable_by_key(|(thread, _)| *thread);
    write_heads(index, &heads)?;
    if !segment.keys.is_empty() {
        index.write_keys(segment.keys.by_key(), segment.keys.by_thread())?;
    }
    for (name, value) in &segment.values {
        let key = value_key(name);
        index.with(|trees| match value {
            Some(value) => pieces::write(&trees.values, &key, value),
            None => pieces::remove(&trees.values, &key),
        })?;
    }
    write_snapshots(reader, snapshots)?;
    let (epoch, position, group) = (segment.epoch, segment.next_position(), segment.group);
    let watermark = Watermark { epoch, position, group, packs: end };
    index.with(|trees| trees.meta.insert("watermark", write_watermark(&watermark)))?;
    Ok(watermark)
}

/// Records that are read together by position, as they lie in the packs.
struct Sealed<'a> {
    seal: Position,
    end: Position,
    chunks: Vec<(ChunkLocation, Vec<Run>)>,
    blobs: Vec<(Hash, &'a Record)>,
}

impl Sealed<'_> {
    /// Writes them into sled, except the locations of their runs.
    fn write(&self, index: &Index, places: &mut Changes) -> Result<(), StoreError> {
        for (hash, record) in &self.blobs {
            write_blob(index, *hash, Some(&record.payload), [Some(record.thread)])?;
        }
        index.with(|trees| {
            for (number, (spot, runs)) in (0..).zip(&self.chunks) {
                trees.chunks.insert(chunk_key(self.seal, number), &spot.write())?;
                for run in runs {
                    let place = Place { first: run.first, seal: self.seal, chunk: number, n: run.n };
                    places.insert(run_key(run.thread, run.first).into(), Some(write_place(&place)));
                }
            }
            let n = self.chunks.len() as u32;
            trees.seals.insert(self.seal.0.to_be_bytes(), write_seal(self.end, n)).map(|_| ())
        })
    }
}

/// Cuts the records into seals and those into chunks.
fn pack_records<'a>(
    segment: &'a Segment,
    packer: &mut Packer,
    packs: &mut PackWriter<'_>,
) -> Result<Vec<Sealed<'a>>, StoreError> {
    let mut streams: Vec<(ThreadId, &Part)> = segment.streams.iter().map(|(thread, part)| (*thread, part)).collect();
    streams.sort_unstable_by_key(|(thread, _)| *thread);
    let (mut start, mut sealed) = (0, Vec::new());
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
        sealed.push(pack_seal(segment, &streams, start..start + n, packer, packs)?);
        start += n;
    }
    Ok(sealed)
}

fn pack_seal<'a>(
    segment: &'a Segment,
    streams: &[(ThreadId, &'a Part)],
    range: std::ops::Range<usize>,
    packer: &mut Packer,
    packs: &mut PackWriter<'_>,
) -> Result<Sealed<'a>, StoreError> {
    let mut links: Vec<Link<'_>> = Vec::with_capacity(range.len());
    let mut blobs = Vec::new();
    for (_, part) in streams {
        let first = part.own.partition_point(|at| (*at as usize) < range.start);
        let own = part.own[first..].iter().take_while(|at| (**at as usize) < range.end);
        let mut before = match first.checked_sub(1) {
            Some(earlier) => segment.records[part.own[earlier] as usize].as_ref().map_or(Hash::ZERO, |last| last.hash),
            None => part.before,
        };
        for record in own.filter_map(|at| segment.records[*at as usize].as_ref()) {
            let blob = chunk::is_blob(&record.payload).then(|| Hash::of(&record.payload));
            links.push(Link { record, before, blob });
            blobs.extend(blob.map(|hash| (hash, record)));
            before = record.hash;
        }
    }
    let mut chunks = Vec::new();
    packer.pack(&links, |bytes, runs| {
        chunks.push((packs.add(bytes)?, runs));
        Ok::<(), StoreError>(())
    })?;
    let at = |index: usize| Position(segment.base.0 + index as u64);
    Ok(Sealed { seal: at(range.start), end: at(range.end), chunks, blobs })
}

/// Writes heads, which are in the order of their threads.
pub(super) fn write_heads(index: &Index, heads: &[(ThreadId, Head)]) -> Result<(), StoreError> {
    let threads: Vec<ThreadId> = heads.iter().map(|(thread, _)| *thread).collect();
    let (mut rows, mut tags, mut forks) = (Changes::new(), Changes::new(), Changes::new());
    for ((thread, head), before) in heads.iter().zip(index.heads(&threads)?) {
        let id = thread.as_bytes();
        // Also where the old head has the same tag: then it is there, and no block of rows changes.
        tags.insert(pair_key(&[head.tag.0], id), Some(Vec::new()));
        match before {
            Some(before) if before.tag != head.tag => {
                tags.insert(pair_key(&[before.tag.0], id), None);
            }
            Some(_) => {}
            None => {
                if let Some(point) = head.fork_of {
                    forks.insert(pair_key(point.parent.as_bytes(), id), Some(Vec::new()));
                }
            }
        }
        rows.insert(id.into(), Some(head.encode(*thread)));
    }
    index.with(|trees| {
        trees.tags.write(tags)?;
        trees.forks.write(forks)?;
        // The heads last: until a head is replaced, its old tag is known and can be removed.
        trees.heads.write(rows)
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

#[cfg(test)]
mod tests;
