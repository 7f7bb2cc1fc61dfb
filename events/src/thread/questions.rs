//! Answers and ends of questions to people.

mod answer;
mod decision;
pub(super) mod informing;

use super::agent_loop::model_completed;
use super::asks::unanswered;
use super::calls::{CallStage, Interaction, OpenCall, answer_hash};
use super::check;
use super::env::Env;
use super::input::Rejected;
use super::nodes::evaluate_answer;
use super::state::State;
use crate::event::{
    Decision, Event, InteractionFailure, InteractionResults, LlmCallCompleted, LlmCallFailed, OperationType,
    UserInteractionFailed, UserInteractionProcessed, UserInteractionResponded,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::CallId;
use crate::json::Json;
use crate::workflow::Workflow;

/// Handles a person's answer. The same answer twice is accepted once; an unusable one is rejected, and the question
/// stays open.
pub(super) fn respond(
    state: &State,
    workflow: &Workflow,
    id: CallId,
    data: Json,
    around: &Env<'_>,
) -> Result<Vec<Event>, Rejected> {
    if let Some(Some(answer)) = state.questions.get(&id) {
        return if *answer == answer_hash(&data) { Ok(Vec::new()) } else { Err(Rejected::InteractionClosed(id)) };
    }
    let ask = open_question(state, id)?;
    // Its deadline may have passed before it was closed.
    if ask.deadline.is_some_and(|deadline| deadline <= state.clock(around.now)) {
        return Err(Rejected::InteractionClosed(id));
    }
    check::value(&data)?;
    process(state, workflow, ask, &data, around).map_err(Rejected::Invalid)?;
    Ok(vec![UserInteractionResponded { node_id: None, interaction_id: id, input_data: data, by: None }.into()])
}

fn open_question(state: &State, id: CallId) -> Result<&Interaction, Rejected> {
    let open = state.calls.get(id);
    match open.and_then(|open| Some((open, open.question()?))) {
        Some((open, ask)) if open.is_wanted() => Ok(ask),
        Some(_) => Err(Rejected::InteractionClosed(id)),
        None if state.questions.contains_key(&id) => Err(Rejected::InteractionClosed(id)),
        None => Err(Rejected::UnknownInteraction(id)),
    }
}

/// A question will not be answered.
pub(super) fn question_failed(
    state: &State,
    id: CallId,
    reason: InteractionFailure,
    detail: Option<String>,
) -> Result<Vec<Event>, Rejected> {
    let ask = open_question(state, id)?;
    let error = unanswered(ask.operation_type, reason, detail.as_deref());
    Ok(closed(ask, reason, detail, &error))
}

/// The terminal events of a question, and of the model call that it replaces.
pub(super) fn closed(
    ask: &Interaction,
    reason: InteractionFailure,
    detail: Option<String>,
    error: &ExecutionError,
) -> Vec<Event> {
    let failed = UserInteractionFailed { node_id: None, interaction_id: ask.id, reason, detail, by: None }.into();
    let call = ask.llm_call.map(|call| LlmCallFailed::new(call, error.clone()).into());
    std::iter::once(failed).chain(call).collect()
}

/// Returns the event that the first answer leads to that was given and has not taken effect.
pub(super) fn follow_up(state: &State, workflow: &Workflow, around: &Env<'_>) -> Option<Event> {
    let calls = state.calls.in_order(|open| !open.is_wanted());
    if let Some(event) = calls.iter().find_map(|open| relayed(state, open, around)) {
        return Some(event);
    }
    let (ask, input) = calls.into_iter().find_map(|open| match &open.stage {
        CallStage::Responded { input } => Some((open.question()?, input)),
        CallStage::Wanted | CallStage::Processed { .. } | CallStage::Refused | CallStage::Delegated => None,
    })?;
    Some(match process(state, workflow, ask, input, around) {
        Ok(processed) => processed.into(),
        Err(why) => UserInteractionFailed {
            node_id: None,
            interaction_id: ask.id,
            reason: InteractionFailure::InvalidInput,
            detail: Some(why),
            by: None,
        }
        .into(),
    })
}

/// Returns the effect of an answer, or why it cannot be used.
fn process(
    state: &State,
    workflow: &Workflow,
    ask: &Interaction,
    input: &Json,
    around: &Env<'_>,
) -> Result<UserInteractionProcessed, String> {
    let decision = match ask.operation_type {
        OperationType::UpdateVariables | OperationType::AddMessage => {
            let node = state.node_run().and_then(|run| state.node_of(workflow, &run.node));
            let node = node.ok_or("the node that asked is not in this definition")?;
            let input =
                ask.answer_type.as_ref().map_or_else(|| Ok(input.clone()), |expected| answer::read(expected, input))?;
            return evaluate_answer(state, node, ask.id, &input).map_err(|e| e.to_string());
        }
        OperationType::ApproveTool => Some(decision::read(input)?),
        OperationType::ApproveContent => Some(decision::about_content(input)?),
        OperationType::AnswerTool => Some(Decision::Answer { content: input.clone() }),
        OperationType::RelayModel => {
            brought(state, ask.llm_call.ok_or("no model call is open")?, input, around)?;
            None
        }
        OperationType::InformTool => Some(informing::read(ask, input)?),
    };
    Ok(UserInteractionProcessed {
        node_id: None,
        interaction_id: ask.id,
        operation_type: ask.operation_type,
        results: InteractionResults { decision, ..InteractionResults::default() },
    })
}

/// Handles the answer that a person brought in place of a model.
fn brought(state: &State, call: CallId, input: &Json, around: &Env<'_>) -> Result<LlmCallCompleted, String> {
    let request = state.model_request_of(call).ok_or("no model call is open")?;
    let answer = around.models.read(call, &request, input)?;
    check::answer(&answer.message).map_err(|error| error.message)?;
    Ok(answer)
}

/// The end of a model call that a person answered.
fn relayed(state: &State, ask: &OpenCall, around: &Env<'_>) -> Option<Event> {
    let CallStage::Processed { input } = &ask.stage else {
        return None;
    };
    let call = state.calls.get(ask.parent?)?.model()?;
    Some(match brought(state, call.call, input, around) {
        Ok(answer) => {
            let duration_ms = around.now.ms_since(call.requested_at);
            model_completed(LlmCallCompleted { duration_ms, ..answer }.into())
        }
        Err(why) => {
            let error = ExecutionError::new(ErrorKind::MalformedResponse, why);
            LlmCallFailed::new(call.call, error).into()
        }
    })
}
