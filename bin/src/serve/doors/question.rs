//! Questions of a run that the next message of a conversation answers.

use rethread::Json;
use rethread::event::{AnswerType, OperationType};
use rethread::operate::OpenInteraction;
use serde_json::{Value, json};

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
    let parsed = text.0.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    parsed.map_or(text, Json::from)
}

/// The answers that are accepted, as a JSON Schema; `None` for any value.
pub(super) fn schema(question: &OpenInteraction) -> Option<Value> {
    let (operation, answer) = (question.request.operation_type, question.request.answer.as_ref());
    let decision = |name: &str, field: Option<(&str, Value)>, is_needed: bool| {
        let mut schema = json!({
            "type": "object", "properties": { "decision": { "const": name } }, "required": ["decision"],
            "additionalProperties": false,
        });
        if let Some((field, of)) = field {
            schema["properties"][field] = of;
            if is_needed {
                schema["required"] = json!(["decision", field]);
            }
        }
        schema
    };
    let rejected = || decision("reject", Some(("reason", json!({ "type": "string" }))), false);
    match (operation, answer) {
        (OperationType::ApproveTool, _) => Some(json!({ "anyOf": [
            { "type": "boolean" }, decision("approve", None, false),
            decision("edit", Some(("arguments", json!({ "type": "object" }))), true), rejected(),
            decision("answer", Some(("content", json!({}))), true),
        ] })),
        (OperationType::ApproveContent, _) => Some(json!({ "anyOf": [
            { "type": "boolean" }, decision("approve", None, false), rejected(),
            decision("answer", Some(("content", json!({ "type": "string" }))), true),
        ] })),
        (_, Some(AnswerType::Boolean {})) => Some(json!({ "type": "boolean" })),
        (_, Some(AnswerType::Choice { choices })) => Some(json!({ "type": "string", "enum": choices })),
        (_, Some(AnswerType::Text {})) => Some(json!({ "type": "string" })),
        (_, Some(AnswerType::Number {})) => Some(json!({ "type": "number" })),
        (_, Some(AnswerType::JsonSchema { schema })) => Some(Value::clone(&schema.0)).filter(Value::is_object),
        (_, None) => None,
    }
}
