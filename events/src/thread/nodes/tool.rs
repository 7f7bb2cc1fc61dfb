//! A node that runs one tool, or has a person asked about it first.

use super::super::agent_loop::request_tool;
use super::super::{asks, env::Env, env::ToolFacts, state::State};
use crate::event::{AskedTool, Event};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::ToolName;
use crate::tool::PersonRole;
use crate::workflow::{Node, NodeKind, ToolNode};

pub(super) fn begin(state: &State, node: &Node, tool: &ToolNode, around: &Env<'_>) -> Result<Event, ExecutionError> {
    let facts = facts_of(&tool.tool_name, Some(tool), around)?;
    let context = state.context();
    let mut arguments = serde_json::Map::new();
    for (name, value) in tool.parameters.iter() {
        let value = context.fill(&value.0)?;
        arguments.insert(name.clone(), value);
    }
    let (name, arguments) = (tool.tool_name.clone(), serde_json::Value::Object(arguments).into());
    let asked = AskedTool { tool_call_id: None, name, arguments };
    match facts.person {
        PersonRole::Answers => {
            let question = asks::Question::of(&asked)?;
            Ok(question.put(&node.id, asked, tool.timeout_ms, around.now))
        }
        PersonRole::None if !tool.approval => Ok(request_tool(None, asked.name, asked.arguments, &facts)),
        PersonRole::None | PersonRole::Approves => Ok(asks::approval(&node.id, asked, asks::About::default())),
    }
}

/// The request of a call that a person approved of.
pub(in super::super) fn run_approved(
    node: Option<&Node>,
    asked: &AskedTool,
    around: &Env<'_>,
) -> Result<Event, ExecutionError> {
    let tool = node.and_then(|node| match node.kind() {
        NodeKind::Tool(tool) => Some(tool),
        _ => None,
    });
    let facts = facts_of(&asked.name, tool, around)?;
    Ok(request_tool(None, asked.name.clone(), asked.arguments.clone(), &facts))
}

fn facts_of(name: &ToolName, tool: Option<&ToolNode>, around: &Env<'_>) -> Result<ToolFacts, ExecutionError> {
    let Some(mut facts) = around.tools.facts(name.as_str()) else {
        return Err(ExecutionError::new(ErrorKind::UnknownTool, format!("there is no tool `{name}`")));
    };
    if let Some(timeout_ms) = tool.and_then(|tool| tool.timeout_ms) {
        facts.timeout_ms = timeout_ms;
    }
    Ok(facts)
}
