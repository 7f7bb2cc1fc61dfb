//! What is too large to be stored: found before it becomes an event, so that its node fails and not the append.

use super::frames::{Frame, fail_outwards};
use super::state::{Phase, State, Work};
use crate::codec;
use crate::event::{ContextProcessingFailed, Event, NodeFailed};
use crate::fault::{ErrorKind, ExecutionError};

/// Why the event cannot be stored, if it cannot. Encodes only what is near the limit.
pub(super) fn fault_of(event: &Event) -> Option<ExecutionError> {
    if event.bytes_at_most() <= codec::BYTES_MAX {
        return None;
    }
    let why = event.encode().err()?;
    let message = format!("what is to be recorded ({}) is too large: {why}", event.event_type().name);
    Some(ExecutionError::new(ErrorKind::TooLarge, message))
}

/// The event, or another one in its place that says that it is too large.
pub(super) fn or_else(event: Event, other: impl FnOnce(ExecutionError) -> Event) -> Event {
    match fault_of(&event) {
        Some(error) => other(error),
        None => event,
    }
}

/// An event that the machine owes to itself, or the failure of what made it too large.
pub(super) fn storable(state: &State, event: Event) -> Event {
    let Some(error) = fault_of(&event) else {
        return event;
    };
    match &state.phase {
        Phase::InNode(run) => match &run.work {
            Work::Ready | Work::Approved(_) => {
                NodeFailed { node_id: run.node.clone(), attempt: run.attempt, error, retry_at: None }.into()
            }
            Work::Llm(agent_loop) if state.calls.is_empty() => agent_loop.failed(error),
            Work::Processing { call, .. } => ContextProcessingFailed { node_id: None, call_id: *call, error }.into(),
            // What these decide is small, or no larger than what was recorded before.
            Work::Llm(_)
            | Work::Tool(_)
            | Work::Asking(_)
            | Work::Branches(_)
            | Work::Done { .. }
            | Work::Failed(_) => event,
        },
        Phase::Leaving { node } if matches!(state.own_frames().last(), Some(Frame::Sub(_))) => {
            fail_outwards(state, Some(node), error)
        }
        Phase::New
        | Phase::Entering { .. }
        | Phase::Leaving { .. }
        | Phase::Judging(_)
        | Phase::Failing { .. }
        | Phase::Ended(_) => event,
    }
}
