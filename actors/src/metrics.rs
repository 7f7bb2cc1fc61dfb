//! The metrics of a runtime.

use std::sync::atomic::{AtomicU64, Ordering};

use rethread_events::event::EVENT_TYPES;
use rethread_events::ids::ThreadId;
use rethread_events::label_limits::LabelSeries;
use rethread_events::thread::Status;
use rethread_store::StreamMetrics;

use crate::call_metrics::{CacheSeries, CallSeries};
use crate::error::ReadError;
use crate::permit_waits::WaitingCall;
use crate::runtime::Runtime;

/// The counts of a runtime since it started, and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// All threads of the log by the status that their last event left, in the order of [`Status::ALL`]; up to 5 s old.
    pub threads: Vec<(Status, u64)>,
    /// Threads in memory.
    pub live_threads: usize,
    /// Events that this runtime appended, durably, by documented name; names that were never appended are left out.
    pub events: Vec<(&'static str, u64)>,
    /// Model calls that run or wait for a permit, without open calls for summaries and conditions that are not yet
    /// made.
    pub model_calls_open: usize,
    /// Tool calls that run or wait for a permit.
    pub tool_calls_open: usize,
    /// Model calls that wait for a permit: [`crate::Limits::concurrent_model_calls_max`], or the limits of a profile.
    pub model_calls_waiting: usize,
    /// Tool calls that wait for a permit: the `concurrency_max` of the tool.
    pub tool_calls_waiting: usize,
    /// Tokens sent to models, as the models report.
    pub input_tokens: u64,
    /// Tokens that models wrote.
    pub output_tokens: u64,
    /// Tokens sent that a provider read from its cache.
    pub cached_input_tokens: u64,
    /// The cost of model calls, in billionths of a US dollar, if the price is known.
    pub cost_nanousd: u64,
    /// Model calls whose cost is not known, and not part of `cost_nanousd`.
    pub calls_unpriced: u64,
    /// Model calls whose tokens were counted here, because the provider did not report them.
    pub calls_counted: u64,
    /// Durations and tokens of the calls that this runtime made.
    pub calls: Vec<CallSeries>,
    /// The part of the provider's cache of prompts in those calls, by model.
    pub caches: Vec<CacheSeries>,
    /// The counts of the labels that [`crate::RuntimeBuilder::metrics_by_label`] names.
    pub labels: Vec<LabelSeries>,
    /// The position that the next event will get.
    pub next_position: u64,
    /// How a log in a stream goes on; `None` for another one.
    pub stream: Option<StreamMetrics>,
}

impl Runtime {
    /// Returns the counts of the runtime and its state. Costs a read of the list of all threads, at most every 5 s.
    pub async fn metrics(&self) -> Result<Metrics, ReadError> {
        let services = self.services().clone();
        let threads = self.blocking(move || services.counters.threads(&*services.store)).await??;
        let counters = &self.services().counters;
        let sum = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (model_calls_waiting, tool_calls_waiting) = counters.waiting.count();
        let events = EVENT_TYPES.iter().zip(&counters.events).map(|(event_type, n)| (event_type.name, sum(n)));
        Ok(Metrics {
            threads,
            live_threads: self.registry().n_live(),
            events: events.filter(|(_, n)| *n > 0).collect(),
            model_calls_open: counters.model_calls_open.load(Ordering::Relaxed),
            tool_calls_open: counters.tool_calls_open.load(Ordering::Relaxed),
            model_calls_waiting,
            tool_calls_waiting,
            input_tokens: sum(&counters.input_tokens),
            output_tokens: sum(&counters.output_tokens),
            cached_input_tokens: sum(&counters.cached_input_tokens),
            cost_nanousd: sum(&counters.cost_nanousd),
            calls_unpriced: sum(&counters.calls_unpriced),
            calls_counted: sum(&counters.calls_counted),
            calls: counters.calls.series(),
            caches: counters.calls.caches(),
            labels: self.services().labels.metrics(),
            next_position: self.store().next_position().0,
            stream: self.store().stream_metrics(),
        })
    }

    /// The calls that wait for a concurrency permit now: those of a thread, or all, by thread and call.
    pub fn waiting_calls(&self, thread: Option<ThreadId>) -> Vec<WaitingCall> {
        self.services().counters.waiting.list(thread)
    }
}
