//! Checks of the nodes that decide where a thread goes, each by itself.

use super::node::check_node;
use super::parts::{
    check_condition as check_either, check_depth, check_name, check_range, check_text, check_timeout, check_variable,
};
use crate::expression;
use crate::workflow::check_processor_config;
use crate::workflow::{
    Body, ConditionNode, ContextProcessorNode, Fault, ForkNode, JoinMode, JoinNode, LOOP_ITERATIONS_MAX, LoopNode,
    ParallelNode, RouteNode, SubWorkflowNode,
};

/// The most branches of a fork.
const BRANCHES_MAX: u64 = 1_000_000;
/// The most branches that may run at once.
const CONCURRENCY_MAX: u64 = 10_000;

pub(super) fn check_processor(path: &str, processor: &ContextProcessorNode, faults: &mut Vec<Fault>) {
    check_name(&format!("{path}.processor_name"), "processor's name", &processor.processor_name, faults);
    if let Err((key, what)) = check_processor_config(&processor.processor_name, &processor.processor_config) {
        let key = if key.is_empty() { String::new() } else { format!(".processor_config.{key}") };
        faults.push(Fault::new(format!("{path}{key}"), what));
    }
    for (name, value) in processor.processor_config.iter() {
        let path = format!("{path}.processor_config.{name}");
        check_depth(&path, value, faults);
        if let Err(e) = expression::check_value(&value.0) {
            faults.push(Fault::new(path, e.to_string()));
        }
    }
}

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

pub(super) fn check_parallel(path: &str, parallel: &ParallelNode, faults: &mut Vec<Fault>) {
    let variable = parallel.variable.as_ref();
    check_branches(path, parallel.branches.keys(), parallel.for_each.as_ref(), variable, faults);
    if parallel.for_each.is_some() != parallel.body.is_some() {
        let hint = "branches of a list have `for_each` and `body`";
        faults.push(Fault::new(path, "only one of `for_each` and `body` is given").hint(hint));
    }
    check_into(path, parallel.into.as_ref(), faults);
    check_concurrency(path, parallel.concurrency, faults);
    check_mode(path, parallel.mode, parallel.n, faults);
    check_timeout(&format!("{path}.timeout_ms"), parallel.timeout_ms, faults);
    for (name, body) in &parallel.branches {
        check_body(&format!("{path}.branches.{name}"), body, faults);
    }
    if let Some(body) = &parallel.body {
        check_body(&format!("{path}.body"), body, faults);
    }
}

fn check_branches<'a>(
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

fn check_list(path: &str, for_each: Option<&String>, variable: Option<&String>, faults: &mut Vec<Fault>) {
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

fn check_into(path: &str, into: Option<&String>, faults: &mut Vec<Fault>) {
    if let Some(into) = into {
        check_variable(&format!("{path}.into"), into, faults);
    }
}

fn check_concurrency(path: &str, concurrency: Option<u32>, faults: &mut Vec<Fault>) {
    if let Some(n) = concurrency {
        check_range(&format!("{path}.concurrency"), u64::from(n), 1, CONCURRENCY_MAX, faults);
    }
}

fn check_mode(path: &str, mode: JoinMode, n: Option<u32>, faults: &mut Vec<Fault>) {
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

/// `is_short` for a loop in one node, with its body in it.
pub(super) fn check_loop(path: &str, repeat: &LoopNode, is_short: bool, faults: &mut Vec<Fault>) {
    let LoopNode { end, body, times, condition, for_each, variable, into, max_iterations } = repeat;
    check_into(path, into.as_ref(), faults);
    match (is_short, end, body) {
        (true, None, Some(body)) => check_body(&format!("{path}.body"), body, faults),
        (true, _, None) => faults.push(Fault::new(path, "the loop has no body").hint("give body.nodes")),
        (true, Some(_), Some(_)) => faults.push(Fault::new(format!("{path}.end"), "only a loop_start has an `end`")),
        (false, Some(_), None) => {}
        (false, None, _) => faults.push(Fault::new(path, "no `end`").hint("give the id of its loop_end")),
        (false, Some(_), Some(_)) => faults.push(Fault::new(format!("{path}.body"), "only a `loop` has a body")),
    }
    if times.is_none() && condition.is_none() && for_each.is_none() {
        let hint = "give `times`, `while` or `for_each`";
        faults.push(Fault::new(path, "nothing says when the loop is over").hint(hint));
    }
    for (key, n) in [("times", times), ("max_iterations", max_iterations)] {
        if let Some(n) = n {
            check_range(&format!("{path}.{key}"), *n, u64::from(key != "times"), LOOP_ITERATIONS_MAX, faults);
        }
    }
    if let (Some(times), Some(most)) = (times, max_iterations)
        && times > most
        && condition.is_none()
        && for_each.is_none()
    {
        faults
            .push(Fault::new(format!("{path}.times"), format!("the loop may go round {most} times (max_iterations)")));
    }
    if let Some(condition) = condition {
        if let Err(e) = expression::check(condition) {
            faults.push(Fault::new(format!("{path}.while"), e.to_string()));
        }
        if max_iterations.is_none() && times.is_none() && for_each.is_none() {
            let hint = "set max_iterations";
            faults.push(Fault::new(path, "a `while` loop without a bound").hint(hint));
        }
    }
    check_list(path, for_each.as_ref(), variable.as_ref(), faults);
}

fn check_body(path: &str, body: &Body, faults: &mut Vec<Fault>) {
    if body.nodes.is_empty() {
        faults.push(Fault::new(format!("{path}.nodes"), "a body has at least one node"));
    }
    for (i, node) in body.nodes.iter().enumerate() {
        check_node(&format!("{path}.nodes[{i}]"), node, faults);
    }
}

pub(super) fn check_sub_workflow(path: &str, sub: &SubWorkflowNode, faults: &mut Vec<Fault>) {
    for (name, value) in sub.inputs.iter() {
        let path = format!("{path}.inputs.{name}");
        check_variable(&path, name, faults);
        check_depth(&path, value, faults);
        if let Err(e) = expression::check_value(&value.0) {
            faults.push(Fault::new(path, e.to_string()));
        }
    }
    for (name, expression) in sub.outputs.iter() {
        let path = format!("{path}.outputs.{name}");
        check_variable(&path, name, faults);
        check_text(&path, expression, faults);
    }
}
