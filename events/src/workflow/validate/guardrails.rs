//! Checks of guardrails.

use super::parts::{check_condition, check_name, check_template, check_timeout, check_value};
use crate::event::{GuardedContent, GuardrailAction};
use crate::workflow::actions::LlmNode;
use crate::workflow::fault::Fault;
use crate::workflow::guardrails::GuardrailSpec;

/// The most guardrails of a node.
const GUARDRAILS_MAX: usize = 100;

pub(super) fn check(path: &str, llm: &LlmNode, faults: &mut Vec<Fault>) {
    if llm.guardrails.len() > GUARDRAILS_MAX {
        let message = format!("{} guardrails, at most {GUARDRAILS_MAX} are allowed", llm.guardrails.len());
        faults.push(Fault::new(format!("{path}.guardrails"), message));
    }
    for (i, guardrail) in llm.guardrails.iter().enumerate() {
        let path = format!("{path}.guardrails[{i}]");
        check_name(&format!("{path}.name"), "name of the guardrail", &guardrail.name, faults);
        if llm.guardrails.iter().take(i).any(|other| other.name == guardrail.name) {
            let message = format!("there are two guardrails `{}`", guardrail.name);
            faults.push(Fault::new(format!("{path}.name"), message).hint("give one of them another name"));
        }
        check_one(&path, llm, guardrail, faults);
    }
}

fn check_one(path: &str, llm: &LlmNode, guardrail: &GuardrailSpec, faults: &mut Vec<Fault>) {
    let GuardrailSpec { when, judge, function, .. } = guardrail;
    if when.is_none() && judge.is_none() && function.is_none() {
        faults.push(Fault::new(path, "the guardrail checks nothing").hint("give `when`, `judge` or `function`"));
    }
    check_condition(path, when.as_ref(), judge.as_ref(), faults);
    match function {
        Some(name) => {
            check_name(&format!("{path}.function"), "name of the function", name, faults);
            let others = [
                ("when", when.is_some()),
                ("judge", judge.is_some()),
                ("then", guardrail.then.is_some()),
                ("reason", guardrail.reason.is_some()),
            ];
            for (key, _) in others.iter().filter(|(_, is_given)| *is_given) {
                faults.push(
                    Fault::new(format!("{path}.{key}"), "a function decides by itself")
                        .hint("take it out, or take `function` out"),
                );
            }
        }
        None => {
            let of_function =
                [("config", !guardrail.config.is_empty()), ("timeout_ms", guardrail.timeout_ms.is_some())];
            for (key, _) in of_function.iter().filter(|(_, is_given)| *is_given) {
                faults.push(Fault::new(format!("{path}.{key}"), "it belongs to `function`, which is not given"));
            }
        }
    }
    check_timeout(&format!("{path}.timeout_ms"), guardrail.timeout_ms, faults);
    for (name, value) in guardrail.config.iter() {
        check_value(&format!("{path}.config.{name}"), value, faults);
    }
    if let Some(reason) = &guardrail.reason {
        check_template(&format!("{path}.reason"), reason, faults);
    }
    if guardrail.hold.is_some() && guardrail.on != GuardedContent::Answer {
        faults.push(Fault::new(format!("{path}.hold"), "only answers are held back").hint("take it out"));
    }
    check_tools(path, llm, guardrail, faults);
    check_replacement(path, guardrail, faults);
}

/// A tool that is not offered is probably misspelt, and its calls would not be checked.
fn check_tools(path: &str, llm: &LlmNode, guardrail: &GuardrailSpec, faults: &mut Vec<Fault>) {
    let Some(tools) = &guardrail.tools else { return };
    if guardrail.on != GuardedContent::ToolCall {
        faults.push(Fault::new(format!("{path}.tools"), "only calls of tools have a tool").hint("take it out"));
    }
    if tools.is_empty() {
        faults.push(
            Fault::new(format!("{path}.tools"), "the guardrail checks the calls of no tool")
                .hint("take `tools` out to check those of all"),
        );
    }
    let Some(offered) = &llm.available_tools else { return };
    for (i, tool) in tools.iter().enumerate() {
        if !offered.contains(tool) && !llm.offers_beside(tool.as_str()) {
            faults.push(
                Fault::new(format!("{path}.tools[{i}]"), format!("the node does not offer `{tool}`"))
                    .hint("list it under available_tools too, or take it out here"),
            );
        }
    }
}

fn check_replacement(path: &str, guardrail: &GuardrailSpec, faults: &mut Vec<Fault>) {
    let Some(GuardrailAction::Replace(with)) = &guardrail.then else { return };
    let path = format!("{path}.then.replace");
    match (guardrail.on, &*with.0) {
        (GuardedContent::ToolCall, serde_json::Value::Object(_))
        | (GuardedContent::Input | GuardedContent::Answer, serde_json::Value::String(_)) => {}
        (GuardedContent::ToolCall, _) => {
            faults.push(Fault::new(path.clone(), "arguments of a tool are an object"));
        }
        (GuardedContent::Input | GuardedContent::Answer, _) => {
            faults.push(Fault::new(path.clone(), "a message is a text"));
        }
    }
    check_value(&path, with, faults);
}
