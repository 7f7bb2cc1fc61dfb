//! Events of children, which are threads that a `start_thread` node starts, and of waits for the end of a thread.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::codec::OrderedMap;
use crate::fault::ExecutionError;
use crate::ids::{CallId, NodeId, RunId, ThreadId};
use crate::json::Json;

/// What happens to a child that has not ended when the run that started it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnParentEnd {
    /// It continues.
    #[default]
    Leave,
    /// It is cancelled if the run was cancelled, and continues if the run completed or failed.
    CancelIfCancelled,
    /// It is cancelled.
    Cancel,
}

/// CHILD_START_REQUESTED: a node starts a child. Its seq is the id of the call.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ChildStartRequested {
    /// The node.
    pub node_id: NodeId,
    /// The thread to start. A start that is repeated after a crash has the same one.
    pub child: ThreadId,
    /// The name of the workflow under `workflows`.
    pub workflow: String,
    /// The input of the child, whose fields are also variables of it.
    pub inputs: OrderedMap<Json>,
    /// What happens to the child when this run ends.
    pub on_parent_end: OnParentEnd,
    /// The variable that holds the output of the node, as `output` does.
    pub into: Option<String>,
}

/// CHILD_STARTED: the child is in the log. The output of the node is `{thread_id}`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ChildStarted {
    /// The node.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// The child.
    pub child: ThreadId,
}

/// CHILD_START_FAILED: the child was not started, or the node ended before it was known whether it was.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ChildStartFailed {
    /// The node.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// Why.
    pub error: ExecutionError,
}

/// STARTED_BY_PARENT: the thread is a child. It follows THREAD_STARTED in the same append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct StartedByParent {
    /// The thread that started it.
    pub parent: ThreadId,
    /// The call of the parent: the seq of CHILD_START_REQUESTED.
    pub call_id: CallId,
    /// The run of the parent.
    pub run_id: RunId,
    /// What happens to this thread when that run ends.
    pub on_parent_end: OnParentEnd,
    /// 1 for a child of a thread that no thread started, 2 for a child of that child, and so on.
    pub depth: u32,
}

/// THREAD_AWAITED: a node waits for the end of a thread. Its seq is the id of the wait within the thread that waits.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ThreadAwaited {
    /// The node.
    pub node_id: NodeId,
    /// The thread whose end it waits for.
    pub thread: ThreadId,
}

/// AWAITED_THREAD_ENDED: the thread completed, and the node is done. Its output is that of the thread. If the thread failed,
/// was cancelled or is not there, the event is WAIT_FAILED.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct AwaitedThreadEnded {
    /// The node that waited.
    pub node_id: Option<NodeId>,
    /// The wait.
    pub wait_id: CallId,
    /// The thread.
    pub thread: ThreadId,
    /// The output of the thread.
    pub output: Option<Json>,
}
