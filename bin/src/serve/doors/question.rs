//! Questions of a run that the next message of a conversation answers.

use rethread::Json;
use rethread::event::OperationType;
use rethread::operate::OpenInteraction;

/// Whether a message of the conversation can answer the question. An approval needs a decision about a whole call, and a
/// person who answers for a model has a prompt to read.
pub(super) fn is_answered_by_message(question: &OpenInteraction) -> bool {
    match question.request.operation_type {
        OperationType::UpdateVariables
        | OperationType::AddMessage
        | OperationType::AnswerTool
        | OperationType::InformTool => true,
        OperationType::ApproveTool | OperationType::ApproveContent | OperationType::RelayModel => false,
    }
}

/// The question, and what can be answered.
pub(super) fn text_of(question: &OpenInteraction) -> String {
    let prompt = question.request.prompt.as_deref().unwrap_or("Your answer?");
    match &question.request.answer {
        Some(answer) => format!("{prompt} ({})", answer.expected()),
        None => prompt.to_owned(),
    }
}

/// The answer that a message gives: a text if the question has a type, otherwise JSON if it is JSON, as on a terminal.
pub(super) fn answer_of(question: &OpenInteraction, text: Json) -> Json {
    if question.request.answer.is_some() {
        return text;
    }
    let parsed = text.0.as_str().and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    parsed.map_or(text, Json::from)
}
