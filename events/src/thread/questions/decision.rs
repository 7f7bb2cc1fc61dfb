//! Reads the decision of a person about a tool call that waits for approval.

use serde_json::Value;

use crate::event::Decision;
use crate::json::Json;

/// The valid forms of an answer, for an error.
const FORMS: &str = r#"yes, no, or one of {"decision": "approve"}, {"decision": "edit", "arguments": {…}}, {"decision": "reject", "reason": "…"}, {"decision": "answer", "content": …}"#;

/// The decision about an input or an answer that a guardrail has stopped.
pub(super) fn about_content(answer: &Json) -> Result<Decision, String> {
    const FORMS: &str = r#"yes, no, or one of {"decision": "approve"}, {"decision": "reject", "reason": "…"}, {"decision": "answer", "content": "the text in its place"}"#;
    match read_with(answer, FORMS)? {
        Decision::Edit { .. } => Err(format!("a message has no arguments: answer {FORMS}")),
        Decision::Answer { content } if !content.0.is_string() => {
            Err(format!("the content in its place must be a text: answer {FORMS}"))
        }
        decision @ (Decision::Approve {} | Decision::Reject { .. } | Decision::Answer { .. }) => Ok(decision),
    }
}

/// The decision that an answer is. A plain yes or no is one too.
pub(super) fn read(answer: &Json) -> Result<Decision, String> {
    read_with(answer, FORMS)
}

fn read_with(answer: &Json, forms: &str) -> Result<Decision, String> {
    match &*answer.0 {
        Value::Bool(true) => Ok(Decision::Approve {}),
        Value::Bool(false) => Ok(Decision::Reject { reason: None }),
        Value::String(word) => match word.trim().to_lowercase().as_str() {
            "yes" | "approve" => Ok(Decision::Approve {}),
            "no" | "reject" => Ok(Decision::Reject { reason: None }),
            _ => Err(format!("not a decision: answer {forms}")),
        },
        Value::Object(_) => match serde_json::from_value(Value::clone(&answer.0)) {
            Ok(Decision::Edit { arguments }) if !arguments.0.is_object() => {
                Err("the edited arguments must be an object".into())
            }
            Ok(decision) => Ok(decision),
            Err(e) => Err(format!("not a decision ({e}): answer {forms}")),
        },
        Value::Null | Value::Number(_) | Value::Array(_) => Err(format!("not a decision: answer {forms}")),
    }
}
