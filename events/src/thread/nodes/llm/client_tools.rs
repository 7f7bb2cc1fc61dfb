//! The tools of the client that a node offers.

use super::super::super::for_each::list_of;
use super::super::super::state::State;
use crate::client_tools;
use crate::event::{AgentTool, HandoffTool};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{NodeId, ToolName};
use crate::message::ToolSpec;
use crate::workflow::LlmNode;

/// The tools as the expression gives them. The node offers others, whose names are taken.
pub(super) fn offered(
    state: &State,
    node: &NodeId,
    llm: &LlmNode,
    (tools, agents, handoffs): (&[ToolName], &[AgentTool], &[HandoffTool]),
) -> Result<Vec<ToolSpec>, ExecutionError> {
    let Some(expression) = &llm.client_tools else { return Ok(Vec::new()) };
    let fault = |why: String| {
        let message = format!("`client_tools` of node `{node}`: {why}");
        ExecutionError::new(ErrorKind::Configuration, message)
    };
    let offered = client_tools::read(list_of(state, node, ("client_tools", expression))?).map_err(fault)?;
    let is_taken = |name: &str| {
        tools.iter().any(|other| other.as_str() == name)
            || agents.iter().any(|other| other.name == name)
            || handoffs.iter().any(|other| other.name == name)
    };
    if let Some(tool) = offered.iter().find(|tool| is_taken(&tool.name)) {
        return Err(fault(format!("the node offers another tool with the name `{}`", tool.name)));
    }
    Ok(offered)
}
