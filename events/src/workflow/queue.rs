//! The queue of a workflow: how many of its runs begin, which ones, and when.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{QueueLimits, StartRate};

/// The queue of a workflow. A run that cannot begin at once waits in the log, which costs no memory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// An expression: the limits hold for the runs with the same value. For all runs of the workflow when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How many runs may have begun and not ended, those that wait for a person or a time included. Without limit when
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many runs may begin in a time. Without limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<StartRate>,
    /// A run begins when no other one has come for so long; those that waited are cancelled then, but for the newest.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "debounceMs")]
    pub debounce_ms: Option<u64>,
    /// An expression with a whole number: runs with a larger one begin first. 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// An expression: runs of the same priority begin in turn, one for each value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair: Option<String>,
}

impl Queue {
    /// Its limits, as events record them.
    pub fn limits(&self) -> QueueLimits {
        QueueLimits { concurrency: self.concurrency, rate: self.rate, debounce: self.debounce_ms.is_some() }
    }
}
