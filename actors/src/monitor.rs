//! Hooks of the application: a convenience over the subscription.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rethread_events::event::{
    AttemptUsage, ContextSummarized, Event, LlmCallCompleted, LlmCallFailed, ToolExecutionCompleted,
    ToolExecutionFailed, ToolExecutionRequest,
};
use rethread_events::ids::{CallId, Position, Seq, ThreadId, Time};
use rethread_events::message::Usage;
use rethread_events::usage::Purpose;
use rethread_store::{LogReader, Record, StoreError};
use tokio_util::sync::CancellationToken;

use crate::error::OpenError;
use crate::log_follower::each_record;
use crate::recorded::{RecordedEvent, event};

/// Is called when something of interest has happened in any thread of a runtime, branches included.
///
/// Every hook is called after its event is durable, in the order of the log, so in order per thread, one at a time, on
/// an OS thread of the monitor's own: it may block. It is called for what is recorded while the runtime runs; what was
/// recorded before is not repeated. A slow hook delays nothing: it lags and receives the rest from the log, which is
/// its queue, so nothing is dropped while the runtime runs. A shutdown waits for it within its grace time; what was not
/// reported then is counted, see [`MonitorStats::unread`]. A hook that panics is counted, and the next one is called
/// all the same.
///
/// Where several runtimes have the log, each calls hooks for the threads that it has at the time. While a thread goes from one to
/// another, a hook for it may be called by both of them, or by none.
///
/// What must not be missed, also across a crash, is followed with [`crate::Runtime::events`] and a named cursor.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use rethread::monitor::{Moment, TokenUsage};
/// use rethread::{Monitor, Runtime};
///
/// #[derive(Default)]
/// struct Meter(AtomicU64);
///
/// impl Monitor for Meter {
///     fn on_token_usage(&self, _moment: &Moment, usage: &TokenUsage<'_>) {
///         self.0.fetch_add(usage.usage.total_tokens.unwrap_or(0), Ordering::Relaxed);
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let meter = Arc::new(Meter::default());
/// let runtime = Runtime::builder().in_memory().monitor(meter.clone()).start().await?;
/// runtime.shutdown().await?;
/// # Ok(())
/// # }
/// ```
pub trait Monitor: Send + Sync + 'static {
    /// A model answered in an agent loop, or will not. Verdicts and summaries are told by
    /// [`Monitor::on_token_usage`].
    fn on_llm_call(&self, moment: &Moment, call: LlmCall<'_>) {
        let _ = (moment, call);
    }

    /// A tool call ended.
    fn on_tool_call(&self, moment: &Moment, call: ToolCall<'_>) {
        let _ = (moment, call);
    }

    /// An attempt at a model ended, for any purpose, and used tokens: an answer, or a failed attempt of which the provider reported
    /// something.
    fn on_token_usage(&self, moment: &Moment, usage: &TokenUsage<'_>) {
        let _ = (moment, usage);
    }

    /// Stretches of a conversation were replaced by summaries.
    fn on_context_summarized(&self, moment: &Moment, summarized: &ContextSummarized) {
        let _ = (moment, summarized);
    }
}

impl<M: Monitor + ?Sized> Monitor for Arc<M> {
    fn on_llm_call(&self, moment: &Moment, call: LlmCall<'_>) {
        (**self).on_llm_call(moment, call);
    }

    fn on_tool_call(&self, moment: &Moment, call: ToolCall<'_>) {
        (**self).on_tool_call(moment, call);
    }

    fn on_token_usage(&self, moment: &Moment, usage: &TokenUsage<'_>) {
        (**self).on_token_usage(moment, usage);
    }

    fn on_context_summarized(&self, moment: &Moment, summarized: &ContextSummarized) {
        (**self).on_context_summarized(moment, summarized);
    }
}

/// Where and when it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The thread.
    pub thread: ThreadId,
    /// The place of the event in the thread.
    pub seq: Seq,
    /// Its place in the whole log.
    pub position: Position,
    /// When it was recorded.
    pub at: Time,
}

/// How a call of a model ended.
#[derive(Debug, Clone, Copy)]
pub enum LlmCall<'a> {
    /// With an answer.
    Completed(&'a LlmCallCompleted),
    /// Without one.
    Failed(&'a LlmCallFailed),
}

/// How a tool call ended, and what was asked for; the request is absent only where it cannot be read.
#[derive(Debug, Clone, Copy)]
pub enum ToolCall<'a> {
    /// With an answer.
    Completed(Option<&'a ToolExecutionRequest>, &'a ToolExecutionCompleted),
    /// Without one.
    Failed(Option<&'a ToolExecutionRequest>, &'a ToolExecutionFailed),
}

/// What an attempt at a model took.
#[derive(Debug, Clone, Copy)]
pub struct TokenUsage<'a> {
    /// The call.
    pub call: CallId,
    /// What it was for.
    pub purpose: Purpose,
    /// The model, as the provider names it.
    pub model: Option<&'a str>,
    /// Tokens, as the provider counted them.
    pub usage: &'a Usage,
    /// Cost in billionths of a US dollar, where the price is known.
    pub cost_nanousd: Option<u64>,
}

/// How far a monitor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MonitorStats {
    /// Hooks that were called.
    pub called: u64,
    /// Hooks among them that panicked.
    pub panicked: u64,
    /// The number of events of the log, of any kind, that it has not read yet; after a shutdown, those that it never
    /// will.
    pub unread: u64,
}

/// A monitor at work.
pub(crate) struct MonitorTask {
    store: Arc<dyn LogReader>,
    called: AtomicU64,
    panicked: AtomicU64,
    /// The position after the last event that was reported.
    next: AtomicU64,
    /// The position after the last event of the log, when it was closed.
    end: AtomicU64,
    /// No more hooks are called.
    stop: CancellationToken,
}

impl MonitorTask {
    /// Begins to call the hooks for what is recorded from now on, of the threads that `is_ours` names.
    pub(crate) fn begin(
        store: Arc<dyn LogReader>,
        monitor: Arc<dyn Monitor>,
        is_ours: Box<dyn Fn(ThreadId) -> bool + Send>,
    ) -> Result<Arc<Self>, OpenError> {
        let from = store.next_position();
        let watching = Arc::new(Self {
            store,
            called: AtomicU64::new(0),
            panicked: AtomicU64::new(0),
            next: AtomicU64::new(from.0),
            end: AtomicU64::new(u64::MAX),
            stop: CancellationToken::new(),
        });
        let own = watching.clone();
        let spawned = std::thread::Builder::new().name("rethread-monitor".into()).spawn(move || {
            let take = |record: Result<Record, StoreError>| {
                match record {
                    Ok(record) if !is_ours(record.thread) => own.next.store(record.position.0 + 1, Ordering::Release),
                    record => match record.map_err(Into::into).and_then(RecordedEvent::decode) {
                        Ok(event) => own.call_hooks(&*monitor, &event),
                        Err(error) => {
                            tracing::error!(%error, "a monitor can no longer read the log");
                            return ControlFlow::Break(());
                        }
                    },
                }
                ControlFlow::Continue(())
            };
            // All of it, so that it is known how far the monitor is.
            if let Err(error) = each_record(&*own.store, from, &own.stop, take) {
                tracing::error!(%error, "a monitor cannot read the log");
            }
        });
        spawned.map_err(OpenError::Thread)?;
        Ok(watching)
    }

    fn call_hooks(&self, monitor: &dyn Monitor, recorded: &RecordedEvent) {
        let record = &recorded.record;
        let (thread, seq, position, at) = (record.thread, record.seq, record.position, record.recorded_at);
        let moment = Moment { thread, seq, position, at };
        let event = &recorded.event;
        if let Event::LlmCallCompleted(e) = event {
            self.call(|| monitor.on_llm_call(&moment, LlmCall::Completed(e)));
        } else if let Event::LlmCallFailed(e) = event {
            self.call(|| monitor.on_llm_call(&moment, LlmCall::Failed(e)));
        } else if let Event::ToolExecutionCompleted(e) = event {
            let request = self.tool_request(thread, e.call_id);
            self.call(|| monitor.on_tool_call(&moment, ToolCall::Completed(request.as_ref(), e)));
        } else if let Event::ToolExecutionFailed(e) = event {
            let request = self.tool_request(thread, e.call_id);
            self.call(|| monitor.on_tool_call(&moment, ToolCall::Failed(request.as_ref(), e)));
        } else if let Event::ContextSummarized(e) = event {
            self.call(|| monitor.on_context_summarized(&moment, e));
        }
        if let Some(used) = event.attempt_usage() {
            let AttemptUsage { call_id: call, ref usage, cost_nanousd, model, .. } = used;
            let purpose = self.purpose(thread, call);
            let usage = TokenUsage { call, purpose, model, usage, cost_nanousd };
            self.call(|| monitor.on_token_usage(&moment, &usage));
        }
        self.next.store(position.0 + 1, Ordering::Release);
    }

    fn call(&self, hook: impl FnOnce()) {
        self.called.fetch_add(1, Ordering::Relaxed);
        if catch_unwind(AssertUnwindSafe(hook)).is_err() {
            self.panicked.fetch_add(1, Ordering::Relaxed);
            tracing::error!("a hook of a monitor panicked");
        }
    }

    fn request(&self, thread: ThreadId, call: CallId) -> Option<Event> {
        Some(event(&*self.store, thread, call.0).ok()??.event)
    }

    fn tool_request(&self, thread: ThreadId, call: CallId) -> Option<ToolExecutionRequest> {
        if let Event::ToolExecutionRequest(request) = self.request(thread, call)? { Some(request) } else { None }
    }

    /// The purpose of a model call: that of an answer, where its request cannot be read.
    fn purpose(&self, thread: ThreadId, call: CallId) -> Purpose {
        let request = self.request(thread, call);
        if let Some(Event::ConditionEvaluationRequested(_)) = request {
            Purpose::Verdict
        } else if let Some(Event::ContextSummaryRequested(_)) = request {
            Purpose::Summary
        } else {
            Purpose::Answer
        }
    }

    /// Calls no more hooks; the one that runs ends by itself.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    pub(crate) fn stats(&self) -> MonitorStats {
        let end = self.end.load(Ordering::Acquire).min(self.store.next_position().0);
        MonitorStats {
            called: self.called.load(Ordering::Relaxed),
            panicked: self.panicked.load(Ordering::Relaxed),
            unread: end.saturating_sub(self.next.load(Ordering::Acquire)),
        }
    }

    /// Waits until it has been told everything that was recorded, at most so long. Nothing more is recorded. Blocks.
    pub(crate) fn finish(&self, wait: Duration) {
        let until = Instant::now() + wait;
        let last = self.store.next_position().0;
        while self.next.load(Ordering::Acquire) < last && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.end.store(last, Ordering::Release);
        self.stop();
        let unread = self.stats().unread;
        if unread > 0 {
            tracing::warn!(unread, "a monitor did not receive all recorded events");
        }
    }
}
