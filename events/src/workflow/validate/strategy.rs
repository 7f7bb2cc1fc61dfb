//! Checks the strategy of an `llm` node.

use std::collections::BTreeSet;

use super::parts::{check_depth, check_model, check_name, check_range, check_template, check_timeout, check_value};
use crate::event::Combine;
use crate::workflow::actions::LlmNode;
use crate::workflow::fault::Fault;
use crate::workflow::strategy::{CustomStrategy, MultiLlm, PlanAndExecute, Strategy, StrategyModel};

/// The most models that one question may be sent to.
const MEMBERS_MAX: usize = 16;
/// The most steps of a plan.
const PLAN_STEPS_MAX: u64 = 100;
/// The most new plans.
const REPLANS_MAX: u64 = 100;

/// Checks the strategy, and that the node has the model that it needs.
pub(super) fn check(path: &str, llm: &LlmNode, faults: &mut Vec<Fault>) {
    let own = |faults: &mut Vec<Fault>| {
        check_model(path, llm.profile_id.as_ref(), llm.provider.as_ref(), llm.model.as_ref(), faults);
    };
    let strategy = format!("{path}.strategy");
    match &llm.strategy {
        Strategy::React => own(faults),
        Strategy::PlanAndExecute(plan) => {
            own(faults);
            check_plan(&format!("{strategy}.plan_and_execute"), plan, faults);
        }
        Strategy::MultiLlm(multi) => {
            let has_own = llm.profile_id.is_some() || llm.provider.is_some() || llm.model.is_some();
            if has_own {
                own(faults);
            }
            check_multi(&format!("{strategy}.multi_llm"), multi, has_own, faults);
        }
        Strategy::Custom(custom) => {
            own(faults);
            check_custom(&format!("{strategy}.custom"), custom, faults);
        }
    }
}

fn check_plan(path: &str, plan: &PlanAndExecute, faults: &mut Vec<Fault>) {
    if let Some(n) = plan.max_steps {
        if n == 0 {
            faults.push(
                Fault::new(format!("{path}.max_steps"), "a plan has at least one step")
                    .hint("give a number from 1 on, or leave it away for 10"),
            );
        } else {
            check_range(&format!("{path}.max_steps"), u64::from(n), 1, PLAN_STEPS_MAX, faults);
        }
    }
    if let Some(n) = plan.max_replans {
        check_range(&format!("{path}.max_replans"), u64::from(n), 0, REPLANS_MAX, faults);
    }
    if let Some(n) = plan.max_step_iterations {
        check_range(&format!("{path}.max_step_iterations"), u64::from(n), 1, 100_000, faults);
    }
    if let Some(planner) = &plan.planner {
        check_strategy_model(&format!("{path}.planner"), planner, faults);
    }
    check_prompt(path, plan.prompt.as_ref(), faults);
}

fn check_multi(path: &str, multi: &MultiLlm, has_own: bool, faults: &mut Vec<Fault>) {
    let n = multi.profiles.len();
    if n < 2 {
        let what = match n {
            0 => "there is no model to put the question to",
            _ => "one model alone needs no strategy",
        };
        faults.push(
            Fault::new(format!("{path}.profiles"), what).hint("list at least two profiles, or leave the strategy away"),
        );
    } else if n > MEMBERS_MAX {
        faults.push(
            Fault::new(format!("{path}.profiles"), format!("{n} models, at most {MEMBERS_MAX} are asked"))
                .hint("keep those that differ most; more of them add little but cost"),
        );
    }
    let mut names = BTreeSet::new();
    for (i, member) in multi.profiles.iter().enumerate() {
        let path = format!("{path}.profiles[{i}]");
        check_strategy_model(&path, member, faults);
        if let Some(name) = &member.name {
            check_name(&format!("{path}.name"), "name", name, faults);
        }
        if !member.label().is_empty() && !names.insert(member.label()) {
            faults.push(
                Fault::new(&path, format!("two models are called `{}`", member.label()))
                    .hint("give one of them another `name`"),
            );
        }
    }
    match &multi.by {
        Some(by) => {
            check_strategy_model(&format!("{path}.by"), by, faults);
            check_by_is_a_model(path, by, faults);
        }
        None if !has_own => {
            let (what, who) = match multi.combine {
                Combine::Judge => ("no model is there to judge the answers", "judges"),
                Combine::Merge => ("no model is there to merge the answers", "merges"),
                Combine::Route => ("no model is there to route the question", "routes"),
            };
            faults.push(
                Fault::new(format!("{path}.combine"), what)
                    .hint(format!("name the model that {who} under `by`, or give the node a profile_id")),
            );
        }
        None => {}
    }
    if let Some(least) = multi.min_answers {
        if multi.combine == Combine::Route {
            faults.push(
                Fault::new(format!("{path}.min_answers"), "where one model is picked, only that one answers")
                    .hint("take it out"),
            );
        }
        let most = u64::try_from(n).unwrap_or(u64::MAX).max(1);
        check_range(&format!("{path}.min_answers"), u64::from(least), 1, most, faults);
    }
    check_prompt(path, multi.prompt.as_ref(), faults);
}

fn check_by_is_a_model(path: &str, by: &StrategyModel, faults: &mut Vec<Fault>) {
    if by.provider.as_deref() == Some("human") {
        faults.push(
            Fault::new(format!("{path}.by.provider"), "a person neither judges, merges nor routes here")
                .hint("ask with a user_interaction node, and route on what it sets"),
        );
    }
}

fn check_custom(path: &str, custom: &CustomStrategy, faults: &mut Vec<Fault>) {
    check_name(&format!("{path}.name"), "strategy's name", &custom.name, faults);
    check_timeout(&format!("{path}.timeout_ms"), custom.timeout_ms, faults);
    for (name, value) in custom.config.iter() {
        check_value(&format!("{path}.config.{name}"), value, faults);
    }
}

fn check_strategy_model(path: &str, model: &StrategyModel, faults: &mut Vec<Fault>) {
    check_model(path, model.profile_id.as_ref(), model.provider.as_ref(), model.model.as_ref(), faults);
    if let Some(extra) = &model.extra {
        if !extra.0.is_object() {
            faults.push(Fault::new(format!("{path}.extra"), "not an object"));
        }
        check_depth(&format!("{path}.extra"), extra, faults);
    }
}

fn check_prompt(path: &str, prompt: Option<&String>, faults: &mut Vec<Fault>) {
    if let Some(prompt) = prompt {
        if prompt.trim().is_empty() {
            faults.push(Fault::new(format!("{path}.prompt"), "the prompt is empty").hint("leave it away"));
        }
        check_template(&format!("{path}.prompt"), prompt, faults);
    }
}
