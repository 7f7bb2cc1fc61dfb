//! Questions of a run that the next message of a conversation answers.

use rethread::Json;
use rethread::event::{AnswerType, OperationType};
use rethread::operate::OpenInteraction;
use rethread_events::marks::marked;
use rethread_events::text;
use serde_json::{Value, json};

use crate::serve::problem::{Kind, Problem};

/// The longest text that a person is shown, in bytes.
const SHOWN_BYTES_MAX: usize = 16 << 10;

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

/// The question as a person is shown it, and what can be answered.
pub(super) fn text_of(question: &OpenInteraction) -> String {
    shown(&whole_text(question))
}

fn whole_text(question: &OpenInteraction) -> String {
    let prompt = question.request.prompt.as_deref().unwrap_or("Your answer?");
    match &question.request.answer {
        Some(answer) => format!("{prompt} ({})", answer.expected()),
        None => prompt.to_owned(),
    }
}

/// A text as a person is shown it: hidden characters are marked, and so is where it is cut.
pub(super) fn shown(text: &str) -> String {
    let text = marked(text);
    if text.len() <= SHOWN_BYTES_MAX {
        return text.into_owned();
    }
    let head = text::head(&text, SHOWN_BYTES_MAX);
    format!("{head}\n⟨{} more bytes: `rethread inbox` and the page show them⟩", text.len() - head.len())
}

/// Whether a person who is shown the question sees all of it. What is not seen whole cannot be approved.
pub(super) fn is_shown_whole(question: &OpenInteraction) -> bool {
    marked(&whole_text(question)).len() <= SHOWN_BYTES_MAX
}

/// Whether an answer approves what its question does not show whole: whoever gave it has not seen it. Any question may be
/// about going on, so any answer may approve but a rejection.
pub(super) fn approves_unseen(question: &OpenInteraction, answer: &Json) -> bool {
    let is_boolean = question.request.answer == Some(AnswerType::Boolean {});
    let rejects = match &*answer.0 {
        Value::String(word) if is_boolean => ["no", "n", "false"].contains(&word.trim().to_lowercase().as_str()),
        value => *value == json!(false) || value.get("decision").is_some_and(|decision| decision == "reject"),
    };
    !is_shown_whole(question) && !rejects
}

/// Refuses an answer that approves what its question does not show whole.
pub(super) fn check_seen(question: &OpenInteraction, answer: &Json) -> Result<(), Problem> {
    if approves_unseen(question, answer) { Err(Problem::new(Kind::Unusable, UNSEEN)) } else { Ok(()) }
}

/// Whether a person sees what is in a value as it is: nothing in it is marked, and it is short.
pub(super) fn is_plain(value: &Value) -> bool {
    let text = value.to_string();
    text.len() <= SHOWN_BYTES_MAX && marked(&text) == text
}

/// What to do about it.
pub(super) const UNSEEN: &str = "the question is too long to be shown whole here, so it can only be rejected here: decide \
                                 with `rethread respond` or on the page of the server";

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
