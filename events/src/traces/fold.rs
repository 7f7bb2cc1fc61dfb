//! What is kept of the events of a run, beside the results of its nodes.

use std::collections::BTreeMap;

use super::content::Content;
use crate::event::{Event, ModelChoice};
use crate::fault::ErrorKind;
use crate::ids::{CallId, Hash, NodeId, Seq, Time};
use crate::message::FinishReason;
use crate::steps::Steps;

/// How many calls have more than what the results of nodes have of them.
const DETAILS_MAX: usize = 50_000;

/// What spans have besides ids, names and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Whether they have content: instructions, prompts, answers, arguments and results of tools, messages of errors.
    pub content: bool,
}

/// The events of one run, in order; then its spans.
#[derive(Debug)]
pub struct RunTrace {
    pub(super) options: Options,
    pub(super) steps: Steps,
    pub(super) workflow: Option<String>,
    /// How each call was asked, and answered.
    pub(super) details: BTreeMap<CallId, Detail>,
    pub(super) content: Content,
    /// The model of the agent loop of each node.
    loops: BTreeMap<NodeId, ModelChoice>,
    /// The loop that was begun last, for events that do not name their node.
    last_loop: Option<NodeId>,
    pub(super) end: Option<RunEnd>,
    /// When the thread itself began, if it is a fork.
    pub(super) forked_at: Option<Time>,
    /// The last event that was applied.
    pub(super) last: (Seq, Time),
}

/// How a run ended.
#[derive(Debug, Clone)]
pub(super) struct RunEnd {
    pub(super) at: Time,
    pub(super) outcome: &'static str,
    pub(super) error: Option<(ErrorKind, String)>,
}

/// What is known of a call of a model or a tool.
#[derive(Debug, Clone, Default)]
pub(super) struct Detail {
    pub(super) choice: ModelChoice,
    /// The hash of the profile with which the model was asked.
    pub(super) profile: Option<Hash>,
    pub(super) answered_by: Option<String>,
    pub(super) response_id: Option<String>,
    pub(super) finish_reason: Option<FinishReason>,
    pub(super) tool_call: Option<String>,
}

impl RunTrace {
    /// A run without events.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            steps: Steps::default(),
            workflow: None,
            details: BTreeMap::new(),
            content: Content::new(options.content),
            loops: BTreeMap::new(),
            last_loop: None,
            end: None,
            forked_at: None,
            last: (Seq(0), Time::default()),
        }
    }

    /// Adds the next event of the run, which was recorded at that time: the one with which the run began first, and then
    /// all of the thread.
    pub fn apply(&mut self, seq: Seq, at: Time, event: &Event) {
        // What is known of branches begins with them, as their results do.
        self.steps.apply(seq, at, event);
        self.content.apply(seq, event);
        self.last = (seq, at);
        if let Event::ThreadStarted(e) = event {
            self.workflow = Some(e.workflow.name.clone());
        } else if let Event::RunStarted(e) = event {
            self.workflow = Some(e.workflow.name.clone());
            self.end = None;
        } else if let Event::ThreadForked(_) = event {
            (self.end, self.forked_at) = (None, Some(at));
        } else if let Event::ThreadCompleted(_) = event {
            self.end = Some(RunEnd { at, outcome: "completed", error: None });
        } else if let Event::ThreadCancelled(_) = event {
            self.end = Some(RunEnd { at, outcome: "cancelled", error: None });
        } else if let Event::ThreadFailed(e) = event {
            let error = Some((e.error.kind, e.error.message.clone()));
            self.end = Some(RunEnd { at, outcome: "failed", error });
        } else {
            self.apply_call(seq, event);
        }
    }

    fn apply_call(&mut self, seq: Seq, event: &Event) {
        if let Event::LlmExecutionRequest(e) = event {
            self.loops.insert(e.node_id.clone(), e.model.clone());
            self.last_loop = Some(e.node_id.clone());
        } else if let Event::LlmCallRequested(e) = event {
            let node = e.node_id.as_ref().or(self.last_loop.as_ref());
            let choice = node.and_then(|node| self.loops.get(node)).cloned().unwrap_or_default();
            self.detail(seq, Detail { choice, profile: e.model_profile, ..Detail::default() });
        } else if let Event::LlmCallRetried(e) = event {
            if let Some(detail) = self.details.get_mut(&e.call_id) {
                detail.profile = e.model_profile;
            }
        } else if let Event::LlmCallCompleted(e) = event {
            if let Some(detail) = self.details.get_mut(&e.call_id) {
                detail.answered_by.clone_from(&e.model);
                detail.response_id.clone_from(&e.response_id);
                detail.finish_reason = Some(e.finish_reason);
            }
        } else if let Event::ConditionEvaluationRequested(e) = event {
            self.detail(seq, Detail { choice: e.model.clone(), profile: e.model_profile, ..Detail::default() });
        } else if let Event::ConditionEvaluationCompleted(e) = event {
            if let Some(detail) = self.details.get_mut(&e.call_id) {
                detail.answered_by.clone_from(&e.model);
            }
        } else if let Event::ContextSummaryRequested(e) = event {
            self.detail(seq, Detail { choice: e.model.clone(), profile: e.model_profile, ..Detail::default() });
        } else if let Event::ContextSummaryCompleted(e) = event {
            if let Some(detail) = self.details.get_mut(&e.call_id) {
                detail.answered_by.clone_from(&e.model);
            }
        } else if let Event::ToolExecutionRequest(e) = event {
            self.detail(seq, Detail { tool_call: e.tool_call_id.clone(), ..Detail::default() });
        } else if let Event::AgentStarted(e) = event {
            self.detail(seq, Detail { tool_call: e.tool_call_id.clone(), ..Detail::default() });
        }
    }

    fn detail(&mut self, seq: Seq, detail: Detail) {
        if self.details.len() >= DETAILS_MAX {
            self.details.pop_first();
        }
        self.details.insert(CallId(seq), detail);
    }
}
