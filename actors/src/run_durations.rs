//! The durations of the runs and the agent loops of a live thread: from its events, so that they are those of the spans.

use rethread_events::event::{Event, RunEnding};
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::{NodeId, Time};
use rethread_events::thread::{State, Work};

/// What is open of a live thread, as far as its beginning is known.
#[derive(Debug, Default)]
pub(crate) struct RunDurations {
    /// When the run began, and its workflow. `None` of a branch, which is no run.
    run: Option<(Time, String)>,
    node: Option<OpenNode>,
}

#[derive(Debug)]
struct OpenNode {
    id: NodeId,
    began: Time,
    is_agent: bool,
}

/// What ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndedPart {
    pub(crate) part: Part,
    pub(crate) name: String,
    pub(crate) us: u64,
    pub(crate) error: Option<ErrorKind>,
}

/// A part of a thread that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// A run.
    Run,
    /// An agent loop, with all tries of its node.
    AgentLoop,
}

impl RunDurations {
    /// Takes what a loaded thread has open. The beginnings of a try that is not the first, and of what a fork inherited, are
    /// not known any more.
    pub(crate) fn is_at(&mut self, state: &State) {
        let inherits = state.forked_from().is_some_and(|(_, seq)| state.run_started() <= seq);
        let is_known = !state.is_ended() && !inherits;
        let workflow = state.workflow().filter(|_| is_known && state.branch().is_none());
        self.run = workflow.map(|workflow| (state.run_started_at(), workflow.name.clone()));
        self.node = state.node_run().filter(|run| is_known && run.attempt == 1).map(|run| OpenNode {
            id: run.node.clone(),
            began: run.started_at,
            is_agent: matches!(run.work, Work::Llm(_)),
        });
    }

    /// Follows events that are recorded at that time. Returns what they end.
    pub(crate) fn follow(&mut self, events: &[Event], now: Time) -> Vec<EndedPart> {
        let mut ended = Vec::new();
        for event in events {
            self.apply(event, now, &mut ended);
        }
        ended
    }

    fn apply(&mut self, event: &Event, now: Time, ended: &mut Vec<EndedPart>) {
        if let Event::ThreadStarted(e) = event {
            self.run = Some((now, e.workflow.name.clone()));
        } else if let Event::RunStarted(e) = event {
            self.run = Some((now, e.workflow.name.clone()));
        } else if let Event::ThreadForked(e) = event {
            // What it inherits began for it just now.
            match (&mut self.run, e.branch.is_some()) {
                (Some((began, _)), false) => *began = now,
                (run, _) => *run = None,
            }
            if let Some(node) = &mut self.node {
                node.began = now;
            }
        } else if let Event::NodeStarted(e) = event {
            if e.attempt == 1 {
                self.node = Some(OpenNode { id: e.node_id.clone(), began: now, is_agent: false });
            }
        } else if let Event::LlmExecutionRequest(e) = event {
            if let Some(node) = self.node.as_mut().filter(|node| node.id == e.node_id) {
                node.is_agent = true;
            }
        } else if let Event::NodeCompleted(e) = event {
            if self.node.as_ref().is_some_and(|node| node.id == e.node_id) {
                self.end_node(now, None, ended);
            }
        } else if let Event::NodeFailed(e) = event {
            if e.retry_at.is_none() {
                self.end_node(now, Some(e.error.kind), ended);
            }
        } else if let Event::HookStarted(e) = event {
            let error = match &e.ending {
                RunEnding::Completed { .. } => None,
                RunEnding::Failed { error, .. } => Some(error.kind),
                RunEnding::Cancelled { .. } => Some(ErrorKind::Cancelled),
            };
            self.end_node(now, error, ended);
        } else if let Event::ThreadCompleted(_) = event {
            self.end_run(now, None, ended);
        } else if let Event::ThreadCancelled(_) = event {
            self.end_run(now, Some(ErrorKind::Cancelled), ended);
        } else if let Event::ThreadFailed(e) = event {
            let ExecutionError { kind, .. } = e.error;
            self.end_run(now, Some(kind), ended);
        }
    }

    fn end_run(&mut self, now: Time, error: Option<ErrorKind>, ended: &mut Vec<EndedPart>) {
        self.end_node(now, error, ended);
        if let Some((began, name)) = self.run.take() {
            ended.push(EndedPart { part: Part::Run, name, us: since(began, now), error });
        }
    }

    fn end_node(&mut self, now: Time, error: Option<ErrorKind>, ended: &mut Vec<EndedPart>) {
        if let Some(OpenNode { id, began, .. }) = self.node.take().filter(|node| node.is_agent) {
            let (name, us) = (id.to_string(), since(began, now));
            ended.push(EndedPart { part: Part::AgentLoop, name, us, error });
        }
    }
}

fn since(began: Time, now: Time) -> u64 {
    now.unix_us().saturating_sub(began.unix_us())
}

#[cfg(test)]
mod tests;
