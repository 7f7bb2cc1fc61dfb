//! What events of branches make of the state of the thread that started them.

use super::super::branches::ForkState;
use super::super::calls::OpenCalls;
use super::super::state::{NodeRun, Phase, State, Work};
use super::super::transition::{NO_NODE, TransitionError};
use crate::event::{BranchEnded, BranchStarted, ForkStarted, JoinCompleted};
use crate::ids::Seq;

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
            return Err(TransitionError("branches of that node are running still"));
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
}
