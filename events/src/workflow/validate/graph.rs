//! The shape of the graph: what is reached, what leads to an end, what comes round.

use indexmap::IndexMap;

use super::no_node;
use crate::ids::NodeId;
use crate::workflow::{Edge, Fault, WorkflowSpec};

/// The graph as a whole, once its parts are in order.
pub(super) struct Graph<'a> {
    pub(super) spec: &'a WorkflowSpec,
    pub(super) nodes: &'a IndexMap<NodeId, usize>,
    pub(super) edges: &'a IndexMap<NodeId, Vec<Edge>>,
}

impl Graph<'_> {
    /// The numbers of the nodes that can follow node `i`, by an edge or by `on_error`. A thread ends on an end point
    /// whatever edges lead on from it.
    fn next(&self, i: usize) -> Vec<usize> {
        let node = &self.spec.nodes[i];
        let out = if self.spec.end_points.contains(&node.id) { None } else { self.edges.get(&node.id) };
        let by_edge = out.into_iter().flatten().map(|edge| &edge.to);
        by_edge.chain(&node.on_error).filter_map(|id| self.nodes.get(id).copied()).collect()
    }

    /// Finds nodes that are never reached, lead nowhere, or come round without a bound.
    pub(super) fn check(&self, entry: &NodeId, faults: &mut Vec<Fault>) {
        for (i, node) in self.spec.nodes.iter().enumerate() {
            if let Some(target) = &node.on_error
                && !self.nodes.contains_key(target)
            {
                faults.push(no_node(&format!("nodes[{i}].on_error"), target));
            }
        }
        let next: Vec<_> = (0..self.spec.nodes.len()).map(|i| self.next(i)).collect();
        let mut previous = vec![Vec::new(); next.len()];
        for (i, out) in next.iter().enumerate() {
            for &to in out {
                previous[to].push(i);
            }
        }
        let reached = reach(self.nodes.get(entry).copied().into_iter().collect(), &next);
        let is_end = |i: &usize| {
            let id = &self.spec.nodes[*i].id;
            self.edges.get(id).is_none_or(Vec::is_empty) || self.spec.end_points.contains(id)
        };
        let ending = reach((0..next.len()).filter(is_end).collect(), &previous);
        for (i, node) in self.spec.nodes.iter().enumerate() {
            if !reached[i] {
                faults.push(Fault::new(
                    format!("nodes[{i}]"),
                    format!("node `{}` cannot be reached from `{entry}`", node.id),
                ));
            } else if !ending[i] {
                faults
                    .push(Fault::new(format!("nodes[{i}]"), format!("no way leads from node `{}` to an end", node.id)));
            }
        }
        if self.spec.max_iterations.is_none()
            && let Some(i) = on_a_cycle(&next)
        {
            faults.push(
                Fault::new(
                    format!("nodes[{i}]"),
                    format!("node `{}` can come round again without a bound", self.spec.nodes[i].id),
                )
                .hint("set max_iterations: how many nodes a thread may enter"),
            );
        }
    }
}

/// Which nodes can be reached from these.
fn reach(from: Vec<usize>, next: &[Vec<usize>]) -> Vec<bool> {
    let mut seen = vec![false; next.len()];
    let mut todo = from;
    while let Some(i) = todo.pop() {
        if !std::mem::replace(&mut seen[i], true) {
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
    (0..next.len()).find(|&i| n_in[i] > 0 && reach(next[i].clone(), next)[i])
}
