//! Snapshots in sled.

use std::sync::Arc;

use rethread_events::ids::{Hash, Seq, ThreadId};

use crate::contract::Snapshot;
use crate::disk::pieces;
use crate::disk::read::Reader;
use crate::error::StoreError;
use crate::wire::Put;

/// Writes snapshots to sled, not durable yet when it returns.
pub(crate) fn write_snapshots(reader: &Reader, snapshots: &[(ThreadId, Arc<Snapshot>)]) -> Result<(), StoreError> {
    for (thread, snapshot) in snapshots {
        // One of a stream that was deleted meanwhile would stay for ever.
        if reader.find_head(*thread)?.is_some() {
            let bytes = encode_snapshot(snapshot);
            reader.index.with(|trees| pieces::write(&trees.snapshots, thread.as_bytes(), &bytes))?;
        }
    }
    Ok(())
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

/// The snapshot behind these bytes, `None` when they are not one.
pub(crate) fn decode_snapshot(bytes: &[u8]) -> Option<Snapshot> {
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
