//! A run that is ending, and goes on with its hooks.

use bincode::{Decode, Encode};
use serde_json::{Value, json};

use crate::event::{Hook, RunEnding};
use crate::fault::ExecutionError;
use crate::ids::{NodeId, Time};
use crate::json::Json;
use crate::principal::Principal;

/// A run that is ending, and goes on with its hooks.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct HookRun {
    /// The hook that runs, or ran last.
    pub hook: Hook,
    /// How the run ends after its hooks.
    pub ending: RunEnding,
    /// When the hook has no time left.
    pub deadline: Time,
    /// Who cancelled the run.
    pub by: Option<Principal>,
    /// The hooks that failed.
    pub failed: Vec<FailedHook>,
    /// The output of the run: what it was before the hooks, or what one of them set.
    pub(in crate::thread) output: Option<Json>,
}

/// A hook that failed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FailedHook {
    /// The hook.
    pub hook: Hook,
    /// The node it failed on, if it was in one.
    pub node: Option<NodeId>,
    /// Why.
    pub error: ExecutionError,
}

impl HookRun {
    /// The variable `ending`: how the run ends.
    pub fn variable(&self) -> Value {
        let (node, error, reason) = match &self.ending {
            RunEnding::Completed { node_id } => (Some(node_id), None, None),
            RunEnding::Failed { node_id, error } => (node_id.as_ref(), Some(error), None),
            RunEnding::Cancelled { reason } => (None, None, reason.as_ref()),
        };
        let error = error.map(|e| json!({ "kind": e.kind, "message": e.message, "source": e.cause }));
        json!({ "status": self.ending.status(), "node": node, "error": error, "reason": reason })
    }

    /// The variable, and which hook runs.
    pub(in crate::thread) fn json(&self) -> Value {
        json!({ "hook": self.hook, "ending": self.variable(), "deadline": self.deadline })
    }
}
