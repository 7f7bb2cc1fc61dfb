//! The traces of runs, as calls pass them on.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rethread_events::event::Event;
use rethread_events::ids::{CallId, RunId, ThreadId, TraceId};
use rethread_events::trace_context::{SpanId, TraceParent, trace_of_run};
use rethread_store::{LogReader, Store};

use crate::blocking::blocking;
use crate::error::ReadError;
use crate::load;
use crate::recorded::event;

/// The contexts of how many runs are kept.
const RUNS_MAX: usize = 1_024;
/// How often the first event of a run is waited for, each time twice as long: a second in all.
const FLUSH_WAITS: u32 = 10;
/// How many threads that started each other are asked for a caller.
const STARTERS_MAX: usize = 64;

/// The trace of a run, and its caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunContext {
    pub(crate) trace: TraceId,
    pub(crate) caller: Option<TraceParent>,
    /// Whether a fork inherits the run, which is in the trace of another thread.
    is_inherited: bool,
}

/// Returns the trace of a run, which a branch shares with its parent, and a fork does not. Blocks.
pub(crate) fn of_run(store: &dyn LogReader, thread: ThreadId, run: RunId) -> Result<RunContext, ReadError> {
    let own = of_thread(store, thread)?;
    let without_caller = RunContext { trace: trace_of_run(own, run), caller: None, is_inherited: false };
    let Some(begun) = event(store, thread, run.0)? else { return Ok(without_caller) };
    // What a fork inherits is in the trace of the thread that it was forked off.
    if begun.record.trace != own {
        return Ok(RunContext { is_inherited: true, ..without_caller });
    }
    let caller = if let Event::ThreadStarted(e) = &begun.event {
        e.traceparent
    } else if let Event::RunStarted(e) = &begun.event {
        e.traceparent
    } else if let Event::RunQueued(e) = &begun.event {
        e.traceparent
    } else {
        None
    };
    let of_caller = |caller: TraceParent| RunContext { trace: caller.trace, caller: Some(caller), is_inherited: false };
    Ok(caller.map_or(without_caller, of_caller))
}

/// Returns whether the caller of a run records its trace; of a thread that another one started, that of the run that did so.
/// `None` if there is no caller, or it is not known any more. Blocks.
pub(crate) fn is_sampled(store: &dyn LogReader, thread: ThreadId, run: RunId) -> Result<Option<bool>, ReadError> {
    let (mut thread, mut run) = (thread, run);
    for _ in 0..STARTERS_MAX {
        match of_run(store, thread, run) {
            Ok(RunContext { caller: Some(caller), .. }) => return Ok(Some(caller.is_sampled())),
            Ok(RunContext { is_inherited: true, .. }) => return Ok(None),
            Ok(RunContext { caller: None, .. }) => {}
            // It was deleted.
            Err(ReadError::NoThread(_)) => return Ok(None),
            Err(error) => return Err(error),
        }
        let next = event(store, thread, run.0.next())?.map(|next| next.event);
        let Some(Event::StartedByParent(by)) = next else { return Ok(None) };
        (thread, run) = (by.parent, by.run_id);
    }
    Ok(None)
}

/// Returns the trace that the records of a thread name. Blocks.
pub(crate) fn of_thread(store: &dyn LogReader, thread: ThreadId) -> Result<TraceId, ReadError> {
    let last = load::stream(store, thread)?.last_seq;
    Ok(store.record(thread, last)?.map_or_else(|| thread.into(), |record| record.trace))
}

/// The traces of the runs that call models and tools now.
pub(crate) struct TraceContexts {
    store: Arc<dyn Store>,
    passed_on: TraceContext,
    recent: Mutex<Vec<Recent>>,
}

/// A run, with its trace and the flags that its calls pass on.
type Recent = ((ThreadId, RunId), (TraceId, u8));

/// The trace context that calls of models and tools pass on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TraceContext {
    /// None.
    #[default]
    Off,
    /// Their span, as one of a trace that is recorded.
    Recorded,
    /// Their span, with the flag of the caller of the run; as one of a trace that is recorded if there is no caller.
    AsCaller,
}

impl TraceContexts {
    pub(crate) fn new(store: Arc<dyn Store>, passed_on: TraceContext) -> Self {
        Self { store, passed_on, recent: Mutex::default() }
    }

    /// Returns the span of a call, for its callee; `None` unless calls pass it on.
    pub(crate) async fn of_call(&self, thread: ThreadId, run: RunId, call: CallId) -> Option<TraceParent> {
        let follows_caller = match self.passed_on {
            TraceContext::Off => return None,
            TraceContext::Recorded => false,
            TraceContext::AsCaller => true,
        };
        let key = (thread, run);
        let known = self.recent.lock().iter().find(|(known, _)| *known == key).map(|(_, known)| *known);
        let (trace, flags) = match known {
            Some(known) => known,
            None => {
                let read = self.read(thread, run, follows_caller).await?;
                let mut recent = self.recent.lock();
                if recent.len() >= RUNS_MAX {
                    recent.remove(0);
                }
                recent.push((key, read));
                read
            }
        };
        Some(TraceParent { trace, span: SpanId::of_call(thread, call), flags })
    }

    /// Reads the trace and the flags of a run, when its first event is durable: a model is called while that is flushed.
    async fn read(&self, thread: ThreadId, run: RunId, follows_caller: bool) -> Option<(TraceId, u8)> {
        for wait in (0..FLUSH_WAITS).map(|n| Duration::from_millis(1 << n)) {
            let store = self.store.clone();
            let read = blocking(move || {
                match load::stream(&*store, thread) {
                    Ok(stream) if run.0 <= stream.last_seq => {}
                    Ok(_) | Err(ReadError::NoThread(_)) => return Ok(None),
                    Err(error) => return Err(error),
                }
                let trace = of_run(&*store, thread, run)?.trace;
                let is_sampled = if follows_caller { is_sampled(&*store, thread, run)? } else { None };
                Ok(Some((trace, u8::from(is_sampled != Some(false)))))
            });
            match read.await.map_err(ReadError::from).and_then(|read| read) {
                Ok(Some(found)) => return Some(found),
                Ok(None) => tokio::time::sleep(wait).await,
                Err(_) => return None,
            }
        }
        None
    }
}
