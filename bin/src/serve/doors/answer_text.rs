//! What of a run's events is part of its answer.

use std::sync::Arc;

use rethread::{CallId, Event, RecordedEvent, Workflow};
use rethread_events::event::LlmExecutionRequest;
use rethread_events::ids::NodeId;
use rethread_events::message::FinishReason;

use crate::serve::doors::following::{Fold, Run, RunSpan};
use crate::serve::doors::streamed_text::StreamedText;

/// What a run says.
pub(super) enum Said {
    Text(Piece),
    /// Why the model stopped that gave the answer.
    Finish(FinishReason),
}

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
pub(super) struct AnswerText {
    workflow: Arc<Workflow>,
    span: RunSpan,
    /// How many loops, sub-workflows and hooks are open.
    depth: u32,
    /// Whether the present agent loop gives the answer.
    gives_answer: bool,
    call: Option<(CallId, StreamedText)>,
}

impl AnswerText {
    /// Of a run, from the event on that brought the message. A run has the seq of that event as its id, unless the message
    /// answers a question of the run.
    pub(super) fn of(run: &Run) -> Self {
        let Run { workflow, inside, .. } = run;
        let span = RunSpan::new(run.id, run.id.0 != run.from);
        let mut new = Self { workflow: workflow.clone(), span, depth: inside.depth, gives_answer: false, call: None };
        new.gives_answer = inside.agent.as_ref().is_some_and(|request| new.may_answer(request));
        new
    }

    /// Whether an agent loop that begins now gives the answer.
    fn may_answer(&self, request: &LlmExecutionRequest) -> bool {
        self.depth == 0 && request.output.is_none() && self.may_end(&request.node_id)
    }

    fn hear(&mut self, recorded: &RecordedEvent) -> Option<Said> {
        let event = &recorded.event;
        if !self.span.takes(recorded) {
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
            self.gives_answer = self.may_answer(e);
        } else if let Event::LlmExecutionCompleted(e) = event
            && self.gives_answer
        {
            return Some(Said::Finish(e.finish_reason));
        }
        self.take_call(recorded).map(Said::Text)
    }

    /// Whether a node may give the answer, as its model says it: a schema of the workflow may change or reject it.
    fn may_end(&self, node: &NodeId) -> bool {
        let graph = self.workflow.main();
        graph.node(node).is_some() && graph.is_end(node) && self.workflow.spec().output_schema.is_none()
    }

    fn take_call(&mut self, recorded: &RecordedEvent) -> Option<Piece> {
        let piece = if let Event::LlmCallRequested(e) = &recorded.event {
            let id = CallId(recorded.record.seq);
            let is_told = self.gives_answer && e.aside.is_none();
            self.call = is_told.then(|| (id, StreamedText::default()));
            return None;
        } else if let Event::LlmExecutionProgress(e) = &recorded.event {
            let text = self.text_of(e.call_id)?;
            if e.restarted {
                text.restart();
            }
            text.take(&e.text)
        } else if let Event::LlmCallRetried(e) = &recorded.event {
            self.text_of(e.call_id)?.restart();
            return None;
        } else if let Event::LlmCallCompleted(e) = &recorded.event {
            let (_, text) = self.call.take_if(|(id, _)| *id == e.call_id)?;
            // Where its pieces were not reported, it is checked first.
            if text.is_empty() { None } else { text.complete(&e.message.joined_text()) }
        } else {
            return None;
        };
        piece.map(|(text, begins)| Piece { text, begins })
    }

    fn text_of(&mut self, call: CallId) -> Option<&mut StreamedText> {
        self.call.as_mut().filter(|(id, _)| *id == call).map(|(_, text)| text)
    }
}

impl Fold for AnswerText {
    type Piece = Said;

    fn take(&mut self, event: &RecordedEvent) -> Vec<Said> {
        self.hear(event).into_iter().collect()
    }

    fn is_over(&self) -> bool {
        self.span.is_over()
    }
}
