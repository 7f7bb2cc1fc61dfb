//! Decides when a snapshot is written, and which ones stay.
//!
//! A live thread has a recent snapshot in the log, so that it is reloaded quickly. A long thread has a few more at
//! earlier seqs, also after it has ended, so that a historical read folds at most a quarter of it. A fork has none of
//! what it inherits: there, the quarter is one of the thread that it inherits from.

use rethread_events::ids::Seq;
use rethread_events::thread::State;

/// The fewest events before a snapshot. So many are folded in about three milliseconds. Shorter threads, which are most
/// threads, never write a snapshot, and cost the disk only their events.
pub(crate) const EVENTS_MIN: u64 = 2_048;

/// The longest stretch that needs no snapshot inside it. A new process reads and folds so many events in about thirteen
/// milliseconds. A thread that is no longer leaves no snapshot when it has ended: a state may be as large as the whole
/// conversation.
const STRETCH_MIN: u64 = 16_384;

/// The part of a thread that a historical read may have to fold is one in so many. With a quarter there are up to five
/// snapshots before the end. If states grow with the thread, these are together at most three times as large as its
/// last one, and those of a fork four times.
const STRETCHES: u64 = 4;

/// Returns how long a stretch without a snapshot may be in a thread with so many events.
fn stretch_max(n_events: u64) -> u64 {
    STRETCH_MIN.max(n_events / STRETCHES)
}

/// Returns the first seq of the thread itself: for earlier ones, a fork uses the snapshots of the thread that it
/// inherits from.
pub(crate) fn begins(state: &State) -> Seq {
    state.forked_from().map_or(Seq(0), |(_, seq)| seq)
}

/// Returns whether a live thread at `next` writes a snapshot. `last` is the seq of its last one, or its beginning. The
/// distance grows with the thread, so that all snapshots of a thread together cost at most a constant factor of its own
/// log, and a cold start folds at most a third as many events again as there are before `last`.
pub(crate) fn is_due(next: Seq, last: Seq) -> bool {
    next.0.saturating_sub(last.0) >= EVENTS_MIN.max(last.0 / (STRETCHES - 1))
}

/// Returns whether a thread that is passivated writes one.
pub(crate) fn is_due_when_passivated(next: Seq, last: Seq) -> bool {
    next.0.saturating_sub(last.0) >= EVENTS_MIN
}

/// Returns which snapshots of a live thread that begins at `from` stay, all sorted: the last one, and as few earlier
/// ones as leave no stretch that is too long.
pub(crate) fn thinned_out(seqs: &[Seq], from: Seq) -> Vec<Seq> {
    let Some((last, before)) = seqs.split_last() else { return Vec::new() };
    let mut kept = needed(before, from, *last);
    kept.push(*last);
    kept
}

/// Returns the snapshots that historical reads need of a thread that ended with the event `end`.
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
