//! When a state is worth keeping.

use rethread_events::ids::Seq;

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
