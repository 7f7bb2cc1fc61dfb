//! Checks that the nodes between a fork and its join, or in a loop, are entered at the beginning and left at the end.
//!
//! One walk from the entry gives each node the fork or loop that it is in, its *surroundings*. A node that is reached
//! with two different ones is entered, or left, past a beginning or an end. Takes time in proportion to the edges.

use std::collections::BTreeMap;

use crate::ids::NodeId;
use crate::workflow::fault::Fault;
use crate::workflow::graph::Placed;
use crate::workflow::node::NodeKind;
use crate::workflow::validate::ways::Shape;

/// A fork or a loop around nodes.
struct Around {
    /// Its first node.
    opener: usize,
    /// Its last one.
    closer: usize,
    /// The number of the one around it.
    outer: Option<usize>,
    /// Whether it is a loop, or is in one.
    in_loop: bool,
}

/// Finds nodes that stand in a fork or a loop and are reached past it, or end the run in it. Gives the nodes that stand
/// in a loop.
pub(super) fn check(shape: &Shape<'_>, faults: &mut Vec<Fault>) -> Vec<bool> {
    let mut walk = Walk { shape, arounds: Vec::new(), of_node: vec![None; shape.next.len()], found: BTreeMap::new() };
    let entry = shape.graph.entry.as_ref().and_then(|entry| shape.number(entry));
    let hooks = shape.graph.hooks().filter_map(|(_, first)| shape.number(first));
    walk.run(entry.into_iter().chain(hooks).collect());
    faults.extend(walk.found.into_values());
    let in_loop = |of: &Option<Option<usize>>| {
        of.flatten().and_then(|i| walk.arounds.get(i)).is_some_and(|around| around.in_loop)
    };
    walk.of_node.iter().map(in_loop).collect()
}

struct Walk<'a> {
    shape: &'a Shape<'a>,
    arounds: Vec<Around>,
    /// The fork or loop of each node that was reached.
    of_node: Vec<Option<Option<usize>>>,
    /// One fault per node, in the order of the nodes.
    found: BTreeMap<usize, Fault>,
}

impl Walk<'_> {
    fn run(&mut self, entry: Vec<usize>) {
        let mut todo: Vec<(usize, Option<usize>)> = entry.into_iter().map(|i| (i, None)).collect();
        while let Some((i, around)) = todo.pop() {
            match self.of_node.get(i).copied().flatten() {
                Some(before) if before == around => {}
                Some(before) => self.reached_twice(i, before, around),
                None => {
                    self.of_node[i] = Some(around);
                    self.go_on(i, around, &mut todo);
                }
            }
        }
    }

    fn go_on(&mut self, i: usize, around: Option<usize>, todo: &mut Vec<(usize, Option<usize>)>) {
        let Some(Placed { node, .. }) = self.shape.placed(i) else { return };
        let number = |id: &NodeId| self.shape.number(id);
        let (closer, first): (Option<usize>, Vec<usize>) = match node.kind() {
            NodeKind::Fork(fork) => {
                (number(&fork.join), fork.branches.values().chain(&fork.entry).filter_map(number).collect())
            }
            NodeKind::LoopStart(repeat) => (
                repeat.end.as_ref().and_then(number),
                self.shape.graph.edges_from(&node.id).filter_map(|edge| number(&edge.to)).collect(),
            ),
            _ => (None, Vec::new()),
        };
        if let Some(closer) = closer {
            let outer = around.and_then(|outer| self.arounds.get(outer));
            let in_loop = matches!(node.kind(), NodeKind::LoopStart(_)) || outer.is_some_and(|outer| outer.in_loop);
            let inside = self.arounds.len();
            self.arounds.push(Around { opener: i, closer, outer: around, in_loop });
            todo.push((closer, around));
            todo.extend(node.after_failure().filter_map(number).map(|target| (target, around)));
            for to in first {
                todo.push((to, self.after(i, to, Some(inside))));
            }
            return;
        }
        if let Some(around) = around
            && self.shape.graph.is_end(&node.id)
        {
            let (what, opener) = self.name(around);
            let hint = if what == "loop" { "lead it to the loop_end" } else { "lead it to the join" };
            self.fault(i, format!("`{}` ends the run inside {what} `{opener}`", node.id), hint);
        }
        for &to in &self.shape.next[i] {
            let after = self.after(i, to, around);
            todo.push((to, after));
        }
    }

    /// The fork or loop of the next node: a node that closes the one of this node is outside of it.
    fn after(&mut self, from: usize, to: usize, around: Option<usize>) -> Option<usize> {
        let inner = around.and_then(|i| self.arounds.get(i));
        if let Some(inner) = inner.filter(|inner| inner.closer == to) {
            return inner.outer;
        }
        let Some(Placed { node, .. }) = self.shape.placed(to) else { return around };
        if matches!(node.kind(), NodeKind::LoopEnd(_) | NodeKind::Join(_)) {
            let from_id = self.shape.placed(from).map_or_else(String::new, |placed| placed.node.id.to_string());
            let message = format!("`{from_id}` leads to the end `{}` of a region that it is not in", node.id);
            self.fault(from, message, "a fork or loop is entered at its beginning and left at its end");
        }
        around
    }

    /// A node is in two different forks or loops, or in one and outside of it.
    fn reached_twice(&mut self, i: usize, one: Option<usize>, other: Option<usize>) {
        let Some(Placed { node, .. }) = self.shape.placed(i) else { return };
        if matches!(node.kind(), NodeKind::LoopEnd(_) | NodeKind::Join(_)) && !self.found.is_empty() {
            // The edge that leads here is already reported.
            return;
        }
        let (a, b) = (self.chain(one), self.chain(other));
        if a.iter().chain(&b).any(|around| self.arounds[*around].opener == i) {
            let (what, _) = self.name_of(i);
            self.fault(i, format!("{what} `{}` is entered again from inside", node.id), "lead it to its end");
            return;
        }
        // The innermost one that is around the node on one of the two ways only.
        let only = a.iter().find(|i| !b.contains(i)).or_else(|| b.iter().find(|i| !a.contains(i)));
        if let Some(&around) = only {
            let (what, opener) = self.name(around);
            let message = format!("`{}` is in {what} `{opener}` and is also reached from outside", node.id);
            self.fault(i, message, "a fork or loop is entered at its beginning and left at its end");
        }
    }

    /// What is around, innermost first; of very deep ones the innermost.
    fn chain(&self, around: Option<usize>) -> Vec<usize> {
        let outer = |i: &usize| self.arounds.get(*i).and_then(|around| around.outer);
        std::iter::successors(around, outer).take(100).collect()
    }

    fn name(&self, around: usize) -> (&'static str, String) {
        self.name_of(self.arounds[around].opener)
    }

    fn name_of(&self, opener: usize) -> (&'static str, String) {
        match self.shape.placed(opener) {
            Some(Placed { node, .. }) => {
                let what = if matches!(node.kind(), NodeKind::LoopStart(_)) { "loop" } else { "fork" };
                (what, node.id.to_string())
            }
            None => ("fork", String::new()),
        }
    }

    fn fault(&mut self, i: usize, message: String, hint: &str) {
        let path = self.shape.placed(i).map_or("", |placed| placed.path.as_str());
        self.found.entry(i).or_insert_with(|| Fault::new(path, message).hint(hint));
    }
}
