//! What a runtime counts of itself, for whoever watches it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rethread_events::event::{EVENT_TYPES, Event};
use rethread_events::message::{Usage, UsageSource};
use rethread_events::thread::Status;
use rethread_store::Store;

use crate::error::RuntimeError;
use crate::permit_waits::WaitingCalls;
use crate::runtime::Runtime;

/// How long a count of all threads is good for: it reads the list of all streams.
const COUNT_KEPT: Duration = Duration::from_secs(5);
/// How many streams are asked for at a time.
const PAGE: usize = 2_048;

/// What a runtime has counted since it started, and how it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// All threads of the log by the status that their last event left, in the order of [`Status::ALL`]; up to 5 s old.
    pub threads: Vec<(Status, u64)>,
    /// Threads in memory.
    pub live_threads: usize,
    /// Events that this runtime appended, durably, by documented name; names that were never appended are left out.
    pub events: Vec<(&'static str, u64)>,
    /// Model calls that run or wait for a permit, without those of summaries and conditions that are not yet asked.
    pub model_calls_open: usize,
    /// Tool calls that run or wait for a permit.
    pub tool_calls_open: usize,
    /// Model calls that wait for a permit: [`crate::Limits::concurrent_model_calls_max`], or the limits of a profile.
    pub model_calls_waiting: usize,
    /// Tool calls that wait for a permit: the `concurrency_max` of the tool.
    pub tool_calls_waiting: usize,
    /// Tokens sent to models, by what they say.
    pub input_tokens: u64,
    /// Tokens that models wrote.
    pub output_tokens: u64,
    /// Tokens sent that a provider had in its cache.
    pub cached_input_tokens: u64,
    /// What model calls cost, in billionths of a US dollar, where the price is known.
    pub cost_nanousd: u64,
    /// Model calls whose cost is not known, and not part of `cost_nanousd`.
    pub calls_unpriced: u64,
    /// Model calls whose tokens were counted here, because the provider did not report them.
    pub calls_counted: u64,
    /// The position that the next event will get.
    pub next_position: u64,
}

/// The counters themselves.
#[derive(Debug)]
pub(crate) struct Counters {
    events: Vec<AtomicU64>,
    model_calls_open: Arc<AtomicUsize>,
    tool_calls_open: Arc<AtomicUsize>,
    pub(crate) waiting: Arc<WaitingCalls>,
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
    cached_input_tokens: AtomicU64,
    cost_nanousd: AtomicU64,
    calls_unpriced: AtomicU64,
    calls_counted: AtomicU64,
    threads: Mutex<Option<Count>>,
}

/// How many threads there were, and when.
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
            threads: Mutex::new(None),
        }
    }
}

/// What is to be counted of an append once it is durable.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    codes: Vec<u16>,
    usage: Usage,
    cost_nanousd: u64,
    n_unpriced: u64,
    n_counted: u64,
}

impl Tally {
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut tally = Self { codes: events.iter().map(|event| event.event_type().code).collect(), ..Self::default() };
        for event in events {
            // What branches used was counted when they used it, so the events that sum it up are left out.
            let (usage, cost, source) = match event {
                Event::LlmCallCompleted(e) => (&e.usage, e.cost_nanousd, e.usage_source),
                Event::ContextSummaryCompleted(e) => (&e.usage, e.cost_nanousd, e.usage_source),
                Event::ConditionEvaluationCompleted(e) => (&e.usage, e.cost_nanousd, e.usage_source),
                _ => continue,
            };
            tally.n_unpriced += u64::from(cost.is_none());
            tally.n_counted += u64::from(source == UsageSource::Counted);
            tally.usage.add(usage);
            tally.cost_nanousd = tally.cost_nanousd.saturating_add(cost.unwrap_or(0));
        }
        tally
    }
}

/// A call that runs; it does not any more when this is dropped.
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
        let add = |counter: &AtomicU64, n: Option<u64>| counter.fetch_add(n.unwrap_or(0), Ordering::Relaxed);
        add(&self.input_tokens, tally.usage.input_tokens);
        add(&self.output_tokens, tally.usage.output_tokens);
        add(&self.cached_input_tokens, tally.usage.cached_input_tokens);
        add(&self.cost_nanousd, Some(tally.cost_nanousd));
        add(&self.calls_unpriced, Some(tally.n_unpriced));
        add(&self.calls_counted, Some(tally.n_counted));
    }

    pub(crate) fn model_call(&self) -> OpenCall {
        OpenCall::of(&self.model_calls_open)
    }

    pub(crate) fn tool_call(&self) -> OpenCall {
        OpenCall::of(&self.tool_calls_open)
    }

    /// Blocks when the last count is too old.
    fn threads(&self, store: &dyn Store) -> Result<Vec<(Status, u64)>, RuntimeError> {
        // Held while it is counted: whoever asks meanwhile waits for the same count.
        let mut kept = self.threads.lock();
        if let Some(count) = &*kept
            && count.at.elapsed() < COUNT_KEPT
        {
            return Ok(count.threads.clone());
        }
        // No event leaves a thread interrupted: only that nobody works on it makes it so.
        let of_events = Status::ALL.into_iter().filter(|status| *status != Status::Interrupted);
        let mut threads: Vec<_> = of_events.map(|status| (status, 0)).collect();
        let mut after = None;
        loop {
            let page = store.streams(after, &[], PAGE)?;
            for info in &page {
                if let Some((_, n)) = threads.get_mut(usize::from(info.tag.0)) {
                    *n += 1;
                }
            }
            after = page.last().map(|info| info.thread);
            if page.len() < PAGE {
                break;
            }
        }
        *kept = Some(Count { at: Instant::now(), threads: threads.clone() });
        Ok(threads)
    }
}

impl Runtime {
    /// What the runtime has counted, and how it stands. Costs a read of the list of all threads, at most every 5 s.
    pub async fn metrics(&self) -> Result<Metrics, RuntimeError> {
        let inner = self.inner().clone();
        let threads = self.blocking(move || inner.counters.threads(&*inner.store)).await??;
        let counters = &self.inner().counters;
        let sum = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (model_calls_waiting, tool_calls_waiting) = counters.waiting.count();
        let events = EVENT_TYPES.iter().zip(&counters.events).map(|(event_type, n)| (event_type.name, sum(n)));
        Ok(Metrics {
            threads,
            live_threads: self.inner().n_live(),
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
            next_position: self.store().next_position().0,
        })
    }
}
