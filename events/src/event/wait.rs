//! Events of waits for a time, and of the end of any wait.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::fault::ExecutionError;
use crate::ids::{CallId, NodeId, Time};
use crate::principal::Principal;

/// WAIT_STARTED: a node waits for a time. Its seq is the id of the wait within the thread.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct WaitStarted {
    /// The node.
    pub node_id: NodeId,
    /// When it ends.
    pub until: Time,
}

/// WAIT_CHANGED: the wait ends at another time. At a time that has come, it ends at once.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct WaitChanged {
    /// The node that waits.
    pub node_id: Option<NodeId>,
    /// The wait.
    pub wait_id: CallId,
    /// When it ends now.
    pub until: Time,
    /// Who did it; absent where the runtime did.
    pub by: Option<Principal>,
}

/// WAIT_COMPLETED: the time has come, and the node is done.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct WaitCompleted {
    /// The node that waited.
    pub node_id: Option<NodeId>,
    /// The wait.
    pub wait_id: CallId,
}

/// WAIT_FAILED: the wait for a time or a signal ended in vain: its thread was cancelled, or the time of the wait for a signal,
/// of its node or of its thread was up.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct WaitFailed {
    /// The node that waited.
    pub node_id: Option<NodeId>,
    /// The wait.
    pub wait_id: CallId,
    /// Why.
    pub error: ExecutionError,
}
