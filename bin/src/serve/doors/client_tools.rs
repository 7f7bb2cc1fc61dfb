//! Tools that the client of a door runs. `[serve.client_tools]` of rethread.toml describes them to models. A call is an open
//! question, like that about an approval, and its result is the answer.

use std::collections::BTreeSet;

use rethread::event::OperationType;
use rethread::operate::OpenInteraction;
use serde_json::{Value, json};

use super::conversation::invalid;
use crate::serve::problem::Problem;
use crate::serve::request;

/// Returns the tools that a request names.
///
/// # Errors
/// For one that no model can be offered, because the configuration does not describe it.
pub(super) fn named<'a>(
    names: impl Iterator<Item = &'a str>,
    described: &BTreeSet<String>,
) -> Result<BTreeSet<String>, Problem> {
    let check = |name: &str| match described.get(name) {
        Some(name) => Ok(name.clone()),
        None => {
            let detail = format!(
                "no model is offered the tool `{}`: describe it under `[serve.client_tools]` in rethread.toml and list it in \
                 `available_tools` of a node, or leave it out",
                request::cut(name)
            );
            Err(invalid("tools", detail))
        }
    };
    names.map(check).collect()
}

/// Whether a question is a call of one of these tools.
pub(super) fn is_call(question: &OpenInteraction, tools: &BTreeSet<String>) -> bool {
    let request = &question.request;
    request.operation_type == OperationType::ApproveTool
        && request.tool_call.as_ref().is_some_and(|call| tools.contains(call.name.as_str()))
}

/// The answer to the question that a call is: its result.
pub(super) fn result(content: Value) -> Value {
    json!({ "decision": "answer", "content": content })
}

/// The answer that the model reads as a failure of the call.
pub(super) fn failure(reason: &str) -> Value {
    json!({ "decision": "reject", "reason": reason })
}
