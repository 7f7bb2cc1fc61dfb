//! When a state is worth keeping, and which ones stay.
//!
//! A live thread has a recent state in the log, so that it is reloaded quickly. A long one
//! has a few more along the way, also after it has ended, so that a historical read folds a quarter of it at
//! most. A fork has none of what it inherits: there, the quarter is one of the thread that it inherits from.

use rethread_events::ids::Seq;
use rethread_events::thread::State;

/// So many events are folded in about three milliseconds: shorter threads, and that is most, never write a snapshot,
/// and their log costs the disk nothing beside their events.
pub(crate) const EVENTS_MIN: u64 = 2_048;

/// So many events are read and folded in about thirteen milliseconds by a process that has just begun. A stretch of a
/// thread that is no longer than this needs no snapshot inside of it, so that a thread which is no longer leaves none
/// when it has ended: a state may be as large as all that was said.
const STRETCH_MIN: u64 = 16_384;

/// The part of a thread that may have to be folded for a look at one of its moments. With a quarter there are up to five
/// snapshots along the way; where states grow with the thread they are all in all at most three times as large as its
/// last one, and those of a fork four times.
const STRETCHES: u64 = 4;

/// How long a stretch without a snapshot may be in a thread with so many events.
fn stretch_max(n_events: u64) -> u64 {
    STRETCH_MIN.max(n_events / STRETCHES)
}

/// Where a thread's own events begin: for what is before, a fork has the snapshots of the thread that it inherits from.
pub(crate) fn begins(state: &State) -> Seq {
    state.forked_from().map_or(Seq(0), |(_, seq)| seq)
}

/// Whether a live thread at `next` should write a snapshot, its last one being at `last`, or its beginning. The distance
/// grows with the thread, so that all snapshots of a thread together cost no more than a constant factor of its own log,
/// and a cold start folds at most a third as many events again as there are before `last`.
pub(crate) fn is_due(next: Seq, last: Seq) -> bool {
    next.0.saturating_sub(last.0) >= EVENTS_MIN.max(last.0 / (STRETCHES - 1))
}

/// Whether a thread that is put away should leave one.
pub(crate) fn is_due_when_put_away(next: Seq, last: Seq) -> bool {
    next.0.saturating_sub(last.0) >= EVENTS_MIN
}

/// Which of the snapshots of a thread that begins at `from` stay, all of them sorted, while it lives: the last one, and
/// before it as few as leave no stretch that is too long.
pub(crate) fn thinned_out(seqs: &[Seq], from: Seq) -> Vec<Seq> {
    let Some((last, before)) = seqs.split_last() else { return Vec::new() };
    let mut kept = needed(before, from, *last);
    kept.push(*last);
    kept
}

/// The ones that historical reads of a thread need that ends with the event `end`.
pub(crate) fn needed(seqs: &[Seq], mut from: Seq, end: Seq) -> Vec<Seq> {
    let stretch = stretch_max(end.0);
    let mut kept = Vec::new();
    for (at, seq) in seqs.iter().enumerate() {
        let next = seqs.get(at + 1).unwrap_or(&end);
        if next.0.saturating_sub(from.0) > stretch {
            kept.push(*seq);
            from = *seq;
        }
    }
    kept
}

#[cfg(test)]
mod tests;
