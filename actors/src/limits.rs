//! The limits of a runtime.

use std::collections::BTreeMap;

use rethread_events::label_limits::{self, LabelLimits};
use serde::Deserialize;
use tokio::sync::Semaphore;

/// Limits of a runtime. Each can be reached without harm: a request for more is refused with an error.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Limits {
    /// Threads that are in memory at once; starting one more is refused as busy.
    pub live_threads_max: usize,
    /// Messages that wait for one thread; a sender of another one waits.
    pub mailbox_max: usize,
    /// Model calls that run at once in the whole runtime; further ones wait. The time limit of a call
    /// (`llm_timeout_ms`) begins when the wait ends; those of its node and thread include the wait.
    pub concurrent_model_calls_max: usize,
    /// How long a call waits to run: a model call for one of the [`Limits::concurrent_model_calls_max`], a tool call
    /// until fewer than `concurrency_max` calls of its tool run. Then it fails as `overloaded`.
    pub call_wait_max_ms: u64,
    /// The most bytes of the JSON of an input, an answer or a variable.
    pub input_bytes_max: usize,
    /// The bytes of the answers that are kept in memory, for all threads together, while the disk is full. Answers
    /// beyond the limit are lost, and their calls are treated as after a crash.
    pub unwritten_bytes_max: usize,
    /// How long a thread with nothing running stays in memory.
    pub passivate_after_ms: u64,
    /// How long a shutdown lets running calls end before they are left to recovery.
    pub shutdown_grace_ms: u64,
    /// How often the process may crash in one step of a thread before the thread ends as failed (`crashed_process`); 0
    /// for no limit.
    pub crashes_max: u32,
    /// Limits of the threads with a label, by the key of the label (`tenant`, for each of its values) or by the label
    /// (`tenant=acme`, in place of those of the key).
    pub labels: BTreeMap<String, LabelLimits>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            live_threads_max: 100_000,
            mailbox_max: 256,
            concurrent_model_calls_max: 1_024,
            call_wait_max_ms: 3_600_000,
            input_bytes_max: 16 << 20,
            unwritten_bytes_max: 256 << 20,
            passivate_after_ms: 10_000,
            shutdown_grace_ms: 2_000,
            crashes_max: 3,
            labels: BTreeMap::new(),
        }
    }
}

impl Limits {
    /// Checks that every number is in its range.
    ///
    /// # Errors
    /// The name of the first that is not, and its range.
    pub fn check(&self) -> Result<(), String> {
        let counts = [
            ("live_threads_max", self.live_threads_max),
            ("mailbox_max", self.mailbox_max),
            ("concurrent_model_calls_max", self.concurrent_model_calls_max),
        ];
        match counts.into_iter().find(|(_, n)| !(1..=Semaphore::MAX_PERMITS).contains(n)) {
            Some((name, n)) => Err(format!("limits.{name} is {n}: must be between 1 and {}", Semaphore::MAX_PERMITS)),
            None if self.call_wait_max_ms == 0 => Err("limits.call_wait_max_ms is 0: it must be at least 1".into()),
            None => label_limits::check(&self.labels),
        }
    }
}
