//! The spans of a run while they are made, and what all kinds of spans have.

use super::fold::RunTrace;
use super::names::Key;
use super::place::{Known, RunPlace};
use super::span::{Span, SpanError, SpanKind, Value};
use crate::fault::ExecutionError;
use crate::ids::{ThreadId, Time};
use crate::steps::StepOutcome;
use crate::trace_context::SpanId;

/// A run of which the spans are made.
pub(super) struct Mapping<'a> {
    pub(super) of: &'a RunTrace,
    pub(super) place: &'a RunPlace,
    pub(super) known: Known<'a>,
    pub(super) ended: Time,
    pub(super) spans: Vec<Span>,
    pub(super) branches: Vec<(ThreadId, Time)>,
    pub(super) has_failed: bool,
}

impl Mapping<'_> {
    pub(super) fn span(
        &self,
        id: SpanId,
        parent: Option<SpanId>,
        name: String,
        kind: SpanKind,
        times: (Time, Option<Time>),
    ) -> Span {
        // A fork has no time before it began.
        let began = self.of.forked_at.map_or(times.0, |forked| forked.max(times.0));
        Span {
            trace: self.place.trace,
            id,
            parent,
            name,
            kind,
            began,
            ended: times.1.unwrap_or(self.ended).max(began),
            attributes: Vec::new(),
            links: Vec::new(),
            error: None,
        }
    }

    pub(super) fn outcome(&mut self, span: &mut Span, outcome: StepOutcome, error: Option<&ExecutionError>) {
        match outcome {
            StepOutcome::Completed => {}
            StepOutcome::Failed => self.fail(span, error),
            // What is open when the run ends is not needed any more.
            StepOutcome::Open | StepOutcome::Cancelled => span.set(Key::Outcome, Value::from("cancelled")),
        }
    }

    pub(super) fn fail(&mut self, span: &mut Span, error: Option<&ExecutionError>) {
        self.has_failed = true;
        let Some(error) = error else { return };
        span.set(Key::ErrorType, word(&error.kind));
        let message = self.of.options.content.then(|| error.message.clone());
        span.error = Some(SpanError { kind: error.kind, message });
    }
}

/// The name in JSON of a variant without fields.
pub(super) fn word(value: &impl serde::Serialize) -> Option<Value> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Some(Value::Text(word)),
        _ => None,
    }
}
