//! Agents that an `llm` node offers its model as tools.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::event::NodeContext;
use crate::ids::NodeId;

/// The argument of an agent whose workflow has no `input_schema`.
pub const AGENT_TASK: &str = "task";

/// An agent that a model is offered as a tool: a workflow under `workflows`. In a file, its name alone, or `{workflow,
/// context}`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(with = "AgentForm")]
pub struct OfferedAgent {
    /// The name of the workflow, which is that of the tool.
    pub workflow: String,
    /// The conversation that it begins with.
    #[serde(skip_serializing_if = "is_fresh")]
    pub context: NodeContext,
}

fn is_fresh(context: &NodeContext) -> bool {
    *context == NodeContext::Fresh
}

/// The name of the tool by which a model hands the conversation over to a node.
pub(crate) fn handoff_tool(node: &NodeId) -> String {
    format!("transfer_to_{node}")
}

impl OfferedAgent {
    /// An agent that begins without a conversation.
    pub fn new(workflow: impl Into<String>) -> Self {
        Self { workflow: workflow.into(), context: NodeContext::Fresh }
    }
}

/// The two forms in a file.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code)] // only its schema is used
enum AgentForm {
    /// The name of the workflow.
    Name(String),
    /// In full.
    Full(AgentFields),
}

/// An agent that a model is offered as a tool.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AgentFields {
    /// The name of the workflow under `workflows`.
    workflow: String,
    /// The conversation that it begins with: `fresh` (none, the default), `shared` (that of the model which calls it, up to
    /// the answer with the call), `{from: [nodes]}` (what these nodes said), or `{named: name}` (what was said in the
    /// conversation of the thread with this name, which the agent continues).
    #[serde(default = "fresh")]
    context: NodeContext,
}

fn fresh() -> NodeContext {
    NodeContext::Fresh
}

impl<'de> Deserialize<'de> for OfferedAgent {
    // By hand, because serde's errors of an untagged enum do not name the fault.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = OfferedAgent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a workflow, or an agent in full")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<OfferedAgent, E> {
                Ok(OfferedAgent::new(name))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OfferedAgent, A::Error> {
                let AgentFields { workflow, context } = AgentFields::deserialize(MapAccessDeserializer::new(map))?;
                Ok(OfferedAgent { workflow, context })
            }
        }
        deserializer.deserialize_any(Either)
    }
}
