//! The parts that outlive a machine that was discarded because the log had no room for its events: its running work,
//! and the reports of that work.

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
/// Beyond this number no progress is kept: a tool that reports every step must leave room for its answer.
const ASIDES_MAX: usize = 256;

/// A report of the thread's work, and its reservation, if it had to wait for room.
pub(super) struct WorkReport {
    pub(super) input: Input,
    pub(super) place: Option<Reservation>,
}

impl WorkReport {
    /// Returns whether its call was requested before `seq`.
    pub(super) fn is_before(&self, seq: Seq) -> bool {
        key_of(&self.input).is_some_and(|(call, _)| call.0 < seq)
    }
}

/// The parts that outlive a machine.
#[derive(Default)]
pub(super) struct RetainedWork {
    /// Running work; dropping an entry cancels it.
    pub(super) running: RunningCalls,
    /// Tools in it that wait for answers of people.
    pub(super) asking: Asking,
    /// The inputs for the next machine, in order.
    pub(super) waiting: VecDeque<Tell>,
    /// The timer of the next attempt to load the thread.
    pub(super) retry: Option<SpawnHandle>,
}

impl RetainedWork {
    /// Keeps the work whose requests the log has, of a machine whose events from `end` on are void. The seqs of other
    /// calls will be used for other events.
    pub(super) fn before(end: Seq, mut running: RunningCalls, mut asking: Asking) -> Self {
        running.retain(|(call, _), _| call.0 < end);
        asking.retain(|question, _| question.0 < end);
        Self { running, asking, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Keeps a report of the thread's work. Without room, progress is dropped. If an answer or a part of it does not
    /// fit, its call is dropped, as if the process had crashed while it was running.
    pub(super) fn keep(&mut self, report: WorkReport, reply: Option<Reply>, room: &Arc<MemoryBudget>) {
        let WorkReport { input, place } = report;
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

    /// Returns the calls that run, and those whose answers are here.
    pub(super) fn known(&self) -> HashSet<Key> {
        let answers = self.waiting.iter().filter(|waiting| is_last(&waiting.input));
        self.running.keys().copied().chain(answers.filter_map(|waiting| key_of(&waiting.input))).collect()
    }

    /// Returns the callers from outside that wait for a reply.
    pub(super) fn take_asking(&mut self) -> Vec<Reply> {
        let (own, asking): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(|waiting| waiting.place.is_some());
        self.waiting = own.into();
        asking.into_iter().filter_map(|waiting| waiting.reply).collect()
    }
}

#[cfg(test)]
mod tests;
