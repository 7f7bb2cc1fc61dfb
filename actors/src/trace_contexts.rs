//! The traces of runs, as calls pass them on.

use std::sync::Arc;

use parking_lot::Mutex;
use rethread_events::event::Event;
use rethread_events::ids::{CallId, RunId, ThreadId, TraceId};
use rethread_events::trace_context::{SpanId, TraceParent, trace_of_run};
use rethread_store::{LogReader, Store};

use crate::blocking::blocking;
use crate::error::ReadError;
use crate::load;
use crate::recorded::event;

/// The traces of how many runs are kept.
const RUNS_MAX: usize = 1_024;

/// The trace of a run, and the span of its caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunContext {
    pub(crate) trace: TraceId,
    pub(crate) caller: Option<SpanId>,
}

/// Returns the trace of a run, which a branch shares with its parent, and a fork does not. Blocks.
pub(crate) fn of_run(store: &dyn LogReader, thread: ThreadId, run: RunId) -> Result<RunContext, ReadError> {
    let own = of_thread(store, thread)?;
    let without_caller = RunContext { trace: trace_of_run(own, run), caller: None };
    let Some(begun) = event(store, thread, run.0)? else { return Ok(without_caller) };
    // What a fork inherits is in the trace of the thread that it was forked off.
    if begun.record.trace != own {
        return Ok(without_caller);
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
    Ok(caller.map_or(without_caller, |caller| RunContext { trace: caller.trace, caller: Some(caller.span) }))
}

/// Returns the trace that the records of a thread name. Blocks.
pub(crate) fn of_thread(store: &dyn LogReader, thread: ThreadId) -> Result<TraceId, ReadError> {
    let last = load::stream(store, thread)?.last_seq;
    Ok(store.record(thread, last)?.map_or_else(|| thread.into(), |record| record.trace))
}

/// The traces of the runs that call models and tools now.
pub(crate) struct TraceContexts {
    store: Arc<dyn Store>,
    is_passed_on: bool,
    recent: Mutex<Vec<((ThreadId, RunId), TraceId)>>,
}

impl TraceContexts {
    pub(crate) fn new(store: Arc<dyn Store>, is_passed_on: bool) -> Self {
        Self { store, is_passed_on, recent: Mutex::default() }
    }

    /// Returns the span of a call, for its callee; `None` unless calls pass it on.
    pub(crate) async fn of_call(&self, thread: ThreadId, run: RunId, call: CallId) -> Option<TraceParent> {
        if !self.is_passed_on {
            return None;
        }
        let key = (thread, run);
        let known = self.recent.lock().iter().find(|(known, _)| *known == key).map(|(_, trace)| *trace);
        let trace = match known {
            Some(trace) => trace,
            None => {
                let store = self.store.clone();
                let read = blocking(move || of_run(&*store, thread, run)).await;
                let trace = read.map_err(ReadError::from).and_then(|read| read).ok()?.trace;
                let mut recent = self.recent.lock();
                if recent.len() >= RUNS_MAX {
                    recent.remove(0);
                }
                recent.push((key, trace));
                trace
            }
        };
        Some(TraceParent::sampled(trace, SpanId::of_call(thread, call)))
    }
}
