//! Checks of the nodes that decide where a thread goes, each by itself.

use super::parts::{
    check_condition as check_either, check_range, check_text, check_timeout, check_value, check_variable,
};
use crate::codec::OrderedMap;
use crate::json::Json;
use crate::workflow::child::StartThreadNode;
use crate::workflow::fault::Fault;
use crate::workflow::flow::{ConditionNode, ForkNode, JoinMode, JoinNode, RouteNode, SubWorkflowNode};

/// The most branches of a fork.
const BRANCHES_MAX: u64 = 1_000_000;
/// The most branches that may run at once.
const CONCURRENCY_MAX: u64 = 10_000;

pub(super) fn check_route(path: &str, route: &RouteNode, faults: &mut Vec<Fault>) {
    for (i, condition) in route.conditions.iter().enumerate() {
        let path = format!("{path}.conditions[{i}]");
        check_either(&path, condition.when.as_ref(), condition.judge.as_ref(), faults);
        if condition.when.is_none() && condition.judge.is_none() {
            faults.push(Fault::new(path, "no condition").hint("give `when` or `judge`, or make it the default"));
        }
    }
}

pub(super) fn check_condition(path: &str, condition: &ConditionNode, faults: &mut Vec<Fault>) {
    check_either(path, condition.when.as_ref(), condition.judge.as_ref(), faults);
    if condition.when.is_none() && condition.judge.is_none() {
        faults.push(Fault::new(path, "no condition").hint("give `when` or `judge`"));
    }
}

pub(super) fn check_fork(path: &str, fork: &ForkNode, faults: &mut Vec<Fault>) {
    check_branches(path, fork.branches.keys(), fork.for_each.as_ref(), fork.variable.as_ref(), faults);
    if fork.for_each.is_some() != fork.entry.is_some() {
        let hint = "branches of a list have `for_each` and `entry`";
        faults.push(Fault::new(path, "only one of `for_each` and `entry` is given").hint(hint));
    }
    check_into(path, fork.into.as_ref(), faults);
    check_concurrency(path, fork.concurrency, faults);
}

pub(super) fn check_join(path: &str, join: &JoinNode, faults: &mut Vec<Fault>) {
    check_mode(path, join.mode, join.n, faults);
    check_timeout(&format!("{path}.timeout_ms"), join.timeout_ms, faults);
}

pub(super) fn check_branches<'a>(
    path: &str,
    names: impl ExactSizeIterator<Item = &'a String>,
    for_each: Option<&String>,
    variable: Option<&String>,
    faults: &mut Vec<Fault>,
) {
    match (names.len(), for_each) {
        (0, None) => faults.push(Fault::new(path, "no branches").hint("give `branches` or `for_each`")),
        (_, None) | (0, Some(_)) => {}
        (_, Some(_)) => faults.push(Fault::new(path, "branches are named or made from a list, not both")),
    }
    for name in names {
        check_variable(&format!("{path}.branches.{name}"), name, faults);
    }
    check_list(path, for_each, variable, faults);
}

pub(super) fn check_list(path: &str, for_each: Option<&String>, variable: Option<&String>, faults: &mut Vec<Fault>) {
    if let Some(list) = for_each {
        check_text(&format!("{path}.for_each"), list, faults);
    }
    if let Some(variable) = variable {
        check_variable(&format!("{path}.as"), variable, faults);
        if variable == "loop" {
            let hint = "choose another name";
            faults.push(Fault::new(format!("{path}.as"), "`loop` tells about the loop itself").hint(hint));
        }
        if for_each.is_none() {
            faults.push(Fault::new(format!("{path}.as"), "there is no list whose elements it could name"));
        }
    }
}

pub(super) fn check_into(path: &str, into: Option<&String>, faults: &mut Vec<Fault>) {
    if let Some(into) = into {
        check_variable(&format!("{path}.into"), into, faults);
    }
}

pub(super) fn check_concurrency(path: &str, concurrency: Option<u32>, faults: &mut Vec<Fault>) {
    if let Some(n) = concurrency {
        check_range(&format!("{path}.concurrency"), u64::from(n), 1, CONCURRENCY_MAX, faults);
    }
}

pub(super) fn check_mode(path: &str, mode: JoinMode, n: Option<u32>, faults: &mut Vec<Fault>) {
    match (mode, n) {
        (JoinMode::NOfM, Some(n)) => check_range(&format!("{path}.n"), u64::from(n), 1, BRANCHES_MAX, faults),
        (JoinMode::NOfM, None) => {
            faults.push(Fault::new(path, "mode n_of_m needs `n`").hint("give the number of branches to wait for"));
        }
        (JoinMode::All | JoinMode::Any, Some(_)) => {
            faults.push(Fault::new(format!("{path}.n"), "only mode n_of_m has `n`"));
        }
        (JoinMode::All | JoinMode::Any, None) => {}
    }
}

pub(super) fn check_sub_workflow(path: &str, sub: &SubWorkflowNode, faults: &mut Vec<Fault>) {
    check_inputs(path, &sub.inputs, faults);
    for (name, expression) in sub.outputs.iter() {
        let path = format!("{path}.outputs.{name}");
        check_variable(&path, name, faults);
        check_text(&path, expression, faults);
    }
}

pub(super) fn check_start_thread(path: &str, start: &StartThreadNode, faults: &mut Vec<Fault>) {
    check_inputs(path, &start.inputs, faults);
    check_into(path, start.into.as_ref(), faults);
}

fn check_inputs(path: &str, inputs: &OrderedMap<Json>, faults: &mut Vec<Fault>) {
    for (name, value) in inputs.iter() {
        let path = format!("{path}.inputs.{name}");
        check_variable(&path, name, faults);
        check_value(&path, value, faults);
    }
}
