//! Events of nodes and of the way from one to the next.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{NodeId, Time, ToolName};

/// NODE_STARTED: the thread enters a node, or tries it again. A further try takes back what the one before it said.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct NodeStarted {
    /// The node.
    pub node_id: NodeId,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// The deadline of this attempt.
    pub deadline: Option<Time>,
}

/// NODE_COMPLETED: the node did its work. Its output is the variable `output`.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct NodeCompleted {
    /// The node.
    pub node_id: NodeId,
    /// The duration of this attempt.
    pub duration_ms: u64,
}

/// NODE_FAILED: this try of the node failed. A try in which a tool wrote to the world, or may have, is not repeated.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct NodeFailed {
    /// The node.
    pub node_id: NodeId,
    /// The number of the attempt that failed.
    pub attempt: u32,
    /// Why.
    pub error: ExecutionError,
    /// The time of the retry; absent if there is none.
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
    /// The error, if this is its edge (`on_error`): it is the variable `error` from here on.
    pub error: Option<CaughtError>,
}

/// An error that `on_error` leads on from.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct CaughtError {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The description of the error.
    pub message: String,
    /// The node that failed.
    pub node: NodeId,
    /// The tool of that node, where it runs one, or the tool whose failed call made the node fail.
    pub tool: Option<ToolName>,
    /// The underlying error, if it says more.
    pub source: Option<String>,
}
