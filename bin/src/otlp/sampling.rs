//! Which runs are sent, decided when a run has ended.

use std::time::Duration;

use rethread::operate::RunSpans;
use rethread_events::traces::Span;
use serde::Deserialize;

/// How the decision falls, besides for runs that fail or are slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sampler {
    /// By the share of all runs.
    #[default]
    Ratio,
    /// By the flag of the caller; by the share without a caller.
    Parent,
}

/// Which runs are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sampling {
    pub(super) sampler: Sampler,
    /// The share of runs.
    pub(super) ratio: f64,
    /// Whether runs in which something failed are always sent.
    pub(super) failed: bool,
    /// Runs that take longer are always sent.
    pub(super) slow: Option<Duration>,
}

impl Sampling {
    /// Whether the run is sent, with its branches.
    pub(super) fn wants(&self, run: &RunSpans) -> bool {
        let Some(root) = run.spans.first() else { return false };
        let took = Duration::from_micros(root.ended.unix_us().saturating_sub(root.began.unix_us()));
        if (self.failed && run.has_failed) || self.slow.is_some_and(|slow| took > slow) {
            return true;
        }
        match (self.sampler, run.is_sampled_by_caller) {
            (Sampler::Parent, Some(is_sampled)) => is_sampled,
            (Sampler::Parent, None) | (Sampler::Ratio, _) => is_in_share(root, self.ratio),
        }
    }
}

/// Whether a trace is in a share of all, by the last 56 bits of its id, as other services decide for the same trace.
fn is_in_share(root: &Span, ratio: f64) -> bool {
    let [.., a, b, c, d, e, f, g] = *root.trace.as_bytes();
    let random = u64::from_be_bytes([0, a, b, c, d, e, f, g]);
    random >= ((1.0 - ratio) * (1u64 << 56) as f64) as u64
}

#[cfg(test)]
mod tests;
