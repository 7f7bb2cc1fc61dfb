//! Questions to people as interrupts.

use std::collections::BTreeSet;

use rethread::event::OperationType;
use rethread::operate::OpenInteraction;
use rethread::{Json, ThreadId};
use serde_json::{Map, Value};

use super::event::Interrupt;
use super::input::{Answer, AnswerStatus};
use super::translate::Translator;
use crate::serve::doors::{client_tools, question};

/// Returns a question as an interrupt. `thread` is the one that the client knows, and `call` the name by which it knows the
/// tool call that the question is about.
pub(super) fn interrupt(question: &OpenInteraction, thread: ThreadId, call: Option<&str>) -> Interrupt {
    let (request, is_own) = (&question.request, question.thread == thread);
    let metadata = match request.metadata.as_ref().map(|metadata| &*metadata.0) {
        Some(Value::Object(metadata)) => metadata.clone(),
        Some(Value::Null) | None => Map::new(),
        Some(other) => Map::from_iter([("value".to_owned(), other.clone())]),
    };
    Interrupt {
        id: question.key(),
        reason: reason(request.operation_type),
        message: request.prompt.as_deref().map(question::shown),
        tool_call_id: call.map(str::to_owned),
        response_schema: question::schema(question),
        expires_at: request.deadline.map(|deadline| deadline.to_string()),
        subagent_run_id: (!is_own).then(|| question.thread.to_string()),
        metadata,
    }
}

fn reason(operation: OperationType) -> &'static str {
    match operation {
        OperationType::UpdateVariables | OperationType::AddMessage => "input_required",
        OperationType::ApproveTool => "tool_approval",
        OperationType::ApproveContent => "content_approval",
        OperationType::AnswerTool => "tool_answer",
        OperationType::InformTool => "tool_question",
        OperationType::RelayModel => "model_answer",
    }
}

/// The answer to a question. An approval may also be `{"approved": true}`, as clients of the protocol write it.
pub(super) fn answer(question: &OpenInteraction, answer: &Answer) -> Json {
    let approved = approved(answer).filter(|_| question.is_approval());
    Json::from(approved.unwrap_or(&answer.payload).clone())
}

fn approved(answer: &Answer) -> Option<&Value> {
    let fields = answer.payload.as_object().filter(|fields| fields.len() == 1)?;
    fields.get("approved").filter(|approved| approved.is_boolean())
}

/// What a question has as its answer if it was given this one; `None` where it was withdrawn.
pub(super) fn possible_answers(answer: &Answer) -> Vec<Option<Json>> {
    if answer.status == AnswerStatus::Cancelled {
        return vec![None];
    }
    approved(answer).into_iter().chain([&answer.payload]).map(|value| Some(Json::from(value.clone()))).collect()
}

/// The name of the tool call that a question of the thread is about, if a client runs that tool, one of `these` if they are
/// given, and knows the call. `now` is the thread while it asks.
pub(super) fn client_call<'a>(
    question: &OpenInteraction,
    now: &'a Translator,
    thread: ThreadId,
    configured: &BTreeSet<String>,
    these: Option<&BTreeSet<String>>,
) -> Option<&'a str> {
    known_call(question, now, thread).filter(|_| client_tools::is_call(question, configured, these))
}

/// The name by which the client knows the tool call that a question of the thread is about.
pub(super) fn known_call<'a>(question: &OpenInteraction, now: &'a Translator, thread: ThreadId) -> Option<&'a str> {
    now.asked(question.request.id).filter(|_| question.thread == thread)
}
