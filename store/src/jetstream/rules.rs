//! The rules by which every replica of the stream comes to the same log: which messages count, and what follows from them.
//!
//! A message counts if it has the epoch of the last take-over and the number after that of the last message that counted.
//! So an operation that was published twice counts once, one that was published after a lost one does not count, and
//! nothing counts of a process that another one took the log over from.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rethread_events::ids::{Position, ThreadId};

use super::summary::{ErasedThread, Erasure, Summary};
use crate::wire::{Malformed, Put, Take};

/// Beyond this many messages that did not count or were refused, a summary is published though nothing was erased.
const IGNORED_MAX: usize = 4096;

/// How far a replica has come, and what it must remember of the messages up to there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    /// The sequence in the stream of the last message that was taken in.
    pub(super) sequence: u64,
    /// The position of the next record.
    pub(super) position: Position,
    /// The sequence of the last take-over; 0 before the first.
    pub(super) epoch: u64,
    /// The number of the last message of that epoch that counted.
    pub(super) number: u64,
    /// The opening of the log that took over then. Zeros before the first.
    pub(super) opening: [u8; 16],
    /// The last refused append of a thread in that epoch, by its number.
    pub(super) refused: BTreeMap<ThreadId, u64>,
    /// The messages since the last summary that did not count, by sequence.
    pub(super) ignored: Vec<u64>,
    /// The last messages of operations since the last summary that were refused, by sequence. A replica that comes later may
    /// not see why: a thread could not be deleted while it had a fork, and the fork left the stream since.
    pub(super) refusals: Vec<u64>,
    /// What was deleted, and may still be in the stream.
    pub(super) erasures: Vec<Erasure>,
}

/// What to do with a message of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Counts,
    /// It was published twice, after a lost one, or by a process that lost the log.
    Ignored,
    /// It belongs to a thread that was deleted later: nothing of it is applied.
    Erased,
    /// It ends an operation that was refused.
    Refused,
}

impl State {
    /// Whether a message of an operation counts.
    pub(super) fn verdict(
        &self,
        past: &Past,
        sequence: u64,
        thread: Option<ThreadId>,
        epoch: u64,
        number: u64,
    ) -> Verdict {
        let counts = match sequence <= past.upto {
            // Messages before this one may have left the stream.
            true => !past.ignored.contains(&sequence),
            false => epoch == self.epoch && Some(number) == self.number.checked_add(1),
        };
        match thread {
            _ if !counts => Verdict::Ignored,
            Some(thread) if past.erased.get(&thread).is_some_and(|at| sequence < *at) => Verdict::Erased,
            _ if past.refusals.contains(&sequence) => Verdict::Refused,
            _ => Verdict::Counts,
        }
    }

    /// A message was published by a process that takes the log over: what others published before counts no more.
    pub(super) fn take_over(&mut self, sequence: u64, opening: [u8; 16]) {
        (self.sequence, self.epoch, self.number, self.opening) = (sequence, sequence, 0, opening);
        self.refused.clear();
    }

    /// A message of an operation counts.
    pub(super) fn count(&mut self, sequence: u64, number: u64, seen: u64) {
        (self.sequence, self.number) = (sequence, number);
        self.refused.retain(|_, refused| *refused > seen);
    }

    /// A message of an operation does not count.
    pub(super) fn ignore(&mut self, sequence: u64) {
        self.sequence = sequence;
        self.ignored.push(sequence);
    }

    /// The operation that ends with this message was refused.
    pub(super) fn refuse(&mut self, sequence: u64, thread: Option<ThreadId>, number: u64) {
        self.refusals.push(sequence);
        if let Some(thread) = thread {
            self.refused.insert(thread, number);
        }
    }

    /// Whether so much is remembered of single messages that a summary is to be published.
    pub(super) fn is_to_summarize(&self) -> bool {
        self.ignored.len() + self.refusals.len() > IGNORED_MAX && self.erasures.is_empty()
    }

    /// Whether an append was decided without knowing that one of its thread before it was refused.
    pub(super) fn is_fenced(&self, thread: ThreadId, seen: u64) -> bool {
        self.refused.get(&thread).is_some_and(|number| *number > seen)
    }

    /// The summary is in the stream.
    pub(super) fn summarized(&mut self, sequence: u64, summary: &Summary) {
        self.sequence = sequence;
        if summary.more {
            return;
        }
        self.ignored.retain(|ignored| *ignored > summary.upto);
        self.refusals.retain(|refusal| *refusal > summary.upto);
        for erasure in &mut self.erasures {
            erasure.is_summarized |= erasure.at <= summary.upto;
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.sequence, self.position.0, self.epoch, self.number] {
            out.u64(number);
        }
        out.bytes(&self.opening);
        out.var(self.refused.len() as u64);
        for (thread, number) in &self.refused {
            out.bytes(thread.as_bytes());
            out.var(*number);
        }
        out.var(self.ignored.len() as u64);
        self.ignored.iter().for_each(|ignored| out.var(*ignored));
        out.var(self.refusals.len() as u64);
        self.refusals.iter().for_each(|refusal| out.var(*refusal));
        out.var(self.erasures.len() as u64);
        self.erasures.iter().for_each(|erasure| erasure.encode(out));
    }

    pub(super) fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let (sequence, position) = (take.u64()?, Position(take.u64()?));
        let (epoch, number, opening) = (take.u64()?, take.u64()?, take.array()?);
        let mut state = Self { sequence, position, epoch, number, opening, ..Self::default() };
        for _ in 0..take.var()? {
            let thread = ThreadId::from_bytes(take.array()?);
            state.refused.insert(thread, take.var()?);
        }
        for _ in 0..take.var()? {
            state.ignored.push(take.var()?);
        }
        for _ in 0..take.var()? {
            state.refusals.push(take.var()?);
        }
        for _ in 0..take.var()? {
            state.erasures.push(Erasure::decode(take)?);
        }
        Ok(state)
    }
}

/// What summaries say of messages that a replica has not taken in yet, some of which may have left the stream.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// Up to this sequence messages may be missing.
    pub(super) upto: u64,
    /// The messages up to there that are in the stream and do not count.
    ignored: BTreeSet<u64>,
    /// The last messages up to there of operations that were refused.
    refusals: BTreeSet<u64>,
    /// Deleted threads, with the sequence of the last delete.
    erased: HashMap<ThreadId, u64>,
    /// Positions of deleted threads, from the first to before the last, by their end.
    gaps: BTreeMap<u64, u64>,
    /// The first messages of summaries that go on in others, by `upto`.
    unfinished: BTreeMap<u64, Vec<Summary>>,
}

impl Past {
    /// Takes a message of a summary in.
    pub(super) fn add(&mut self, summary: Summary) {
        let (upto, more) = (summary.upto, summary.more);
        self.unfinished.entry(upto).or_default().push(summary);
        if more {
            return;
        }
        for Summary { ignored, refusals, threads, .. } in self.unfinished.remove(&upto).unwrap_or_default() {
            self.ignored.extend(ignored);
            self.refusals.extend(refusals);
            for ErasedThread { thread, at, runs } in threads {
                let last = self.erased.entry(thread).or_default();
                *last = at.max(*last);
                for (first, n) in runs {
                    self.gaps.insert(first.0 + n, first.0);
                }
            }
        }
        self.upto = self.upto.max(upto);
    }

    /// The first position from `next` on that no deleted thread has.
    pub(super) fn free_from(&self, next: Position) -> Position {
        let mut next = next.0;
        for (end, first) in self.gaps.range(next + 1..) {
            if *first > next {
                break;
            }
            next = *end;
        }
        Position(next)
    }

    /// Whether a deleted thread had positions from `next` on.
    pub(super) fn has_gaps_from(&self, next: Position) -> bool {
        self.gaps.range(next.0 + 1..).next().is_some()
    }
}

#[cfg(test)]
mod tests;
