//! Agents that a model calls like tools.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::graph::NodeContext;
use crate::codec::OrderedMap;
use crate::ids::{NodeId, ThreadId};
use crate::json::Json;
use crate::message::ToolSpec;

/// An agent that a model is offered as a tool: a workflow of the definition.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct AgentTool {
    /// The name of the workflow, which is that of the tool.
    pub name: String,
    /// The description that the model receives.
    pub description: String,
    /// The JSON Schema of the arguments: an object whose properties become variables of the workflow.
    pub input_schema: Json,
    /// The first node of the workflow.
    pub entry: NodeId,
    /// The variables that the workflow begins with, beside the arguments.
    pub variables: OrderedMap<Json>,
    /// The most nodes that a run of it enters outside of its loops.
    pub max_iterations: u32,
    /// The conversation that it begins with.
    pub context: NodeContext,
    /// Whether sub-workflows and agents are nested so deep here that a call of it fails.
    pub is_too_deep: bool,
}

/// A node that a model is offered to hand the conversation over to, by a tool.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct HandoffTool {
    /// The name of the tool: `transfer_to_` and the node.
    pub name: String,
    /// The description that the model receives.
    pub description: String,
    /// The node.
    pub node_id: NodeId,
}

impl AgentTool {
    /// Whether it has an argument with this name: a property of its schema.
    pub fn takes(&self, argument: &str) -> bool {
        self.input_schema.0["properties"].get(argument).is_some()
    }
}

impl From<&AgentTool> for ToolSpec {
    fn from(agent: &AgentTool) -> Self {
        Self {
            name: agent.name.clone(),
            description: Some(agent.description.clone()),
            parameters: agent.input_schema.clone(),
        }
    }
}

impl From<&HandoffTool> for ToolSpec {
    fn from(handoff: &HandoffTool) -> Self {
        let reason = "Why, and what the other one has to know besides the conversation.";
        let parameters = serde_json::json!({
            "type": "object",
            "properties": { "reason": { "type": "string", "description": reason } },
            "additionalProperties": false,
        });
        Self {
            name: handoff.name.clone(),
            description: Some(handoff.description.clone()),
            parameters: parameters.into(),
        }
    }
}

/// How an agent loop handed the conversation over.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct Handoff {
    /// The node that the thread continues with.
    pub to: NodeId,
    /// The id that the model gave the call.
    pub tool_call_id: String,
    /// The arguments of the call.
    pub arguments: Json,
}

impl Handoff {
    /// The output of the node that hands over: an object with the text `reason`, which is empty where the model gave none.
    pub fn output(&self) -> Json {
        let reason = self.arguments.0.get("reason").and_then(Value::as_str).unwrap_or_default();
        serde_json::json!({ "reason": reason }).into()
    }
}

/// AGENT_STARTED: a call of a model runs an agent, as a branch of this thread that is forked right after this event. Its
/// end is BRANCH_ENDED, with the same index, and becomes the result of the call.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct AgentStarted {
    /// The node whose model calls it.
    pub node_id: NodeId,
    /// The index of the call among those of the answer, from 0.
    pub index: u32,
    /// The thread. Its id follows from the thread, seq and time of this event.
    pub child: ThreadId,
    /// The id that the model gave the call.
    pub tool_call_id: Option<String>,
    /// The agent: the name of its workflow.
    pub agent: String,
    /// The arguments.
    pub arguments: Json,
}
