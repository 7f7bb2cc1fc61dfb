//! What a definition says, as written in a file.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agents::AGENT_TASK;
use super::flow::Edge;
use super::models::{Budget, Judge, Summary, ThreadLimits};
use super::node::Node;
use super::queue::Queue;
use crate::codec::OrderedMap;
use crate::event::{Hook, OnLimit, OnMessage};
use crate::ids::NodeId;
use crate::json::Json;

/// The only version of the file format there is.
pub const FORMAT_VERSION: &str = "1";

/// How many nodes a thread may enter when the definition does not say.
pub const MAX_ITERATIONS_DEFAULT: u32 = 50;

/// The most a definition may set, as a guard against a slip of the finger.
pub const MAX_ITERATIONS_MAX: u32 = 1_000_000;

/// How long a hook may take when the definition does not say.
pub const HOOK_TIMEOUT_MS_DEFAULT: u64 = 600_000;

/// How often a loop may go round when its definition does not say, and the most it may say.
pub const LOOP_ITERATIONS_MAX: u64 = 1_000_000;

/// What a definition says, as written in a file. Build it into a [`Workflow`](super::Workflow) to use it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkflowSpec {
    /// Where editors find the schema of this file. Read by editors only.
    #[serde(rename = "$schema", default, skip_serializing)]
    pub schema: Option<String>,
    /// The version of the file format, `"1"`.
    pub version: String,
    /// The name of the workflow.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The author's own version of it.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "workflowVersion")]
    pub workflow_version: Option<String>,
    /// How many nodes a thread may enter before it fails; 50, or as many as there are, when absent. Must be given when
    /// the graph has a cycle. What is entered in a loop does not count: each iteration may enter as many by itself, and
    /// a sub-workflow has a limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "maxIterations")]
    pub max_iterations: Option<u32>,
    /// How long a run may take in all, waiting for people included; without limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "timeout", alias = "timeoutMs")]
    pub timeout_ms: Option<u64>,
    /// What the input of a thread must be, as JSON Schema: a thread is not started with another one. A text that does not
    /// fit is read as JSON once.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "inputSchema")]
    pub input_schema: Option<Json>,
    /// What the output of a thread must be, as JSON Schema: a thread that ends with another one fails. A text that does not
    /// fit is read as JSON once.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "outputSchema")]
    pub output_schema: Option<Json>,
    /// Variables a thread begins with, beside `input`.
    #[serde(default, skip_serializing_if = "OrderedMap::is_empty")]
    pub variables: OrderedMap<Json>,
    /// Variables by whose values the threads are found, at most 16: those whose values are texts, numbers or booleans.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<String>,
    /// The first node; the first one listed when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "entryPoint", alias = "entry_point")]
    pub entry: Option<NodeId>,
    /// Nodes that end the thread, even if edges leave them. Every node without an outgoing edge ends it too.
    #[serde(default, skip_serializing_if = "Vec::is_empty", alias = "endPoints")]
    pub end_points: Vec<NodeId>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The edges, per node in the order in which they are tried; one node after the other as listed when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edges: Option<Vec<Edge>>,
    /// The model that judges conditions in natural language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<Judge>,
    /// What a run may spend on models, its branches included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// What the runs of a thread may take together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadLimits>,
    /// What happens when a model node has made all its `max_iterations` calls, or the thread has entered all the nodes
    /// it may: it fails, or the thread pauses until it is given more.
    #[serde(default, skip_serializing_if = "is_fail", alias = "onLimit")]
    pub on_limit: OnLimit,
    /// What becomes of a message that comes while a run of the thread is going on: it is queued, steers or interrupts the
    /// run, or is refused.
    #[serde(default, skip_serializing_if = "is_queue", alias = "onMessage")]
    pub on_message: OnMessage,
    /// When its runs begin: how many at once, how many in a time, which ones first. At once when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// The node that a run goes on at when it fails, before it ends: the beginning of a hook.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "onFailed")]
    pub on_failed: Option<NodeId>,
    /// The node that a run goes on at when it is cancelled, before it ends. It may be that of `on_failed`.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "onCancel")]
    pub on_cancel: Option<NodeId>,
    /// The node that a run goes on at before it ends in any way, after `on_failed` or `on_cancel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finally: Option<NodeId>,
    /// How long each of these hooks may take; 600 000 when absent. Neither `timeout_ms` nor the end of the run's time stops
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "hookTimeout", alias = "hookTimeoutMs")]
    pub hook_timeout_ms: Option<u64>,
    /// When conversations are summarised, and by which model; an `llm` node may have one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// Whether models that are offered tools are told in which folder these work; they are unless this says `false`.
    #[serde(default = "is_true", skip_serializing_if = "Clone::clone", alias = "workspaceInPrompt")]
    pub workspace_in_prompt: bool,
    /// Workflows that `sub_workflow` nodes run, by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub workflows: IndexMap<String, SubWorkflow>,
}

fn is_true() -> bool {
    true
}

fn is_queue(on_message: &OnMessage) -> bool {
    *on_message == OnMessage::Queue
}

fn is_fail(on_limit: &OnLimit) -> bool {
    *on_limit == OnLimit::Fail
}

/// A workflow that others of the same file run by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubWorkflow {
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How many nodes one run of it may enter; 50, or as many as there are, when absent. Must be given when its graph
    /// has a cycle. Each iteration of a loop in it may enter as many by itself.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "maxIterations")]
    pub max_iterations: Option<u32>,
    /// What the object of its `inputs` must be, as JSON Schema: the node that runs it fails with other ones.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "inputSchema")]
    pub input_schema: Option<Json>,
    /// What its `output` must be at its end, as JSON Schema: the node that runs it fails with another one. A text that does
    /// not fit is read as JSON once.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "outputSchema")]
    pub output_schema: Option<Json>,
    /// Variables it begins with, beside its inputs.
    #[serde(default, skip_serializing_if = "OrderedMap::is_empty")]
    pub variables: OrderedMap<Json>,
    /// The first node; the first one listed when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<NodeId>,
    /// Nodes that end it, even if edges leave them. Every node without an outgoing edge ends it too.
    #[serde(default, skip_serializing_if = "Vec::is_empty", alias = "endPoints")]
    pub end_points: Vec<NodeId>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The edges; one node after the other as listed when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edges: Option<Vec<Edge>>,
}

impl SubWorkflow {
    /// The JSON Schema of the arguments of the agent that it is: its `input_schema`, or an object with a text `task`.
    pub(crate) fn agent_schema(&self) -> Json {
        self.input_schema.clone().unwrap_or_else(|| {
            serde_json::json!({
                "type": "object",
                "properties": {
                    AGENT_TASK: { "type": "string", "description": "The task, with everything that is needed for it." },
                },
                "required": [AGENT_TASK],
                "additionalProperties": false,
            })
            .into()
        })
    }
}

impl WorkflowSpec {
    /// The first node of a hook, if the workflow has that hook.
    pub fn hook(&self, hook: Hook) -> Option<&NodeId> {
        match hook {
            Hook::OnFailed => self.on_failed.as_ref(),
            Hook::OnCancel => self.on_cancel.as_ref(),
            Hook::Finally => self.finally.as_ref(),
        }
    }

    /// The hooks that it has, each with its first node.
    pub fn hooks(&self) -> impl Iterator<Item = (Hook, &NodeId)> {
        Hook::ALL.into_iter().filter_map(|hook| Some((hook, self.hook(hook)?)))
    }

    /// The name of the definition of a child that runs this workflow of `workflows`: the name of the workflow in the file, a
    /// slash, and its own. A child of a child has the same name in front.
    pub(super) fn child_name(&self, name: &str) -> String {
        let is_child = |(_, own): &(&str, &str)| self.workflows.get(*own).is_some_and(|sub| sub.nodes == self.nodes);
        let first = self.name.rsplit_once('/').filter(is_child).map_or(&*self.name, |(first, _)| first);
        format!("{first}/{name}")
    }

    /// Its schemas, and those of its sub-workflows.
    pub(super) fn schemas(&self) -> impl Iterator<Item = &Json> {
        let of_subs = self.workflows.values().flat_map(|sub| [&sub.input_schema, &sub.output_schema]);
        [&self.input_schema, &self.output_schema].into_iter().chain(of_subs).flatten()
    }
}
