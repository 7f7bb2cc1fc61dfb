//! A run that is ending, and goes on with its hooks.

use std::sync::Arc;

use bincode::{Decode, Encode};
use serde_json::{Value, json};

use super::{Control, Phase, State};
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

impl State {
    /// The hooks of the run that is ending; in a branch of one of them, those of its parent. `None` if the run is not
    /// ending.
    pub fn hooks(&self) -> Option<&HookRun> {
        self.hooks.as_deref()
    }

    /// The hooks of the run, and not those of a parent: a branch has none, and ends as one.
    pub(in crate::thread) fn own_hooks(&self) -> Option<&HookRun> {
        self.hooks().filter(|_| self.branch.is_none())
    }

    /// When the run has no time left; while hooks run, when the hook has none, whose clock stands still in a pause.
    pub(in crate::thread) fn time_limit(&self) -> Option<Time> {
        match (&self.hooks, &self.control) {
            (Some(hooks), Control::Running) => Some(hooks.deadline),
            (Some(_), Control::Paused { .. }) => None,
            (None, _) => self.run.as_ref()?.deadline,
        }
    }

    /// Whether a hook is over and the next one has not begun.
    pub(in crate::thread) fn is_between_hooks(&self) -> bool {
        matches!(self.phase, Phase::BetweenHooks)
    }

    /// A variable of the thread was set: what a hook sets as `output` is the output of the run.
    pub(in crate::thread) fn note_output(&mut self, name: &str, value: &Json) {
        if name == "output"
            && self.branch.is_none()
            && let Some(hooks) = &mut self.hooks
        {
            Arc::make_mut(hooks).output = Some(value.clone());
        }
    }
}
