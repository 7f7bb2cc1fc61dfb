//! What becomes of a question to a person.

use super::apply::answer_hash;
use super::check;
use super::input::Rejected;
use super::nodes::evaluate_answer;
use super::state::{Interaction, InteractionStage, State};
use crate::event::{Event, InteractionFailure, UserInteractionFailed, UserInteractionResponded};
use crate::ids::CallId;
use crate::json::Json;
use crate::workflow::Workflow;

/// A person answered. The same answer twice is accepted once; one that cannot be used is refused, and the question
/// stays open for a better one.
pub(super) fn respond(state: &State, workflow: &Workflow, id: CallId, data: Json) -> Result<Vec<Event>, Rejected> {
    if let Some(Some(answer)) = state.questions.get(&id) {
        return if *answer == answer_hash(&data) { Ok(Vec::new()) } else { Err(Rejected::InteractionClosed(id)) };
    }
    let ask = open_question(state, id)?;
    check::value(&data)?;
    if matches!(ask.stage, InteractionStage::Asked)
        && let Some(node) = state.node_run().and_then(|run| state.node_of(workflow, &run.node))
    {
        evaluate_answer(state, node, id, &data).map_err(|e| Rejected::Invalid(e.to_string()))?;
    }
    Ok(vec![UserInteractionResponded { interaction: id, input_data: data }.into()])
}

fn open_question(state: &State, id: CallId) -> Result<&Interaction, Rejected> {
    match state.interaction() {
        Some(ask) if ask.id == id => Ok(ask),
        _ if state.questions.contains_key(&id) => Err(Rejected::InteractionClosed(id)),
        _ => Err(Rejected::UnknownInteraction(id)),
    }
}

/// A question will not be answered.
pub(super) fn question_failed(
    state: &State,
    id: CallId,
    reason: InteractionFailure,
    detail: Option<String>,
) -> Result<Vec<Event>, Rejected> {
    if !matches!(open_question(state, id)?.stage, InteractionStage::Asked) {
        return Err(Rejected::InteractionClosed(id));
    }
    Ok(vec![UserInteractionFailed { interaction: id, reason, detail }.into()])
}
