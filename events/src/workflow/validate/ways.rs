//! Which node of a graph can follow which.

use crate::ids::NodeId;
use crate::workflow::graph::{Graph, Placed};
use crate::workflow::node::NodeKind;

/// A graph by the numbers of its nodes.
pub(super) struct Shape<'a> {
    pub(super) graph: &'a Graph,
    /// Where each node can lead.
    pub(super) next: Vec<Vec<usize>>,
}

impl<'a> Shape<'a> {
    pub(super) fn new(graph: &'a Graph) -> Self {
        let mut shape = Self { graph, next: Vec::new() };
        shape.next = graph.nodes.values().map(|placed| shape.after(placed)).collect();
        shape
    }

    pub(super) fn number(&self, id: &NodeId) -> Option<usize> {
        self.graph.nodes.get_index_of(id)
    }

    pub(super) fn placed(&self, i: usize) -> Option<&'a Placed> {
        self.graph.nodes.get_index(i).map(|(_, placed)| placed)
    }

    /// The nodes that can follow, by an edge, by `on_error`, `on_timeout` or a handoff, as branches, or past a loop that never goes round. A run
    /// ends on an end point even if edges leave it.
    pub(super) fn after(&self, Placed { node, .. }: &Placed) -> Vec<usize> {
        let mut ids: Vec<&NodeId> = node.after_failure().chain(node.handoffs()).collect();
        if !self.graph.ends.contains(&node.id) {
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
}

/// Which nodes can be reached from these.
pub(super) fn reach(from: Vec<usize>, next: &[Vec<usize>]) -> Vec<bool> {
    let mut seen = vec![false; next.len()];
    let mut todo = from;
    while let Some(i) = todo.pop() {
        if !std::mem::replace(&mut seen[i], true) {
            todo.extend(&next[i]);
        }
    }
    seen
}
