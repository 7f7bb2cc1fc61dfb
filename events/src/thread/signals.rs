//! Handles signals.

use super::calls::{OpenCall, SignalRun};
use super::check;
use super::input::Rejected;
use super::state::State;
use crate::event::{Event, SignalReceived};
use crate::ids::Time;
use crate::json::Json;
use crate::schema;

/// Handles a signal that was not received before.
pub(super) fn receive(state: &State, name: &str, id: String, payload: Json, now: Time) -> Result<Vec<Event>, Rejected> {
    let waits = |run: &&SignalRun| run.deadline.is_none_or(|deadline| deadline > state.clock(now));
    let waiting = state.calls.iter().filter_map(OpenCall::signal).filter(waits);
    let run = waiting.into_iter().find(|run| run.matches(name, &payload.0)).ok_or(Rejected::NoSignalAwaited)?;
    check::value(&payload)?;
    check_payload(run, &payload).map_err(Rejected::Invalid)?;
    Ok(vec![SignalReceived { node_id: None, wait_id: run.id, signal_id: id, payload, by: None }.into()])
}

/// Whether the payload is what the node waits for, or what is wrong with it.
fn check_payload(run: &SignalRun, payload: &Json) -> Result<(), String> {
    let Some(schema) = &run.schema else { return Ok(()) };
    let validator =
        schema::compile(&schema.0).map_err(|fault| format!("the schema of the signal: {}", fault.message))?;
    schema::check(&validator, &payload.0, "the payload")
}
