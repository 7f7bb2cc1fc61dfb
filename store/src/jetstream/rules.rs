//! The rules by which every replica of the stream comes to the same log: which messages count, and what follows from them.
//!
//! The members are the processes that write the log: one that took it over alone, or several that joined. A message counts
//! if it has the epoch of a member and the number after that of the last message of this member that counted. So an
//! operation that was published twice counts once, one that was published after a lost one does not count, and nothing
//! counts of a process that is no member any more. An append counts whoever wrote it: that it follows the last record of
//! its thread keeps two members apart. Each slot of threads belongs to one member, which runs them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rethread_events::ids::{Position, ThreadId};

use super::message::{Change, ChangeKind};
use super::summary::{ErasedThread, Erasure, Summary};
use crate::slots::SLOTS;
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
    /// The sequence of the last change of the members; 0 before the first.
    pub(super) changed: u64,
    /// The id of that change. Zeros before the first.
    pub(super) change: [u8; 16],
    /// The processes whose messages count, by their epochs.
    pub(super) members: BTreeMap<u64, Member>,
    /// The epoch of the member that each slot belongs to; empty without members.
    pub(super) slots: Vec<u64>,
    /// The messages since the last summary that did not count, by sequence.
    pub(super) ignored: Vec<u64>,
    /// The last messages of operations since the last summary that were refused, by sequence. A replica that comes later may
    /// not see why: a thread could not be deleted while it had a fork, and the fork left the stream since.
    pub(super) refusals: Vec<u64>,
    /// What was deleted, and may still be in the stream.
    pub(super) erasures: Vec<Erasure>,
}

/// A process that writes the log. Its epoch is the sequence of the message with which it took the log over or joined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Member {
    /// The id of its opening of the log.
    pub(super) opening: [u8; 16],
    /// The id of its replica. Zeros if it took the log over for itself.
    pub(super) replica: [u8; 16],
    /// Its name, for people.
    pub(super) holder: String,
    /// Whether it writes the log alone.
    pub(super) is_alone: bool,
    /// The number of its last message that counted.
    pub(super) number: u64,
    /// The last refused append of a thread, by its number.
    pub(super) refused: BTreeMap<ThreadId, u64>,
    /// The first message of an operation that is not whole yet: its sequence and its number.
    pub(super) begun: Option<(u64, u64)>,
}

/// A message that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) sequence: u64,
    /// The member that sent it.
    pub(super) epoch: u64,
    pub(super) number: u64,
    /// The last number whose result its sender knew.
    pub(super) seen: u64,
}

/// What to do with a message of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Counts,
    /// It was published twice, after a lost one, or by a process that is no member.
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
            false => self.members.get(&epoch).is_some_and(|member| Some(number) == member.number.checked_add(1)),
        };
        match thread {
            _ if !counts => Verdict::Ignored,
            Some(thread) if past.is_erased(thread, sequence) => Verdict::Erased,
            _ if past.refusals.contains(&sequence) => Verdict::Refused,
            _ => Verdict::Counts,
        }
    }

    /// The members change. What those publish that are no members any more does not count from here on.
    pub(super) fn change(&mut self, sequence: u64, change: &Change) {
        (self.sequence, self.changed, self.change) = (sequence, sequence, change.id);
        match &change.kind {
            ChangeKind::TakeOver { holder } => {
                self.members.clear();
                self.enter(
                    sequence,
                    Member { opening: change.id, holder: holder.clone(), is_alone: true, ..Member::default() },
                );
            }
            // One that writes alone, and is not known to have ended, is not joined.
            ChangeKind::Join { .. } if self.members.values().any(|member| member.is_alone) => {}
            ChangeKind::Join { replica, holder } => {
                // An earlier process with the same replica has ended.
                self.members.retain(|_, member| member.replica != *replica);
                let (opening, replica, holder) = (change.id, *replica, holder.clone());
                self.enter(sequence, Member { opening, replica, holder, ..Member::default() });
            }
            ChangeKind::Leave { epoch } => {
                self.members.remove(epoch);
                self.inherit();
            }
            ChangeKind::Give { from, to, slots } if self.members.contains_key(to) => {
                for slot in slots {
                    if let Some(owner) = self.slots.get_mut(usize::from(*slot)).filter(|owner| *owner == from) {
                        *owner = *to;
                    }
                }
            }
            ChangeKind::Give { .. } => {}
        }
    }

    fn enter(&mut self, epoch: u64, member: Member) {
        self.members.insert(epoch, member);
        self.inherit();
    }

    /// Gives each slot without an owner to the member that has the fewest, to the oldest of several such members.
    fn inherit(&mut self) {
        self.slots.resize(SLOTS, 0);
        let mut n_slots: BTreeMap<_, usize> = self.members.keys().map(|epoch| (*epoch, 0)).collect();
        for owner in &self.slots {
            n_slots.entry(*owner).and_modify(|n| *n += 1);
        }
        for owner in &mut self.slots {
            if !n_slots.contains_key(owner) {
                let heir = n_slots.iter_mut().min_by_key(|(epoch, n)| (**n, **epoch));
                *owner = heir.map_or(0, |(epoch, n)| {
                    *n += 1;
                    *epoch
                });
            }
        }
    }

    /// A message of an operation counts, whether or not it is the last one of it.
    pub(super) fn count(&mut self, Counted { sequence, epoch, number, seen }: Counted, more: bool) {
        self.sequence = sequence;
        // Of one that left, if what it wrote before is read after a part of the stream is missing.
        let Some(member) = self.members.get_mut(&epoch) else { return };
        member.number = number;
        member.refused.retain(|_, refused| *refused > seen);
        member.begun = more.then(|| member.begun.unwrap_or((sequence, number)));
    }

    /// A message of an operation does not count.
    pub(super) fn ignore(&mut self, sequence: u64) {
        self.sequence = sequence;
        self.ignored.push(sequence);
    }

    /// The operation that ends with this message was refused.
    pub(super) fn refuse(&mut self, message: Counted, thread: Option<ThreadId>) {
        self.refusals.push(message.sequence);
        if let (Some(thread), Some(member)) = (thread, self.members.get_mut(&message.epoch)) {
            member.refused.insert(thread, message.number);
        }
    }

    /// Whether so much is remembered of single messages that a summary is to be published.
    pub(super) fn is_to_summarize(&self) -> bool {
        self.ignored.len() + self.refusals.len() > IGNORED_MAX && self.erasures.is_empty()
    }

    /// Whether an append was decided without knowing that one of its thread before it was refused.
    pub(super) fn is_fenced(&self, thread: ThreadId, epoch: u64, seen: u64) -> bool {
        let refused = self.members.get(&epoch).and_then(|member| member.refused.get(&thread));
        refused.is_some_and(|number| *number > seen)
    }

    /// The first message that is to be read again, to have the operations that are not whole yet.
    pub(super) fn read_from(&self) -> u64 {
        let begun = self.members.values().filter_map(|member| member.begun).map(|(sequence, _)| sequence);
        begun.min().unwrap_or(u64::MAX).min(self.sequence + 1)
    }

    /// The epoch of an opening of the log that is a member.
    pub(super) fn epoch_of(&self, opening: &[u8; 16]) -> Option<u64> {
        self.members.iter().find(|(_, member)| member.opening == *opening).map(|(epoch, _)| *epoch)
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
        for number in [self.sequence, self.position.0, self.changed] {
            out.u64(number);
        }
        out.bytes(&self.change);
        out.var(self.members.len() as u64);
        for (epoch, member) in &self.members {
            out.u64(*epoch);
            member.encode(out);
        }
        out.var(self.slots.len() as u64);
        self.slots.iter().for_each(|owner| out.var(*owner));
        out.var(self.ignored.len() as u64);
        self.ignored.iter().for_each(|ignored| out.var(*ignored));
        out.var(self.refusals.len() as u64);
        self.refusals.iter().for_each(|refusal| out.var(*refusal));
        out.var(self.erasures.len() as u64);
        self.erasures.iter().for_each(|erasure| erasure.encode(out));
    }

    pub(super) fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let (sequence, position, changed) = (take.u64()?, Position(take.u64()?), take.u64()?);
        let mut state = Self { sequence, position, changed, change: take.array()?, ..Self::default() };
        for _ in 0..take.var()? {
            let epoch = take.u64()?;
            state.members.insert(epoch, Member::decode(take)?);
        }
        for _ in 0..take.var()? {
            state.slots.push(take.var()?);
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

impl Member {
    fn encode(&self, out: &mut Vec<u8>) {
        out.bytes(&self.opening);
        out.bytes(&self.replica);
        out.sized(self.holder.as_bytes());
        out.u8(u8::from(self.is_alone));
        out.u64(self.number);
        out.var(self.refused.len() as u64);
        for (thread, number) in &self.refused {
            out.bytes(thread.as_bytes());
            out.var(*number);
        }
        let (sequence, number) = self.begun.unwrap_or_default();
        out.var(sequence);
        out.var(number);
    }

    fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let (opening, replica) = (take.array()?, take.array()?);
        let holder = String::from_utf8_lossy(take.sized()?).into_owned();
        let (is_alone, number) = (take.u8()? != 0, take.u64()?);
        let mut refused = BTreeMap::new();
        for _ in 0..take.var()? {
            let thread = ThreadId::from_bytes(take.array()?);
            refused.insert(thread, take.var()?);
        }
        let begun = (take.var()?, take.var()?);
        Ok(Self { opening, replica, holder, is_alone, number, refused, begun: (begun.0 > 0).then_some(begun) })
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

    /// Whether a message of a thread belongs to what was deleted later.
    pub(super) fn is_erased(&self, thread: ThreadId, sequence: u64) -> bool {
        self.erased.get(&thread).is_some_and(|at| sequence < *at)
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
