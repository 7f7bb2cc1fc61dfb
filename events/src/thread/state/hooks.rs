//! The hooks of the run of a thread.

use std::sync::Arc;

use super::{Control, HookRun, Phase, State};
use crate::ids::Time;
use crate::json::Json;

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

    /// When the run has no time left; while hooks run, when the hook has none, whose clock stops in a pause.
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
