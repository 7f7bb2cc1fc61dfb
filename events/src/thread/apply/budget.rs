//! Applies events of limits and budgets: raised, exceeded, left to a branch.

use std::sync::Arc;

use super::super::state::{Frame, Phase, State, UNPRICED, Unpriced, Work};
use super::super::transition::TransitionError;
use crate::event::{BudgetExceeded, BudgetLimits, LimitRaised, OnLimit, OnUnpriced};

impl State {
    pub(super) fn raised(&mut self, e: &LimitRaised) -> Result<(), TransitionError> {
        let run = self.run.as_mut().ok_or(TransitionError("the thread has not begun"))?;
        if e.tokens.is_some() || e.cost_nanousd.is_some() {
            let pause = || BudgetLimits { on_exceeded: OnLimit::Pause, ..BudgetLimits::default() };
            let budget = run.budget.get_or_insert_with(pause);
            budget.tokens = e.tokens.or(budget.tokens);
            budget.cost_nanousd = e.cost_nanousd.or(budget.cost_nanousd);
        }
        if let Some(budget) = run.budget.as_mut().filter(|_| e.allow_unpriced) {
            budget.on_unpriced = OnUnpriced::Allow;
        }
        let Some(more) = e.iterations else {
            return Ok(());
        };
        let of_loop = match &mut self.phase {
            Phase::InNode(node) => match &mut node.work {
                Work::Llm(agent_loop) => Some(&mut Arc::make_mut(&mut agent_loop.request).max_iterations),
                _ => None,
            },
            _ => None,
        };
        let of_sub = self.frames.iter_mut().rev().find_map(|frame| match frame {
            Frame::Sub(open) => Some(&mut open.max_iterations),
            Frame::Loop(_) => None,
        });
        let max = of_loop.or(of_sub).unwrap_or(&mut run.max_iterations);
        *max = max.saturating_add(more);
        Ok(())
    }

    /// Records that the cost of a call is unknown.
    pub(super) fn cost_is_missing(&mut self, model: String) {
        if self.unpriced.as_ref().is_none_or(|unpriced| !unpriced.is_recorded) {
            self.unpriced = Some(Unpriced { model, is_recorded: false });
        }
    }

    pub(super) fn exceeded(&mut self, e: &BudgetExceeded) {
        self.budget_exceeded = true;
        if let Some(unpriced) = self.unpriced.as_mut().filter(|_| e.what == UNPRICED) {
            unpriced.is_recorded = true;
        }
    }

    /// Resumes the thread although the cost of a call that BUDGET_EXCEEDED named is not known.
    pub(super) fn accept_unpriced(&mut self) {
        self.unpriced.take_if(|unpriced| unpriced.is_recorded);
    }

    /// A branch may spend what its owner had left when it began.
    pub(super) fn leave_budget(&mut self) {
        // In a later run that is too little. Its parent says what it may spend (`Input::BudgetLeft`).
        let (tokens, cost) = (self.totals.tokens(), self.totals.cost_nanousd.unwrap_or(0));
        if let Some(budget) = self.run.as_mut().and_then(|run| run.budget.as_mut()) {
            budget.tokens = budget.tokens.map(|limit| limit.saturating_sub(tokens));
            budget.cost_nanousd = budget.cost_nanousd.map(|limit| limit.saturating_sub(cost));
        }
    }
}
