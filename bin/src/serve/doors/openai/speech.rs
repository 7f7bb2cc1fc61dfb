//! What of a run's events is part of its answer.

use std::sync::Arc;

use rethread::event::LlmCallRequested;
use rethread::runs::RunId;
use rethread::{CallId, Event, RecordedEvent, Workflow};
use rethread_events::message::FinishReason;

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
    /// Of a run; `has_begun` unless the events of its thread up to its start come first.
    pub(super) fn of(workflow: Arc<Workflow>, run: RunId, has_begun: bool) -> Self {
        let (depth, gives_answer, call) = (0, false, None);
        Self { workflow, run, has_begun, depth, gives_answer, call, finish: None, is_over: false }
    }

    pub(super) fn take(&mut self, event: &RecordedEvent) -> Option<Piece> {
        match &event.event {
            Event::RunStarted(e) => self.has_begun |= e.run_id == self.run,
            Event::RunCancelled(e) => self.is_over |= e.run_id == self.run,
            _ if !self.has_begun || self.is_over => {}
            Event::LoopStarted(_) | Event::SubWorkflowStarted(_) | Event::HookStarted(_) => self.depth += 1,
            Event::LoopEnded(_)
            | Event::SubWorkflowCompleted(_)
            | Event::SubWorkflowFailed(_)
            | Event::HookEnded(_) => {
                self.depth = self.depth.saturating_sub(1);
            }
            Event::LlmExecutionRequest(e) => {
                self.gives_answer = self.depth == 0 && e.output.is_none() && self.workflow.main().is_end(&e.node_id);
            }
            Event::LlmCallRequested(LlmCallRequested { aside: None, .. }) if self.gives_answer => {
                let id = CallId(event.record.seq);
                self.call = Some(Call { id, sent: String::new(), matched: Some(0) });
            }
            Event::LlmExecutionProgress(e) => {
                let call = self.call.as_mut().filter(|call| call.id == e.call_id)?;
                if e.restarted {
                    call.restart();
                }
                return call.take(&e.text);
            }
            Event::LlmCallRetried(e) => {
                self.call.as_mut().filter(|call| call.id == e.call_id)?.restart();
            }
            Event::LlmCallCompleted(e) => {
                let call = self.call.as_mut().filter(|call| call.id == e.call_id)?;
                return call.complete(&e.message.joined_text());
            }
            Event::LlmExecutionCompleted(e) if self.gives_answer => self.finish = Some(e.finish_reason),
            Event::ThreadCompleted(_) | Event::ThreadFailed(_) | Event::ThreadCancelled(_) => self.is_over = true,
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests;
