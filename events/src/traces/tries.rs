//! Tries as spans: inside of the call or the node that was tried more than once.

use super::building::{Mapping, word};
use super::names::Key;
use super::span::{Link, Span, SpanError, Value};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{Seq, Time};
use crate::steps::{Call, FailedTry, NodeResult, StepOutcome};
use crate::trace_context::SpanId;

/// The tries of a call or of a node.
#[derive(Clone, Copy)]
pub(super) struct Tries<'a> {
    failed: &'a [FailedTry],
    /// When the last one began, or was to begin.
    last_began: Time,
    ended: Option<Time>,
    outcome: StepOutcome,
    error: Option<&'a ExecutionError>,
}

impl<'a> From<&'a Call> for Tries<'a> {
    fn from(call: &'a Call) -> Self {
        Self {
            failed: &call.failed_tries,
            last_began: call.tried_at,
            ended: call.ended,
            outcome: call.outcome,
            error: call.error.as_ref(),
        }
    }
}

impl<'a> From<&'a NodeResult> for Tries<'a> {
    fn from(node: &'a NodeResult) -> Self {
        Self {
            failed: &node.failed_tries,
            last_began: node.tried_at,
            ended: node.ended,
            outcome: node.outcome,
            error: node.error.as_ref(),
        }
    }
}

/// The span in which a part of a node began, and the end of that span.
pub(super) type Within = (SpanId, Option<Time>);

impl Mapping<'_> {
    /// Returns a span for each try, if there were several. Each has a link to the one before it.
    pub(super) fn tries(&mut self, of: &Span, tries: Tries<'_>) -> Vec<Span> {
        let Some(last) = tries.failed.last() else { return Vec::new() };
        let ended = tries.ended.unwrap_or(of.ended);
        let (mut spans, mut before) = (Vec::new(), None);
        for failed in tries.failed.iter().filter(|failed| self.is_own_try(failed)) {
            let mut span = self.one_try(of, failed.number, (failed.began, Some(failed.at)), &mut before);
            // Without an error, its answer was lost.
            let kind = failed.error.as_ref().map_or(ErrorKind::Indeterminate, |error| error.kind);
            span.set(Key::ErrorType, word(&kind));
            span.set(Key::WaitMs, Value::from(failed.wait_ms));
            let message = failed.error.as_ref().map(|error| error.message.clone());
            span.error = Some(SpanError { kind, message: message.filter(|_| self.of.options.content) });
            spans.push(span);
        }
        // One that was still to begin is none.
        if tries.last_began <= ended {
            let number = last.number.saturating_add(1);
            let mut span = self.one_try(of, number, (tries.last_began, Some(ended)), &mut before);
            self.outcome(&mut span, tries.outcome, tries.error);
            spans.push(span);
        }
        spans
    }

    fn one_try(&self, of: &Span, number: u32, times: (Time, Option<Time>), before: &mut Option<SpanId>) -> Span {
        let id = SpanId::of_try(of.id, number);
        let mut span = self.span(id, Some(of.id), format!("try {number}"), of.kind, times);
        for key in [Key::Thread, Key::Node, Key::Call] {
            span.set(key, of.attribute(key).cloned());
        }
        span.set(Key::Try, Value::from(u64::from(number)));
        span.links.extend(before.replace(id).map(|span| Link { trace: self.place.trace, span }));
        span
    }

    /// Whether the thread itself made the try, and it began.
    fn is_own_try(&self, failed: &FailedTry) -> bool {
        failed.seq >= self.place.own_from && failed.began <= failed.at
    }

    /// Returns the span of a node in which a part of it began: that of a try, if there were several.
    pub(super) fn within(&self, node: &NodeResult, seq: Seq, began: Time) -> Within {
        let whole = SpanId::of_node(self.place.thread, node.first_seq);
        let Some(last) = node.failed_tries.last() else { return (whole, node.ended) };
        match node.failed_tries.iter().find(|failed| seq < failed.seq) {
            // The first tries of very many are not kept.
            Some(failed) if self.is_own_try(failed) && failed.began <= began => {
                (SpanId::of_try(whole, failed.number), Some(failed.at))
            }
            Some(_) => (whole, node.ended),
            None => (SpanId::of_try(whole, last.number.saturating_add(1)), node.ended),
        }
    }
}
