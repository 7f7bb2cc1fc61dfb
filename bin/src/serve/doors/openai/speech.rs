//! What of a run's events is part of its answer.

use std::sync::Arc;

use rethread::runs::RunId;
use rethread::{CallId, Event, RecordedEvent, Seq, Workflow};
use rethread_events::ids::NodeId;
use rethread_events::message::FinishReason;

use crate::events::ends_run;

/// A piece of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) text: String,
    /// Whether it is the first of a model call.
    pub(super) begins: bool,
}

/// A fold of the events of a thread that gives the texts that its answer consists of: what a model says at a node on which
/// the run can end. What is said elsewhere, by strategies about their decisions, in loops and in hooks is not part of it.
/// Nor is an answer that may still be rejected or changed, by its schema or by a guardrail: that comes with the end.
pub(super) struct Speech {
    workflow: Arc<Workflow>,
    run: RunId,
    /// Whether events belong to the run; not while it waits for other runs.
    has_begun: bool,
    /// How many loops, sub-workflows and hooks are open.
    depth: u32,
    /// Whether the present agent loop gives the answer.
    gives_answer: bool,
    call: Option<Call>,
    pub(super) finish: Option<FinishReason>,
    /// Whether the run has ended.
    pub(super) is_over: bool,
}

/// The call of a model whose text is streamed.
struct Call {
    id: CallId,
    /// What was streamed. It cannot be taken back if the call is made again.
    sent: String,
    /// How much of `sent` the present attempt has said again; `None` if it says something else.
    matched: Option<usize>,
}

impl Call {
    /// Returns what is new in the next text of the attempt.
    fn take(&mut self, text: &str) -> Option<Piece> {
        let known = self.sent.get(self.matched?..)?;
        let n_common = known.len().min(text.len());
        if known.as_bytes()[..n_common] != text.as_bytes()[..n_common] {
            self.matched = None;
            return None;
        }
        self.matched = self.matched.map(|n| n + text.len());
        let text = text.get(n_common..).filter(|text| !text.is_empty())?;
        let begins = self.sent.is_empty();
        self.sent.push_str(text);
        Some(Piece { text: text.to_owned(), begins })
    }

    fn restart(&mut self) {
        self.matched = Some(0);
    }

    /// Returns what is missing once the whole text is known.
    fn complete(&mut self, whole: &str) -> Option<Piece> {
        match whole.strip_prefix(&self.sent) {
            // Its pieces were not reported, because it is checked first.
            _ if self.sent.is_empty() => None,
            Some("") => None,
            Some(rest) => Some(Piece { text: rest.to_owned(), begins: false }),
            None => Some(Piece { text: whole.to_owned(), begins: true }),
        }
    }
}

impl Speech {
    /// Of a run, from the event on that brought the message. A run has the seq of that event as its id, unless the message
    /// answers a question of the run.
    pub(super) fn of(workflow: Arc<Workflow>, run: RunId, from: Seq, depth: u32) -> Self {
        let has_begun = run.0 != from;
        let (gives_answer, call) = (false, None);
        Self { workflow, run, has_begun, depth, gives_answer, call, finish: None, is_over: false }
    }

    pub(super) fn take(&mut self, recorded: &RecordedEvent) -> Option<Piece> {
        let event = &recorded.event;
        if let Event::RunStarted(e) = event {
            self.has_begun |= e.run_id == self.run;
        } else if let Event::ThreadStarted(_) = event {
            self.has_begun |= self.run == RunId(recorded.record.seq);
        } else if let Event::RunCancelled(e) = event {
            self.is_over |= e.run_id == self.run;
        }
        if !self.has_begun || self.is_over {
            return None;
        }
        if let Event::LoopStarted(_) | Event::SubWorkflowStarted(_) | Event::HookStarted(_) = event {
            self.depth += 1;
        } else if let Event::LoopEnded(_)
        | Event::SubWorkflowCompleted(_)
        | Event::SubWorkflowFailed(_)
        | Event::HookEnded(_) = event
        {
            self.depth = self.depth.saturating_sub(1);
        } else if let Event::LlmExecutionRequest(e) = event {
            self.gives_answer = self.depth == 0 && e.output.is_none() && self.may_end(&e.node_id);
        } else if let Event::LlmExecutionCompleted(e) = event
            && self.gives_answer
        {
            self.finish = Some(e.finish_reason);
        } else if ends_run(event) {
            self.is_over = true;
        }
        self.take_call(recorded)
    }

    /// Whether a node may give the answer, as its model says it: a schema of the workflow may change or reject it.
    fn may_end(&self, node: &NodeId) -> bool {
        let graph = self.workflow.main();
        graph.node(node).is_some() && graph.is_end(node) && self.workflow.spec().output_schema.is_none()
    }

    fn take_call(&mut self, recorded: &RecordedEvent) -> Option<Piece> {
        if let Event::LlmCallRequested(e) = &recorded.event {
            let id = CallId(recorded.record.seq);
            let is_told = self.gives_answer && e.aside.is_none();
            self.call = is_told.then_some(Call { id, sent: String::new(), matched: Some(0) });
        } else if let Event::LlmExecutionProgress(e) = &recorded.event {
            let call = self.call.as_mut().filter(|call| call.id == e.call_id)?;
            if e.restarted {
                call.restart();
            }
            return call.take(&e.text);
        } else if let Event::LlmCallRetried(e) = &recorded.event {
            self.call.as_mut().filter(|call| call.id == e.call_id)?.restart();
        } else if let Event::LlmCallCompleted(e) = &recorded.event {
            return self.call.take_if(|call| call.id == e.call_id)?.complete(&e.message.joined_text());
        }
        None
    }
}

#[cfg(test)]
mod tests;
