//! The shape of a graph: what is reached, what leads to an end, what comes round, what opens and closes.

mod hooks;
mod regions;

use std::collections::BTreeSet;

use super::parts::{at, no_node};
use super::ways::{Shape, reach};
use crate::event::Scope;
use crate::workflow::fault::Fault;
use crate::workflow::graph::{Graph, Placed};
use crate::workflow::node::NodeKind;

/// Finds edges to nowhere, nodes that are never reached or lead nowhere, ways that come round without a bound, and
/// forks and loops that are not closed.
pub(super) fn check(path: &str, graph: &Graph, is_bounded: bool, in_sub_workflow: bool, faults: &mut Vec<Fault>) {
    let before = faults.len();
    for (path, id) in &graph.doubles {
        faults.push(Fault::new(format!("{path}.id"), format!("`{id}` is the id of another node too")));
    }
    check_ids(path, graph, faults);
    check_defaults(graph, faults);
    check_pairs(graph, faults);
    if faults.len() > before || graph.nodes.is_empty() {
        return;
    }
    let shape = Shape::new(graph);
    check_ways(&shape, path, is_bounded, faults);
    hooks::check(&shape, faults);
    let in_loop = regions::check(&shape, faults);
    check_scopes(graph, &in_loop, in_sub_workflow, faults);
}

/// Every id that is named is there.
fn check_ids(path: &str, graph: &Graph, faults: &mut Vec<Fault>) {
    if let Some(entry) = &graph.entry
        && !graph.nodes.contains_key(entry)
    {
        faults.push(no_node(at(path, "entry"), entry));
    }
    for (hook, first) in graph.hooks() {
        if !graph.nodes.contains_key(first) {
            faults.push(no_node(hook.key().to_owned(), first));
        }
    }
    for (i, end) in graph.end_points.iter().enumerate() {
        if !graph.nodes.contains_key(end) {
            faults.push(no_node(at(path, &format!("end_points[{i}]")), end));
        }
    }
    for Placed { path, node } in graph.nodes.values() {
        for (key, target) in [("on_error", &node.on_error), ("on_timeout", &node.on_timeout)] {
            if let Some(target) = target
                && !graph.nodes.contains_key(target)
            {
                faults.push(no_node(format!("{path}.{key}"), target));
            }
        }
        for (i, target) in node.handoffs().iter().enumerate() {
            if !graph.nodes.contains_key(target) {
                faults.push(no_node(format!("{path}.llm.handoffs[{i}]"), target));
            }
        }
        if let NodeKind::Fork(fork) = node.kind() {
            for (name, entry) in &fork.branches {
                if !graph.nodes.contains_key(entry) {
                    faults.push(no_node(format!("{path}.fork.branches.{name}"), entry));
                }
            }
            if let Some(entry) = &fork.entry
                && !graph.nodes.contains_key(entry)
            {
                faults.push(no_node(format!("{path}.fork.entry"), entry));
            }
        }
    }
    for placed in graph.edges.values().flatten() {
        for (key, id) in [("from", &placed.edge.from), ("to", &placed.edge.to)] {
            if !graph.nodes.contains_key(id) {
                let is_listed = placed.path.contains("edges[");
                let path = if is_listed { format!("{}.{key}", placed.path) } else { placed.path.clone() };
                faults.push(no_node(path, id));
            }
        }
    }
}

/// A node has one default edge at most, and it is the last.
fn check_defaults(graph: &Graph, faults: &mut Vec<Fault>) {
    for edges in graph.edges.values() {
        let mut has_default = false;
        for placed in edges {
            let edge = &placed.edge;
            if has_default {
                let (message, hint) = if edge.is_default() {
                    (format!("`{}` has more than one default edge", edge.from), "give all but one a `when`")
                } else {
                    (
                        format!("this edge can never be taken: a default edge of `{}` comes before it", edge.from),
                        "put the default edge last",
                    )
                };
                faults.push(Fault::new(&placed.path, message).hint(hint));
            }
            has_default |= edge.is_default();
        }
    }
}

/// Each fork has its join, each loop its end, and the other way round.
fn check_pairs(graph: &Graph, faults: &mut Vec<Fault>) {
    let mut joined = BTreeSet::new();
    for Placed { path, node } in graph.nodes.values() {
        match node.kind() {
            NodeKind::Fork(fork) => {
                if !graph.node(&fork.join).is_some_and(|join| matches!(join.kind(), NodeKind::Join(_))) {
                    let message = format!("fork `{}` without a join: `{}` is none", node.id, fork.join);
                    faults.push(Fault::new(format!("{path}.fork.join"), message).hint("give the id of a `join` node"));
                } else if !joined.insert(&fork.join) {
                    let message = format!("`{}` is the join of another fork too", fork.join);
                    faults.push(Fault::new(format!("{path}.fork.join"), message).hint("give each fork its own join"));
                }
                if graph.edges_from(&node.id).len() > 0 {
                    let message = "edges that leave a fork are never taken";
                    faults.push(Fault::new(path, message).hint("list its branches; what follows leaves the join"));
                }
            }
            NodeKind::LoopStart(repeat) => {
                let end = repeat.end.as_ref().and_then(|end| graph.node(end)).map(|end| end.kind());
                if !matches!(end, Some(NodeKind::LoopEnd(end)) if end.start == node.id) {
                    let message = format!("loop `{}` has no end: no loop_end names it as its start", node.id);
                    faults.push(Fault::new(format!("{path}.loop_start.end"), message));
                }
                let ways: Vec<_> = graph.edges_from(&node.id).collect();
                if !matches!(ways.as_slice(), [only] if only.is_default()) {
                    let message = format!("one way leads into a loop, and {} leave `{}`", ways.len(), node.id);
                    faults.push(Fault::new(path, message).hint("begin its body with a route to choose among several"));
                }
            }
            NodeKind::LoopEnd(end) => {
                let start = graph.node(&end.start).map(|start| start.kind());
                if !matches!(start, Some(NodeKind::LoopStart(start)) if start.end.as_ref() == Some(&node.id)) {
                    let message = format!("`{}` ends no loop: no loop_start names it as its end", node.id);
                    faults.push(Fault::new(format!("{path}.loop_end.start"), message));
                }
            }
            _ => {}
        }
    }
    for Placed { path, node } in graph.nodes.values() {
        if matches!(node.kind(), NodeKind::Join(_)) && !joined.contains(&node.id) {
            let message = format!("join `{}` belongs to no fork", node.id);
            faults.push(Fault::new(path, message).hint("name it as `join` of a fork"));
        }
    }
}

/// Finds nodes that are never reached, lead nowhere, or come round without a bound.
fn check_ways(shape: &Shape<'_>, path: &str, is_bounded: bool, faults: &mut Vec<Fault>) {
    let Some(entry) = &shape.graph.entry else { return };
    let mut previous = vec![Vec::new(); shape.next.len()];
    for (i, out) in shape.next.iter().enumerate() {
        for &to in out {
            previous[to].push(i);
        }
    }
    let first = std::iter::once(entry).chain(shape.graph.hooks().map(|(_, first)| first));
    let reached = reach(first.filter_map(|id| shape.number(id)).collect(), &shape.next);
    let is_end = |i: &usize| shape.placed(*i).is_some_and(|placed| shape.graph.is_end(&placed.node.id));
    let ending = reach((0..shape.next.len()).filter(is_end).collect(), &previous);
    for (i, Placed { path, node }) in shape.graph.nodes.values().enumerate() {
        if !reached[i] {
            let hooks = if shape.graph.hooks.is_empty() { "" } else { " or by a hook" };
            let message = format!("node `{}` cannot be reached from `{entry}`{hooks}", node.id);
            faults.push(Fault::new(path, message));
        } else if !ending[i] {
            faults.push(Fault::new(path, format!("no way leads from node `{}` to an end", node.id)));
        }
    }
    if !is_bounded && let Some(Placed { path: node_path, node }) = on_a_cycle(&shape.next).and_then(|i| shape.placed(i))
    {
        faults.push(
            Fault::new(node_path, format!("node `{}` can come round again without a bound", node.id))
                .hint(format!("set {}: how many nodes a thread may enter", at(path, "max_iterations"))),
        );
    }
}

/// A node that lies on a cycle: one that is met again on the way down from itself, depth first.
fn on_a_cycle(next: &[Vec<usize>]) -> Option<usize> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        OnTheWay,
        Done,
    }
    let mut marks = vec![Mark::New; next.len()];
    for first in 0..next.len() {
        // The way down: nodes, and how many of their ways on were looked at.
        let mut way = vec![(first, 0)];
        while let Some((i, n_seen)) = way.last_mut() {
            let i = *i;
            if *n_seen == 0 {
                if marks[i] != Mark::New {
                    way.pop();
                    continue;
                }
                marks[i] = Mark::OnTheWay;
            }
            match next[i].get(*n_seen) {
                Some(&to) if marks[to] == Mark::OnTheWay => return Some(to),
                Some(&to) => {
                    *n_seen += 1;
                    if marks[to] == Mark::New {
                        way.push((to, 0));
                    }
                }
                None => {
                    marks[i] = Mark::Done;
                    way.pop();
                }
            }
        }
    }
    None
}

/// Variables of scope `loop` are set in loops, those of scope `subgraph` in sub-workflows.
fn check_scopes(graph: &Graph, in_loop: &[bool], in_sub_workflow: bool, faults: &mut Vec<Fault>) {
    for (i, Placed { path, node }) in graph.nodes.values().enumerate() {
        let NodeKind::UserInteraction(ask) = node.kind() else { continue };
        for (v, variable) in ask.variables.iter().enumerate() {
            let missing = match variable.scope {
                Scope::Loop if !in_loop[i] => "no loop is open here",
                Scope::Subgraph if !in_sub_workflow => "no sub-workflow is open here",
                Scope::Loop | Scope::Subgraph | Scope::Global | Scope::Thread => continue,
            };
            let path = format!("{path}.user_interaction.variables[{v}].scope");
            faults.push(Fault::new(path, missing).hint("use thread or global"));
        }
    }
}
