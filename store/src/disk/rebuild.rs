//! A log of which sled lost something: what the packs hold says itself whose it is, so that it can be read again.
//!
//! Only sled had payloads over 16 KiB, blobs, values, keys and how streams are marked: of those there is what it still has.
//! Records of threads that were deleted may be found again, where they were not erased yet.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use rethread_events::ids::{Hash, Position, Seq, ThreadId};

use super::chunk::{self, Row};
use super::index::{Changes, Index, Place, Trees, Watermark, chunk_key, run_key, write_place};
use super::mark::LogEnd;
use super::packs::{End, Packs};
use super::seal::write_heads;
use crate::contract::{ForkPoint, Tag};
use crate::error::StoreError;
use crate::head::Head;

/// The tag of a stream whose last tag is lost, because only its user knows it.
pub const TAG_LOST: Tag = Tag(u8::MAX);

/// The first and the last record of a stream that were found.
struct Ends {
    first: Row,
    last: Row,
}

/// Fills an empty index with the content of the packs, so that streams can be read, and with the remains in sled. Reads
/// all packs, those of forks twice. Returns the position up to which that succeeded.
pub(super) fn rebuild(index: &Index, sled: &Index, packs: &Packs, log_end: &LogEnd) -> Result<Watermark, StoreError> {
    let trees: [fn(&Trees) -> &sled::Tree; 5] = [
        |trees| &trees.blobs,
        |trees| &trees.owners,
        |trees| &trees.values,
        |trees| trees.keys.tree(),
        |trees| trees.keys_of.tree(),
    ];
    for tree in trees {
        copy(tree, sled, index)?;
    }
    let mut ends: BTreeMap<ThreadId, Ends> = BTreeMap::new();
    let (mut next, mut number) = (Position(0), 0);
    packs.scan(|spot, bytes| {
        let Ok(rows) = chunk::unpack(bytes) else { return Ok(false) };
        index.with(|trees| {
            trees.chunks.insert(chunk_key(Position(0), number), &spot.write())?;
            let mut places = Changes::new();
            for run in rows.chunk_by(|a, b| a.record.thread == b.record.thread && a.record.seq.next() == b.record.seq) {
                let first = &run[0].record;
                let place = Place { first: first.seq, seal: Position(0), chunk: number, n: run.len() as u64 };
                places.insert(run_key(first.thread, first.seq).into(), Some(write_place(&place)));
            }
            trees.runs.write(places)
        })?;
        for row in rows {
            next = next.max(row.record.position.next());
            note(&mut ends, row);
        }
        number += 1;
        Ok(true)
    })?;
    let parents = parents(packs, &ends)?;
    let heads = ends.iter().map(|(thread, Ends { first, last })| {
        let head = Head {
            last_seq: last.record.seq,
            last_position: last.record.position,
            hash: last.record.hash,
            tag: sled.head(*thread).ok().flatten().map_or(TAG_LOST, |head| head.tag),
            first_at: first.record.recorded_at,
            last_at: last.record.recorded_at,
            fork_of: parents.get(&first.before).copied().filter(|_| first.record.seq > Seq(0)),
            trace: last.record.trace,
        };
        (*thread, head)
    });
    write_heads(index, &heads.collect::<Vec<_>>())?;
    // All that the log had reached: then no end of the journal is missing.
    let group = if next == log_end.next { log_end.group } else { 0 };
    Ok(Watermark { epoch: log_end.sealed_epoch, position: next, group, packs: End::default() })
}

/// Copies what can still be read of a tree.
fn copy(tree: fn(&Trees) -> &sled::Tree, from: &Index, to: &Index) -> Result<(), StoreError> {
    let mut rows = Vec::new();
    let read = from.with(|trees| {
        for row in tree(trees) {
            rows.push(row?);
        }
        Ok(())
    });
    if let Err(error) = read {
        tracing::warn!(%error, "a part of the index is lost");
    }
    to.with(|trees| {
        for (key, value) in rows {
            tree(trees).insert(key, value)?;
        }
        Ok(())
    })
}

fn note(ends: &mut BTreeMap<ThreadId, Ends>, row: Row) {
    // The payloads of a whole log do not fit into memory.
    let mut row = row;
    row.record.payload = Bytes::new();
    match ends.get_mut(&row.record.thread) {
        None => {
            ends.insert(row.record.thread, Ends { first: row.clone(), last: row });
        }
        Some(found) if row.record.seq > found.last.record.seq => found.last = row,
        Some(found) if row.record.seq < found.first.record.seq => found.first = row,
        Some(_) => {}
    }
}

/// Where streams were forked off whose first record follows from that of another, by its hash.
fn parents(packs: &Packs, ends: &BTreeMap<ThreadId, Ends>) -> Result<HashMap<Hash, ForkPoint>, StoreError> {
    let forks = ends.values().filter(|ends| ends.first.record.seq > Seq(0));
    let wanted: HashMap<Hash, Seq> = forks.map(|ends| (ends.first.before, ends.first.record.seq)).collect();
    let mut found = HashMap::new();
    if wanted.is_empty() {
        return Ok(found);
    }
    packs.scan(|_, bytes| {
        let Ok(rows) = chunk::unpack(bytes) else { return Ok(false) };
        for row in rows {
            let record = row.record;
            if wanted.get(&record.hash) == Some(&record.seq.next()) {
                found.insert(record.hash, ForkPoint { parent: record.thread, seq: record.seq });
            }
        }
        Ok(true)
    })?;
    Ok(found)
}
