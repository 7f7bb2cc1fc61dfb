//! `ask_user`: a model asks the person it works for.

use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::tool::Recovery;
use serde_json::json;

use crate::Tool;

/// Puts a question to a person, whose answer is the result. It is a declaration: the runtime asks, and the tool never
/// runs. The question waits until it is answered or taken back, unless the call says how long; the time that a tool may
/// take does not apply to it.
pub fn ask_user() -> Tool {
    let parameters = json!({
        "type": "object",
        "properties": {
            "question": { "type": "string", "minLength": 1, "description": "The question, as the user will read it." },
            "choices": {
                "type": "array",
                "items": { "type": "string" },
                "description": "Answers to choose from. The user may give another one."
            },
            "timeout_ms": {
                "type": "integer",
                "minimum": 1,
                "maximum": 2_592_000_000_u64,
                "description": "How long to wait for the answer, in milliseconds. Without it the question waits for as long as it takes."
            }
        },
        "required": ["question"],
        "additionalProperties": false
    });
    let description = "Asks the user a question and gives the answer. Use it when you need a decision or a fact that \
                       only the user has.";
    Tool::new("ask_user", description, parameters, |_, _| async {
        Err(ExecutionError::new(ErrorKind::Configuration, "`ask_user` is answered by a person and does not run"))
    })
    .recovery(Recovery::Safe)
    .answered_by_person()
}

#[cfg(test)]
mod tests;
