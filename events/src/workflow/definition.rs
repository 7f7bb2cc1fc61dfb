//! A valid definition: its text, and the graphs that it describes.

use indexmap::IndexMap;

use super::graph::Graph;
use super::spec::{HOOK_TIMEOUT_MS_DEFAULT, MAX_ITERATIONS_DEFAULT, WorkflowSpec};
use crate::event::WorkflowRef;
use crate::ids::{Hash, NodeId};

/// A valid definition. Immutable; two are equal when their hashes are.
#[derive(Debug, Clone)]
pub struct Workflow {
    pub(super) spec: WorkflowSpec,
    pub(super) json: String,
    pub(super) hash: Hash,
    pub(super) main: Graph,
    pub(super) subs: IndexMap<String, Graph>,
    pub(super) is_cheap: bool,
}

impl Workflow {
    /// The same definition, by its hash too, whose runs begin at once.
    pub(crate) fn without_queue(&self) -> Self {
        let mut same = self.clone();
        same.spec.queue = None;
        same
    }
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

impl Workflow {
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

    /// How long each hook may take, in milliseconds.
    pub fn hook_timeout_ms(&self) -> u64 {
        self.spec.hook_timeout_ms.unwrap_or(HOOK_TIMEOUT_MS_DEFAULT)
    }

    /// How many nodes one run of the sub-workflow with this name may enter.
    pub fn sub_workflow_max_iterations(&self, name: &str) -> u32 {
        let own = self.spec.workflows.get(name).and_then(|sub| sub.max_iterations);
        own.unwrap_or_else(|| self.subs.get(name).map_or(MAX_ITERATIONS_DEFAULT, max_iterations_of))
    }
}
