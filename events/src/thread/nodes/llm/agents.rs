//! The agents that a node offers its model, and the nodes that it may hand over to.

use super::super::super::check;
use super::super::super::state::{Frame, SUB_WORKFLOWS_DEPTH_MAX, State};
use crate::event::{AgentTool, HandoffTool};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::NodeId;
use crate::workflow::{LlmNode, Workflow, handoff_tool};

/// Everything that a call of an agent needs, so that a running loop needs no definition.
pub(super) fn offered(state: &State, workflow: &Workflow, llm: &LlmNode) -> Result<Vec<AgentTool>, ExecutionError> {
    let depth = state.frames().iter().filter(|frame| matches!(frame, Frame::Sub(_))).count();
    let offered = llm.agents.iter().map(|agent| {
        let name = agent.workflow.as_str();
        let fault = |message: String| ExecutionError::new(ErrorKind::Configuration, message);
        let inner = workflow.spec().workflows.get(name);
        let entry = workflow.graph(Some(name)).and_then(|graph| graph.entry());
        let (Some(inner), Some(entry)) = (inner, entry) else {
            return Err(fault(format!("there is no workflow `{name}`")));
        };
        check::conversation_is_free(state, &agent.context)?;
        Ok(AgentTool {
            name: name.to_owned(),
            description: inner.description.clone().unwrap_or_else(|| format!("Agent `{name}`.")),
            input_schema: inner.agent_schema(),
            entry: entry.clone(),
            variables: inner.variables.clone(),
            max_iterations: workflow.sub_workflow_max_iterations(name),
            context: agent.context.clone(),
            is_too_deep: depth >= SUB_WORKFLOWS_DEPTH_MAX,
        })
    });
    offered.collect()
}

/// The nodes that the model may hand over to.
pub(super) fn handoffs(state: &State, workflow: &Workflow, llm: &LlmNode) -> Vec<HandoffTool> {
    let of = |node_id: &NodeId| {
        let about = state.node_of(workflow, node_id).and_then(|node| node.description.as_deref());
        let about = about.map(|about| format!(": {about}")).unwrap_or_default();
        HandoffTool {
            name: handoff_tool(node_id),
            description: format!("Hands the conversation over to `{node_id}`{about}"),
            node_id: node_id.clone(),
        }
    };
    llm.handoffs.iter().map(of).collect()
}
