//! When a state is worth keeping, and the keeping of it.

use std::sync::Arc;

use rethread_events::bin;
use rethread_events::ids::{Hash, Seq, ThreadId};
use rethread_events::thread::{STATE_VERSION, State};
use rethread_store::{Snapshot, Store};

/// So many events are folded in about three milliseconds: shorter threads, and that is most, never write a snapshot,
/// and their log costs the disk nothing beside their events.
const EVENTS_MIN: u64 = 2_048;

/// Whether a live thread at `next` should write a snapshot, its last one being at `last`. The distance grows with
/// the thread, so that all snapshots of a thread together cost no more than a constant factor of its log, and a cold
/// start folds at most half as many events again as the snapshot holds.
pub(crate) fn is_due(next: Seq, last: Option<Seq>) -> bool {
    let last = last.map_or(0, |seq| seq.0);
    next.0 - last.min(next.0) >= EVENTS_MIN.max(last / 2)
}

/// Whether a thread that is put away should leave one.
pub(crate) fn is_due_when_put_away(next: Seq, last: Option<Seq>) -> bool {
    next.0 - last.map_or(0, |seq| seq.0).min(next.0) >= EVENTS_MIN
}

/// Writes the state beside the log. A cache: when it fails, the next start folds a little more.
pub(crate) fn keep(store: &Arc<dyn Store>, state: &State, seq: Seq, hash: Hash) {
    let (store, thread) = (store.clone(), state.thread());
    match bin::encode(state) {
        Ok(state) => drop(actix_rt::task::spawn_blocking(move || {
            let snapshot = Snapshot { seq, hash, version: STATE_VERSION, state };
            if let Err(error) = store.put_snapshot(thread, snapshot) {
                tracing::warn!(%thread, %error, "no snapshot was kept");
            }
        })),
        Err(error) => tracing::warn!(%thread, %error, "no snapshot was kept"),
    }
}

/// Nobody waits for an answer of a thread that has ended: its snapshot, which may be as large as all it said, makes
/// room. An empty one of no version takes its place.
pub(crate) fn give_back(store: &Arc<dyn Store>, thread: ThreadId, seq: Seq) {
    let store = store.clone();
    drop(actix_rt::task::spawn_blocking(move || {
        let none = Snapshot { seq, hash: Hash::ZERO, version: 0, state: Vec::new() };
        if let Err(error) = store.put_snapshot(thread, none) {
            tracing::debug!(%thread, %error, "the snapshot of an ended thread stays");
        }
    }));
}
