//! Checks of one node.

use super::actions;
use super::flow::{self, check_branches, check_concurrency, check_into, check_list, check_mode};
use super::parts::{WAIT_MS_MAX, check_name, check_range, check_timeout};
use crate::expression;
use crate::fault::ErrorKind;
use crate::workflow::fault::Fault;
use crate::workflow::node::{Body, LoopNode, Node, NodeKind, ParallelNode};
use crate::workflow::spec::LOOP_ITERATIONS_MAX;

/// Checks a node as written in the file, and the nodes inside it.
pub(super) fn check_node(path: &str, node: &Node, faults: &mut Vec<Fault>) {
    check_name(&format!("{path}.id"), "id", node.id.as_str(), faults);
    match node.kinds().count() {
        1 => {}
        0 => faults.push(Fault::new(path, format!("node `{}` has no kind", node.id)).hint(
            "give it one of llm, tool, user_interaction, context_processor, route, condition, fork, join, \
                 parallel, loop, wait, signal, loop_start, loop_end, sub_workflow, start_thread, start, end",
        )),
        n => faults.push(Fault::new(path, format!("node `{}` has {n} kinds", node.id)).hint("keep one of them")),
    }
    for kind in node.kinds() {
        match kind {
            NodeKind::Llm(llm) => actions::check_llm(&format!("{path}.llm"), llm, faults),
            NodeKind::Tool(tool) => actions::check_tool(&format!("{path}.tool"), tool, faults),
            NodeKind::UserInteraction(ask) => {
                actions::check_interaction(&format!("{path}.user_interaction"), ask, faults)
            }
            NodeKind::Wait(wait) => actions::check_wait(&format!("{path}.wait"), wait, faults),
            NodeKind::Signal(signal) => actions::check_signal(&format!("{path}.signal"), signal, faults),
            NodeKind::ContextProcessor(processor) => {
                actions::check_processor(&format!("{path}.context_processor"), processor, faults);
            }
            NodeKind::Route(route) => flow::check_route(&format!("{path}.route"), route, faults),
            NodeKind::Condition(condition) => {
                flow::check_condition(&format!("{path}.condition"), condition, faults);
            }
            NodeKind::Fork(fork) => flow::check_fork(&format!("{path}.fork"), fork, faults),
            NodeKind::Join(join) => flow::check_join(&format!("{path}.join"), join, faults),
            NodeKind::Parallel(parallel) => check_parallel(&format!("{path}.parallel"), parallel, faults),
            NodeKind::LoopStart(repeat) => check_loop(&format!("{path}.loop_start"), repeat, false, faults),
            NodeKind::Loop(repeat) => check_loop(&format!("{path}.loop"), repeat, true, faults),
            NodeKind::SubWorkflow(sub) => flow::check_sub_workflow(&format!("{path}.sub_workflow"), sub, faults),
            NodeKind::StartThread(start) => {
                flow::check_start_thread(&format!("{path}.start_thread"), start, faults);
            }
            NodeKind::LoopEnd(_) | NodeKind::Start | NodeKind::End => {}
        }
    }
    if node.retry.is_some() && !may_be_tried_again(node.kind()) {
        faults.push(
            Fault::new(format!("{path}.retry"), "a node that only decides where to go is not tried again")
                .hint("give the nodes inside it a retry"),
        );
    }
    if node.timeout_ms.is_some()
        && matches!(node.kind(), NodeKind::LoopStart(_) | NodeKind::Loop(_) | NodeKind::SubWorkflow(_))
    {
        faults.push(
            Fault::new(format!("{path}.timeout_ms"), "a loop or sub-workflow has no time limit of its own")
                .hint("give the nodes inside it a timeout_ms, or the whole workflow"),
        );
    }
    if node.timeout_ms.is_some() && matches!(node.kind(), NodeKind::StartThread(_)) {
        // After a timeout it would not be known whether the thread was started.
        faults.push(
            Fault::new(format!("{path}.timeout_ms"), "the start of a thread has no time limit")
                .hint("give the node that waits for the thread a timeout_ms"),
        );
    }
    check_timeout(&format!("{path}.timeout_ms"), node.timeout_ms, faults);
    if let Some(retry) = &node.retry {
        check_range(&format!("{path}.retry.max_attempts"), u64::from(retry.max_attempts), 1, 100, faults);
        check_range(&format!("{path}.retry.backoff_ms"), retry.backoff_ms, 0, WAIT_MS_MAX, faults);
        for (i, kind) in retry.on.iter().flatten().enumerate() {
            if matches!(kind, ErrorKind::Indeterminate | ErrorKind::Cancelled) {
                let why = "its effect is unknown, or it was cancelled";
                let message = format!("a node is never tried again after `{kind}`: {why}");
                faults.push(Fault::new(format!("{path}.retry.on[{i}]"), message));
            }
        }
        if retry.on.as_ref().is_some_and(Vec::is_empty) {
            faults.push(
                Fault::new(format!("{path}.retry.on"), "after no error is it tried again")
                    .hint("name kinds of errors, or leave `on` away"),
            );
        }
        check_range(&format!("{path}.retry.backoff_ms_max"), retry.backoff_ms_max.unwrap_or(0), 0, WAIT_MS_MAX, faults);
    }
    if let Some(label) = &node.checkpoint {
        check_name(&format!("{path}.checkpoint"), "checkpoint", label, faults);
        if !label.is_empty() && label.bytes().all(|b| b.is_ascii_digit()) {
            faults.push(
                Fault::new(format!("{path}.checkpoint"), format!("`{label}` would be taken for a seq"))
                    .hint("put a letter into the name"),
            );
        }
    }
}

fn may_be_tried_again(kind: NodeKind<'_>) -> bool {
    match kind {
        NodeKind::Llm(_)
        | NodeKind::Tool(_)
        | NodeKind::UserInteraction(_)
        | NodeKind::Wait(_)
        | NodeKind::Signal(_)
        | NodeKind::StartThread(_)
        | NodeKind::ContextProcessor(_) => true,
        NodeKind::Route(_)
        | NodeKind::Condition(_)
        | NodeKind::Fork(_)
        | NodeKind::Join(_)
        | NodeKind::Parallel(_)
        | NodeKind::LoopStart(_)
        | NodeKind::LoopEnd(_)
        | NodeKind::Loop(_)
        | NodeKind::SubWorkflow(_)
        | NodeKind::Start
        | NodeKind::End => false,
    }
}

fn check_parallel(path: &str, parallel: &ParallelNode, faults: &mut Vec<Fault>) {
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

/// `is_short` for a loop in one node, with its body in it.
fn check_loop(path: &str, repeat: &LoopNode, is_short: bool, faults: &mut Vec<Fault>) {
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
