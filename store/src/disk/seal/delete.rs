//! Taking a stream out of sled.

use std::collections::BTreeSet;

use rethread_events::ids::{Hash, Position, Seq, ThreadId};

use crate::disk::chunk::{self, Link};
use crate::disk::index::{Index, Place, chunk_key, pair_key, run_key};
use crate::disk::pieces;
use crate::disk::read::Reader;
use crate::error::StoreError;

/// Takes a stream and all that belongs to it out of sled; hashes of blobs that it owned are added to `orphans`.
pub(super) fn delete(
    reader: &Reader,
    thread: ThreadId,
    base: Position,
    orphans: &mut BTreeSet<Hash>,
) -> Result<(), StoreError> {
    let index = &reader.index;
    let mut seq = Seq(0);
    let mut seen = BTreeSet::new();
    loop {
        let places = index.runs(thread, seq, 256)?;
        let Some(last) = places.last() else { break };
        for place in &places {
            // Places at or after the base are leftovers, whose chunks are gone already.
            if place.seal < base && seen.insert((place.seal, place.chunk)) {
                remove_from_chunk(reader, thread, place)?;
            }
        }
        if places.len() < 256 {
            break;
        }
        seq = last.first.next();
    }
    let head = index.head(thread)?;
    let id = thread.as_bytes();
    let owned = index.with(|trees| {
        for key in trees.runs.range(run_key(thread, Seq(0))..=run_key(thread, Seq(u64::MAX))).keys() {
            trees.runs.remove(key?)?;
        }
        pieces::remove(&trees.snapshots, id)?;
        if let Some(head) = head {
            trees.tags.remove(pair_key(&[head.tag.0], id))?;
            if let Some(point) = head.fork_of {
                trees.forks.remove(pair_key(point.parent.as_bytes(), id))?;
            }
        }
        let owned = trees.owned.scan_prefix(id).keys().collect::<sled::Result<Vec<_>>>()?;
        for key in &owned {
            let hash = key.get(16..).unwrap_or_default();
            trees.owners.remove(pair_key(hash, id))?;
            trees.owned.remove(key)?;
        }
        trees.heads.remove(id)?;
        Ok(owned)
    })?;
    orphans.extend(owned.iter().filter_map(|key| {
        let hash: [u8; 32] = key.get(16..)?.try_into().ok()?;
        Some(Hash::from_bytes(hash))
    }));
    Ok(())
}

/// Writes a chunk again without the records of one stream.
fn remove_from_chunk(reader: &Reader, thread: ThreadId, place: &Place) -> Result<(), StoreError> {
    let rows = match reader.read_chunk(place.seal, place.chunk) {
        Ok(rows) => rows,
        // What is in a chunk that cannot be read is lost either way; a delete must always work.
        Err(StoreError::Damaged(damage)) => {
            tracing::warn!(%damage, "a deleted stream lay in a damaged chunk");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let links: Vec<Link<'_>> = rows
        .iter()
        .filter(|row| row.record.thread != thread)
        .map(|row| Link { record: &row.record, before: row.before, blob: row.blob })
        .collect();
    let bytes = chunk::pack_one(&links);
    reader.index.with(|trees| trees.chunks.insert(chunk_key(place.seal, place.chunk), bytes)).map(|_| ())
}

pub(super) fn remove_orphan(index: &Index, hash: Hash) -> Result<(), StoreError> {
    index.with(|trees| {
        if trees.owners.scan_prefix(hash.as_bytes()).next().transpose()?.is_none() {
            pieces::remove(&trees.blobs, hash.as_bytes())?;
        }
        Ok(())
    })
}
