//! Questions of runs as elicitations: forms that the client shows to its user.

use rethread::Json;
use rethread::event::{AnswerType, OperationType};
use rethread::operate::OpenInteraction;
use rethread_events::text;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Value, json};

/// The field of a form that has the answer.
const ANSWER: &str = "answer";
/// The longest question that is sent, in bytes.
const BYTES_MAX: usize = 16 << 10;

/// Whether a form can ask this. The prompt of a person who answers for a model is a whole request, and a question of a
/// running tool has its own form.
pub(super) fn can_be_asked(question: &OpenInteraction) -> bool {
    match question.request.operation_type {
        OperationType::UpdateVariables
        | OperationType::AddMessage
        | OperationType::AnswerTool
        | OperationType::ApproveTool
        | OperationType::ApproveContent => true,
        OperationType::RelayModel | OperationType::InformTool => false,
    }
}

fn is_approval(question: &OpenInteraction) -> bool {
    matches!(question.request.operation_type, OperationType::ApproveTool | OperationType::ApproveContent)
}

/// The question in words.
pub(super) fn in_words(question: &OpenInteraction) -> String {
    let prompt = question.request.prompt.as_deref().unwrap_or("Your answer?");
    let text = match &question.request.answer {
        Some(answer) => format!("{prompt} ({})", answer.expected()),
        None => prompt.to_owned(),
    };
    text::head(&text, BYTES_MAX).to_owned()
}

/// The schema of an answer, if a form can ask for it as it is: an object with fields of simple types.
fn own_form(question: &OpenInteraction) -> Option<ElicitationSchema> {
    let Some(AnswerType::JsonSchema { schema }) = &question.request.answer else { return None };
    ElicitationSchema::from_json_schema(schema.0.as_object()?.clone()).ok()
}

/// The form that asks a question.
pub(super) fn form(question: &OpenInteraction) -> ElicitRequestParams {
    let message = in_words(question);
    let requested_schema = own_form(question).unwrap_or_else(|| {
        let field = match &question.request.answer {
            Some(AnswerType::JsonSchema { .. }) => json!({ "type": "string", "description": "The answer, as JSON" }),
            Some(AnswerType::Boolean {}) => json!({ "type": "boolean" }),
            Some(AnswerType::Choice { choices }) => json!({ "type": "string", "enum": choices }),
            Some(AnswerType::Number {}) => json!({ "type": "number" }),
            Some(AnswerType::Text {}) => json!({ "type": "string" }),
            None if is_approval(question) => json!({ "type": "boolean", "description": "Whether to go on with it" }),
            None => json!({ "type": "string" }),
        };
        let schema = json!({ "type": "object", "properties": { ANSWER: field }, "required": [ANSWER] });
        serde_json::from_value(schema).unwrap_or_else(|_| ElicitationSchema::new(Default::default()))
    });
    ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema }
}

/// The answer that a form gave; `None` if the user gave none, and the question stays open.
pub(super) fn answer(question: &OpenInteraction, given: ElicitResult) -> Option<Json> {
    if given.action != ElicitationAction::Accept {
        return None;
    }
    let content = given.content?;
    if own_form(question).is_some() {
        return Some(Json::from(content));
    }
    let answer = content.get(ANSWER)?.clone();
    Some(Json::from(match &question.request.answer {
        None | Some(AnswerType::JsonSchema { .. }) => parsed(answer),
        Some(_) => answer,
    }))
}

/// A text as JSON, if it is JSON, as on a terminal.
fn parsed(value: Value) -> Value {
    let parsed = value.as_str().and_then(|text| serde_json::from_str(text).ok());
    parsed.unwrap_or(value)
}
