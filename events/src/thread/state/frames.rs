//! Loops and sub-workflows that are open, and the variables of each.

use std::collections::BTreeSet;
use std::sync::Arc;

use bincode::{Decode, Encode};

use super::node_run::{Aside, NodeRun};
use crate::codec::OrderedMap;
use crate::ids::NodeId;
use crate::json::Json;

/// How deep sub-workflows may run inside each other.
pub const SUB_WORKFLOWS_DEPTH_MAX: usize = 16;

/// A loop or a sub-workflow that is open.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Frame {
    /// A loop.
    Loop(LoopFrame),
    /// A sub-workflow.
    Sub(SubFrame),
}

/// A loop that is open.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct LoopFrame {
    /// The node it begins at.
    pub node: NodeId,
    /// The node at which an iteration ends.
    pub end: NodeId,
    /// The list, in a loop over one; evaluated once, when the loop began.
    pub items: Option<Arc<Vec<Json>>>,
    /// The variable that holds the element.
    pub variable: String,
    /// The most iterations.
    pub n_iterations_max: u64,
    /// Iterations begun.
    pub n_begun: u64,
    /// Whether an iteration runs; otherwise the next one is to be decided on.
    pub is_inside: bool,
    /// Nodes entered in this iteration.
    pub n_entered: u32,
    /// The variable that is to hold the results.
    pub into: Option<String>,
    /// The values of `output` at the end of each iteration, if they are collected.
    pub results: Vec<Json>,
    /// The bytes of the results as JSON.
    pub n_result_bytes: u64,
    /// The variables of this iteration.
    pub variables: Arc<OrderedMap<Json>>,
}

/// A sub-workflow that runs.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct SubFrame {
    /// The node that runs it; continues when the sub-workflow has ended.
    pub run: Box<NodeRun>,
    /// Its name in the definition.
    pub workflow: String,
    /// How many nodes it may enter outside of its loops.
    pub max_iterations: u32,
    /// How many it has entered.
    pub n_entered: u32,
    /// The conversation of its caller, where it has one of its own.
    pub aside: Option<Aside>,
    /// Its variables.
    pub variables: Arc<OrderedMap<Json>>,
    /// The variables with what a fork or a loop did that failed: its caller gets them if it fails as well.
    pub shown: BTreeSet<String>,
}

impl Frame {
    /// The node that opened it.
    pub fn node(&self) -> &NodeId {
        match self {
            Self::Loop(open) => &open.node,
            Self::Sub(open) => &open.run.node,
        }
    }

    /// The variables of its scope.
    pub fn variables(&self) -> &Arc<OrderedMap<Json>> {
        match self {
            Self::Loop(open) => &open.variables,
            Self::Sub(open) => &open.variables,
        }
    }
}

/// Variables of scope `global`: one set for a whole family of threads.
#[derive(Debug, Clone, PartialEq, Default, Encode, Decode)]
pub(in crate::thread) struct Globals {
    pub(in crate::thread) values: Arc<OrderedMap<Json>>,
    /// The names that this thread set since it began, or since it was forked off as a branch.
    pub(in crate::thread) written: BTreeSet<String>,
}
