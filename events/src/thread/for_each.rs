//! Lists of nodes: what a loop goes over one element after the other, a fork in branches, and tools of a client.

use super::state::State;
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::NodeId;
use crate::json::Json;

/// The elements of the list that the expression under this key gives.
pub(super) fn list_of(
    state: &State,
    node: &NodeId,
    (key, expression): (&str, &str),
) -> Result<Vec<Json>, ExecutionError> {
    let in_expression = |message: String| ExecutionError::new(ErrorKind::Expression, message);
    let value = state.context().evaluate_text(expression).map(Json::into_value);
    match value.map_err(|e| in_expression(e.to_string()))? {
        serde_json::Value::Array(items) => Ok(items.into_iter().map(Into::into).collect()),
        other => {
            let what = match other {
                serde_json::Value::Null => "null",
                serde_json::Value::Bool(_) => "a boolean",
                serde_json::Value::Number(_) => "a number",
                serde_json::Value::String(_) => "a text",
                serde_json::Value::Object(_) | serde_json::Value::Array(_) => "an object",
            };
            Err(in_expression(format!("`{key}` of node `{node}` gives {what}, not a list")))
        }
    }
}
