//! The limits of a thread, and what happens when one is reached: its budget in tokens and money, its iterations. A
//! thread that pauses at a limit resumes when the limit is raised, which is an event.

use super::agent_loop::Gate;
use super::calls::BranchRun;
use super::closing;
use super::frames::fail_outwards;
use super::input::Rejected;
use super::state::{AgentLoop, Control, Phase, Stage, State, Totals, UNPRICED, Work};
use crate::event::{
    BudgetExceeded, BudgetLimits, ContextProcessingFailed, Event, LimitRaised, NodeFailed, OnLimit, OnUnpriced,
    ThreadPaused, ThreadResumed, Warning, WarningCode,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{ThreadId, Time};

/// Returns the event, or that the budget is spent: no model call and no branch begins then, and running work is waited
/// for.
pub(super) fn within_budget(state: &State, event: Event, now: Time) -> Option<Event> {
    let spends = matches!(
        event,
        Event::LlmCallRequested(_)
            | Event::ContextSummaryRequested(_)
            | Event::ConditionEvaluationRequested(_)
            | Event::BranchStarted(_)
            | Event::AgentStarted(_)
    );
    match exceeded(state, now).filter(|_| spends) {
        Some(_) if runs(state) => None,
        Some(exceeded) => Some(exceeded.into()),
        None => Some(event),
    }
}

/// Whether a model, a tool or a branch runs. A question about a tool may wait for ever, and is not waited for.
fn runs(state: &State) -> bool {
    state.calls.iter().any(|open| open.model().is_some() || open.is_wanted() && open.question().is_none())
}

fn exceeded(state: &State, now: Time) -> Option<BudgetExceeded> {
    let budget = state.budget()?;
    spent(state, budget, now).or_else(|| unpriced_calls(state, budget, now))
}

/// The limit of a budget that the run has reached.
fn spent(state: &State, budget: &BudgetLimits, now: Time) -> Option<BudgetExceeded> {
    let totals = state.run_totals();
    let tokens = ("tokens", totals.tokens(), budget.tokens);
    let cost = ("cost_nanousd", totals.cost_nanousd.unwrap_or(0), budget.cost_nanousd);
    [tokens, cost].into_iter().find_map(|(what, spent, limit)| {
        let limit = limit.filter(|limit| spent >= *limit)?;
        Some(BudgetExceeded { what: what.to_owned(), spent, limit, at: now })
    })
}

/// A cost that is not known is not counted as zero: it exceeds a budget in money. A person who resumes the thread accepts
/// the calls so far.
fn unpriced_calls(state: &State, budget: &BudgetLimits, now: Time) -> Option<BudgetExceeded> {
    let unpriced = state.unpriced.as_ref()?;
    let is_due = !unpriced.is_recorded || budget.on_exceeded == OnLimit::Fail;
    let is_counted = budget.cost_nanousd.is_some() && budget.on_unpriced == OnUnpriced::Refuse;
    let spent = state.run_totals().n_unpriced;
    (is_due && is_counted).then(|| BudgetExceeded { what: UNPRICED.to_owned(), spent, limit: 0, at: now })
}

/// Returns the consequence of a spent budget: the thread pauses, or the part that wanted to call a model fails, with all
/// that is open in it.
pub(super) fn after_exceeded(state: &State, e: &BudgetExceeded, now: Time) -> Vec<Event> {
    let Some(event) = consequence(state, e) else { return Vec::new() };
    let Event::LlmExecutionFailed(failed) = &event else { return vec![event] };
    // A person may be asked about a call beside the agent that could not start.
    closing::close_work(state, &failed.error, now)
}

fn consequence(state: &State, e: &BudgetExceeded) -> Option<Event> {
    let budget = state.budget()?;
    let resume = format!("rethread resume {}", state.thread());
    let is_branch = state.branch().is_some_and(|branch| branch.owner.is_some());
    let (whose, of_run) = match is_branch {
        true => ("what the run has left of its budget for this branch", ", more than the whole run has spent"),
        false => ("the budget", ""),
    };
    let (spent, how) = match e.what.as_str() {
        UNPRICED => {
            let model = state.unpriced.as_ref().map_or("the model", |unpriced| unpriced.model.as_str());
            let spent = format!(
                "what {model} cost is not known and cannot be counted against the budget in money: give its profile \
                 `prices` in rethread.toml"
            );
            (spent, format!("{resume}; to go on without counting it: {resume} --allow-unpriced"))
        }
        "tokens" => {
            let spent = format!("{whose} is spent: {} of {} tokens", e.spent, e.limit);
            (spent, format!("{resume} --budget-tokens N{of_run}"))
        }
        _ => {
            let spent = format!("{whose} is spent: {} of {} billionths of a US dollar", e.spent, e.limit);
            (spent, format!("{resume} --budget-usd AMOUNT{of_run}"))
        }
    };
    if budget.on_exceeded == OnLimit::Pause {
        return Some(ThreadPaused { reason: Some(format!("{spent}; go on with: {how}")), by: None }.into());
    }
    let spent = if e.what == UNPRICED { format!("{spent}, or say `budget.on_unpriced: allow`") } else { spent };
    let error = ExecutionError::new(ErrorKind::Limit, spent);
    Some(match &state.phase {
        Phase::InNode(run) => match &run.work {
            Work::Llm(agent_loop) => agent_loop.failed(error),
            Work::Processing { call, .. } => ContextProcessingFailed { node_id: None, call_id: *call, error }.into(),
            Work::Branches(_) => {
                NodeFailed { node_id: run.node.clone(), attempt: run.attempt, error, retry_at: None }.into()
            }
            _ => return None,
        },
        Phase::Leaving { node, .. } => fail_outwards(state, Some(node), error),
        Phase::Judging(judging) => fail_outwards(state, Some(&judging.node), error),
        _ => return None,
    })
}

/// Whether no call without a price waits to be accepted by a person.
fn unpriced_is_accepted(state: &State) -> bool {
    state.unpriced.as_ref().is_none_or(|unpriced| !unpriced.is_recorded)
}

/// A thread with a budget in money gets one warning about a call without a known price.
pub(super) fn unpriced(state: &State, event: &Event) -> Option<Event> {
    let used = event.attempt_usage().filter(|used| used.cost_nanousd.is_none())?;
    let is_first = state.run_totals().n_unpriced == 1;
    state.budget().filter(|budget| is_first && budget.cost_nanousd.is_some())?;
    let detail = "what this model call cost is not known, and is not counted against the budget; give the model a \
                  price, or a budget in tokens"
        .to_owned();
    Some(Warning { code: WarningCode::UnknownCost, call_id: Some(used.call_id), detail }.into())
}

/// The end of an agent loop that has no call left, or a pause before it.
pub(super) fn loop_at_limit(state: &State, agent_loop: &AgentLoop) -> Option<Event> {
    if !pauses_at_limit(state) || !is_spent(state, agent_loop) {
        return None;
    }
    let n_max = agent_loop.request.max_iterations;
    pause(state, &format!("node `{}` has called the model {n_max} times (max_iterations)", agent_loop.request.node_id))
}

/// Whether an agent loop has no call left and wants one.
fn is_spent(state: &State, agent_loop: &AgentLoop) -> bool {
    let has_more_to_read = agent_loop.has_answered() && state.conversation.has_unread();
    let has_none_left = (matches!(agent_loop.stage, Stage::ToAsk) || has_more_to_read) && agent_loop.is_at_limit();
    // What the strategy has to say before the next call takes no call.
    agent_loop.has_decided_enough() || has_none_left && matches!(agent_loop.gate(Time::default()), Gate::Open)
}

/// A pause at a limit, where the thread was started to do so.
pub(super) fn pause(state: &State, what: &str) -> Option<Event> {
    pauses_at_limit(state).then(|| {
        let reason = format!("{what}; go on with: rethread resume {} --more N", state.thread());
        ThreadPaused { reason: Some(reason), by: None }.into()
    })
}

/// Whether the thread was started to pause at its limits.
pub(super) fn pauses_at_limit(state: &State) -> bool {
    state.run.as_ref().is_some_and(|run| run.on_limit == OnLimit::Pause)
}

impl State {
    /// Returns whether it is paused at a limit: it resumes when the limit is raised, and not by a plain resume.
    pub fn is_paused_at_limit(&self) -> bool {
        if self.is_paused_for_budget() {
            return true;
        }
        let is_spent = match &self.phase {
            Phase::Entering { .. } | Phase::Leaving { .. } => {
                let (n_entered, n_max) = self.entered_of();
                n_entered >= n_max
            }
            Phase::InNode(node) => match &node.work {
                Work::Llm(agent_loop) => is_spent(self, agent_loop),
                _ => false,
            },
            _ => false,
        };
        self.is_paused() && pauses_at_limit(self) && is_spent
    }

    fn is_paused_for_budget(&self) -> bool {
        let pauses = self.budget().is_some_and(|budget| budget.on_exceeded == OnLimit::Pause);
        self.is_paused() && pauses && (!unpriced_is_accepted(self) || exceeded(self, Time::default()).is_some())
    }

    /// Whether its spent budget paused it, and not a person or its parent.
    fn was_paused_for_budget(&self) -> bool {
        matches!(self.control, Control::Paused { for_budget: true, .. })
    }

    /// Returns whether the limits that its parent leaves this branch change what it may do: see `Input::BudgetLeft`.
    pub fn would_take(&self, left: &LimitRaised) -> bool {
        !left_by_parent(self, left).is_empty()
    }

    /// Returns whether it has a budget that is spent: its branches may call no model either.
    pub fn budget_is_spent(&self) -> bool {
        self.budget().is_some_and(|budget| spent(self, budget, Time::default()).is_some())
    }

    /// Returns what is left of the budget for a branch that runs, as its limits: what it has spent so far, as far as that
    /// is counted here, and what the run has left. `None` without a budget.
    pub fn left_for(&self, run: &BranchRun) -> Option<LimitRaised> {
        let (budget, totals) = (self.budget()?, self.run_totals());
        let left = |limit: Option<u64>, spent: u64, own: u64| {
            limit.map(|limit| limit.saturating_sub(spent).saturating_add(own))
        };
        let cost = |totals: &Totals| totals.cost_nanousd.unwrap_or(0);
        Some(LimitRaised {
            tokens: left(budget.tokens, totals.tokens(), run.spent.tokens()),
            cost_nanousd: left(budget.cost_nanousd, cost(&totals), cost(&run.spent)),
            allow_unpriced: budget.on_unpriced == OnUnpriced::Allow,
            ..LimitRaised::default()
        })
    }

    /// Returns what its parent has to count: the parent, the number of this branch there, and what was spent. `None` for a
    /// thread that is no branch, whose run has no budget, or that has ended, which its end says.
    pub fn spending_for_parent(&self) -> Option<(ThreadId, u32, Totals)> {
        let (owner, index) = self.branch()?.owner.filter(|_| !self.is_ended() && self.budget().is_some())?;
        Some((owner, index, self.run_totals()))
    }
}

/// The limits that its parent leaves a branch. They are recorded if they decide whether the branch may call a model, or let
/// it spend more. A branch that has paused because its budget was spent resumes if they are enough.
pub(super) fn left_by_parent(state: &State, left: &LimitRaised) -> Vec<Event> {
    if state.branch().is_none() || state.run.is_none() || state.run_has_ended() {
        return Vec::new();
    }
    let (totals, budget) = (state.run_totals(), state.budget().cloned().unwrap_or_default());
    let changed = |limit: Option<u64>, left: Option<u64>, spent: u64| {
        let (left, is_spent) = (left?, |limit: u64| spent >= limit);
        let matters = limit.is_none_or(|limit| is_spent(limit) != is_spent(left) || left > limit && !is_spent(left));
        matters.then_some(left)
    };
    let raised = LimitRaised {
        tokens: changed(budget.tokens, left.tokens, totals.tokens()),
        cost_nanousd: changed(budget.cost_nanousd, left.cost_nanousd, totals.cost_nanousd.unwrap_or(0)),
        allow_unpriced: left.allow_unpriced && budget.on_unpriced == OnUnpriced::Refuse,
        ..LimitRaised::default()
    };
    if raised == LimitRaised::default() {
        return Vec::new();
    }
    let is_enough = {
        let tokens = raised.tokens.or(budget.tokens);
        let cost_nanousd = raised.cost_nanousd.or(budget.cost_nanousd);
        spent(state, &BudgetLimits { tokens, cost_nanousd, ..budget }, Time::default()).is_none()
            && (raised.allow_unpriced || unpriced_is_accepted(state))
    };
    let resumed = (state.was_paused_for_budget() && is_enough).then(|| ThreadResumed { by: None }.into());
    std::iter::once(raised.into()).chain(resumed).collect()
}

/// Raises limits; a paused thread resumes.
pub(super) fn raise(state: &State, raised: LimitRaised) -> Result<Vec<Event>, Rejected> {
    // Who it was says the input around this one.
    let raised = LimitRaised { by: None, ..raised };
    if raised == LimitRaised::default() {
        return Err(Rejected::Invalid(
            "give a limit to raise: tokens, cost or iterations, or allow calls without a price".into(),
        ));
    }
    let resumed = state.is_paused().then(|| ThreadResumed { by: None }.into());
    Ok(std::iter::once(raised.into()).chain(resumed).collect())
}
