//! Whether a budget in money can hold: every model of the workflow has a known price.

use crate::event::OnUnpriced;
use crate::ids::ProfileId;
use crate::workflow::{Fault, NodeKind, Strategy, Workflow};

/// A model as a workflow names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NamedModel<'a> {
    /// A named profile in place of provider and model.
    pub profile: Option<&'a ProfileId>,
    /// The provider.
    pub provider: Option<&'a str>,
    /// The model's name at the provider.
    pub model: Option<&'a str>,
}

macro_rules! named {
    ($said:expr) => {
        NamedModel {
            profile: $said.profile_id.as_ref(),
            provider: $said.provider.as_deref(),
            model: $said.model.as_deref(),
        }
    };
}

impl Workflow {
    /// The models without a known price, where the workflow has a budget in money and does not allow them; empty when
    /// the budget can hold.
    pub fn unpriced(&self, is_priced: impl Fn(NamedModel<'_>) -> bool) -> Vec<Fault> {
        let Some(budget) = &self.spec.budget else { return Vec::new() };
        let field = if budget.usd.is_some() { "usd" } else { "cost_nanousd" };
        let is_in_money = budget.usd.is_some() || budget.cost_nanousd.is_some();
        if !is_in_money || budget.on_unpriced == OnUnpriced::Allow {
            return Vec::new();
        }
        let mut names: Vec<String> = Vec::new();
        self.each_model(|place, named| {
            let NamedModel { profile, provider, model } = named;
            // A place that names nothing of its own asks a model that is named elsewhere.
            if (profile.is_none() && provider.is_none()) || is_priced(named) {
                return;
            }
            let name = match (profile, provider) {
                (Some(profile), _) => format!("profile `{}` ({place})", profile.as_str()),
                (None, provider) => {
                    format!("model `{}` of `{}` ({place})", model.unwrap_or_default(), provider.unwrap_or_default())
                }
            };
            names.push(name);
        });
        if names.is_empty() {
            return Vec::new();
        }
        let what = format!("a budget in money cannot hold: the price is not known of {}", names.join(", "));
        let hint = "give the profile `prices`, or say `on_unpriced: allow`";
        vec![Fault::new(format!("budget.{field}"), what).hint(hint)]
    }

    fn each_model<'a>(&'a self, mut each: impl FnMut(&str, NamedModel<'a>)) {
        for placed in std::iter::once(&self.main).chain(self.subs.values()).flat_map(|graph| graph.nodes.values()) {
            let NodeKind::Llm(llm) = placed.node.kind() else { continue };
            let path = &placed.path;
            each(path, named!(llm));
            if let Some(summary) = &llm.summary {
                each(&format!("{path}.llm.summary"), named!(summary));
            }
            match &llm.strategy {
                Strategy::React | Strategy::Custom(_) => {}
                Strategy::PlanAndExecute(plan) => {
                    if let Some(planner) = &plan.planner {
                        each(&format!("{path}.llm.strategy.plan_and_execute.planner"), named!(planner));
                    }
                }
                Strategy::MultiLlm(multi) => {
                    for (i, member) in multi.profiles.iter().enumerate() {
                        each(&format!("{path}.llm.strategy.multi_llm.profiles[{i}]"), named!(member));
                    }
                    if let Some(by) = &multi.by {
                        each(&format!("{path}.llm.strategy.multi_llm.by"), named!(by));
                    }
                }
            }
        }
        if let Some(summary) = &self.spec.summary {
            each("summary", named!(summary));
        }
        if let Some(judge) = &self.spec.judge {
            each("judge", named!(judge));
        }
    }
}
