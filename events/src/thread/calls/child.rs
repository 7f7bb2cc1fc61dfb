//! The start of a child: a thread of its own that a node starts.

use bincode::{Decode, Encode};

use crate::codec::OrderedMap;
use crate::event::{ChildStartRequested, OnParentEnd};
use crate::ids::{CallId, ThreadId, Time};
use crate::json::Json;

/// A child that is being started.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct ChildRun {
    /// The event that requested it, as the id of the call.
    pub call: CallId,
    /// The thread to start.
    pub child: ThreadId,
    /// The name of the workflow under `workflows`.
    pub workflow: String,
    /// The input of the child, whose fields are also variables of it.
    pub inputs: OrderedMap<Json>,
    /// What happens to the child when the run that starts it ends.
    pub on_parent_end: OnParentEnd,
    /// The variable that holds the output of the node.
    pub into: Option<String>,
    /// When it was requested.
    pub requested_at: Time,
}

impl ChildRun {
    pub(in crate::thread) fn new(call: CallId, at: Time, e: &ChildStartRequested) -> Self {
        let ChildStartRequested { node_id: _, child, workflow, inputs, on_parent_end, into } = e.clone();
        Self { call, child, workflow, inputs, on_parent_end, into, requested_at: at }
    }

    /// The output of the node that starts it.
    pub(in crate::thread) fn output(&self) -> Json {
        serde_json::json!({ "thread_id": self.child }).into()
    }
}
