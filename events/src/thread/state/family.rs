//! A thread as the parent of branches, and as a branch.

use std::collections::BTreeMap;

use super::State;
use super::branches::{Branch, BranchOutcome, ForkState, Uncounted};
use super::frames::Frame;
use super::node_run::Work;
use crate::event::AgentTool;
use crate::ids::{NodeId, ThreadId};
use crate::thread::calls::{BranchRun, OpenCall};

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
        match self.fan() {
            Some(fan) => self.calls.get(fan.call(index)?)?.branch(),
            None => self.running_branches().find(|run| run.index == index),
        }
    }

    /// The agent that a branch runs, as its model was offered it.
    pub(in crate::thread) fn agent_of(&self, run: &BranchRun) -> Option<&AgentTool> {
        match &self.node_run()?.work {
            Work::Llm(agent_loop) => agent_loop.agent(&run.agent.as_ref()?.name),
            _ => None,
        }
    }

    /// Whether it is in a fork, or runs agents that a model called.
    pub fn has_branches(&self) -> bool {
        self.fan().is_some() || self.running_branches().next().is_some()
    }

    /// The name of a branch that runs: its name in the fork, or that of the agent.
    pub fn branch_name(&self, run: &BranchRun) -> String {
        match (&run.agent, self.fan()) {
            (Some(agent), _) => agent.name.clone(),
            (None, Some(fan)) => fan.plan.branches.name(run.index),
            (None, None) => String::new(),
        }
    }

    /// The branch that it is.
    pub fn branch(&self) -> Option<&Branch> {
        self.branch.as_ref()
    }

    /// Whether it ends, as a branch, when it reaches this node.
    pub(in crate::thread) fn ends_as_branch_at(&self, node: &NodeId) -> bool {
        self.branch
            .as_ref()
            .is_some_and(|branch| branch.join.as_ref() == Some(node) && branch.n_frames == self.frames.len() as u64)
    }

    /// The report of its end to its parent; `None` if it has not ended.
    pub fn branch_outcome(&self) -> Option<BranchOutcome> {
        self.ending()?;
        let output = match self.error() {
            Some(error) => Err(error),
            None => Ok(self.output().cloned().unwrap_or_default()),
        };
        let conversation = self.agent_conversation().filter(|_| output.is_ok()).map(|_| self.conversation.clone());
        let (globals, totals, is_final) = (self.globals_written(), *self.totals(), self.uncounted.is_empty());
        Some(BranchOutcome { output, globals, totals, is_final, conversation })
    }

    /// The branches, by their threads, that have ended here and have not reported their final sums.
    pub fn uncounted_branches(&self) -> &BTreeMap<ThreadId, Uncounted> {
        &self.uncounted
    }

    /// The name of the conversation of the agent that it is.
    fn agent_conversation(&self) -> Option<&str> {
        let branch = self.branch.as_ref().filter(|branch| branch.join.is_none())?;
        let at = usize::try_from(branch.n_frames).ok()?.checked_sub(1)?;
        match self.frames.get(at)? {
            Frame::Sub(open) => open.aside.as_ref()?.name.as_deref(),
            Frame::Loop(_) => None,
        }
    }
}
