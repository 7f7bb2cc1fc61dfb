//! Tools that the client of a thread runs, and that a request describes.
//!
//! A front door sets the [`VARIABLE`] of a run to the tools of its request, an `llm` node names it under `client_tools`, and
//! each call is a question whose answer is the result.

use crate::json::Json;
use crate::message::ToolSpec;
use crate::workflow::is_tool_name;

/// The variable that receives the tools of a request, if the workflow declares it.
pub const VARIABLE: &str = "client_tools";
/// The key of `metadata` of the question that a call is; its value is true.
pub const IS_CALL: &str = "client_tool";
/// The most tools of a client.
pub const TOOLS_MAX: usize = 128;

/// Whether the question with this `metadata` is a call: its answer is the result.
pub fn is_call(metadata: Option<&Json>) -> bool {
    metadata.is_some_and(|metadata| metadata.0[IS_CALL] == true)
}

/// Reads a list of tools, each an object with `name`, `description` and `parameters`.
///
/// # Errors
/// What is wrong with which of them: an unknown field, a name that no provider takes or that two of them have, parameters
/// that are no object, more than [`TOOLS_MAX`].
pub fn read(items: Vec<Json>) -> Result<Vec<ToolSpec>, String> {
    if items.len() > TOOLS_MAX {
        return Err(format!("{} tools, the limit is {TOOLS_MAX}", items.len()));
    }
    let mut tools: Vec<ToolSpec> = Vec::with_capacity(items.len());
    for (i, item) in items.into_iter().enumerate() {
        let tool: ToolSpec = serde_json::from_value(item.into_value()).map_err(|error| {
            format!("[{i}]: {error}; a tool is an object with `name`, `description` and `parameters`")
        })?;
        let name = tool.name.as_str();
        if !is_tool_name(name) {
            return Err(format!("[{i}]: a tool has a name of at most 64 letters, digits, `_` and `-`"));
        }
        if !(tool.parameters.0.is_object() || tool.parameters.0.is_null()) {
            return Err(format!("[{i}]: the `parameters` of `{name}` are no JSON Schema of an object"));
        }
        if tools.iter().any(|other| other.name == name) {
            return Err(format!("[{i}]: another tool has the name `{name}`"));
        }
        tools.push(tool);
    }
    Ok(tools)
}
