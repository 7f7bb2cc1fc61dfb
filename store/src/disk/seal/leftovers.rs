//! Removes the remains of an attempt that did not finish.

use rethread_events::ids::{Seq, ThreadId};

use crate::disk::index::{Index, Trees, chunk_key, run_key};
use crate::disk::tail::Segment;
use crate::error::StoreError;

/// How many locations of runs are removed at a time.
const RUNS: usize = 256;

/// Removes the chunks, seals and runs of an attempt to seal this segment. If it is repeated, chunks may begin
/// elsewhere: an append whose write failed can be in the journal all the same, and is part of the segment only once
/// that was read again.
pub(super) fn remove_leftovers(index: &Index, segment: &Segment) -> Result<(), StoreError> {
    let (chunks, seals) = (chunk_key(segment.base, 0).., segment.base.0.to_be_bytes()..);
    let mut runs = Vec::new();
    for (thread, part) in &segment.streams {
        runs.extend(segment.first_own(part).map(|first| (*thread, first)));
    }
    index.with(|trees| {
        // A seal writes these into sled before the runs, so they are removed after them.
        if trees.chunks.range(chunks.clone()).next().is_none() && trees.seals.range(seals.clone()).next().is_none() {
            return Ok(());
        }
        for (thread, first) in runs {
            remove_runs(trees, thread, first)?;
        }
        for key in trees.chunks.range(chunks).keys() {
            trees.chunks.remove(key?)?;
        }
        for key in trees.seals.range(seals).keys() {
            trees.seals.remove(key?)?;
        }
        Ok(())
    })
}

/// Removes the runs of a stream from this seq on.
pub(super) fn remove_runs(trees: &Trees, thread: ThreadId, from: Seq) -> sled::Result<()> {
    let (low, high) = (run_key(thread, from), run_key(thread, Seq(u64::MAX)));
    loop {
        let runs = trees.runs.range(&low, &high, RUNS)?;
        if runs.is_empty() {
            return Ok(());
        }
        trees.runs.write(runs.into_iter().map(|(key, _)| (key, None)).collect())?;
    }
}
