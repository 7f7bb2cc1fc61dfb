//! When a failed try of a node is repeated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fault::ErrorKind;

/// The random part of a wait, so that many threads that failed together do not retry together (Brooker, "Exponential
/// Backoff And Jitter", 2015).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// None.
    #[default]
    None,
    /// Anything from nothing to the whole wait.
    Full,
    /// Half of the wait, and anything up to the other half.
    Equal,
}

impl Jitter {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// When a failed try of a node is repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// How many tries there are in all, 1 to 100.
    #[serde(alias = "maxAttempts")]
    pub max_attempts: u32,
    /// The wait before the second try; doubles with each further one.
    #[serde(default, alias = "backoffMs")]
    pub backoff_ms: u64,
    /// The longest wait; 60 000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "backoffMsMax")]
    pub backoff_ms_max: Option<u64>,
    /// How much chance there is in the wait.
    #[serde(default, skip_serializing_if = "Jitter::is_none")]
    pub jitter: Jitter,
    /// The kinds of errors after which it is tried again; when absent, after those that another try can mend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Vec<ErrorKind>>,
}

impl RetryPolicy {
    /// The wait after try number `attempt` (from 1) failed: `backoff_ms · 2^(attempt − 1)`, at most `backoff_ms_max`,
    /// of which `chance`, any number, takes its part as `jitter` says.
    pub fn wait_ms(&self, attempt: u32, chance: u64) -> u64 {
        let factor = 1_u64.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX);
        let wait = self.backoff_ms.saturating_mul(factor).min(self.backoff_ms_max.unwrap_or(60_000));
        let up_to = |ms: u64| ms.checked_add(1).map_or(chance, |n| chance % n);
        match self.jitter {
            Jitter::None => wait,
            Jitter::Full => up_to(wait),
            Jitter::Equal => wait - wait / 2 + up_to(wait / 2),
        }
    }
}
