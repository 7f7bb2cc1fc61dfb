//! The step between one turn of the loop and the next: the strategy. The loop itself (calls, tools, questions,
//! limits) is the same for all of them; a strategy only says what comes next when the loop has nothing open, and how
//! the next model call is made.

use std::sync::Arc;

use super::super::request::{AnswerForm, ModelBinding, of_profile};
use super::super::state::{AgentLoop, CallConstraints, CustomRun, PlanRun, PlanStage, Stage, StrategyState, Wants};
use super::gate::Gate;
use super::{custom, output, plan};
use crate::event::{LlmExecutionRequest, LoopStrategy, ModelChoice};
use crate::ids::{ProfileId, Time};

/// Where a loop begins.
pub(super) fn begin(request: &LlmExecutionRequest) -> (Stage, StrategyState) {
    match &request.strategy {
        LoopStrategy::React {} => (Stage::ToAsk, StrategyState::React),
        LoopStrategy::PlanAndExecute(_) => {
            (Stage::ToAsk, StrategyState::Plan(Box::new(PlanRun::new(ModelBinding::of(request)))))
        }
        LoopStrategy::MultiLlm(_) => (Stage::ToAsk, StrategyState::Several),
        LoopStrategy::Custom(_) => {
            let run = CustomRun::new(ModelBinding::of(request), request.tools.clone());
            (Stage::ToAsk, StrategyState::Custom(Box::new(run)))
        }
    }
}

impl AgentLoop {
    /// Returns the decision of the strategy before the loop continues.
    pub(in super::super) fn gate(&self, now: Time) -> Gate {
        match &self.course {
            StrategyState::React | StrategyState::Several => Gate::Open,
            StrategyState::Plan(run) => plan::gate(self, run),
            StrategyState::Custom(run) => custom::gate(self, run, now),
        }
    }

    /// The form that the next answer is to have.
    pub(in super::super) fn answer_form(&self) -> Option<AnswerForm> {
        match self.leg.wants {
            Wants::Plan => Some(plan::form()),
            Wants::Anything | Wants::Words => {
                self.request.output.as_ref().filter(|_| self.expects_answer_of_node()).map(output::form)
            }
        }
    }

    /// Whether the next answer is to be that of the node, as far as that is known before it is there.
    fn expects_answer_of_node(&self) -> bool {
        match &self.course {
            StrategyState::React | StrategyState::Several => true,
            StrategyState::Plan(run) => run.stage == PlanStage::Finishing,
            // Only the strategy knows.
            StrategyState::Custom(_) => false,
        }
    }

    /// The next calls are made so.
    pub(super) fn begin_leg(&mut self, wants: Wants) {
        self.leg = CallConstraints { from: self.iteration, wants };
        self.stage = Stage::ToAsk;
    }

    /// The next calls are made to this model.
    pub(super) fn use_model(&mut self, seat: &ModelBinding) {
        let request = Arc::make_mut(&mut self.request);
        request.model.clone_from(&seat.model);
        request.relay = seat.relay;
        request.llm_timeout_ms = seat.llm_timeout_ms;
    }

    /// Replaces all models by the profile of a fork.
    pub(in super::super) fn use_profile(&mut self, profile: &ProfileId, relay: bool) {
        let swap = |model: &mut ModelChoice| *model = of_profile(std::mem::take(model), profile);
        let request = Arc::make_mut(&mut self.request);
        match &mut request.strategy {
            LoopStrategy::React {} | LoopStrategy::Custom(_) => {}
            LoopStrategy::PlanAndExecute(plan) => {
                if let Some(planner) = &mut plan.planner {
                    swap(&mut planner.model);
                    planner.relay = relay;
                }
            }
            LoopStrategy::MultiLlm(panel) => {
                swap(&mut panel.by);
                panel.members.iter_mut().for_each(|member| swap(&mut member.model));
            }
        }
        match &mut self.course {
            StrategyState::React | StrategyState::Several => {}
            StrategyState::Plan(run) => run.own.use_profile(profile, relay),
            StrategyState::Custom(run) => run.own.use_profile(profile, relay),
        }
    }
}
