//! Runs that wait for their turn.

use super::env::Env;
use super::state::{QueuePlace, State};
use crate::event::{Event, QueueLimits, ThreadDequeued, ThreadFailed, ThreadQueued};
use crate::expression::ExpressionError;
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::Time;
use crate::json::Json;
use crate::text::{head, json_bytes};
use crate::workflow::{Queue, Workflow};

/// The most bytes of the key and of the group of a run.
const KEY_BYTES_MAX: usize = 1_024;
/// The most characters of an invalid value in an error.
const SHOWN_CHARS: usize = 80;

/// Returns whether the run has not had its turn: none of its nodes has begun.
pub(super) fn is_before_turn(state: &State, workflow: &Workflow) -> bool {
    state.is_queued() || workflow.spec().queue.is_some() && state.joins_queue()
}

/// Returns the event with which a run joins the queue of its workflow; `None` if it has joined it, or does not.
pub(super) fn owed(state: &State, workflow: &Workflow, around: &Env<'_>) -> Option<Event> {
    let queue = workflow.spec().queue.as_ref()?;
    if !state.joins_queue() {
        return None;
    }
    Some(match joins(state, workflow, queue, around.now) {
        Ok(queued) => queued.into(),
        Err(error) => ThreadFailed { node_id: None, error, run_follows: state.has_next_run() }.into(),
    })
}

fn joins(state: &State, workflow: &Workflow, queue: &Queue, now: Time) -> Result<ThreadQueued, ExecutionError> {
    let context = state.context();
    let value = |name: &str, text: &Option<String>| -> Result<Option<Json>, ExecutionError> {
        let Some(text) = text else { return Ok(None) };
        let value = context.evaluate_text(text)?;
        if json_bytes(&value.0) > KEY_BYTES_MAX {
            let message = format!("`queue.{name}` has more than {KEY_BYTES_MAX} bytes");
            return Err(ExpressionError { message, source_text: text.clone() }.into());
        }
        Ok(Some(value))
    };
    let priority = match value("priority", &queue.priority)? {
        None => 0,
        Some(value) => value.0.as_i64().ok_or_else(|| {
            let shown = value.0.to_string();
            let message = format!("`queue.priority` is {}, which is no whole number", head(&shown, SHOWN_CHARS));
            ExecutionError::new(ErrorKind::Expression, message)
        })?,
    };
    Ok(ThreadQueued {
        workflow: Some(workflow.name().to_owned()),
        key: value("key", &queue.key)?,
        limits: queue.limits(),
        priority,
        group: value("fair", &queue.fair)?,
        not_before: queue.debounce_ms.map(|ms| now.plus_ms(ms)),
    })
}

/// Returns the event with which a run waits until the runtime has room for it. Threads with the same labels are one group.
pub(super) fn for_room(state: &State) -> ThreadQueued {
    let labels = serde_json::to_value(state.labels()).ok().filter(|_| !state.labels().is_empty());
    ThreadQueued {
        workflow: None,
        key: None,
        limits: QueueLimits::default(),
        priority: 0,
        group: labels.map(Json::from),
        not_before: None,
    }
}

/// Returns the event that begins a queued run; nothing if the run does not wait, or is paused.
pub(super) fn dequeued(state: &State, now: Time) -> Vec<Event> {
    let waits = state.queue_place().filter(|place| place.is_waiting() && !state.is_paused());
    waits.map(|place: &QueuePlace| ThreadDequeued { waited_ms: now.ms_since(place.since) }.into()).into_iter().collect()
}
