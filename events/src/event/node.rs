//! Events of nodes and of the way through the graph.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::fault::ExecutionError;
use crate::ids::{NodeId, ThreadId, Time};
use crate::json::Json;

/// NODE_STARTED: the thread enters a node, or tries it again. A further try takes back what the one before it said.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct NodeStarted {
    /// The node.
    pub node: NodeId,
    /// 1 for the first try.
    pub attempt: u32,
    /// When this try must have ended.
    pub deadline: Option<Time>,
}

/// NODE_COMPLETED: the node did its work. Its output is the variable `output`.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct NodeCompleted {
    /// The node.
    pub node: NodeId,
    /// How long this try took.
    pub duration_ms: u64,
}

/// NODE_FAILED: this try of the node failed. A try in which a tool wrote to the world, or may have, is not repeated.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct NodeFailed {
    /// The node.
    pub node: NodeId,
    /// Which try failed.
    pub attempt: u32,
    /// Why.
    pub error: ExecutionError,
    /// When it is tried again; absent when it is not.
    pub retry_at: Option<Time>,
}

/// ROUTE_TAKEN: an edge was chosen among several.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct RouteTaken {
    /// The node that was left.
    pub from: NodeId,
    /// The node that is entered next.
    pub to: NodeId,
    /// The condition that held; absent for the default edge.
    pub condition: Option<String>,
}

/// CONDITION_EVALUATION_REQUESTED: a condition in natural language is put to a model.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ConditionEvaluationRequested {
    /// The node that is being left.
    pub from: NodeId,
    /// The node behind the condition.
    pub to: NodeId,
    /// The condition.
    pub condition: String,
    /// 1 for the first time it is asked.
    pub attempt: u32,
}

/// CONDITION_EVALUATION_COMPLETED: the model's verdict.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ConditionEvaluationCompleted {
    /// The node that is being left.
    pub from: NodeId,
    /// The node behind the condition.
    pub to: NodeId,
    /// Whether it holds; absent when the answer was neither yes nor no.
    pub verdict: Option<bool>,
    /// What the model said, cut to 1 000 characters.
    pub answer: String,
}

/// BRANCH_STARTED: a fork node started a child thread.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct BranchStarted {
    /// The fork node.
    pub node: NodeId,
    /// The name of the branch.
    pub branch: String,
    /// The child.
    pub child: ThreadId,
}

/// BRANCH_ENDED: a child thread ended, or was cancelled as a loser.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct BranchEnded {
    /// The name of the branch.
    pub branch: String,
    /// The child.
    pub child: ThreadId,
    /// Its output, where it completed.
    pub output: Option<Json>,
    /// Its error, where it did not.
    pub error: Option<ExecutionError>,
}

/// JOIN_COMPLETED: enough branches have ended.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct JoinCompleted {
    /// The join node.
    pub node: NodeId,
    /// The branches whose results were merged, in the order of the fork.
    pub branches: Vec<String>,
}

/// LOOP_ITERATION_STARTED: a loop goes round.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct LoopIterationStarted {
    /// The loop node.
    pub node: NodeId,
    /// 0 for the first time round.
    pub index: u64,
    /// The element, in a loop over a list.
    pub item: Option<Json>,
}

/// LOOP_ENDED: a loop is left.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct LoopEnded {
    /// The loop node.
    pub node: NodeId,
    /// How often it went round.
    pub n_iterations: u64,
}

/// SUB_WORKFLOW_STARTED: a workflow runs inside this one, with a `subgraph` scope of its own.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct SubWorkflowStarted {
    /// The node.
    pub node: NodeId,
    /// The workflow.
    pub workflow: crate::workflow::WorkflowRef,
}

/// SUB_WORKFLOW_COMPLETED: the inner workflow reached an end.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct SubWorkflowCompleted {
    /// The node.
    pub node: NodeId,
}

/// CONTEXT_PROCESSED: a context processor changed the conversation; the messages before stay in the log.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ContextProcessed {
    /// The node.
    pub node: NodeId,
    /// The conversation from here on.
    pub messages: Vec<std::sync::Arc<crate::message::Message>>,
    /// Variables it set.
    pub variables: crate::bin::Ordered<Json>,
}
