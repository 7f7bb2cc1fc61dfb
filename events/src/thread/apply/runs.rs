//! Applies events of the runs of a thread to its state.

use std::sync::Arc;

use super::super::agent_loop::INTERRUPTED;
use super::super::state::{NodeRun, Phase, QueuedRun, Run, Runs, State, Work};
use super::super::transition::{ENDED, NOT_BEGUN, TransitionError};
use super::entering;
use crate::codec::OrderedMap;
use crate::event::{PastRun, RunCancelled, RunQueued, RunSource, RunStarted};
use crate::ids::{RunId, Seq, Time};
use crate::json::Json;

/// Variables that are of a run, and not of the thread.
const OF_RUN: [&str; 2] = ["output", "error"];

const NO_SUCH_RUN: TransitionError = TransitionError("no such run waits");

impl State {
    /// The first run begins with the thread.
    pub(super) fn begin_first_run(&mut self, at: Time) {
        self.runs = Runs { number: 1, started_at: at, ..Runs::default() };
    }

    pub(super) fn begin_run(&mut self, seq: Seq, at: Time, e: &RunStarted) -> Result<(), TransitionError> {
        let ended = match (&self.phase, self.runs.ended) {
            (Phase::Ended(_), Some(ended)) => ended,
            (Phase::New, _) => return Err(NOT_BEGUN),
            _ => return Err(TransitionError("the run before it has not ended")),
        };
        if e.previous != (PastRun { run_id: self.runs.id, started: self.runs.started, ended }) {
            return Err(TransitionError("it does not follow the last run"));
        }
        match e.from {
            RunSource::Input => {}
            RunSource::Queue if self.runs.queue.first().is_some_and(|queued| queued.id == e.run_id) => {
                self.runs.queue.remove(0);
            }
            RunSource::Queue => return Err(NO_SUCH_RUN),
            RunSource::Unread => {
                let unread: Vec<_> = self.runs.steering.drain(..).map(|steering| steering.id.0).collect();
                if unread.first() != Some(&e.run_id.0) {
                    return Err(NO_SUCH_RUN);
                }
                self.conversation_mut().remove_added(&unread);
            }
        }
        self.runs = Runs {
            number: e.number,
            id: e.run_id,
            started: seq,
            started_at: at,
            ended: None,
            previous: Some(e.previous),
            totals_before: self.totals,
            ..std::mem::take(&mut self.runs)
        };
        self.runs.use_key(e.key.as_ref(), &e.input, seq);
        let run = self.run.take().ok_or(NOT_BEGUN)?;
        self.run = Some(Run {
            workflow: e.workflow.clone(),
            input: e.input.clone(),
            deadline: e.deadline,
            max_iterations: e.max_iterations,
            budget: e.budget.clone(),
            on_limit: e.on_limit,
            ..run
        });
        (self.queueing.place, self.queueing.is_exempt) = (None, false);
        self.n_entered = 0;
        self.children.n_in_run = 0;
        self.unpriced = None;
        self.questions.clear();
        self.variables = Arc::new(of_run(&self.variables, e));
        self.phase = entering(&e.entry, at);
        Ok(())
    }

    pub(super) fn queue_run(&mut self, seq: Seq, e: &RunQueued) -> Result<(), TransitionError> {
        if self.run.is_none() {
            return Err(NOT_BEGUN);
        }
        if self.is_ended() {
            return Err(ENDED);
        }
        if e.run_id != RunId(seq) {
            return Err(TransitionError("it is not the seq of the event"));
        }
        self.runs.use_key(e.key.as_ref(), &e.input, seq);
        self.runs.queue.push(QueuedRun::from(e));
        Ok(())
    }

    pub(super) fn cancel_queued(&mut self, e: &RunCancelled) -> Result<(), TransitionError> {
        if let Some(at) = self.runs.queue.iter().position(|queued| queued.id == e.run_id) {
            self.runs.queue.remove(at);
            return Ok(());
        }
        let at = self.runs.steering.iter().position(|steering| steering.id == e.run_id).ok_or(NO_SUCH_RUN)?;
        self.runs.steering.remove(at);
        Ok(())
    }

    /// A message interrupts the agent loop: the tool calls of the last answer that were not begun are not.
    pub(super) fn leave_out_queued_tools(&mut self, seq: Seq) {
        if let Phase::InNode(NodeRun { work: Work::Llm(agent_loop), .. }) = &mut self.phase
            && agent_loop.may_be_interrupted()
        {
            let results = agent_loop.leave_out_queued(INTERRUPTED);
            self.conversation_mut().results(seq, results);
        }
    }
}

/// The variables with which a run begins.
fn of_run(variables: &OrderedMap<Json>, e: &RunStarted) -> OrderedMap<Json> {
    let kept = variables.iter().filter(|(name, _)| !OF_RUN.contains(&name.as_str()));
    let mut variables: OrderedMap<Json> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    for (name, value) in e.variables.iter() {
        variables.insert(name.clone(), value.clone());
    }
    variables.insert("input".into(), e.input.clone());
    variables
}
