//! The models of an agent loop: which of them a call goes to that names none.

use super::call::ModelName;
use crate::event::{Aside, Event, LlmExecutionRequest, LoopStrategy, ModelChoice};

/// The names of the events that say which model the calls of an agent loop go to.
pub const MODEL_EVENTS: [&str; 6] = [
    "LLM_EXECUTION_REQUEST",
    "PLAN_REQUESTED",
    "PLAN_MADE",
    "CANDIDATE_CHOSEN",
    "CANDIDATES_GATHERED",
    "THREAD_FORKED",
];

/// The models of the last agent loop of a thread.
#[derive(Debug, Clone)]
pub(super) struct LoopModels {
    /// That of the loop.
    own: ModelName,
    /// That of its next call.
    next: ModelName,
    planner: Option<ModelName>,
    members: Vec<ModelName>,
    /// The model that chooses among the members, or writes one answer from theirs.
    by: Option<ModelName>,
}

impl From<&ModelChoice> for ModelName {
    fn from(choice: &ModelChoice) -> Self {
        Self {
            profile: choice.profile.as_ref().map(ToString::to_string),
            provider: choice.provider.clone(),
            model: choice.model.clone(),
        }
    }
}

impl LoopModels {
    pub(super) fn of(request: &LlmExecutionRequest) -> Self {
        let own = ModelName::from(&request.model);
        let (mut planner, mut members, mut by) = (None, Vec::new(), None);
        match &request.strategy {
            LoopStrategy::React {} | LoopStrategy::Custom(_) => {}
            LoopStrategy::PlanAndExecute(plan) => planner = plan.planner.as_ref().map(|it| (&it.model).into()),
            LoopStrategy::MultiLlm(panel) => {
                members = panel.members.iter().map(|member| (&member.model).into()).collect();
                by = Some((&panel.by).into());
            }
        }
        Self { next: own.clone(), own, planner, members, by }
    }

    /// Adds an event of the loop.
    pub(super) fn follow(&mut self, event: &Event) {
        let next = if let Event::PlanRequested(_) = event {
            self.planner.clone()
        } else if let Event::PlanMade(_) = event {
            Some(self.own.clone())
        } else if let Event::CandidateChosen(e) = event {
            self.members.get(e.index as usize).cloned()
        } else if let Event::CandidatesGathered(_) = event {
            self.by.clone()
        } else if let Event::ThreadForked(e) = event {
            // All calls of the fork go to the profile.
            let profile = e.changes.profile.as_ref().map(ToString::to_string);
            let name = profile.map(|profile| ModelName { profile: Some(profile), ..ModelName::default() });
            if let Some(name) = &name {
                let others = self.planner.iter_mut().chain(&mut self.members).chain(&mut self.by);
                others.chain([&mut self.own]).for_each(|model| model.clone_from(name));
            }
            name
        } else {
            None
        };
        self.next = next.unwrap_or_else(|| std::mem::take(&mut self.next));
    }

    /// Returns the model that a call goes to.
    pub(super) fn of_call(&self, aside: Option<&Aside>) -> ModelName {
        let aside = match aside {
            Some(Aside::Candidate { index }) => self.members.get(*index as usize),
            Some(Aside::Choice { .. }) => self.by.as_ref(),
            None => None,
        };
        aside.unwrap_or(&self.next).clone()
    }
}
