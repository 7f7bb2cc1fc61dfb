//! Checks the models of a workflow: known prices for a budget in money, their provider, counts of tokens.

use crate::event::OnUnpriced;
use crate::ids::ProfileId;
use crate::json::Json;
use crate::workflow::actions::LlmNode;
use crate::workflow::definition::Workflow;
use crate::workflow::fault::Fault;
use crate::workflow::graph::Placed;
use crate::workflow::models::Summary;
use crate::workflow::node::NodeKind;
use crate::workflow::strategy::Strategy;

/// A model as a workflow names it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct NamedModel<'a> {
    /// A named profile in place of provider and model.
    pub profile: Option<&'a ProfileId>,
    /// The provider.
    pub provider: Option<&'a str>,
    /// The model's name at the provider.
    pub model: Option<&'a str>,
    /// Further fields of its requests.
    pub extra: Option<&'a Json>,
}

macro_rules! named {
    ($said:expr) => {
        NamedModel {
            profile: $said.profile_id.as_ref(),
            provider: $said.provider.as_deref(),
            model: $said.model.as_deref(),
            extra: $said.extra.as_ref(),
        }
    };
}

impl Workflow {
    /// The models without a known price, where the workflow has a budget in money and does not allow them; empty when
    /// the budget can hold.
    pub fn unpriced(&self, is_priced: impl Fn(NamedModel<'_>) -> bool) -> Vec<Fault> {
        let of_thread = self.spec.thread.as_ref().and_then(|limits| limits.budget.as_ref());
        let budgets = [("budget", self.spec.budget.as_ref()), ("thread.budget", of_thread)];
        let in_money = budgets.into_iter().find_map(|(path, budget)| {
            let budget = budget.filter(|budget| budget.on_unpriced != OnUnpriced::Allow)?;
            let amounts = [("usd", budget.usd.is_some()), ("cost_nanousd", budget.cost_nanousd.is_some())];
            let (field, _) = amounts.into_iter().find(|(_, is_given)| *is_given)?;
            Some(format!("{path}.{field}"))
        });
        let Some(path) = in_money else { return Vec::new() };
        let mut names: Vec<String> = Vec::new();
        self.each_model(|place, named| {
            let NamedModel { profile, provider, model, .. } = named;
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
        vec![Fault::new(path, what).hint(hint)]
    }

    /// The models that this program lacks, each with why.
    pub fn unavailable(&self, why: impl Fn(NamedModel<'_>) -> Option<String>) -> Vec<Fault> {
        let mut faults = Vec::new();
        self.each_model(|place, named| faults.extend(why(named).map(|why| Fault::new(place, why))));
        faults
    }

    /// The faults of the further fields of requests (`extra`), each with its path in them.
    pub fn unfit_extras(&self, faults_of: impl Fn(NamedModel<'_>) -> Vec<Fault>) -> Vec<Fault> {
        let mut faults = Vec::new();
        self.each_model(|place, named| {
            let own = self.placed().find(|placed| placed.path == place);
            // Its strategy may call other models alone, so it may lack what a model needs.
            let may_be_unused = own.is_some_and(|placed| match placed.node.kind() {
                NodeKind::Llm(llm) => matches!(llm.strategy, Strategy::MultiLlm(_) | Strategy::Custom(_)),
                _ => false,
            });
            let of_node = if own.is_some() { ".llm" } else { "" };
            let found = faults_of(named).into_iter().filter(|fault| !may_be_unused || fault.path.contains(['.', '[']));
            faults.extend(found.map(|fault| Fault { path: format!("{place}{of_node}.extra.{}", fault.path), ..fault }));
        });
        faults
    }

    /// The parameters of nodes that their models refuse: a field of the node, and why.
    pub fn refused(&self, refused: impl Fn(NamedModel<'_>, &LlmNode) -> Vec<(&'static str, String)>) -> Vec<Fault> {
        let mut faults = Vec::new();
        for placed in self.placed() {
            let NodeKind::Llm(llm) = placed.node.kind() else { continue };
            for (field, why) in refused(named!(llm), llm) {
                faults.push(Fault::new(format!("{}.llm.{field}", placed.path), why));
            }
        }
        faults
    }

    /// Limits that were written as a number of counted tokens, for a program that cannot count them.
    pub fn counted_limits(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut refuse = |place: String, summary: Option<&Summary>| {
            if summary.and_then(|summary| summary.token_limit).is_some_and(|limit| limit.tokens().is_some()) {
                let what = "needs counts of tokens, which are not compiled in: enable the feature `tokens`";
                faults.push(Fault::new(format!("{place}.token_limit"), what).hint("or say `off`"));
            }
        };
        for placed in self.placed() {
            if let NodeKind::Llm(llm) = placed.node.kind() {
                refuse(format!("{}.llm.summary", placed.path), llm.summary.as_ref());
            }
        }
        refuse("summary".to_owned(), self.spec.summary.as_ref());
        faults
    }

    fn placed(&self) -> impl Iterator<Item = &Placed> {
        std::iter::once(&self.main).chain(self.subs.values()).flat_map(|graph| graph.nodes.values())
    }

    /// Calls this with every place that names a model, and with the model.
    pub fn each_model<'a>(&'a self, mut each: impl FnMut(&str, NamedModel<'a>)) {
        for placed in self.placed() {
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
