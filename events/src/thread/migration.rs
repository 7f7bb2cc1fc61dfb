//! Migration of a thread to another definition in place.

use super::calls::CallKind;
use super::input::Rejected;
use super::state::{Phase, State};
use super::status::Status;
use crate::event::{Event, WorkflowChanged};
use crate::ids::Time;
use crate::workflow::Workflow;

impl State {
    /// Checks whether the thread can be migrated to this definition now. Its branches, which follow it, are checked each for
    /// itself.
    ///
    /// # Errors
    /// `Ended`; `Unfit` if what is open does not fit the definition; `CallOpen` while a call is running.
    pub fn can_migrate(&self, workflow: &Workflow, now: Time) -> Result<(), Rejected> {
        if self.is_ended() {
            return Err(Rejected::Ended { status: self.status() });
        }
        self.fits(workflow).map_err(Rejected::Unfit)?;
        match self.runs_now(self.time_at(now)) {
            Some(what) => Err(Rejected::CallOpen { what: what.to_owned() }),
            None => Ok(()),
        }
    }

    /// What of the thread is running at that time; `None` if it waits for a person, a time, a signal, its resume, a retry or
    /// its branches.
    fn runs_now(&self, now: Time) -> Option<&'static str> {
        let mut is_retry = matches!(&self.phase, Phase::Entering { not_before, .. } if *not_before > now);
        for open in self.calls.iter().filter(|open| open.is_wanted()) {
            match &open.kind {
                CallKind::Model(_) | CallKind::Judge(_) | CallKind::Summary(_) => return Some("a model call"),
                CallKind::Tool(run) if run.not_before <= now => return Some("a tool call"),
                CallKind::Tool(_) => is_retry = true,
                CallKind::Processor(_) => return Some("a context processor"),
                CallKind::Strategy(_) => return Some("a decision of the strategy"),
                CallKind::Guardrail(_) => return Some("a guardrail"),
                CallKind::Child(_) => return Some("the start of a thread"),
                CallKind::Question(_)
                | CallKind::Timer(_)
                | CallKind::Signal(_)
                | CallKind::Branch(_)
                | CallKind::Awaited(_) => {}
            }
        }
        let rests = matches!(self.status(), Status::Waiting | Status::Suspended | Status::Queued | Status::Paused);
        (!rests && !is_retry && !self.has_branches()).then_some("a step of the thread")
    }
}

/// The event that gives the thread this definition; none if it has it already.
pub(super) fn change(state: &State, to: &Workflow, now: Time) -> Result<Vec<Event>, Rejected> {
    match state.workflow() {
        Some(previous) if previous.hash != to.hash() => {
            state.can_migrate(to, now)?;
            Ok(vec![WorkflowChanged { workflow: to.reference(), previous: previous.clone(), by: None }.into()])
        }
        _ => Ok(Vec::new()),
    }
}
