//! Counters of a runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rethread_events::event::{EVENT_TYPES, Event};
use rethread_events::label_limits::Spent;
use rethread_events::thread::Status;
use rethread_store::LogReader;

use crate::call_metrics::CallMetrics;
use crate::error::ReadError;
use crate::permit_waits::WaitingCalls;
use crate::run_durations::EndedPart;

/// How long a count of all threads is cached: counting reads the list of all streams.
const COUNT_CACHED: Duration = Duration::from_secs(5);

/// The counters themselves.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) events: Vec<AtomicU64>,
    pub(crate) model_calls_open: Arc<AtomicUsize>,
    pub(crate) tool_calls_open: Arc<AtomicUsize>,
    pub(crate) waiting: Arc<WaitingCalls>,
    pub(crate) input_tokens: AtomicU64,
    pub(crate) output_tokens: AtomicU64,
    pub(crate) cached_input_tokens: AtomicU64,
    pub(crate) cost_nanousd: AtomicU64,
    pub(crate) calls_unpriced: AtomicU64,
    pub(crate) calls_counted: AtomicU64,
    pub(crate) calls: CallMetrics,
    threads: Mutex<Option<Count>>,
}

/// The number of threads by status, and when they were counted.
#[derive(Debug)]
struct Count {
    at: Instant,
    threads: Vec<(Status, u64)>,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            events: EVENT_TYPES.iter().map(|_| AtomicU64::new(0)).collect(),
            model_calls_open: Arc::default(),
            tool_calls_open: Arc::default(),
            waiting: Arc::default(),
            input_tokens: AtomicU64::new(0),
            output_tokens: AtomicU64::new(0),
            cached_input_tokens: AtomicU64::new(0),
            cost_nanousd: AtomicU64::new(0),
            calls_unpriced: AtomicU64::new(0),
            calls_counted: AtomicU64::new(0),
            calls: CallMetrics::default(),
            threads: Mutex::new(None),
        }
    }
}

/// What an append adds to the counters once it is durable.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    codes: Vec<u16>,
    spent: Spent,
    ended: Vec<EndedPart>,
}

impl Tally {
    /// Of these events, which ended these parts.
    pub(crate) fn of(events: &[Event], ended: Vec<EndedPart>) -> Self {
        Self { codes: events.iter().map(|event| event.event_type().code).collect(), spent: Spent::of(events), ended }
    }
}

/// A call that is running; dropping this ends it.
#[derive(Debug)]
pub(crate) struct OpenCall(Arc<AtomicUsize>);

impl OpenCall {
    pub(crate) fn of(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter.clone())
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counters {
    pub(crate) fn appended(&self, tally: &Tally) {
        for code in &tally.codes {
            let known = EVENT_TYPES.iter().position(|event_type| event_type.code == *code);
            if let Some(counter) = known.and_then(|place| self.events.get(place)) {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
        for ended in &tally.ended {
            self.calls.part(ended);
        }
        let add = |counter: &AtomicU64, n: Option<u64>| counter.fetch_add(n.unwrap_or(0), Ordering::Relaxed);
        let Spent { usage, cost_nanousd, n_unpriced, n_counted, n_calls: _, n_unknown: _ } = tally.spent;
        add(&self.input_tokens, usage.input_tokens);
        add(&self.output_tokens, usage.output_tokens);
        add(&self.cached_input_tokens, usage.cached_input_tokens);
        add(&self.cost_nanousd, Some(cost_nanousd));
        add(&self.calls_unpriced, Some(n_unpriced));
        add(&self.calls_counted, Some(n_counted));
    }

    pub(crate) fn model_call(&self) -> OpenCall {
        OpenCall::of(&self.model_calls_open)
    }

    pub(crate) fn tool_call(&self) -> OpenCall {
        OpenCall::of(&self.tool_calls_open)
    }

    /// Blocks when the last count is too old.
    pub(crate) fn threads(&self, store: &dyn LogReader) -> Result<Vec<(Status, u64)>, ReadError> {
        // Locked while it counts: concurrent callers wait for the same count.
        let mut kept = self.threads.lock();
        if let Some(count) = &*kept
            && count.at.elapsed() < COUNT_CACHED
        {
            return Ok(count.threads.clone());
        }
        // No event makes a thread interrupted: it is interrupted if no runtime works on it.
        let of_events = Status::ALL.into_iter().filter(|status| *status != Status::Interrupted);
        let mut threads: Vec<_> = of_events.map(|status| (status, 0)).collect();
        for info in store.all_streams(None, &[]) {
            if let Some((_, n)) = threads.get_mut(usize::from(info?.tag.0)) {
                *n += 1;
            }
        }
        *kept = Some(Count { at: Instant::now(), threads: threads.clone() });
        Ok(threads)
    }
}
