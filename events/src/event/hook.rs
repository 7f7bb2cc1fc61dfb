//! Events of the hooks of a run: the nodes that a workflow runs when a run fails, is cancelled or ends.

use std::fmt;

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::fault::ExecutionError;
use crate::ids::{NodeId, Time};
use crate::principal::Principal;

/// HOOK_STARTED: the run is ending, and goes on at a node of its workflow before it ends. What was open in the run has
/// ended.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct HookStarted {
    /// The hook.
    pub hook: Hook,
    /// Its first node.
    pub node_id: NodeId,
    /// How the run ends after its hooks.
    pub ending: RunEnding,
    /// When the hook has no time left.
    pub deadline: Time,
    /// Who cancelled the run; absent where it was not cancelled, or the runtime did.
    pub by: Option<Principal>,
}

/// HOOK_ENDED: a hook is over. The next hook begins, or the run ends.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct HookEnded {
    /// The hook.
    pub hook: Hook,
    /// The node that it ended on, or failed on.
    pub node_id: Option<NodeId>,
    /// Why it failed; absent where it did not.
    pub error: Option<ExecutionError>,
}

/// A hook of a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hook {
    /// Runs when the run fails.
    OnFailed,
    /// Runs when the run is cancelled.
    OnCancel,
    /// Runs before the run ends in any way, after the other one.
    Finally,
}

impl Hook {
    /// All of them, in the order in which they run.
    pub const ALL: [Self; 3] = [Self::OnFailed, Self::OnCancel, Self::Finally];

    /// Its key in the definition.
    pub const fn key(self) -> &'static str {
        match self {
            Self::OnFailed => "on_failed",
            Self::OnCancel => "on_cancel",
            Self::Finally => "finally",
        }
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// How a run ends after its hooks.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum RunEnding {
    /// It came to an end of the workflow.
    Completed {
        /// The node it came to the end on.
        node_id: NodeId,
    },
    /// It failed.
    Failed {
        /// The node it failed on, if it was in one.
        node_id: Option<NodeId>,
        /// Why.
        error: ExecutionError,
    },
    /// It was cancelled.
    Cancelled {
        /// The reason, for people.
        reason: Option<String>,
    },
}

impl RunEnding {
    /// The hook that runs for it alone.
    pub const fn own_hook(&self) -> Option<Hook> {
        match self {
            Self::Completed { .. } => None,
            Self::Failed { .. } => Some(Hook::OnFailed),
            Self::Cancelled { .. } => Some(Hook::OnCancel),
        }
    }

    /// Its name in JSON.
    pub const fn status(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Cancelled { .. } => "cancelled",
        }
    }
}
