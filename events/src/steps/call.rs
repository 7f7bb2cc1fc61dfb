//! A call inside a node.

use serde::Serialize;

use super::limits::{TEXT_CHARS_MAX, TRIES_MAX};
use super::outcome::StepOutcome;
use crate::event::RequestChange;
use crate::fault::ExecutionError;
use crate::ids::{CallId, Seq, ThreadId, Time};
use crate::message::Usage;
use crate::text::shortened;

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// A model, in the agent loop.
    Model,
    /// A model that writes a summary.
    Summary,
    /// A model that judges a condition of the way on.
    Condition,
    /// A tool.
    Tool,
    /// A person.
    Interaction,
    /// A time, a signal or the end of a thread that a node waits for.
    Timer,
    /// A context processor.
    Processor,
    /// A strategy of the application that decides what comes next.
    Strategy,
    /// A guardrail.
    Guardrail,
    /// A branch, or an agent that a model called.
    Branch,
    /// The start of a thread.
    Start,
}

/// One call: all attempts together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Call {
    /// Its id: the seq of its request.
    pub id: CallId,
    /// The kind of the call.
    pub kind: CallKind,
    /// The tool, the model as far as it is known, the branch or agent, the processor, the end of a wait; what is done with a person's answer.
    pub name: Option<String>,
    /// The thread of a branch or an agent, that is started, or whose end is waited for.
    pub thread: Option<ThreadId>,
    /// The model call or tool call that a question to a person is about.
    pub about: Option<String>,
    /// When it was requested.
    pub began: Time,
    /// When it ended.
    pub ended: Option<Time>,
    /// The event that ended it.
    pub last_seq: Option<Seq>,
    /// How it ended.
    pub outcome: StepOutcome,
    /// Why it failed.
    pub error: Option<ExecutionError>,
    /// How often it was begun.
    pub attempt: u32,
    /// When the last try began, or was to begin.
    #[serde(skip)]
    pub tried_at: Time,
    /// The tries that failed and were followed by another, the last 20 of them: those of the client inside one attempt
    /// too.
    pub failed_tries: Vec<FailedTry>,
    /// Tokens.
    pub usage: Usage,
    /// Cost in billionths of a US dollar, where it is known.
    pub cost_nanousd: Option<u64>,
    /// The model that failed before, as `PROVIDER/MODEL`, if a fallback of it made the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_from: Option<String>,
    /// Whether the answer came from the cache of answers.
    pub cached: bool,
    /// The beginning of what was asked: arguments, a question, a condition.
    pub asked: Option<String>,
    /// The beginning of what was answered.
    pub answered: Option<String>,
    /// The tools that a model's answer asks for.
    pub tools: Vec<String>,
    /// How what the model was sent differs from what was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<RequestChange>,
    /// What the provider's cache of prompts saved, in billionths of a US dollar, where the prices are known. Less than
    /// nothing for a call that only wrote to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_saved_nanousd: Option<i64>,
}

/// A try that failed and was followed by another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedTry {
    /// Its number, from 1.
    pub number: u32,
    /// When it began, or was to begin. Later than `at` if the process ended before it began.
    pub began: Time,
    /// The event that records it.
    pub seq: Seq,
    /// When that was.
    pub at: Time,
    /// Why; absent when its answer was lost.
    pub error: Option<ExecutionError>,
    /// How long it was to be waited before the next.
    pub wait_ms: u64,
    /// The model that was called, as `PROVIDER/MODEL`, if its client reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model that failed before, as `PROVIDER/MODEL`, if this was a try of a fallback of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_from: Option<String>,
}

/// The end of a try that is followed by another.
pub(super) struct TryEnd {
    pub(super) seq: Seq,
    pub(super) at: Time,
    pub(super) error: Option<ExecutionError>,
    /// When the next try begins.
    pub(super) next_at: Time,
}

impl TryEnd {
    /// Adds the try, which began then, to those that are kept. Returns when the next one begins.
    pub(super) fn keep(self, began: Time, tries: &mut Vec<FailedTry>) -> Time {
        let Self { seq, at, error, next_at } = self;
        let number = tries.last().map_or(1, |last| last.number.saturating_add(1));
        if tries.len() >= TRIES_MAX {
            tries.remove(0);
        }
        let wait_ms = next_at.ms_since(at);
        tries.push(FailedTry { number, began, seq, at, error, wait_ms, model: None, fallback_from: None });
        next_at.max(at)
    }
}

impl Call {
    pub(super) fn new(id: CallId, kind: CallKind, began: Time) -> Self {
        Self {
            id,
            kind,
            name: None,
            thread: None,
            about: None,
            began,
            ended: None,
            last_seq: None,
            outcome: StepOutcome::Open,
            error: None,
            attempt: 1,
            tried_at: began,
            failed_tries: Vec::new(),
            usage: Usage::default(),
            cost_nanousd: None,
            fallback_from: None,
            cached: false,
            asked: None,
            answered: None,
            tools: Vec::new(),
            changes: Vec::new(),
            cache_saved_nanousd: None,
        }
    }

    /// Adds a try that failed, and is followed by another.
    pub(super) fn fail_try(&mut self, failed: TryEnd) {
        self.tried_at = failed.keep(self.tried_at, &mut self.failed_tries);
    }

    /// Adds the models of the last try that failed.
    pub(super) fn name_last_try(&mut self, model: Option<&str>, fallback_from: Option<&str>) {
        let text = |name: Option<&str>| name.map(|name| shortened(name, TEXT_CHARS_MAX));
        if let Some(last) = self.failed_tries.last_mut() {
            (last.model, last.fallback_from) = (text(model), text(fallback_from));
        }
    }

    /// How long it took, in milliseconds; absent while it has not ended.
    pub fn duration_ms(&self) -> Option<u64> {
        self.ended.map(|ended| ended.ms_since(self.began))
    }
}
