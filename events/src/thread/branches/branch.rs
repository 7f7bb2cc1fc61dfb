//! The branch that a thread is: how it begins, where it ends, the report to its parent.

use bincode::{Decode, Encode};

use super::{BranchOutcome, ForkState};
use crate::ids::{NodeId, ThreadId, Time};
use crate::thread::calls::{BranchRun, OpenCall, OpenCalls};
use crate::thread::path::Path;
use crate::thread::state::{Phase, State, Totals, Work};
use crate::thread::transition::TransitionError;

/// The branch that a thread is.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Branch {
    /// The thread whose branch it is and its number there; absent in a fork of a branch, which has no parent that
    /// waits.
    pub owner: Option<(ThreadId, u32)>,
    /// The node at which it ends.
    pub join: NodeId,
    /// How many scopes were open at the fork: the join is in the graph of the innermost.
    pub(in crate::thread) n_frames: u64,
}

impl State {
    /// The branches of the fork that it is in.
    pub fn fan(&self) -> Option<&ForkState> {
        match &self.node_run()?.work {
            Work::Branches(fan) => Some(fan),
            _ => None,
        }
    }

    /// The branches that run, in the order of their numbers.
    pub fn running_branches(&self) -> impl Iterator<Item = &BranchRun> {
        self.calls.iter().filter_map(OpenCall::branch)
    }

    /// The branch with this number, if it runs.
    pub fn branch_run(&self, index: u32) -> Option<&BranchRun> {
        self.calls.get(self.fan()?.call(index)?)?.branch()
    }

    /// The branch that it is.
    pub fn branch(&self) -> Option<&Branch> {
        self.branch.as_ref()
    }

    /// Whether it ends, as a branch, when it comes to this node.
    pub(in crate::thread) fn ends_as_branch_at(&self, node: &NodeId) -> bool {
        self.branch.as_ref().is_some_and(|branch| branch.join == *node && branch.n_frames == self.frames.len() as u64)
    }

    /// The report of its end to its parent; `None` if it has not ended.
    pub fn branch_outcome(&self) -> Option<BranchOutcome> {
        self.ending()?;
        let output = match self.error() {
            Some(error) => Err(error),
            None => Ok(self.output().cloned().unwrap_or_default()),
        };
        Some(BranchOutcome { output, globals: self.globals_written(), totals: *self.totals() })
    }

    /// What a branch makes of the state at which its owner forked.
    pub(in crate::thread) fn begin_branch(
        &mut self,
        at: Time,
        owner: ThreadId,
        index: u32,
    ) -> Result<(), TransitionError> {
        let Phase::InNode(run) = &self.phase else {
            return Err(TransitionError("the owner is in no fork"));
        };
        let Work::Branches(fan) = &run.work else {
            return Err(TransitionError("the owner is in no fork"));
        };
        let plan = fan.plan.clone();
        let (entry, item) = plan.branches.beginning(index).ok_or(TransitionError("there is no such branch"))?;
        self.branch =
            Some(Branch { owner: Some((owner, index)), join: plan.join.clone(), n_frames: self.frames.len() as u64 });
        let node = entry.clone();
        self.phase = Phase::Entering { node, attempt: 1, not_before: at, conversation_from: None, key_of: None };
        self.calls = OpenCalls::default();
        self.leave_budget();
        self.totals = Totals::default();
        self.unpriced = None;
        self.path = Path::default();
        self.begin_to_count();
        self.globals.written.clear();
        if let Some((variable, item)) = item {
            self.set_innermost(variable, item.clone());
        }
        Ok(())
    }
}
