//! Context processors: they change the conversation, and set variables. Those that are built in are part of the machine
//! and pure; any other name is the application's own.
//!
//! What a processor leaves is a conversation that every model accepts: no tool call without its result, no result
//! without its call.

mod built_in;

#[cfg(test)]
mod tests;

use super::calls::ProcessorRun;
use super::input::Rejected;
use super::processed::{CONTEXT_ITEMS_MAX, Processed, whole};
use super::state::State;
use super::summaries::{self, Made};
use super::{check, env::Env, sizes};
use crate::event::{ContextItem, ContextProcessed, ContextProcessingFailed, Event};
use crate::fault::{ErrorKind, ExecutionError};

/// The next event of a built-in processor; `None` for one of the application.
pub(super) fn advance(state: &State, run: &ProcessorRun, around: &Env<'_>) -> Option<Event> {
    let shown = &*state.conversation.before(run.call);
    let processed = if run.is_summary() {
        match summaries::on_demand(state, run, around)? {
            Ok(Made::Event(event)) => return Some(*event),
            Ok(Made::Processed(processed)) => Ok(processed),
            Err(error) => Err(error),
        }
    } else {
        built_in::run(&run.processor, &run.config, shown)?
    };
    Some(match processed.and_then(|processed| event_of(state, run, processed)) {
        Ok(event) => event,
        Err(error) => ContextProcessingFailed { node_id: None, call_id: run.call, error }.into(),
    })
}

/// Handles the result of a processor of the application.
pub(super) fn answered(state: &State, run: &ProcessorRun, processed: Processed) -> Event {
    match event_of(state, run, processed) {
        Ok(event) => event,
        Err(error) => ContextProcessingFailed { node_id: None, call_id: run.call, error }.into(),
    }
}

/// The event, when what was made can be stored and used. What the application added in the meantime stays.
fn event_of(state: &State, run: &ProcessorRun, processed: Processed) -> Result<Event, ExecutionError> {
    let malformed = |what: String| ExecutionError::new(ErrorKind::MalformedResponse, what);
    let shown = &*state.conversation.before(run.call);
    let Processed { mut messages, variables, output } = processed;
    if messages.len() > CONTEXT_ITEMS_MAX {
        return Err(malformed(format!("it made {} pieces, the limit is {CONTEXT_ITEMS_MAX}", messages.len())));
    }
    check::context(&whole(shown, &messages)?)?;
    let fits = |e: Rejected| malformed(e.to_string());
    check::variables(&variables).map_err(fits)?;
    output.as_ref().map_or(Ok(()), check::value).map_err(fits)?;
    let (from, to) = (shown.len() as u64, state.conversation.entries.len() as u64);
    if from < to {
        messages.push(ContextItem::Kept { from, to });
    }
    let output = output.filter(|output| !output.0.is_null()).or_else(|| variables.get("output").cloned());
    let event = ContextProcessed { node_id: None, call_id: run.call, messages, variables, output }.into();
    sizes::fault_of(&event).map_or(Ok(event), Err)
}
