//! What outlives a machine that was thrown away because the log had no room for its events: the work it began, and
//! what that work said since.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use actix::SpawnHandle;
use rethread_events::ids::Seq;
use rethread_events::thread::Input;

use super::messages::Tell;
use crate::inputs::{Key, bytes_of, is_aside, is_last, key_of};
use crate::memory_budget::{MemoryBudget, Reservation};
use crate::permit_waits::RunningCalls;
use crate::port::Reply;
use crate::tool_asks::Asking;

/// The most inputs that are kept for one thread.
const INPUTS_MAX: usize = 4_096;
/// Beyond so many no progress is kept: a tool that reports every step must leave room for its answer.
const ASIDES_MAX: usize = 256;

/// What work of the thread said, and its place in the room, if it had to wait there.
pub(super) struct Said {
    pub(super) input: Input,
    pub(super) place: Option<Reservation>,
}

impl Said {
    /// Whether the call that it is about was asked for before `seq`.
    pub(super) fn is_before(&self, seq: Seq) -> bool {
        key_of(&self.input).is_some_and(|(call, _)| call.0 < seq)
    }
}

/// What outlives a machine.
#[derive(Default)]
pub(super) struct Kept {
    /// The work that goes on; dropping an entry calls it off.
    pub(super) running: RunningCalls,
    /// Tools among it that wait for answers of people.
    pub(super) asking: Asking,
    /// What is to be told, in order.
    pub(super) waiting: VecDeque<Tell>,
    /// When the log is to be tried again.
    pub(super) retry: Option<SpawnHandle>,
}

impl Kept {
    /// Of the work of a machine whose events from `end` on are void, that which the log knows of. The seqs of other
    /// calls will be those of other events.
    pub(super) fn before(end: Seq, mut running: RunningCalls, mut asking: Asking) -> Self {
        running.retain(|(call, _), _| call.0 < end);
        asking.retain(|question, _| question.0 < end);
        Self { running, asking, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Holds a report of work of the thread. Without room, progress is dropped, and a call whose answer or
    /// part of an answer is forgotten is given up, as if the process had ended while it was running.
    pub(super) fn keep(&mut self, said: Said, reply: Option<Reply>, room: &Arc<MemoryBudget>) {
        let Said { input, place } = said;
        let n_max = if is_aside(&input) { ASIDES_MAX } else { INPUTS_MAX };
        let place = place.or_else(|| room.place(bytes_of(&input))).filter(|_| self.waiting.len() < n_max);
        if place.is_some() {
            return self.waiting.push_back(Tell::of_work(input, reply, place));
        }
        if let Some(key) = key_of(&input).filter(|_| !is_aside(&input)) {
            self.running.remove(&key);
            self.waiting.retain(|waiting| waiting.place.is_none() || key_of(&waiting.input) != Some(key));
        }
    }

    /// The calls that run, and those whose answers are here.
    pub(super) fn known(&self) -> HashSet<Key> {
        let answers = self.waiting.iter().filter(|waiting| is_last(&waiting.input));
        self.running.keys().copied().chain(answers.filter_map(|waiting| key_of(&waiting.input))).collect()
    }

    /// The callers from outside that wait for an answer.
    pub(super) fn take_asking(&mut self) -> Vec<Reply> {
        let (own, asking): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(|waiting| waiting.place.is_some());
        self.waiting = own.into();
        asking.into_iter().filter_map(|waiting| waiting.reply).collect()
    }
}

#[cfg(test)]
mod tests;
