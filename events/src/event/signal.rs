//! Events of waits for a signal.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::codec::OrderedMap;
use crate::ids::{CallId, NodeId, Time};
use crate::json::Json;
use crate::principal::Principal;

/// SIGNAL_AWAITED: a node waits for a signal. Its seq is the id of the wait within the thread.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct SignalAwaited {
    /// The node.
    pub node_id: NodeId,
    /// The name of the signal.
    pub name: String,
    /// Fields of the payload, and the values that they must have.
    pub fields: OrderedMap<Json>,
    /// The JSON Schema of the payload; any value when absent.
    pub schema: Option<Json>,
    /// The end of the wait; without limit if absent.
    pub deadline: Option<Time>,
}

/// SIGNAL_RECEIVED: the signal was received, and the node is done. Its output is the payload.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct SignalReceived {
    /// The node that waited.
    pub node_id: Option<NodeId>,
    /// The wait.
    pub wait_id: CallId,
    /// The id that the sender gave the signal, or that was made for it. The same one is received once.
    pub signal_id: String,
    /// Its payload.
    pub payload: Json,
    /// Who sent it.
    pub by: Option<Principal>,
}
