//! The usage of model calls in events, and the events that begin work.

use crate::event::{Event, MessageEffect, RunSource};
use crate::message::{Usage, UsageSource};

/// The names of the events that [`Spent`] and [`is_start`] read; they say nothing of all others.
pub const EVENTS: [&str; 11] = [
    "THREAD_STARTED",
    "THREAD_FORKED",
    "RUN_STARTED",
    "RUN_QUEUED",
    "MESSAGE_ADDED",
    "LLM_CALL_COMPLETED",
    "LLM_TRY_FAILED",
    "LLM_CALL_FAILED",
    "LLM_CALL_RETRIED",
    "CONDITION_EVALUATION_COMPLETED",
    "CONTEXT_SUMMARY_COMPLETED",
];

/// The usage of model calls that ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Calls that ended, with or without an answer.
    pub n_calls: u64,
    /// Tokens, of the attempts that have figures.
    pub usage: Usage,
    /// Attempts that ended without figures, or not with all of them: failed, cancelled or lost ones.
    pub n_unknown: u64,
    /// Calls with an answer whose tokens were counted here, because the provider did not report them.
    pub n_counted: u64,
    /// Cost in billionths of a US dollar, of the calls whose price is known.
    pub cost_nanousd: u64,
    /// Calls with an answer whose cost is not known.
    pub n_unpriced: u64,
}

impl Spent {
    /// Returns the usage in these events. The usage of branches was counted when it happened, so events that sum it up
    /// count nothing.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut spent = Self::default();
        events.into_iter().for_each(|event| spent.add(event));
        spent
    }

    /// Adds what one event says.
    pub fn add(&mut self, event: &Event) {
        let ends_call = event.is_model_call() || matches!(event, Event::LlmCallFailed(_));
        self.n_calls += u64::from(ends_call);
        let Some(used) = event.attempt_usage() else {
            // The attempt before a retry has no figures.
            self.n_unknown += u64::from(ends_call || matches!(event, Event::LlmCallRetried(_)));
            return;
        };
        self.n_unknown += u64::from(used.is_partial());
        self.n_counted += u64::from(used.source == UsageSource::Counted);
        self.n_unpriced += u64::from(used.cost_nanousd.is_none());
        self.usage.add(&used.usage);
        self.cost_nanousd = self.cost_nanousd.saturating_add(used.cost_nanousd.unwrap_or(0));
    }

    /// Returns the tokens of prompts and answers, where an attempt without figures counts as this many.
    pub fn tokens(&self, unknown_call_tokens: u64) -> u64 {
        self.usage.tokens().saturating_add(self.n_unknown.saturating_mul(unknown_call_tokens))
    }
}

/// Returns whether an event records a start: of a thread, of a fork that is no branch, or a further run, when it was
/// requested.
pub fn is_start(event: &Event) -> bool {
    if let Event::ThreadForked(e) = event {
        e.branch.is_none()
    } else if let Event::RunStarted(e) = event {
        e.from == RunSource::Input
    } else if let Event::MessageAdded(e) = event {
        // A request for a run that was taken as a message to the run in progress.
        e.effect != MessageEffect::Add
    } else {
        matches!(event, Event::ThreadStarted(_) | Event::RunQueued(_))
    }
}
