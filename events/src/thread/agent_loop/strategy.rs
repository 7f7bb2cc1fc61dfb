//! The step between one turn of the loop and the next: the strategy. The loop itself (calls, tools, questions,
//! limits) is the same for all of them; a strategy only says what comes next when the loop has nothing open, and how
//! the next model call is made.

use std::sync::Arc;

use bincode::{Decode, Encode};

use super::super::request::AnswerForm;
use super::super::request::LLM_TIMEOUT_MS_DEFAULT;
use super::super::request::of_profile;
use super::custom::CustomRun;
use super::plan::{self, PlanRun};
use super::{AgentLoop, Stage};
use crate::event::{Event, LlmExecutionRequest, LoopStrategy, ModelChoice};
use crate::ids::{ProfileId, Time};

/// How far the strategy is.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum StrategyState {
    /// No strategy: the loop ends with the first answer that asks for no tool.
    React,
    /// Several models are to be asked first.
    Several,
    /// A plan and its steps.
    Plan(Box<PlanRun>),
    /// The application decides.
    Custom(Box<CustomRun>),
}

/// How model calls are made from here on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct CallConstraints {
    /// The number of the last model call before.
    pub from: u32,
    /// What the answer is to be.
    pub wants: Wants,
}

/// What an answer is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub enum Wants {
    /// Any answer, with the tools that are offered.
    #[default]
    Anything,
    /// A plan.
    Plan,
    /// Words: no tool is to be used.
    Words,
}

/// Who answers the next model calls.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct ModelBinding {
    /// The model.
    pub model: ModelChoice,
    /// Whether a person answers for it.
    pub relay: bool,
    /// How long one call may take.
    pub llm_timeout_ms: Option<u64>,
}

impl ModelBinding {
    pub(super) fn of(request: &LlmExecutionRequest) -> Self {
        let LlmExecutionRequest { model, relay, llm_timeout_ms, .. } = request;
        Self { model: model.clone(), relay: *relay, llm_timeout_ms: *llm_timeout_ms }
    }

    /// The same place with another model in it.
    pub(super) fn with(&self, model: &ModelChoice, relay: bool) -> Self {
        let llm_timeout_ms =
            if relay == self.relay { self.llm_timeout_ms } else { (!relay).then_some(LLM_TIMEOUT_MS_DEFAULT) };
        Self { model: model.clone(), relay, llm_timeout_ms }
    }

    fn use_profile(&mut self, profile: &ProfileId, relay: bool) {
        let model = of_profile(std::mem::take(&mut self.model), profile);
        *self = self.with(&model, relay);
    }
}

/// Whether the loop may go on.
pub(in super::super) enum Gate {
    /// This comes first.
    Owes(Box<Event>),
    /// Not before an answer.
    Shut,
    /// It may.
    Open,
}

impl Gate {
    pub(super) fn owes(event: impl Into<Event>) -> Self {
        Self::Owes(Box::new(event.into()))
    }
}

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
    /// What the strategy says before the loop goes on.
    pub(in super::super) fn gate(&self, now: Time) -> Gate {
        match &self.course {
            StrategyState::React | StrategyState::Several => Gate::Open,
            StrategyState::Plan(run) => plan::gate(self, run),
            StrategyState::Custom(run) => super::custom::gate(self, run, now),
        }
    }

    /// The form that the next answer is to have.
    pub(in super::super) fn answer_form(&self) -> Option<AnswerForm> {
        match self.leg.wants {
            Wants::Plan => Some(plan::form()),
            Wants::Anything | Wants::Words => None,
        }
    }

    /// The next calls are made so.
    pub(super) fn begin_leg(&mut self, wants: Wants) {
        self.leg = CallConstraints { from: self.iteration, wants };
        self.stage = Stage::ToAsk;
    }

    /// The next calls are made to this model.
    pub(super) fn sit(&mut self, seat: &ModelBinding) {
        let request = Arc::make_mut(&mut self.request);
        request.model.clone_from(&seat.model);
        request.relay = seat.relay;
        request.llm_timeout_ms = seat.llm_timeout_ms;
    }

    /// A fork names a profile in the place of all models.
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

/// The most characters of a fault in a prompt.
const FAULT_CHARS_MAX: usize = 300;

/// An answer that was to be JSON, in a code fence or not, or what is wrong with it, for the model.
pub(super) fn read_json<T: serde::de::DeserializeOwned>(answer: &str) -> Result<T, String> {
    let answer = answer.trim();
    let fenced = answer.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let json = fenced.map_or(answer, |inner| inner.strip_prefix("json").unwrap_or(inner));
    serde_json::from_str(json.trim()).map_err(|e| {
        let why: String = e.to_string().chars().take(FAULT_CHARS_MAX).collect();
        format!("it is not the JSON that was asked for ({why})")
    })
}
