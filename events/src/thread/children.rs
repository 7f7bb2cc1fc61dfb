//! The decisions about children and awaited threads: what the end of a start, or of an awaited thread, leads to.

use super::calls::OpenCall;
use super::sizes;
use super::state::State;
use crate::event::{AwaitedThreadEnded, ChildStartFailed, ChildStarted, Event, WaitFailed};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, ThreadId};
use crate::json::Json;

/// Returns the event for the end of a start; none if the call is not open (any more).
pub(super) fn started(state: &State, call_id: CallId, outcome: Result<(), ExecutionError>) -> Vec<Event> {
    let Some(run) = state.calls.get(call_id).and_then(OpenCall::child) else { return Vec::new() };
    vec![match outcome {
        Ok(()) => ChildStarted { node_id: None, call_id, child: run.child }.into(),
        Err(error) => ChildStartFailed { node_id: None, call_id, error }.into(),
    }]
}

/// Returns the event for the end of a thread; none if the state does not wait for it (any more).
pub(super) fn ended(state: &State, thread: ThreadId, outcome: Result<Json, ExecutionError>) -> Vec<Event> {
    let Some(run) = state.thread_wait().filter(|run| run.thread == thread) else { return Vec::new() };
    let failed = |error| WaitFailed { node_id: None, wait_id: run.id, error }.into();
    vec![match outcome {
        Ok(output) => {
            let output = Some(output).filter(|output| !output.0.is_null());
            let ended = AwaitedThreadEnded { node_id: None, wait_id: run.id, thread, output };
            sizes::or_else(ended.into(), failed)
        }
        Err(error) => failed(error),
    }]
}

/// The error of a wait for a thread that the thread cannot see.
pub fn no_such_thread(thread: ThreadId) -> ExecutionError {
    let message = format!("there is no thread {thread} that has the labels of this one");
    ExecutionError::new(ErrorKind::NotFound, message)
}
