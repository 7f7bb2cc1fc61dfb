//! A node that runs one tool.

use super::super::agent_loop::request_tool;
use super::super::{State, Surroundings};
use crate::event::Event;
use crate::fault::{ErrorKind, ExecutionError};
use crate::workflow::ToolNode;

pub(super) fn begin(state: &State, tool: &ToolNode, around: &Surroundings<'_>) -> Result<Event, ExecutionError> {
    let Some(mut facts) = around.tools.facts(tool.tool_name.as_str()) else {
        let message = format!("there is no tool `{}`", tool.tool_name);
        return Err(ExecutionError::new(ErrorKind::UnknownTool, message));
    };
    if let Some(timeout_ms) = tool.timeout_ms {
        facts.timeout_ms = timeout_ms;
    }
    let context = state.context();
    let mut arguments = serde_json::Map::new();
    for (name, value) in tool.parameters.iter() {
        let value = context.fill(&value.0).map_err(|e| ExecutionError::new(ErrorKind::Expression, e.to_string()))?;
        arguments.insert(name.clone(), value);
    }
    Ok(request_tool(None, tool.tool_name.clone(), serde_json::Value::Object(arguments).into(), &facts))
}
