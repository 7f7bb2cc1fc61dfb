//! Durations and tokens of the calls of models and tools that this process made, and durations of the runs and the agent loops
//! that ended in it, as histograms with the names and buckets of the GenAI conventions.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher as _;
use std::time::Duration;

use parking_lot::Mutex;
use rethread_events::event::LlmCallCompleted;
use rethread_events::fault::ErrorKind;
use rethread_events::message::Usage;
use rethread_events::traces::{Key, provider_name};

use crate::run_durations::{EndedPart, Part};

/// The upper bounds of durations, in microseconds: 10 ms, and 13 times the double.
const DURATION_BOUNDS: [u64; 14] = bounds(10_000, 2);
/// The upper bounds of durations of agent loops, in microseconds: 100 ms, and 12 times the double.
const AGENT_BOUNDS: [u64; 13] = bounds(100_000, 2);
/// The upper bounds of durations of runs, in microseconds: 1 second to 2 hours.
const RUN_BOUNDS: [u64; 11] = {
    let mut bounds = [1, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200];
    let mut i = 0;
    while i < 11 {
        bounds[i] *= 1_000_000;
        i += 1;
    }
    bounds
};
/// The upper bounds of tokens: 1, and 13 times the fourfold.
const TOKEN_BOUNDS: [u64; 14] = bounds(1, 4);
/// The most series; what more there would be counts for none. Names of models come from workflows, so they are not trusted
/// to be few.
const SERIES_MAX: usize = 2_000;

/// The first bound, and each further one as a multiple of the one before.
const fn bounds<const N: usize>(first: u64, factor: u64) -> [u64; N] {
    let mut bounds = [first; N];
    let mut i = 1;
    while i < N {
        bounds[i] = bounds[i - 1] * factor;
        i += 1;
    }
    bounds
}

/// The attributes of a series.
type Attributes = Vec<(Key, String)>;

/// The series by the hash of metric and attributes, so that a value is added without a copy of these.
#[derive(Debug, Default)]
struct AllSeries {
    n: usize,
    by_hash: HashMap<u64, Vec<CallSeries>>,
    hasher: RandomState,
}

/// A histogram of calls, runs or agent loops with the same attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallSeries {
    /// The metric: [`Key::OperationDuration`], [`Key::ToolDuration`], [`Key::AgentDuration`], [`Key::RunDuration`] or
    /// [`Key::TokenUsage`].
    pub metric: Key,
    /// What its calls have in common.
    pub attributes: Vec<(Key, String)>,
    /// The upper bounds of the buckets but the last: microseconds, or tokens.
    pub bounds: &'static [u64],
    /// How many values there are in each bucket; one more than bounds.
    pub buckets: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

impl CallSeries {
    /// The number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// The part of the provider's cache of prompts in the calls of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSeries {
    /// What its calls have in common: provider and model.
    pub attributes: Vec<(Key, String)>,
    /// Tokens of prompts that were read from the cache.
    pub cached_input_tokens: u64,
    /// What the cache saved in the calls in which it saved something, in billionths of a US dollar.
    pub saved_nanousd: u64,
    /// What it cost in the other calls, which wrote more to it than they read, in billionths of a US dollar.
    pub extra_nanousd: u64,
}

/// The histograms of a runtime.
#[derive(Debug, Default)]
pub(crate) struct CallMetrics {
    series: Mutex<AllSeries>,
    caches: Mutex<BTreeMap<Attributes, CacheSeries>>,
}

impl CallMetrics {
    /// Counts a call of a model.
    pub(crate) fn model(
        &self,
        provider: &str,
        model: &str,
        took: Duration,
        answer: Result<(Option<&str>, &Usage), ErrorKind>,
    ) {
        let (answered_by, usage, kind) = match answer {
            Ok((answered_by, usage)) => (answered_by, Some(usage), None),
            Err(kind) => (None, None, Some(kind.to_string())),
        };
        let mut attributes =
            vec![(Key::Operation, "chat"), (Key::Provider, provider_name(provider)), (Key::RequestModel, model)];
        attributes.extend(answered_by.map(|model| (Key::ResponseModel, model)));
        attributes.extend(kind.as_deref().map(|kind| (Key::ErrorType, kind)));
        let tokens = [
            ("input", usage.and_then(|usage| usage.input_tokens)),
            ("output", usage.and_then(|usage| usage.output_tokens)),
        ];
        for (kind, n) in tokens {
            let Some(n) = n else { continue };
            attributes.push((Key::TokenType, kind));
            self.add(Key::TokenUsage, &attributes, &TOKEN_BOUNDS, n);
            attributes.pop();
        }
        self.add(Key::OperationDuration, &attributes, &DURATION_BOUNDS, micros(took));
    }

    /// Counts the part of the provider's cache in an answer of a model, if it had one.
    pub(crate) fn provider_cache(&self, provider: &str, model: &str, answer: &LlmCallCompleted) {
        let cached = answer.usage.cached_input_tokens.filter(|_| !answer.cached).unwrap_or(0);
        let saved = answer.cache_saved_nanousd().unwrap_or(0);
        if cached == 0 && saved == 0 {
            return;
        }
        // The model that answered is the one that is billed. A profile names its model, and then the request does not.
        let model = answer.model.as_deref().unwrap_or(model);
        let attributes =
            vec![(Key::Provider, provider_name(provider).to_owned()), (Key::ResponseModel, model.to_owned())];
        let mut all = self.caches.lock();
        if all.len() >= SERIES_MAX && !all.contains_key(&attributes) {
            return;
        }
        let series = all.entry(attributes).or_insert_with_key(|attributes| CacheSeries {
            attributes: attributes.clone(),
            cached_input_tokens: 0,
            saved_nanousd: 0,
            extra_nanousd: 0,
        });
        series.cached_input_tokens = series.cached_input_tokens.saturating_add(cached);
        let sum = if saved < 0 { &mut series.extra_nanousd } else { &mut series.saved_nanousd };
        *sum = sum.saturating_add(saved.unsigned_abs());
    }

    /// Counts a call of a tool.
    pub(crate) fn tool(&self, name: &str, took: Duration, error: Option<ErrorKind>) {
        let kind = error.map(|kind| kind.to_string());
        let mut attributes = vec![(Key::Operation, "execute_tool"), (Key::Tool, name)];
        attributes.extend(kind.as_deref().map(|kind| (Key::ErrorType, kind)));
        self.add(Key::ToolDuration, &attributes, &DURATION_BOUNDS, micros(took));
    }

    /// Counts a run or an agent loop.
    pub(crate) fn part(&self, ended: &EndedPart) {
        let (metric, name, bounds): (_, _, &'static [u64]) = match ended.part {
            Part::Run => (Key::RunDuration, Key::Workflow, &RUN_BOUNDS),
            Part::AgentLoop => (Key::AgentDuration, Key::Agent, &AGENT_BOUNDS),
        };
        let kind = ended.error.map(|kind| kind.to_string());
        let mut attributes = vec![(name, ended.name.as_str())];
        attributes.extend(kind.as_deref().map(|kind| (Key::ErrorType, kind)));
        self.add(metric, &attributes, bounds, ended.us);
    }

    fn add(&self, metric: Key, attributes: &[(Key, &str)], bounds: &'static [u64], value: u64) {
        let mut all = self.series.lock();
        let AllSeries { n, by_hash, hasher } = &mut *all;
        let hash = hasher.hash_one((metric, attributes));
        let is_it = |series: &&mut CallSeries| {
            let own = series.attributes.iter().map(|(key, value)| (*key, value.as_str()));
            series.metric == metric && own.eq(attributes.iter().copied())
        };
        let series = match by_hash.get_mut(&hash).and_then(|same| same.iter_mut().find(is_it)) {
            Some(series) => series,
            None if *n >= SERIES_MAX => return,
            None => {
                *n += 1;
                let attributes = attributes.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
                let buckets = vec![0; bounds.len() + 1];
                by_hash.entry(hash).or_default().push_mut(CallSeries { metric, attributes, bounds, buckets, sum: 0 })
            }
        };
        let place = bounds.iter().position(|bound| value <= *bound).unwrap_or(bounds.len());
        if let Some(bucket) = series.buckets.get_mut(place) {
            *bucket += 1;
        }
        series.sum = series.sum.saturating_add(value);
    }

    /// Returns the part of the provider's cache, by model.
    pub(crate) fn caches(&self) -> Vec<CacheSeries> {
        self.caches.lock().values().cloned().collect()
    }

    /// Returns all series, by metric.
    pub(crate) fn series(&self) -> Vec<CallSeries> {
        let mut all: Vec<_> = self.series.lock().by_hash.values().flatten().cloned().collect();
        all.sort_by(|one, other| (one.metric, &one.attributes).cmp(&(other.metric, &other.attributes)));
        all
    }
}

fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_the_bucket_of_their_bound() {
        let metrics = CallMetrics::default();
        let usage = Usage { input_tokens: Some(64), output_tokens: Some(65), ..Usage::default() };
        metrics.model("openai_chat", "gpt-x", Duration::from_micros(10_000), Ok((Some("gpt-x-1"), &usage)));
        metrics.model("openai_chat", "gpt-x", Duration::from_secs(100), Err(ErrorKind::Timeout));
        let series = metrics.series();
        let of = |metric: Key, key: Key, value: &str| {
            let has = |series: &&CallSeries| {
                series.metric == metric && series.attributes.iter().any(|(k, v)| *k == key && v == value)
            };
            series.iter().find(has).unwrap()
        };
        let input = of(Key::TokenUsage, Key::TokenType, "input");
        assert_eq!((input.buckets[3], input.sum, input.count()), (1, 64, 1));
        let output = of(Key::TokenUsage, Key::TokenType, "output");
        assert_eq!((output.buckets[4], output.sum), (1, 65));
        assert_eq!(of(Key::OperationDuration, Key::ResponseModel, "gpt-x-1").buckets[0], 1);
        let slow = of(Key::OperationDuration, Key::ErrorType, "timeout");
        assert_eq!((slow.buckets[14], slow.sum), (1, 100_000_000));
        assert_eq!((TOKEN_BOUNDS[13], DURATION_BOUNDS[13]), (67_108_864, 81_920_000));
        assert_eq!((AGENT_BOUNDS[12], RUN_BOUNDS[10]), (409_600_000, 7_200_000_000));
        assert_eq!(input.attributes[1], (Key::Provider, "openai".to_owned()));
    }

    #[test]
    fn number_of_series_is_limited() {
        let metrics = CallMetrics::default();
        for n in 0..SERIES_MAX + 10 {
            metrics.tool(&format!("tool-{n}"), Duration::ZERO, None);
        }
        assert_eq!(metrics.series().len(), SERIES_MAX);
    }
}
