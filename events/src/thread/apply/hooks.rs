//! What events of hooks make of the state of their thread.

use std::sync::Arc;

use super::super::state::{Control, FailedHook, HookRun, Phase, State};
use super::super::transition::{ENDED, NOT_BEGUN, OPEN_CALL, TransitionError};
use super::entering;
use crate::event::{Hook, HookEnded, HookStarted, RunEnding};
use crate::ids::{NodeId, Time};

const NOT_DUE: TransitionError = TransitionError("no such hook is due");

impl State {
    pub(super) fn begin_hook(&mut self, at: Time, e: &HookStarted) -> Result<(), TransitionError> {
        self.may_end()?;
        if !self.is_hook_due(e) {
            return Err(NOT_DUE);
        }
        let (failed, output) = match self.hooks.take() {
            Some(before) => (before.failed.clone(), before.output.clone()),
            None => (Vec::new(), self.variables.get("output").cloned()),
        };
        self.hooks = Some(Arc::new(HookRun {
            hook: e.hook,
            ending: e.ending.clone(),
            deadline: e.deadline,
            by: e.by.clone(),
            failed,
            output,
        }));
        self.control = Control::Running;
        self.n_entered = 0;
        self.phase = entering(&e.node_id, at);
        Ok(())
    }

    /// Whether the run comes to this hook next.
    fn is_hook_due(&self, e: &HookStarted) -> bool {
        if self.branch.is_some() || e.hook != Hook::Finally && e.ending.own_hook() != Some(e.hook) {
            return false;
        }
        match (&self.hooks, &e.ending) {
            (Some(before), _) => {
                self.is_between_hooks() && before.hook < e.hook && before.ending.status() == e.ending.status()
            }
            (None, RunEnding::Completed { node_id }) => self.leaves(node_id),
            (None, RunEnding::Failed { .. } | RunEnding::Cancelled { .. }) => true,
        }
    }

    /// Whether the run ends as completed at this node, now that its hooks are over.
    pub(super) fn completes_at(&self, id: &NodeId) -> bool {
        let completed = self.hooks.as_ref().filter(|hooks| hooks.failed.is_empty()).map(|hooks| &hooks.ending);
        matches!(completed, Some(RunEnding::Completed { node_id }) if node_id == id)
    }

    fn leaves(&self, id: &NodeId) -> bool {
        matches!(&self.phase, Phase::Leaving { node, .. } if node == id)
    }

    pub(super) fn end_hook(&mut self, e: &HookEnded) -> Result<(), TransitionError> {
        self.may_end()?;
        let is_over = self.is_between_hooks();
        let hooks = self.hooks.as_mut().filter(|hooks| !is_over && hooks.hook == e.hook);
        let hooks = Arc::make_mut(hooks.ok_or(TransitionError("no such hook runs"))?);
        if let Some(error) = &e.error {
            hooks.failed.push(FailedHook { hook: e.hook, node: e.node_id.clone(), error: error.clone() });
        }
        self.restore_output();
        self.phase = Phase::BetweenHooks;
        Ok(())
    }

    /// The output of the run takes the place of that of the nodes of a hook.
    pub(super) fn restore_output(&mut self) {
        let Some(hooks) = self.hooks.as_ref().filter(|_| self.branch.is_none()) else { return };
        let variables = Arc::make_mut(&mut self.variables);
        match &hooks.output {
            Some(output) => {
                variables.insert("output".into(), output.clone());
            }
            None => {
                variables.shift_remove("output");
            }
        }
    }

    /// Nothing is open that keeps the run from ending.
    pub(super) fn may_end(&self) -> Result<(), TransitionError> {
        match &self.phase {
            Phase::New => return Err(NOT_BEGUN),
            Phase::Ended(_) => return Err(ENDED),
            Phase::InNode(_) => return Err(OPEN_CALL),
            Phase::Judging(_) if !self.calls.is_empty() => return Err(OPEN_CALL),
            Phase::Judging(_)
            | Phase::Entering { .. }
            | Phase::Leaving { .. }
            | Phase::Failing { .. }
            | Phase::BetweenHooks => {}
        }
        if self.own_frames().is_empty() {
            Ok(())
        } else {
            Err(TransitionError("a loop or a sub-workflow is still open"))
        }
    }
}
