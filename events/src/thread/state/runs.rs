//! A thread as a row of runs.

use super::{Phase, QueuedRun, State, Totals};
use crate::event::PastRun;
use crate::ids::{RunId, Seq, Time};

impl State {
    /// The run that is going on, or was the last.
    pub fn run_id(&self) -> RunId {
        self.runs.id
    }

    /// The number of that run, from 1.
    pub fn run_number(&self) -> u64 {
        self.runs.number
    }

    /// The event with which that run began.
    pub fn run_started(&self) -> Seq {
        self.runs.started
    }

    /// When that run began.
    pub fn run_started_at(&self) -> Time {
        self.runs.started_at
    }

    /// The event with which that run ended, if it has.
    pub fn run_ended(&self) -> Option<Seq> {
        self.runs.ended
    }

    /// The run before that run, if there is one.
    pub fn previous_run(&self) -> Option<PastRun> {
        self.runs.previous
    }

    /// Whether this run, or this message, has not ended: it is going on, or waits.
    pub fn is_open_run(&self, run: RunId) -> bool {
        let goes_on = self.runs.id == run && self.runs.number > 0 && self.runs.ended.is_none();
        goes_on
            || self.runs.queue.iter().any(|queued| queued.id == run)
            || self.waiting_messages().any(|waiting| waiting == run)
    }

    /// The runs that wait, in the order in which they begin.
    pub fn queued_runs(&self) -> &[QueuedRun] {
        &self.runs.queue
    }

    /// The messages that were to steer the run, and that no model has read: they begin the next run where none reads them.
    pub fn waiting_messages(&self) -> impl Iterator<Item = RunId> {
        self.runs.steering.iter().map(|steering| steering.id)
    }

    /// The event that recorded the request with this idempotency key, if it is remembered.
    pub fn request_of_key(&self, key: &str) -> Option<Seq> {
        self.runs.used(key).map(|used| used.seq)
    }

    /// The sums of the run that is going on, or was the last.
    pub fn run_totals(&self) -> Totals {
        self.totals.since(&self.runs.totals_before)
    }

    /// Whether the last run has ended. Where another one is to begin, the thread has not.
    pub(in crate::thread) fn run_has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    /// Whether another run is to begin when this one ends.
    pub(in crate::thread) fn has_next_run(&self) -> bool {
        !self.runs.queue.is_empty() || !self.runs.steering.is_empty()
    }

    /// The first event that is not inherited.
    pub(in crate::thread) fn own_from(&self) -> Seq {
        self.forked_from().map_or(Seq(0), |(_, seq)| seq.next())
    }
}
