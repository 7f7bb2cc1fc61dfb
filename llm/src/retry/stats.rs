//! Counting attempts.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::LlmError;

/// The statistics of the calls of one client since it was created.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RetryStats {
    /// Attempts, first ones included.
    pub attempts: u64,
    /// Calls that succeeded.
    pub answered: u64,
    /// Calls that ended with an error.
    pub failed: u64,
    /// Attempts that were followed by another.
    pub retried: u64,
    /// Time spent waiting between attempts, in milliseconds.
    pub waited_ms: u64,
    /// Failed attempts by kind.
    pub errors: BTreeMap<String, u64>,
}

impl RetryStats {
    pub(super) fn record(&mut self, error: Option<&LlmError>, wait_ms: Option<u64>) {
        self.attempts += 1;
        match (error, wait_ms) {
            (None, _) => self.answered += 1,
            (Some(_), None) => self.failed += 1,
            (Some(_), Some(wait_ms)) => {
                self.retried += 1;
                self.waited_ms = self.waited_ms.saturating_add(wait_ms);
            }
        }
        if let Some(error) = error {
            *self.errors.entry(error.kind.to_string()).or_default() += 1;
        }
    }
}
