//! From events to calls.

use std::collections::BTreeMap;

use super::call::{CallUsage, Callee, ModelName, ModelUsage, Purpose};
use super::models::LoopModels;
use crate::event::Event;
use crate::ids::{CallId, Hash, Seq, ThreadId, Time};
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

impl UsageFold {
    /// Adds the next event of a thread, which was recorded at that time. Returns the call that it ended.
    pub fn apply(&mut self, thread: ThreadId, seq: Seq, at: Time, event: &Event) -> Option<Ended> {
        if let Event::LlmExecutionRequest(e) = event {
            self.models.insert(thread, LoopModels::of(e));
        } else if let Some(models) = self.models.get_mut(&thread) {
            models.follow(event);
        }
        self.request(thread, seq, at, event);
        self.again(thread, event);
        self.ended(thread, seq, at, event)
    }

    /// A call begins.
    fn request(&mut self, thread: ThreadId, seq: Seq, at: Time, event: &Event) {
        if let Event::LlmCallRequested(e) = event {
            let name = self.models.get(&thread).map(|models| models.of_call(e.aside.as_ref())).unwrap_or_default();
            self.ask(thread, seq, at, Purpose::Answer, name, e.model_profile);
        } else if let Event::ConditionEvaluationRequested(e) = event {
            self.ask(thread, seq, at, Purpose::Verdict, (&e.model).into(), e.model_profile);
        } else if let Event::ContextSummaryRequested(e) = event {
            self.ask(thread, seq, at, Purpose::Summary, (&e.model).into(), e.model_profile);
        } else if let Event::ToolExecutionRequest(e) = event {
            self.begin(thread, seq, at, Callee::Tool(e.name.clone()));
        }
    }

    /// A call goes on with another attempt.
    fn again(&mut self, thread: ThreadId, event: &Event) {
        let (call, attempt) = if let Event::LlmCallRetried(e) = event {
            (e.call_id, Some(e.attempt))
        } else if let Event::ToolCallRetried(e) = event {
            (e.call_id, Some(e.attempt))
        } else if let Event::LlmTryFailed(e) = event {
            (e.call_id, None)
        } else {
            return;
        };
        let Some(open) = self.open.get_mut(&(thread, call)) else { return };
        match attempt {
            Some(attempt) => open.attempt = attempt,
            None => open.n_failed_tries += 1,
        }
        if let Callee::Model(model) = &mut open.callee {
            if let Event::LlmCallRetried(e) = event {
                model.recorded = e.model_profile;
            }
            event.attempt_usage().iter().for_each(|used| model.add(used));
        }
    }

    fn ended(&mut self, thread: ThreadId, seq: Seq, at: Time, event: &Event) -> Option<Ended> {
        let (call, duration_ms) = if let Event::LlmCallCompleted(e) = event {
            (e.call_id, Some(e.duration_ms))
        } else if let Event::LlmCallFailed(e) = event {
            (e.call_id, None)
        } else if let Event::ConditionEvaluationCompleted(e) = event {
            (e.call_id, Some(e.duration_ms))
        } else if let Event::ContextSummaryCompleted(e) = event {
            (e.call_id, Some(e.duration_ms))
        } else if let Event::ToolExecutionCompleted(e) = event {
            (e.call_id, Some(e.duration_ms))
        } else if let Event::ToolExecutionFailed(e) = event {
            (e.call_id, Some(e.duration_ms))
        } else {
            return None;
        };
        let Some(open) = self.open.remove(&(thread, call)) else { return Some(Ended::BeganBefore(call)) };
        let OpenCall { requested_at, attempt, n_failed_tries, mut callee } = open;
        if let Callee::Model(model) = &mut callee {
            let used = event.attempt_usage();
            model.end(used.as_ref());
            let answers = !matches!(event, Event::LlmCallFailed(_));
            model.answered_by = used.filter(|_| answers).and_then(|used| used.model).map(str::to_owned);
            if let Event::LlmCallCompleted(e) = event {
                (model.cached, model.finish_reason) = (e.cached, Some(e.finish_reason));
            }
        }
        Some(Ended::Call(Box::new(CallUsage {
            thread,
            node: event.call_node().cloned(),
            call,
            last_seq: seq,
            requested_at,
            ended_at: at,
            attempt,
            n_retries: attempt.saturating_sub(1).saturating_add(n_failed_tries),
            duration_ms: duration_ms.unwrap_or_else(|| at.ms_since(requested_at)),
            error: event.error().map(|error| error.kind),
            callee,
        })))
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
}
