//! The table `metrics` of rethread.toml.

use std::collections::BTreeSet;

use rethread::operate::Labels;
use serde::Deserialize;

/// The labels that `/metrics` has counts for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MetricsOf {
    /// The keys of the labels.
    pub(crate) labels: BTreeSet<String>,
    /// How many values of each key have series of their own.
    pub(crate) label_values_max: usize,
}

impl Default for MetricsOf {
    fn default() -> Self {
        Self { labels: BTreeSet::new(), label_values_max: 100 }
    }
}

/// The most keys of labels, and values of each, that have metrics of their own.
const KEYS_MAX: usize = 16;
const VALUES_MAX: usize = 10_000;

impl MetricsOf {
    /// Checks the keys and the numbers.
    pub(crate) fn checked(self) -> Result<Self, String> {
        for key in &self.labels {
            Labels::new().with(key, "value").map_err(|error| format!("metrics.labels: {error}"))?;
        }
        if self.labels.len() > KEYS_MAX {
            return Err(format!("metrics.labels: at most {KEYS_MAX} keys are allowed"));
        }
        if !(1..=VALUES_MAX).contains(&self.label_values_max) {
            return Err(format!("metrics.label_values_max: must be between 1 and {VALUES_MAX}"));
        }
        Ok(self)
    }
}
