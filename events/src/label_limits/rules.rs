//! The configured limits and counts.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::labels::{LabelError, Labels};

/// The default number of tokens that a model call with unknown usage counts in a limit.
pub const UNKNOWN_CALL_TOKENS: u64 = 2_000;

/// Limits for each value of a label, or for one value. What is absent is not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LabelLimits {
    /// Threads with the label that have not ended, branches not counted. A thread that is paused or waits counts.
    pub live_threads_max: Option<u64>,
    /// Threads, forks and further runs that begin in any 60 seconds.
    pub starts_per_minute: Option<u64>,
    /// Tokens of prompts and answers in a day of UTC.
    pub tokens_per_day: Option<u64>,
    /// How many tokens an attempt of a model call that ended without figures, such as a cancelled one, counts in
    /// `tokens_per_day`; [`UNKNOWN_CALL_TOKENS`] if absent.
    pub unknown_call_tokens: Option<u64>,
}

impl LabelLimits {
    /// These limits, and those of the key where these have none.
    fn or(self, of_key: Self) -> Self {
        Self {
            live_threads_max: self.live_threads_max.or(of_key.live_threads_max),
            starts_per_minute: self.starts_per_minute.or(of_key.starts_per_minute),
            tokens_per_day: self.tokens_per_day.or(of_key.tokens_per_day),
            unknown_call_tokens: self.unknown_call_tokens.or(of_key.unknown_call_tokens),
        }
    }
}

/// Which limit of a label was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelLimit {
    /// [`LabelLimits::live_threads_max`].
    LiveThreadsMax,
    /// [`LabelLimits::starts_per_minute`].
    StartsPerMinute,
    /// [`LabelLimits::tokens_per_day`].
    TokensPerDay,
}

impl LabelLimit {
    /// Its name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LiveThreadsMax => "live_threads_max",
            Self::StartsPerMinute => "starts_per_minute",
            Self::TokensPerDay => "tokens_per_day",
        }
    }
}

/// A limit of a label was reached: retry later. Nothing was begun.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("label `{label}` has reached {} = {n_max}", .limit.name())]
pub struct LabelLimitReached {
    /// The label, as `KEY=VALUE`.
    pub label: String,
    /// Which limit.
    pub limit: LabelLimit,
    /// Its number.
    pub n_max: u64,
    /// The seconds after which there may be room: for threads that have not ended a guess, at least 1.
    pub retry_after_s: u64,
}

/// Checks limits by label, whose keys are the keys of labels (`tenant`) or labels (`tenant=acme`).
///
/// # Errors
/// The fault of the first invalid one, with its place.
pub fn check(limits: &BTreeMap<String, LabelLimits>) -> Result<(), String> {
    for (of, limits) in limits {
        let place = |what: &dyn std::fmt::Display| format!("limits.labels.{of:?}: {what}");
        label(of).map_err(|error| place(&error))?;
        let LabelLimits { live_threads_max, starts_per_minute, tokens_per_day, unknown_call_tokens } = *limits;
        let numbers = [
            ("live_threads_max", live_threads_max),
            ("starts_per_minute", starts_per_minute),
            ("tokens_per_day", tokens_per_day),
            ("unknown_call_tokens", unknown_call_tokens),
        ];
        if let Some((name, _)) = numbers.iter().find(|(_, n)| *n == Some(0)) {
            return Err(place(&format!("{name} is 0: it must be at least 1")));
        }
        if numbers.iter().all(|(_, n)| n.is_none()) {
            return Err(place(&"there is no limit in it"));
        }
        if starts_per_minute.is_some_and(|n| n > STARTS_MAX) {
            return Err(place(&format!("starts_per_minute: between 1 and {STARTS_MAX} are possible")));
        }
    }
    Ok(())
}

/// The most starts per minute, because the time of each is kept for a minute.
const STARTS_MAX: u64 = 1_000_000;

/// The key and the value that limits are for; without a value, they are for each value of the key.
pub(super) fn label(of: &str) -> Result<(String, Option<String>), LabelError> {
    if !of.contains('=') {
        Labels::new().with(of, "value")?;
        return Ok((of.to_owned(), None));
    }
    let (key, value) = of.split_once('=').unwrap_or((of, ""));
    Labels::new().with(key, value)?;
    Ok((key.to_owned(), Some(value.to_owned())))
}

/// Limits by label, and the keys whose values have metrics of their own.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) of_keys: BTreeMap<String, LabelLimits>,
    pub(super) of_labels: BTreeMap<(String, String), LabelLimits>,
    pub(super) metrics: BTreeSet<String>,
    pub(super) values_max: usize,
}

impl Settings {
    pub(super) fn limits(&self, key: &str, value: &str) -> LabelLimits {
        let of_key = self.of_keys.get(key).copied().unwrap_or_default();
        let of_label = self.of_labels.get(&(key.to_owned(), value.to_owned())).copied().unwrap_or_default();
        of_label.or(of_key)
    }

    /// Whether labels of this key are counted.
    pub(super) fn counts(&self, key: &str) -> bool {
        let mut of_key = self.of_labels.range((key.to_owned(), String::new())..);
        self.of_keys.contains_key(key)
            || self.metrics.contains(key)
            || of_key.next().is_some_and(|((of, _), _)| of == key)
    }
}
