//! Applies events of queues to the state.

use super::super::state::{QueuePlace, QueueStart, State};
use super::super::transition::{ENDED, NOT_BEGUN, TransitionError};
use crate::event::ThreadQueued;
use crate::ids::Time;

/// How many starts of a thread count: each is a key of its stream.
const STARTS_MAX: usize = 500;

impl State {
    pub(super) fn join_queue(&mut self, at: Time, queued: &ThreadQueued) -> Result<(), TransitionError> {
        if self.run.is_none() {
            return Err(NOT_BEGUN);
        }
        if self.run_has_ended() {
            return Err(ENDED);
        }
        if self.queueing.place.is_some() {
            return Err(TransitionError("the run has a place in a queue already"));
        }
        let place = QueuePlace { queued: queued.clone(), since: at, dequeued_at: None };
        self.queueing.place = Some(Box::new(place));
        Ok(())
    }

    pub(super) fn begin_queued(&mut self, at: Time) -> Result<(), TransitionError> {
        let place = self.queueing.place.as_deref_mut().filter(|place| place.is_waiting());
        let place = place.ok_or(TransitionError("the run waits in no queue"))?;
        place.dequeued_at = Some(at);
        let waited_ms = at.ms_since(place.since);
        let start = place.queued.limits.rate.map(|rate| QueueStart {
            queue: place.queued.queue(),
            at,
            until: at.plus_ms(rate.per_ms),
        });
        let starts = &mut self.queueing.starts;
        starts.retain(|start| start.until > at);
        starts.extend(start);
        if starts.len() > STARTS_MAX {
            starts.remove(0);
        }
        if let Some(run) = &mut self.run {
            run.deadline = run.deadline.map(|deadline| deadline.plus_ms(waited_ms));
        }
        self.shift_clocks(waited_ms);
        Ok(())
    }
}
