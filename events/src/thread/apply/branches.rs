//! Applies events of branches to the state of their parent.

use super::super::calls::OpenCalls;
use super::super::path::Path;
use super::super::state::{Branch, ForkState, NodeRun, Phase, State, Totals, Work};
use super::super::transition::{NO_NODE, TransitionError};
use crate::event::{BranchEnded, BranchStarted, ForkStarted, JoinCompleted};
use crate::ids::{Seq, ThreadId, Time};

impl State {
    pub(super) fn plan_branches(&mut self, seq: Seq, e: &ForkStarted) -> Result<(), TransitionError> {
        *self.ready(&e.node_id)? = Work::Branches(Box::new(ForkState::new(e, seq)));
        Ok(())
    }

    pub(super) fn start_branch(&mut self, seq: Seq, e: &BranchStarted) -> Result<(), TransitionError> {
        let owner = self.thread;
        let (fan, calls) = self.fan_mut()?;
        calls.insert(fan.start(seq, owner, e)?);
        Ok(())
    }

    pub(super) fn end_branch(&mut self, e: &BranchEnded) -> Result<(), TransitionError> {
        let (fan, calls) = self.fan_mut()?;
        calls.close(fan.end(e)?)?;
        self.totals.n_llm_calls = self.totals.n_llm_calls.saturating_add(e.n_llm_calls);
        self.totals.n_tool_calls = self.totals.n_tool_calls.saturating_add(e.n_tool_calls);
        self.totals.usage.add(&e.usage);
        self.totals.add_cost(e.cost_nanousd);
        self.totals.n_unpriced = self.totals.n_unpriced.saturating_add(e.n_unpriced);
        if e.n_unpriced > 0 {
            let name = self.fan().map(|fan| fan.plan.branches.name(e.index)).unwrap_or_default();
            self.cost_is_missing(format!("a model that branch `{name}` called"));
        }
        for (name, value) in e.globals.iter() {
            self.set_global(name, value.clone());
        }
        Ok(())
    }

    pub(super) fn join(&mut self, e: &JoinCompleted) -> Result<(), TransitionError> {
        let (fan, calls) = self.fan_mut()?;
        if fan.plan.node_id != e.node_id || !calls.is_empty() {
            return Err(TransitionError("branches of that node are still running"));
        }
        let (named, all) = fan.results();
        let into = fan.plan.into.clone();
        if let Some(into) = into {
            self.set_here(&into, all.clone());
        }
        *self.work()? = Work::Done { output: all };
        for (name, value) in named {
            self.set_here(&name, value);
        }
        Ok(())
    }

    pub(super) fn fan_mut(&mut self) -> Result<(&mut ForkState, &mut OpenCalls), TransitionError> {
        match &mut self.phase {
            Phase::InNode(NodeRun { work: Work::Branches(fan), .. }) => Ok((fan, &mut self.calls)),
            Phase::InNode(_) => Err(TransitionError("the thread is in no fork")),
            _ => Err(NO_NODE),
        }
    }

    /// Turns the state at which the parent forked into that of a branch.
    pub(super) fn begin_branch(&mut self, at: Time, owner: ThreadId, index: u32) -> Result<(), TransitionError> {
        let Phase::InNode(run) = &self.phase else {
            return Err(TransitionError("the parent is in no fork"));
        };
        let Work::Branches(fan) = &run.work else {
            return Err(TransitionError("the parent is in no fork"));
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
