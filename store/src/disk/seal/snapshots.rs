//! Snapshots in sled: each under its thread and seq.

use std::ops::Bound;

use rethread_events::ids::{Hash, Seq, ThreadId};

use crate::contract::Snapshot;
use crate::disk::index::{Index, pair_key};
use crate::disk::pieces;
use crate::disk::read::Reader;
use crate::disk::waiting::Waiting;
use crate::error::StoreError;
use crate::wire::Put;

/// thread ‖ seq, to which the number of a piece is added.
const KEY_BYTES: usize = 16 + 8;
const PIECE_KEY_BYTES: usize = KEY_BYTES + 4;

fn key(thread: ThreadId, seq: Seq) -> Vec<u8> {
    pair_key(thread.as_bytes(), &seq.0.to_be_bytes())
}

/// Writes the changes to snapshots to sled, not durable yet when it returns. What is damaged there stays as it is.
pub(crate) fn write_snapshots(reader: &Reader, changes: &[(ThreadId, Waiting)]) -> Result<(), StoreError> {
    let index = &reader.index;
    for (thread, waiting) in changes {
        let thread = *thread;
        // One of a stream that was deleted meanwhile would stay for ever.
        if unless_damaged(thread, reader.find_head(thread))?.flatten().is_none() {
            continue;
        }
        if waiting.thins_out() {
            for seq in snapshots(index, thread)?.into_iter().filter(|seq| !waiting.retains(*seq)) {
                let key = key(thread, seq);
                unless_damaged(thread, index.with(|trees| pieces::remove(&trees.snapshots, &key)))?;
            }
        }
        for snapshot in waiting.iter() {
            let (key, bytes) = (key(thread, snapshot.seq), encode_snapshot(snapshot));
            unless_damaged(thread, index.with(|trees| pieces::write(&trees.snapshots, &key, &bytes)))?;
        }
    }
    Ok(())
}

/// Removes all snapshots of a stream, except those that are damaged.
pub(super) fn remove_snapshots(index: &Index, thread: ThreadId) -> Result<(), StoreError> {
    let removed = index.with(|trees| {
        for key in trees.snapshots.scan_prefix(thread.as_bytes()).keys() {
            trees.snapshots.remove(key?)?;
        }
        Ok(())
    });
    unless_damaged(thread, removed).map(drop)
}

/// Snapshots are a cache: where they are damaged they are done without, and nothing else waits for them.
fn unless_damaged<T>(thread: ThreadId, result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(StoreError::Damaged(damage)) => {
            tracing::warn!(%thread, %damage, "ignoring a damaged snapshot");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns the seqs of the stream's snapshots in sled, the oldest first, but for those before a damaged one. Searches for
/// one after the other from the end, since walking over all pieces would read them.
pub(crate) fn snapshots(index: &Index, thread: ThreadId) -> Result<Vec<Seq>, StoreError> {
    let mut seqs = Vec::new();
    let low = Bound::Included(thread.as_bytes().to_vec());
    let mut high = Bound::Included(pair_key(thread.as_bytes(), &[0xff; 12]));
    loop {
        let range = (low.clone(), high);
        let row = index.with(|trees| trees.snapshots.range(range).next_back().transpose());
        let Some((found, _)) = unless_damaged(thread, row)?.flatten() else { break };
        high = match found.get(16..KEY_BYTES).and_then(|seq| <[u8; 8]>::try_from(seq).ok()) {
            Some(seq) if found.len() == PIECE_KEY_BYTES => {
                seqs.push(Seq(u64::from_be_bytes(seq)));
                Bound::Excluded(found[..KEY_BYTES].to_vec())
            }
            _ => Bound::Excluded(found.to_vec()),
        };
    }
    seqs.reverse();
    Ok(seqs)
}

/// Returns the snapshot of the stream at that seq; `None` if there is none or it is damaged.
pub(crate) fn snapshot(index: &Index, thread: ThreadId, seq: Seq) -> Result<Option<Snapshot>, StoreError> {
    let bytes = unless_damaged(thread, index.pieces(|trees| &trees.snapshots, &key(thread, seq)))?.flatten();
    Ok(bytes.and_then(|bytes| decode_snapshot(&bytes)).filter(|found| found.seq == seq))
}

fn encode_snapshot(snapshot: &Snapshot) -> Vec<u8> {
    let mut out = Vec::with_capacity(snapshot.state.len() + 48);
    out.var(snapshot.seq.0);
    out.bytes(snapshot.hash.as_bytes());
    out.var(snapshot.version.into());
    let packed = lz4_flex::block::compress(&snapshot.state);
    out.var(snapshot.state.len() as u64);
    out.bytes(&packed);
    out
}

/// Decodes a snapshot; `None` if the bytes are not one.
fn decode_snapshot(bytes: &[u8]) -> Option<Snapshot> {
    let mut take = crate::wire::Take(bytes);
    let seq = Seq(take.var().ok()?);
    let hash = Hash::from_bytes(take.array().ok()?);
    let version = take.narrow().ok()?;
    let n: usize = take.narrow().ok()?;
    if n > crate::plan::PAYLOAD_BYTES_MAX {
        return None;
    }
    let state = lz4_flex::block::decompress(take.0, n).ok()?;
    Some(Snapshot { seq, hash, version, state })
}

#[cfg(test)]
mod tests;
