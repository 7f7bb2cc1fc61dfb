//! From events to calls.

use std::collections::BTreeMap;

use super::call::{CallUsage, Callee, ModelName, ModelUsage, Purpose};
use super::models::LoopModels;
use crate::event::Event;
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Hash, NodeId, Seq, ThreadId, Time};
use crate::message::Usage;

/// The names of the events that the fold reads; it passes over all others.
pub const EVENTS: [&str; 19] = [
    "LLM_EXECUTION_REQUEST",
    "PLAN_REQUESTED",
    "PLAN_MADE",
    "CANDIDATE_CHOSEN",
    "CANDIDATES_GATHERED",
    "THREAD_FORKED",
    "LLM_CALL_REQUESTED",
    "LLM_CALL_RETRIED",
    "LLM_TRY_FAILED",
    "LLM_CALL_COMPLETED",
    "LLM_CALL_FAILED",
    "CONDITION_EVALUATION_REQUESTED",
    "CONDITION_EVALUATION_COMPLETED",
    "CONTEXT_SUMMARY_REQUESTED",
    "CONTEXT_SUMMARY_COMPLETED",
    "TOOL_EXECUTION_REQUEST",
    "TOOL_CALL_RETRIED",
    "TOOL_EXECUTION_COMPLETED",
    "TOOL_EXECUTION_FAILED",
];

/// Folds events, of one thread or of several in any order of threads, into the calls that end. Holds the calls that are
/// open, and the models of the last agent loop of each thread.
#[derive(Debug, Clone, Default)]
pub struct UsageFold {
    open: BTreeMap<(ThreadId, CallId), OpenCall>,
    models: BTreeMap<ThreadId, LoopModels>,
}

/// What an event ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// A call.
    Call(Box<CallUsage>),
    /// A call that was requested before the first event of the fold: fold the events of the thread from this one on.
    BeganBefore(CallId),
}

#[derive(Debug, Clone)]
struct OpenCall {
    requested_at: Time,
    attempt: u32,
    n_failed_tries: u32,
    callee: Callee,
}

impl Ended {
    /// Adds what is known of the model.
    fn of_model(mut self, adds: impl FnOnce(&mut ModelUsage)) -> Self {
        if let Self::Call(call) = &mut self
            && let Callee::Model(model) = &mut call.callee
        {
            adds(model);
        }
        self
    }
}

/// How a call ended.
struct End {
    call: CallId,
    node: Option<NodeId>,
    error: Option<ErrorKind>,
    duration_ms: Option<u64>,
}

impl UsageFold {
    /// Adds the next event of a thread, which was recorded at that time. Returns the call that it ended.
    pub fn apply(&mut self, thread: ThreadId, seq: Seq, at: Time, event: &Event) -> Option<Ended> {
        let failed = |error: &ExecutionError| Some(error.kind);
        match event {
            Event::LlmExecutionRequest(e) => drop(self.models.insert(thread, LoopModels::of(e))),
            Event::PlanRequested(_)
            | Event::PlanMade(_)
            | Event::CandidateChosen(_)
            | Event::CandidatesGathered(_)
            | Event::ThreadForked(_) => {
                if let Some(models) = self.models.get_mut(&thread) {
                    models.follow(event);
                }
            }
            Event::LlmCallRequested(e) => {
                let name = self.models.get(&thread).map(|models| models.of_call(e.aside.as_ref())).unwrap_or_default();
                self.ask(thread, seq, at, Purpose::Answer, name, e.model_profile);
            }
            Event::ConditionEvaluationRequested(e) => {
                self.ask(thread, seq, at, Purpose::Verdict, (&e.model).into(), e.model_profile);
            }
            Event::ContextSummaryRequested(e) => {
                self.ask(thread, seq, at, Purpose::Summary, (&e.model).into(), e.model_profile);
            }
            Event::LlmCallRetried(e) => {
                if let Some(open) = self.open.get_mut(&(thread, e.call_id)) {
                    open.attempt = e.attempt;
                    if let Callee::Model(model) = &mut open.callee {
                        model.recorded = e.model_profile;
                    }
                }
            }
            Event::LlmTryFailed(e) => {
                if let Some(open) = self.open.get_mut(&(thread, e.call_id)) {
                    open.n_failed_tries += 1;
                    if let (Callee::Model(model), Some(used)) = (&mut open.callee, event.attempt_usage()) {
                        model.add(&used);
                    }
                }
            }
            Event::LlmCallCompleted(e) => {
                let end =
                    End { call: e.call_id, node: e.node_id.clone(), error: None, duration_ms: Some(e.duration_ms) };
                let ended = self.end(thread, seq, at, event, end);
                return Some(ended.of_model(|model| {
                    model.answered_by.clone_from(&e.model);
                    model.cached = e.cached;
                    model.finish_reason = Some(e.finish_reason);
                }));
            }
            Event::LlmCallFailed(e) => {
                let end = End { call: e.call_id, node: e.node_id.clone(), error: failed(&e.error), duration_ms: None };
                return Some(self.end(thread, seq, at, event, end));
            }
            Event::ConditionEvaluationCompleted(e) => {
                let error = e.error.as_ref().and_then(failed);
                let end = End { call: e.call_id, node: e.node_id.clone(), error, duration_ms: Some(e.duration_ms) };
                let ended = self.end(thread, seq, at, event, end);
                return Some(ended.of_model(|model| model.answered_by.clone_from(&e.model)));
            }
            Event::ContextSummaryCompleted(e) => {
                let error = e.error.as_ref().and_then(failed);
                let end = End { call: e.call_id, node: e.node_id.clone(), error, duration_ms: Some(e.duration_ms) };
                let ended = self.end(thread, seq, at, event, end);
                return Some(ended.of_model(|model| model.answered_by.clone_from(&e.model)));
            }
            Event::ToolExecutionRequest(e) => self.begin(thread, seq, at, Callee::Tool(e.name.clone())),
            Event::ToolCallRetried(e) => {
                if let Some(open) = self.open.get_mut(&(thread, e.call_id)) {
                    open.attempt = e.attempt;
                }
            }
            Event::ToolExecutionCompleted(e) => {
                let end =
                    End { call: e.call_id, node: e.node_id.clone(), error: None, duration_ms: Some(e.duration_ms) };
                return Some(self.end(thread, seq, at, event, end));
            }
            Event::ToolExecutionFailed(e) => {
                let (error, duration_ms) = (failed(&e.error), Some(e.duration_ms));
                let end = End { call: e.call_id, node: e.node_id.clone(), error, duration_ms };
                return Some(self.end(thread, seq, at, event, end));
            }
            Event::ThreadStarted(_)
            | Event::ThreadPaused(_)
            | Event::ThreadResumed(_)
            | Event::ThreadRecovered(_)
            | Event::ThreadCancelled(_)
            | Event::ThreadCompleted(_)
            | Event::ThreadFailed(_)
            | Event::HookStarted(_)
            | Event::HookEnded(_)
            | Event::CheckpointCreated(_)
            | Event::VariablesUpdated(_)
            | Event::MessageAdded(_)
            | Event::ThreadQueued(_)
            | Event::ThreadDequeued(_)
            | Event::RunStarted(_)
            | Event::RunQueued(_)
            | Event::RunCancelled(_)
            | Event::WorkflowChanged(_)
            | Event::Warning(_)
            | Event::NodeStarted(_)
            | Event::NodeCompleted(_)
            | Event::NodeFailed(_)
            | Event::RouteTaken(_)
            | Event::LlmRequestChanged(_)
            | Event::LlmExecutionProgress(_)
            | Event::LlmExecutionCompleted(_)
            | Event::LlmExecutionFailed(_)
            | Event::ToolExecutionProgress(_)
            | Event::UserInteractionRequested(_)
            | Event::UserInteractionResponded(_)
            | Event::UserInteractionProcessed(_)
            | Event::UserInteractionFailed(_)
            | Event::WaitStarted(_)
            | Event::WaitChanged(_)
            | Event::WaitCompleted(_)
            | Event::WaitFailed(_)
            | Event::SignalAwaited(_)
            | Event::SignalReceived(_)
            | Event::ChildStartRequested(_)
            | Event::ChildStarted(_)
            | Event::ChildStartFailed(_)
            | Event::StartedByParent(_)
            | Event::ThreadAwaited(_)
            | Event::AwaitedThreadEnded(_)
            | Event::ForkStarted(_)
            | Event::AgentStarted(_)
            | Event::BranchStarted(_)
            | Event::BranchSpent(_)
            | Event::BranchEnded(_)
            | Event::JoinCompleted(_)
            | Event::LoopStarted(_)
            | Event::LoopIterationStarted(_)
            | Event::LoopEnded(_)
            | Event::SubWorkflowStarted(_)
            | Event::SubWorkflowCompleted(_)
            | Event::SubWorkflowFailed(_)
            | Event::ContextProcessingRequested(_)
            | Event::ContextProcessingRetried(_)
            | Event::ContextProcessed(_)
            | Event::ContextProcessingFailed(_)
            | Event::ContextSummarized(_)
            | Event::BudgetExceeded(_)
            | Event::LimitRaised(_)
            | Event::AnswerRejected(_)
            | Event::PlanStepStarted(_)
            | Event::PlanStepCompleted(_)
            | Event::PlanStepFailed(_)
            | Event::PlanCompleted(_)
            | Event::GuardrailRequested(_)
            | Event::GuardrailRetried(_)
            | Event::GuardrailCompleted(_)
            | Event::StrategyDecisionRequested(_)
            | Event::StrategyDecisionRetried(_)
            | Event::StrategyDecided(_)
            | Event::StrategyDecisionFailed(_) => {}
        }
        None
    }

    /// Returns whether the fold has read the request of the agent loop of this thread: it names the model of a call whose
    /// profile is not recorded.
    pub fn knows_models_of(&self, thread: ThreadId) -> bool {
        self.models.contains_key(&thread)
    }

    fn ask(&mut self, thread: ThreadId, seq: Seq, at: Time, purpose: Purpose, name: ModelName, recorded: Option<Hash>) {
        let model = ModelUsage {
            purpose,
            name,
            recorded,
            answered_by: None,
            usage: Usage::default(),
            usage_source: None,
            is_usage_unknown: false,
            cost_nanousd: None,
            is_unpriced: false,
            cache_saved_nanousd: None,
            cached: false,
            finish_reason: None,
        };
        self.begin(thread, seq, at, Callee::Model(Box::new(model)));
    }

    fn begin(&mut self, thread: ThreadId, seq: Seq, requested_at: Time, callee: Callee) {
        let open = OpenCall { requested_at, attempt: 1, n_failed_tries: 0, callee };
        self.open.insert((thread, CallId(seq)), open);
    }

    fn end(&mut self, thread: ThreadId, last_seq: Seq, ended_at: Time, event: &Event, end: End) -> Ended {
        let End { call, node, error, duration_ms } = end;
        let Some(open) = self.open.remove(&(thread, call)) else { return Ended::BeganBefore(call) };
        let OpenCall { requested_at, attempt, n_failed_tries, mut callee } = open;
        if let Callee::Model(model) = &mut callee {
            model.end(event.attempt_usage().as_ref());
        }
        Ended::Call(Box::new(CallUsage {
            thread,
            node,
            call,
            last_seq,
            requested_at,
            ended_at,
            attempt,
            n_retries: attempt.saturating_sub(1).saturating_add(n_failed_tries),
            duration_ms: duration_ms.unwrap_or_else(|| ended_at.ms_since(requested_at)),
            error,
            callee,
        }))
    }
}
