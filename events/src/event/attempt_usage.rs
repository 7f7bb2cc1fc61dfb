//! What attempts at models used.

use super::llm::FailedUsage;
use super::table::Event;
use crate::ids::CallId;
use crate::message::{UnitPrices, Usage, UsageSource};

/// What an attempt at a model used, as the event that ends the attempt says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttemptUsage<'a> {
    /// The call.
    pub call_id: CallId,
    /// Tokens; of a failed attempt those that the provider reported.
    pub usage: Usage,
    /// Who counted them.
    pub source: UsageSource,
    /// Their cost in billionths of a US dollar; absent if it is not known.
    pub cost_nanousd: Option<u64>,
    /// The prices of that cost; absent for an answer of the cache of answers: its provider was not called.
    pub prices: Option<UnitPrices>,
    /// The model, if the event names it.
    pub model: Option<&'a str>,
    /// Whether the attempt failed.
    pub failed: bool,
}

impl AttemptUsage<'_> {
    /// Returns whether tokens of the prompt or of the answer are not known.
    pub fn is_partial(&self) -> bool {
        self.usage.input_tokens.is_none() || self.usage.output_tokens.is_none()
    }

    /// Returns what the provider's cache of prompts saved, see [`UnitPrices::cache_saved_nanousd`].
    pub fn cache_saved_nanousd(&self) -> Option<i64> {
        self.prices?.cache_saved_nanousd(&self.usage)
    }
}

macro_rules! completed {
    ($event:ident, $failed:expr, $prices:expr) => {
        AttemptUsage {
            call_id: $event.call_id,
            usage: $event.usage,
            source: $event.usage_source,
            cost_nanousd: $event.cost_nanousd,
            prices: $prices,
            model: $event.model.as_deref(),
            failed: $failed,
        }
    };
}

impl Event {
    /// Returns whether the event counts as a model call in the sums of a thread: an answer, and each end of a verdict or of a
    /// summary.
    pub(crate) fn is_model_call(&self) -> bool {
        matches!(
            self,
            Self::LlmCallCompleted(_) | Self::ConditionEvaluationCompleted(_) | Self::ContextSummaryCompleted(_)
        )
    }

    /// Returns what an attempt at a model used, if the event ends one. `None` for a failed attempt of which the provider
    /// reported nothing. All sums of tokens and money read this.
    pub fn attempt_usage(&self) -> Option<AttemptUsage<'_>> {
        let used = if let Self::LlmCallCompleted(e) = self {
            completed!(e, false, e.prices.filter(|_| !e.cached))
        } else if let Self::ConditionEvaluationCompleted(e) = self {
            completed!(e, e.error.is_some(), e.prices)
        } else if let Self::ContextSummaryCompleted(e) = self {
            completed!(e, e.error.is_some(), e.prices)
        } else if let Self::LlmTryFailed(e) = self {
            of_failed(e.call_id, e.used.as_deref()?, e.model.as_deref())
        } else if let Self::LlmCallFailed(e) = self {
            of_failed(e.call_id, e.used.as_deref()?, e.model.as_deref())
        } else {
            return None;
        };
        (!used.failed || used.usage != Usage::default()).then_some(used)
    }
}

fn of_failed<'a>(call_id: CallId, used: &FailedUsage, model: Option<&'a str>) -> AttemptUsage<'a> {
    let FailedUsage { usage, cost_nanousd, prices } = *used;
    AttemptUsage { call_id, usage, source: UsageSource::Provider, cost_nanousd, prices, model, failed: true }
}
