//! The tables `limits` and `metrics` of rethread.toml.

use std::collections::BTreeSet;
use std::path::Path;

use rethread::Limits;
use rethread::operate::Labels;
use serde::Deserialize;

use crate::definition;
use crate::exit::{Failure, INVALID};

#[derive(Debug, Deserialize)]
struct File {
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    metrics: MetricsOf,
}

/// The labels that `/metrics` has counts for.
#[derive(Debug, Deserialize)]
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

/// The limits of a configuration, and the labels of its metrics.
///
/// # Errors
/// For an unknown key and for a number that is out of range (exit code 3).
pub(crate) fn read(file: &Path) -> Result<(Limits, MetricsOf), Failure> {
    let invalid = |what: String| Failure::new(INVALID, format!("{}: {what}", file.display()));
    let File { limits, metrics } = definition::read_toml(file)?;
    limits.check().map_err(invalid)?;
    for key in &metrics.labels {
        Labels::new().with(key, "value").map_err(|error| invalid(format!("metrics.labels: {error}")))?;
    }
    if metrics.labels.len() > KEYS_MAX {
        return Err(invalid(format!("metrics.labels: at most {KEYS_MAX} keys are allowed")));
    }
    if !(1..=VALUES_MAX).contains(&metrics.label_values_max) {
        return Err(invalid(format!("metrics.label_values_max: must be between 1 and {VALUES_MAX}")));
    }
    Ok((limits, metrics))
}
