//! The shape of a graph: what is reached, what leads to an end, what comes round, what opens and closes.

use std::collections::BTreeSet;

use super::{at, no_node};
use crate::event::Scope;
use crate::ids::NodeId;
use crate::workflow::graph::Placed;
use crate::workflow::{Fault, Graph, NodeKind};

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
    shape.check_ways(path, is_bounded, faults);
    let in_loop = shape.check_regions(faults);
    check_scopes(graph, &in_loop, in_sub_workflow, faults);
}

/// Every id that is named is there.
fn check_ids(path: &str, graph: &Graph, faults: &mut Vec<Fault>) {
    if let Some(entry) = &graph.entry
        && !graph.nodes.contains_key(entry)
    {
        faults.push(no_node(at(path, "entry"), entry));
    }
    for (i, end) in graph.end_points.iter().enumerate() {
        if !graph.nodes.contains_key(end) {
            faults.push(no_node(at(path, &format!("end_points[{i}]")), end));
        }
    }
    for Placed { path, node } in graph.nodes.values() {
        if let Some(target) = &node.on_error
            && !graph.nodes.contains_key(target)
        {
            faults.push(no_node(format!("{path}.on_error"), target));
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
                        format!("this edge can never be taken: a default edge of `{}` stands before it", edge.from),
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

/// A graph by the numbers of its nodes.
struct Shape<'a> {
    graph: &'a Graph,
    /// Where each node can lead.
    next: Vec<Vec<usize>>,
}

impl<'a> Shape<'a> {
    fn new(graph: &'a Graph) -> Self {
        let mut shape = Self { graph, next: Vec::new() };
        shape.next = graph.nodes.values().map(|placed| shape.after(placed)).collect();
        shape
    }

    fn number(&self, id: &NodeId) -> Option<usize> {
        self.graph.nodes.get_index_of(id)
    }

    fn placed(&self, i: usize) -> Option<&'a Placed> {
        self.graph.nodes.get_index(i).map(|(_, placed)| placed)
    }

    /// The nodes that can follow, by an edge, by `on_error`, as branches, or past a loop that never goes round. A run
    /// ends on an end point whatever edges lead on from it.
    fn after(&self, Placed { node, .. }: &Placed) -> Vec<usize> {
        let mut ids: Vec<&NodeId> = node.on_error.iter().collect();
        if !self.graph.end_points.contains(&node.id) {
            ids.extend(self.graph.edges_from(&node.id).map(|edge| &edge.to));
        }
        match node.kind() {
            NodeKind::Fork(fork) => {
                ids.extend(fork.branches.values().chain(&fork.entry));
                ids.push(&fork.join);
            }
            NodeKind::LoopStart(repeat) => ids.extend(&repeat.end),
            _ => {}
        }
        ids.into_iter().filter_map(|id| self.number(id)).collect()
    }

    /// Finds nodes that are never reached, lead nowhere, or come round without a bound.
    fn check_ways(&self, path: &str, is_bounded: bool, faults: &mut Vec<Fault>) {
        let Some(entry) = &self.graph.entry else { return };
        let mut previous = vec![Vec::new(); self.next.len()];
        for (i, out) in self.next.iter().enumerate() {
            for &to in out {
                previous[to].push(i);
            }
        }
        let reached = reach(self.number(entry).into_iter().collect(), &self.next, None);
        let is_end = |i: &usize| self.placed(*i).is_some_and(|placed| self.graph.is_end(&placed.node.id));
        let ending = reach((0..self.next.len()).filter(is_end).collect(), &previous, None);
        for (i, Placed { path, node }) in self.graph.nodes.values().enumerate() {
            if !reached[i] {
                let message = format!("node `{}` cannot be reached from `{entry}`", node.id);
                faults.push(Fault::new(path, message));
            } else if !ending[i] {
                faults.push(Fault::new(path, format!("no way leads from node `{}` to an end", node.id)));
            }
        }
        if !is_bounded
            && let Some(Placed { path: node_path, node }) = on_a_cycle(&self.next).and_then(|i| self.placed(i))
        {
            faults.push(
                Fault::new(node_path, format!("node `{}` can come round again without a bound", node.id))
                    .hint(format!("set {}: how many nodes a thread may enter", at(path, "max_iterations"))),
            );
        }
    }

    /// What stands between a fork and its join, or in a loop, is entered and left by them alone. Gives the nodes that
    /// stand in a loop.
    fn check_regions(&self, faults: &mut Vec<Fault>) -> Vec<bool> {
        let mut in_loop = vec![false; self.next.len()];
        for (opener, Placed { path, node }) in self.graph.nodes.values().enumerate() {
            let (closer, first): (&NodeId, Vec<&NodeId>) = match node.kind() {
                NodeKind::Fork(fork) => (&fork.join, fork.branches.values().chain(&fork.entry).collect()),
                NodeKind::LoopStart(repeat) => match &repeat.end {
                    Some(end) => (end, self.graph.edges_from(&node.id).map(|edge| &edge.to).collect()),
                    None => continue,
                },
                _ => continue,
            };
            let Some(closer) = self.number(closer) else { continue };
            let first: Vec<_> = first.into_iter().filter_map(|id| self.number(id)).collect();
            let inside = self.region(first, closer);
            let outside = self.outside(opener, closer);
            let is_loop = matches!(node.kind(), NodeKind::LoopStart(_));
            let what = if is_loop { "loop" } else { "fork" };
            for (i, placed) in self.graph.nodes.values().enumerate().filter(|(i, _)| inside[*i]) {
                in_loop[i] |= is_loop;
                let id = &placed.node.id;
                if outside[i] {
                    let message = format!("`{id}` stands in {what} `{}` and is reached past it too", node.id);
                    let hint = "a fork or loop is entered at its beginning and left at its end";
                    faults.push(Fault::new(&placed.path, message).hint(hint));
                } else if self.graph.is_end(id) {
                    let message = format!("`{id}` ends the run inside {what} `{}`", node.id);
                    let hint = if is_loop { "lead it to the loop_end" } else { "lead it to the join" };
                    faults.push(Fault::new(&placed.path, message).hint(hint));
                }
            }
            if inside[opener] {
                faults.push(Fault::new(path, format!("{what} `{}` is entered again from inside", node.id)));
            }
        }
        in_loop
    }

    fn region(&self, first: Vec<usize>, closer: usize) -> Vec<bool> {
        let mut inside = reach(first, &self.next, Some(closer));
        inside[closer] = false;
        inside
    }

    /// What is reached without going through the opener's inside.
    fn outside(&self, opener: usize, closer: usize) -> Vec<bool> {
        let entry = self.graph.entry.as_ref().and_then(|entry| self.number(entry));
        let mut seen = vec![false; self.next.len()];
        let mut todo: Vec<_> = entry.into_iter().collect();
        while let Some(i) = todo.pop() {
            if !std::mem::replace(&mut seen[i], true) {
                if i == opener {
                    todo.push(closer);
                    let on_error = self.placed(i).and_then(|placed| placed.node.on_error.as_ref());
                    todo.extend(on_error.and_then(|id| self.number(id)));
                } else {
                    todo.extend(&self.next[i]);
                }
            }
        }
        seen
    }
}

/// Which nodes can be reached from these, without going on from `stop`.
fn reach(from: Vec<usize>, next: &[Vec<usize>], stop: Option<usize>) -> Vec<bool> {
    let mut seen = vec![false; next.len()];
    let mut todo = from;
    while let Some(i) = todo.pop() {
        if !std::mem::replace(&mut seen[i], true) && Some(i) != stop {
            todo.extend(&next[i]);
        }
    }
    seen
}

/// A node that lies on a cycle: what is left when nodes that nothing leads to are taken away again and again
/// (Kahn, 1962), and from there as far forward as it takes to stand on the cycle itself.
fn on_a_cycle(next: &[Vec<usize>]) -> Option<usize> {
    let mut n_in = vec![0_usize; next.len()];
    for &to in next.iter().flatten() {
        n_in[to] += 1;
    }
    let mut free: Vec<usize> = (0..next.len()).filter(|&i| n_in[i] == 0).collect();
    while let Some(i) = free.pop() {
        for &to in &next[i] {
            n_in[to] -= 1;
            if n_in[to] == 0 {
                free.push(to);
            }
        }
    }
    (0..next.len()).find(|&i| n_in[i] > 0 && reach(next[i].clone(), next, None)[i])
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
