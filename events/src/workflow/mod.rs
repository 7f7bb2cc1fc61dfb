//! Workflow definitions: immutable, validated, content-addressed values. They store configuration and execute
//! nothing.

mod builder;
mod derive;
mod ends;
mod fault;
mod file;
mod flow;
mod graph;
mod node;
mod processors;
mod strategy;
mod validate;

#[cfg(test)]
mod tests;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::codec::OrderedMap;
use crate::event::OnLimit;
use crate::ids::{Hash, NodeId};
use crate::json::Json;

pub use crate::event::WorkflowRef;
pub use builder::AgentBuilder;
pub use fault::{FAULTS_MAX, Fault, Faults, Place};
pub use file::{FILE_BYTES_MAX, json_schema, locate, parse, parse_in};
pub use flow::{
    Body, Budget, ConditionNode, ContextProcessorNode, ForkNode, JoinMode, JoinNode, Judge, LoopEndNode, LoopNode, Off,
    ParallelNode, RouteCondition, RouteNode, SubWorkflow, SubWorkflowNode, Summary, TokenLimit, nanousd,
};
pub use graph::Graph;
pub use node::{
    AnswerKind, InteractionMessage, Jitter, LlmNode, Marker, Node, NodeKind, NodeOperation, RetryPolicy, ToolNode,
    UserInteractionNode, VariableAssignment,
};
pub(crate) use processors::{ProcessorTask, SUMMARIZE, check_processor_config, processor_task, summary_of};
pub use processors::{built_in_processors, is_built_in_processor};
pub use strategy::{CustomStrategy, MultiLlm, PlanAndExecute, Strategy, StrategyModel};
use validate::Checks;
pub(crate) use validate::is_variable_name;
pub use validate::{Env, NamedModel, Unknown};

/// The only version of the file format there is.
pub const FORMAT_VERSION: &str = "1";

/// How many nodes a thread may enter when the definition does not say.
pub const MAX_ITERATIONS_DEFAULT: u32 = 50;

/// The most a definition may set, as a guard against a slip of the finger.
pub const MAX_ITERATIONS_MAX: u32 = 1_000_000;

/// How often a loop may go round when its definition does not say, and the most it may say.
pub const LOOP_ITERATIONS_MAX: u64 = 1_000_000;

/// What a definition says, as written in a file. Build it into a [`Workflow`] to use it.
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
    /// How long a thread may take in all, waiting for people included; without limit when absent.
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
    /// What a thread may spend on models, its branches included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// What happens when a model node has made all its `max_iterations` calls, or the thread has entered all the nodes
    /// it may: it fails, or the thread pauses until it is given more.
    #[serde(default, skip_serializing_if = "is_fail", alias = "onLimit")]
    pub on_limit: OnLimit,
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

fn is_fail(on_limit: &OnLimit) -> bool {
    *on_limit == OnLimit::Fail
}

/// A way from one node to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// The node that is left.
    pub from: NodeId,
    /// The node that is entered.
    pub to: NodeId,
    /// An expression over the variables; the first edge of a node whose expression holds is taken. An edge without
    /// one is the default.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "condition")]
    pub when: Option<String>,
    /// A condition in natural language, in place of `when`; the workflow's `judge` says yes or no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
}

impl Edge {
    /// A way that is always taken.
    pub fn default_way(from: impl Into<NodeId>, to: impl Into<NodeId>) -> Self {
        Self { from: from.into(), to: to.into(), when: None, judge: None }
    }

    /// Whether it is taken when no other is.
    pub fn is_default(&self) -> bool {
        self.when.is_none() && self.judge.is_none()
    }
}

/// A valid definition. Immutable; two are equal when their hashes are.
#[derive(Debug, Clone)]
pub struct Workflow {
    spec: WorkflowSpec,
    json: String,
    hash: Hash,
    main: Graph,
    subs: IndexMap<String, Graph>,
    is_cheap: bool,
}

impl PartialEq for Workflow {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl Eq for Workflow {}

/// A graph without a cycle enters each of its nodes once at most.
fn max_iterations_of(graph: &Graph) -> u32 {
    MAX_ITERATIONS_DEFAULT.max(u32::try_from(graph.nodes.len()).unwrap_or(u32::MAX))
}

impl WorkflowSpec {
    /// The valid definition, or everything that is wrong with this one.
    pub fn build(self) -> Result<Workflow, Faults> {
        validate::build(self, Checks::All(None))
    }

    /// The same, checked also against what is there where it will run.
    pub fn build_in(self, surroundings: &Env) -> Result<Workflow, Faults> {
        validate::build(self, Checks::All(Some(surroundings)))
    }
}

impl Workflow {
    /// The definition in the JSON that [`Workflow::json`] gave. It was checked when it was built: faults that only newer
    /// versions of this program find are none here, so that threads go on with the definition they began with.
    pub fn from_json(json: &str) -> Result<Self, Faults> {
        let spec: WorkflowSpec = serde_json::from_str(json).map_err(|e| Faults::one(Fault::new("", e.to_string())))?;
        validate::build(spec, Checks::Stored)
    }

    /// What the definition says.
    pub fn spec(&self) -> &WorkflowSpec {
        &self.spec
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The canonical JSON; its blake3 hash is [`Workflow::hash`].
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The hash that names this exact definition.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// Its name and hash.
    pub fn reference(&self) -> WorkflowRef {
        WorkflowRef { name: self.spec.name.clone(), hash: self.hash }
    }

    /// Returns whether all its expressions, templates and schemas are cheap to evaluate: they repeat nothing and call
    /// nothing, so that their time is bounded by the size of the variables that they read.
    pub fn is_cheap(&self) -> bool {
        self.is_cheap
    }

    /// The graph a thread runs on: the workflow's own, or the one of the sub-workflow with this name.
    pub fn graph(&self, sub_workflow: Option<&str>) -> Option<&Graph> {
        match sub_workflow {
            None => Some(&self.main),
            Some(name) => self.subs.get(name),
        }
    }

    /// The workflow's own graph.
    pub fn main(&self) -> &Graph {
        &self.main
    }

    /// The graphs of its sub-workflows, by name.
    pub fn sub_workflows(&self) -> impl Iterator<Item = (&str, &Graph)> {
        self.subs.iter().map(|(name, graph)| (name.as_str(), graph))
    }

    /// Whether any of its graphs has this node.
    pub fn has_node(&self, id: &NodeId) -> bool {
        self.main.node(id).is_some() || self.subs.values().any(|graph| graph.node(id).is_some())
    }

    /// How many nodes a thread may enter.
    pub fn max_iterations(&self) -> u32 {
        self.spec.max_iterations.unwrap_or_else(|| max_iterations_of(&self.main))
    }

    /// How many nodes one run of the sub-workflow with this name may enter.
    pub fn sub_workflow_max_iterations(&self, name: &str) -> u32 {
        let own = self.spec.workflows.get(name).and_then(|sub| sub.max_iterations);
        own.unwrap_or_else(|| self.subs.get(name).map_or(MAX_ITERATIONS_DEFAULT, max_iterations_of))
    }
}
