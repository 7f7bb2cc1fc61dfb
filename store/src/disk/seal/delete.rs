//! Taking streams out of sled and out of the packs.

use std::collections::{BTreeSet, HashSet};

use rethread_events::ids::{Hash, Position, Seq, ThreadId};

use super::leftovers::remove_runs;
use super::snapshots::remove_snapshots;
use crate::disk::chunk::{Link, Packer};
use crate::disk::index::{Changes, Dead, Index, Place, chunk_key, pair_key, write_dead};
use crate::disk::packs::{ChunkLocation, PackWriter, Packs};
use crate::disk::pieces;
use crate::disk::read::Reader;
use crate::error::StoreError;

/// How many places of runs are looked up at a time.
const RUNS: usize = 256;

/// A chunk that was written again without the streams that are deleted.
pub(super) struct Rewritten {
    seal: Position,
    chunk: u32,
    before: ChunkLocation,
    now: ChunkLocation,
}

/// Writes the chunks again that hold records of the streams, without those. Nothing is different until
/// [`replace`] is called.
pub(super) fn rewrite(
    reader: &Reader,
    threads: &HashSet<ThreadId>,
    base: Position,
    packer: &mut Packer,
    packs: &mut PackWriter<'_>,
) -> Result<Vec<Rewritten>, StoreError> {
    let mut chunks = BTreeSet::new();
    for thread in threads {
        let mut seq = Seq(0);
        loop {
            let places = reader.index.runs(*thread, seq, RUNS)?;
            // Locations at or after the base are leftovers, whose chunks are deleted already.
            let kept = places.iter().filter(|place| place.seal < base);
            chunks.extend(kept.map(|Place { seal, chunk, .. }| (*seal, *chunk)));
            match places.last() {
                Some(last) if places.len() == RUNS => seq = last.first.next(),
                _ => break,
            }
        }
    }
    let mut rewritten = Vec::new();
    for (seal, chunk) in chunks {
        let rows = match reader.read_chunk(seal, chunk) {
            Ok(rows) => rows,
            // The records of an unreadable chunk are lost either way; a delete must always work.
            Err(StoreError::Damaged(damage)) => {
                tracing::warn!(%damage, "a deleted stream was in a damaged chunk");
                continue;
            }
            Err(error) => return Err(error),
        };
        let links: Vec<Link<'_>> = rows
            .iter()
            .filter(|row| !threads.contains(&row.record.thread))
            .map(|row| Link { record: &row.record, before: row.before, blob: row.blob })
            .collect();
        // An attempt before this one may have done it.
        if links.len() < rows.len()
            && let Some(before) = reader.index.chunk(seal, chunk)?
        {
            let now = packs.add(packer.pack_one(&links))?;
            rewritten.push(Rewritten { seal, chunk, before, now });
        }
    }
    Ok(rewritten)
}

/// Records the new locations of chunks, once they are durable there.
pub(super) fn replace(index: &Index, rewritten: &[Rewritten]) -> Result<(), StoreError> {
    index.with(|trees| {
        for Rewritten { seal, chunk, before, now } in rewritten {
            let (key, value) = write_dead(&Dead { spot: *before, seal: *seal, chunk: *chunk });
            trees.dead.insert(key, &value)?;
            trees.chunks.insert(chunk_key(*seal, *chunk), &now.write())?;
        }
        Ok(())
    })
}

/// Reclaims unreferenced chunks. To be called when sled is synced: until then the old places may still be those
/// that count.
pub(super) fn free_dead(index: &Index, packs: &Packs) -> Result<(), StoreError> {
    if packs.is_backed_up() {
        return Ok(());
    }
    let dead = index.dead()?;
    if dead.is_empty() {
        return Ok(());
    }
    let mut spots = Vec::new();
    for one in &dead {
        // An interrupted attempt may have recorded this too early.
        if index.chunk(one.seal, one.chunk)? != Some(one.spot) {
            spots.push(one.spot);
        }
    }
    if packs.free(spots)? {
        packs.remove_unused(&index.spots()?)?;
    }
    index.with(|trees| {
        for one in &dead {
            trees.dead.remove(write_dead(one).0)?;
        }
        Ok(())
    })
}

/// Removes all that belongs to a stream from sled; hashes of blobs that it owned are added to `orphans`.
pub(super) fn delete(index: &Index, thread: ThreadId, orphans: &mut BTreeSet<Hash>) -> Result<(), StoreError> {
    let head = index.head(thread)?;
    let id = thread.as_bytes();
    remove_snapshots(index, thread)?;
    index.remove_keys(thread)?;
    let owned = index.with(|trees| {
        remove_runs(trees, thread, Seq(0))?;
        if let Some(head) = head {
            trees.tags.write(Changes::from([(pair_key(&[head.tag.0], id), None)]))?;
            if let Some(point) = head.fork_of {
                trees.forks.write(Changes::from([(pair_key(point.parent.as_bytes(), id), None)]))?;
            }
        }
        let owned = trees.owned.scan_prefix(id).keys().collect::<sled::Result<Vec<_>>>()?;
        for key in &owned {
            let hash = key.get(16..).unwrap_or_default();
            trees.owners.remove(pair_key(hash, id))?;
            trees.owned.remove(key)?;
        }
        trees.heads.write(Changes::from([(id.into(), None)]))?;
        Ok(owned)
    })?;
    orphans.extend(owned.iter().filter_map(|key| {
        let hash: [u8; 32] = key.get(16..)?.try_into().ok()?;
        Some(Hash::from_bytes(hash))
    }));
    Ok(())
}

pub(super) fn remove_orphan(index: &Index, hash: Hash) -> Result<(), StoreError> {
    index.with(|trees| {
        if trees.owners.scan_prefix(hash.as_bytes()).next().transpose()?.is_none() {
            pieces::remove(&trees.blobs, hash.as_bytes())?;
        }
        Ok(())
    })
}
