//! Plan and execute: a plan as structured output, each step as a turn of the loop, a new plan when a step fails, the
//! answer at the end (Wang et al., "Plan-and-Solve Prompting", 2023).
//!
//! ```text
//! ToPlan ─▶ Planning ─▶ Next ─▶ Step ─▶ Next … ─▶ Finishing
//!   ▲          │ ▲                │
//!   │          └─┘ no plan: once  │ failed
//!   └─────────────────────────────┘
//! ```

mod words;

#[cfg(test)]
mod tests;

use super::super::state::{AgentLoop, PlanRun, PlanStage, Stage, StrategyState, Wants};
use super::super::transition::TransitionError;
use super::gate::Gate;
use crate::event::{
    LoopStrategy, PlanCompleted, PlanMade, PlanRequested, PlanStepCompleted, PlanStepFailed, PlanStepStarted,
    PlanStrategy,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::message::FinishReason;

pub(super) use words::form;

/// How often the model may be called for one plan before the node fails.
const ATTEMPTS_MAX: u32 = 2;

fn of(agent_loop: &AgentLoop) -> Option<&PlanStrategy> {
    match &agent_loop.request.strategy {
        LoopStrategy::PlanAndExecute(strategy) => Some(strategy),
        LoopStrategy::React {} | LoopStrategy::MultiLlm(_) | LoopStrategy::Custom(_) => None,
    }
}

/// Returns the event before the loop continues.
pub(super) fn gate(agent_loop: &AgentLoop, run: &PlanRun) -> Gate {
    let Some(strategy) = of(agent_loop) else {
        return Gate::Open;
    };
    let node = agent_loop.request.node_id.clone();
    match (&run.stage, &agent_loop.stage) {
        (PlanStage::ToPlan { failed: None }, Stage::ToAsk) => Gate::event(PlanRequested {
            node_id: node,
            replan: run.n_replans,
            attempt: 1,
            prompt: words::first(strategy),
        }),
        (PlanStage::ToPlan { failed: Some((index, error)) }, Stage::ToAsk) => {
            if run.n_replans >= strategy.max_replans {
                return Gate::event(agent_loop.failed(words::given_up(run, strategy, *index, error)));
            }
            let prompt = words::anew(run, strategy, *index, error);
            Gate::event(PlanRequested { node_id: node, replan: run.n_replans + 1, attempt: 1, prompt })
        }
        (PlanStage::Planning { attempt }, Stage::Answered { content, .. }) => match words::read(content, strategy) {
            Ok(steps) => Gate::event(PlanMade { node_id: node, replan: run.n_replans, steps }),
            Err(fault) if *attempt < ATTEMPTS_MAX => {
                let prompt = words::once_more(&fault, strategy);
                Gate::event(PlanRequested { node_id: node, replan: run.n_replans, attempt: attempt + 1, prompt })
            }
            Err(fault) => {
                let message = format!("the model made no plan, asked {ATTEMPTS_MAX} times: {fault}");
                Gate::event(agent_loop.failed(ExecutionError::retryable(ErrorKind::MalformedResponse, message)))
            }
        },
        (PlanStage::Next(index), Stage::ToAsk) => match run.steps.get(*index as usize) {
            Some(step) => {
                let prompt = words::step(run, *index, step);
                Gate::event(PlanStepStarted { node_id: node, index: *index, step: step.clone(), prompt })
            }
            None => Gate::event(PlanCompleted { node_id: node, prompt: words::FINISH.to_owned() }),
        },
        (PlanStage::Step(index), Stage::Answered { content, finish_reason }) => {
            let n_llm_calls = agent_loop.iteration - agent_loop.leg.from;
            match failure(content, *finish_reason) {
                Some(error) => Gate::event(PlanStepFailed { node_id: node, index: *index, error }),
                None => Gate::event(PlanStepCompleted { node_id: node, index: *index, n_llm_calls }),
            }
        }
        (PlanStage::Step(index), Stage::ToAsk) => {
            let n_calls = agent_loop.iteration - agent_loop.leg.from;
            match strategy.max_step_iterations.filter(|max| n_calls >= *max) {
                Some(max) => {
                    let message = format!("the model was called {max} times for this step (max_step_iterations)");
                    let error = ExecutionError::new(ErrorKind::Limit, message);
                    Gate::event(PlanStepFailed { node_id: node, index: *index, error })
                }
                None => Gate::Open,
            }
        }
        // Running steps continue; the answer at the end is that of the loop.
        _ => Gate::Open,
    }
}

/// Returns why a step was not done, if its answer says so.
fn failure(content: &str, finish_reason: FinishReason) -> Option<ExecutionError> {
    if finish_reason == FinishReason::Refusal {
        return Some(ExecutionError::new(ErrorKind::Denied, format!("the model refused: {}", words::shown(content))));
    }
    let why = content.trim_start().strip_prefix(words::FAILED)?;
    Some(ExecutionError::new(ErrorKind::Failed, words::shown(why.trim())))
}

impl AgentLoop {
    fn plan_mut(&mut self) -> Result<&mut PlanRun, TransitionError> {
        match &mut self.course {
            StrategyState::Plan(run) => Ok(run),
            StrategyState::React | StrategyState::Several | StrategyState::Custom(_) => {
                Err(TransitionError("the loop follows no plan"))
            }
        }
    }

    /// Applies the request for a plan.
    pub(in super::super) fn plan_requested(&mut self, event: &PlanRequested) -> Result<(), TransitionError> {
        let planner = of(self).and_then(|strategy| strategy.planner.clone());
        let has_answered = self.has_answered();
        let is_between = matches!(self.stage, Stage::ToAsk);
        let run = self.plan_mut()?;
        let fits = match &run.stage {
            PlanStage::ToPlan { .. } => event.attempt == 1 && is_between,
            PlanStage::Planning { attempt } => event.attempt == attempt + 1 && has_answered,
            PlanStage::Next(_) | PlanStage::Step(_) | PlanStage::Finishing => false,
        };
        if !fits {
            return Err(TransitionError("no plan is due"));
        }
        run.n_replans = event.replan;
        run.stage = PlanStage::Planning { attempt: event.attempt };
        if let Some(planner) = planner {
            let seat = run.own.with(&planner.model, planner.relay);
            self.use_model(&seat);
        }
        self.begin_leg(Wants::Plan);
        Ok(())
    }

    /// The last answer is a plan.
    pub(in super::super) fn plan_made(&mut self, event: &PlanMade) -> Result<(), TransitionError> {
        let has_answered = self.has_answered();
        let run = self.plan_mut()?;
        if !matches!(run.stage, PlanStage::Planning { .. }) || !has_answered {
            return Err(TransitionError("no plan is due"));
        }
        run.steps.clone_from(&event.steps);
        run.stage = PlanStage::Next(0);
        let own = run.own.clone();
        self.use_model(&own);
        self.stage = Stage::ToAsk;
        Ok(())
    }

    /// A step begins.
    pub(in super::super) fn plan_step_started(&mut self, event: &PlanStepStarted) -> Result<(), TransitionError> {
        let run = self.plan_mut()?;
        if run.stage != PlanStage::Next(event.index) || run.steps.get(event.index as usize) != Some(&event.step) {
            return Err(TransitionError("no such step of the plan is due"));
        }
        run.stage = PlanStage::Step(event.index);
        self.begin_leg(Wants::Anything);
        Ok(())
    }

    /// A step was done.
    pub(in super::super) fn plan_step_completed(&mut self, event: &PlanStepCompleted) -> Result<(), TransitionError> {
        if !self.has_answered() {
            return Err(TransitionError("the model has not given its final answer"));
        }
        self.leave_step(event.index, PlanStage::Next(event.index + 1))
    }

    /// A step could not be done.
    pub(in super::super) fn plan_step_failed(&mut self, event: &PlanStepFailed) -> Result<(), TransitionError> {
        if !self.has_answered() && !matches!(self.stage, Stage::ToAsk) {
            return Err(TransitionError("the step is still running"));
        }
        let failed = Some((event.index, event.error.clone()));
        self.leave_step(event.index, PlanStage::ToPlan { failed })
    }

    fn leave_step(&mut self, index: u32, next: PlanStage) -> Result<(), TransitionError> {
        let run = self.plan_mut()?;
        if run.stage != PlanStage::Step(index) {
            return Err(TransitionError("no such step of the plan is being done"));
        }
        run.stage = next;
        self.stage = Stage::ToAsk;
        Ok(())
    }

    /// Applies the end of all steps; the model is called for the answer.
    pub(in super::super) fn plan_completed(&mut self) -> Result<(), TransitionError> {
        let run = self.plan_mut()?;
        if run.stage != PlanStage::Next(u32::try_from(run.steps.len()).unwrap_or(u32::MAX)) {
            return Err(TransitionError("the plan has steps left"));
        }
        run.stage = PlanStage::Finishing;
        self.begin_leg(Wants::Words);
        Ok(())
    }
}
