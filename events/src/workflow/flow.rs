//! Edges, and the configuration of the nodes that decide where a thread goes: routes, forks and joins, sub-workflows.
//!
//! `route`, `condition`, `parallel` and `loop` are short forms: a definition is built with the edges and markers that
//! they abbreviate ([`super::Graph`]), and the machine knows only those.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::codec::OrderedMap;
use crate::event::{NodeContext, OnFailed};
use crate::ids::NodeId;
use crate::json::Json;

/// An edge from one node to another.
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

/// A node that only chooses the way: its conditions in order, then the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteNode {
    /// The first one that holds is taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<RouteCondition>,
    /// Where to go when none holds. Edges that leave the node can say the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<NodeId>,
}

/// One condition of a route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteCondition {
    /// An expression over the variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// A condition in natural language, in place of `when`; a model judges it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// The node that is entered when it holds.
    pub to: NodeId,
}

/// A route with one condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConditionNode {
    /// An expression over the variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// A condition in natural language, in place of `when`; a model judges it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// Where to go when it holds.
    pub then: NodeId,
    /// Where to go when it does not.
    #[serde(rename = "else")]
    pub otherwise: NodeId,
}

/// Starts branches, each a thread of its own that inherits the conversation and the variables. Either named ones, or
/// one for each element of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkNode {
    /// The join at which all of them end.
    pub join: NodeId,
    /// The branches: the name under which the result is merged, and the first node.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub branches: IndexMap<String, NodeId>,
    /// One branch for each element of the list that this expression gives.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "forEach")]
    pub for_each: Option<String>,
    /// The variable that holds the element; `item` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "as")]
    pub variable: Option<String>,
    /// The first node of the branches of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<NodeId>,
    /// The variable that holds all results, as `output` does: an object by name, or a list in the order of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// How many branches run at once; all named ones, and 64 of a list, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

impl ForkNode {
    /// Branches by name, each with its first node, that end at `join`.
    pub fn new<N: Into<String>, F: Into<NodeId>>(
        join: impl Into<NodeId>,
        branches: impl IntoIterator<Item = (N, F)>,
    ) -> Self {
        Self {
            join: join.into(),
            branches: branches.into_iter().map(|(name, first)| (name.into(), first.into())).collect(),
            for_each: None,
            variable: None,
            entry: None,
            into: None,
            concurrency: None,
        }
    }
}

/// Where branches end. The thread continues from here when enough of them have ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinNode {
    /// How many branches it waits for.
    #[serde(default, skip_serializing_if = "is_all")]
    pub mode: JoinMode,
    /// How many, in mode `n_of_m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u32>,
    /// What the join does with failed branches.
    #[serde(default, skip_serializing_if = "is_fail", alias = "onFailed")]
    pub on_failed: OnFailed,
    /// How long the branches may take in all; without limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "timeout", alias = "timeoutMs")]
    pub timeout_ms: Option<u64>,
}

pub(super) fn is_all(mode: &JoinMode) -> bool {
    *mode == JoinMode::All
}

pub(super) fn is_fail(on_failed: &OnFailed) -> bool {
    *on_failed == OnFailed::Fail
}

/// How many branches a join waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JoinMode {
    /// All.
    #[default]
    All,
    /// The first that succeeds; the others are cancelled. Fails when none can.
    Any,
    /// The first `n` that succeed; the others are cancelled. Fails when fewer can.
    NOfM,
}

/// Ends an iteration of a loop. Its edges lead on when the loop is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoopEndNode {
    /// The marker at which the loop begins.
    pub start: NodeId,
}

/// Runs a workflow inside this one, with a scope of its own: it sees its inputs, the variables it sets, and those of
/// scope `thread` and `global`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubWorkflowNode {
    /// Its name under `workflows`.
    pub workflow: String,
    /// Its variables; a text that is exactly one `{{expression}}` has the expression's type.
    #[serde(default, skip_serializing_if = "OrderedMap::is_empty")]
    pub inputs: OrderedMap<Json>,
    /// Variables of the caller that are set at its end, from expressions over its own; when absent, only `output`.
    #[serde(default, skip_serializing_if = "OrderedMap::is_empty")]
    pub outputs: OrderedMap<String>,
    /// The conversation that it begins with: `fresh` (none, the default) or `{from: [nodes]}` (the messages of these
    /// nodes), and its own ends with it; `{named: name}`, a conversation of the thread that is stored across runs; or `shared`, where it
    /// continues that of its caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<NodeContext>,
}
