//! The strategy of a node, with its expressions filled in and its models named.

use super::super::super::request::of_profile;
use super::super::super::{env::Env, state::State};
use crate::event::{Combine, CustomDecider, LoopStrategy, Member, ModelChoice, PanelStrategy, PlanStrategy, Planner};
use crate::expression::ExpressionError;
use crate::fault::{ErrorKind, ExecutionError};
use crate::workflow::{LlmNode, MultiLlm, Node, PlanAndExecute, Strategy, StrategyModel};

/// The most steps of a plan when the node does not say.
const MAX_STEPS_DEFAULT: u32 = 10;
/// How many new plans failed steps may lead to when the node does not say.
const MAX_REPLANS_DEFAULT: u32 = 2;
/// How long a decision of the application may take when the node does not say.
const DECISION_TIMEOUT_MS_DEFAULT: u64 = 60_000;

/// Returns how the loop reaches its answer. `own` is the model of the node.
pub(super) fn plan(
    state: &State,
    node: &Node,
    llm: &LlmNode,
    own: &ModelChoice,
    around: &Env<'_>,
) -> Result<LoopStrategy, ExecutionError> {
    let given = Given { state, node, own, around };
    Ok(match &llm.strategy {
        Strategy::React => LoopStrategy::React {},
        Strategy::PlanAndExecute(plan) => LoopStrategy::PlanAndExecute(Box::new(given.plan(plan)?)),
        Strategy::MultiLlm(multi) => LoopStrategy::MultiLlm(Box::new(given.panel(multi)?)),
        Strategy::Custom(custom) => {
            let context = state.context();
            let fill =
                |(name, value): (&String, &crate::json::Json)| Ok((name.clone(), context.fill(&value.0)?.into()));
            LoopStrategy::Custom(Box::new(CustomDecider {
                name: custom.name.clone(),
                config: custom.config.iter().map(fill).collect::<Result<_, ExpressionError>>()?,
                timeout_ms: custom.timeout_ms.unwrap_or(DECISION_TIMEOUT_MS_DEFAULT),
            }))
        }
    })
}

/// The model of the loop: the node's own or, where it has none, the one that chooses among several.
pub(super) fn of_loop(own: ModelChoice, strategy: &LoopStrategy) -> ModelChoice {
    match strategy {
        LoopStrategy::MultiLlm(panel) if own.profile.is_none() && own.provider.is_none() => panel.by.clone(),
        LoopStrategy::React {}
        | LoopStrategy::PlanAndExecute(_)
        | LoopStrategy::MultiLlm(_)
        | LoopStrategy::Custom(_) => own,
    }
}

struct Given<'a> {
    state: &'a State,
    node: &'a Node,
    own: &'a ModelChoice,
    around: &'a Env<'a>,
}

impl Given<'_> {
    fn plan(&self, plan: &PlanAndExecute) -> Result<PlanStrategy, ExecutionError> {
        let planner = plan.planner.as_ref().map(|planner| {
            let model = self.choice(planner);
            Planner { relay: self.around.models.is_person(&model), model }
        });
        Ok(PlanStrategy {
            max_steps: plan.max_steps.unwrap_or(MAX_STEPS_DEFAULT),
            max_replans: plan.max_replans.unwrap_or(MAX_REPLANS_DEFAULT),
            max_step_iterations: plan.max_step_iterations,
            prompt: self.render(plan.prompt.as_ref())?,
            planner,
        })
    }

    fn panel(&self, multi: &MultiLlm) -> Result<PanelStrategy, ExecutionError> {
        let members: Vec<_> = multi
            .profiles
            .iter()
            .map(|member| Member {
                name: member.label().to_owned(),
                description: member.description.clone(),
                model: self.choice(member),
            })
            .collect();
        let by = multi.by.as_ref().map_or_else(|| self.own.clone(), |by| self.choice(by));
        for (name, model) in members.iter().map(|member| (&*member.name, &member.model)).chain([("by", &by)]) {
            if self.around.models.is_person(model) {
                let message = format!("node `{}`: a person answers for the model `{name}` of multi_llm", self.node.id);
                let hint = "a person cannot be one of several models: use a user_interaction node, or an llm node \
                            of its own for which a person answers";
                return Err(ExecutionError::new(ErrorKind::Configuration, message).caused_by(hint));
            }
        }
        let min_answers = match multi.combine {
            Combine::Judge | Combine::Merge => multi.min_answers.unwrap_or(1),
            Combine::Route => 1,
        };
        Ok(PanelStrategy {
            members,
            combine: multi.combine,
            by,
            min_answers,
            prompt: self.render(multi.prompt.as_ref())?,
        })
    }

    /// The model that is named, or the profile that a fork put in the place of all models.
    fn choice(&self, model: &StrategyModel) -> ModelChoice {
        let choice = model.choice(self.own);
        match &self.state.changes.profile {
            Some(profile) => of_profile(choice, profile),
            None => choice,
        }
    }

    fn render(&self, prompt: Option<&String>) -> Result<Option<String>, ExecutionError> {
        Ok(prompt.map(|text| self.state.context().render(text)).transpose()?)
    }
}
