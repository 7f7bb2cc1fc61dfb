//! The graph of a definition: short forms expanded, every edge in its place.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;

use super::flow::{ConditionNode, Edge, ForkNode, JoinNode, LoopEndNode, RouteNode};
use super::node::{Body, LoopNode, Node, NodeKind, ParallelNode};
use crate::event::Hook;
use crate::ids::NodeId;
use crate::json::Json;
use crate::schema::Compiled;

/// The graph of a workflow or a sub-workflow: nodes of the kinds the machine runs, and the ways between them.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    pub(super) nodes: IndexMap<NodeId, Placed>,
    pub(super) edges: BTreeMap<NodeId, Vec<PlacedEdge>>,
    pub(super) entry: Option<NodeId>,
    /// The first nodes of its hooks.
    pub(super) hooks: Vec<(Hook, NodeId)>,
    pub(super) end_points: Vec<NodeId>,
    /// The same, to be found in.
    pub(super) ends: BTreeSet<NodeId>,
    /// Nodes whose id is used twice, with their paths.
    pub(super) doubles: Vec<(String, NodeId)>,
    /// The schema of its input, where it has one.
    pub(super) input: Option<Compiled>,
    /// The schema of its output, where it has one.
    pub(super) output: Option<Compiled>,
}

/// A node and its place in the file.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) path: String,
    pub(super) node: Node,
}

/// An edge and its place in the file.
#[derive(Debug, Clone)]
pub(super) struct PlacedEdge {
    pub(super) path: String,
    pub(super) edge: Edge,
}

impl Graph {
    /// The node that is entered first.
    pub fn entry(&self) -> Option<&NodeId> {
        self.entry.as_ref()
    }

    /// The hooks of the graph, each with the node that is entered first.
    pub fn hooks(&self) -> impl Iterator<Item = (Hook, &NodeId)> {
        self.hooks.iter().map(|(hook, first)| (*hook, first))
    }

    /// The node with this id.
    pub fn node(&self, id: &NodeId) -> Option<&Node> {
        self.nodes.get(id).map(|placed| &placed.node)
    }

    /// All nodes, in the order of the file.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().map(|placed| &placed.node)
    }

    /// The ways out of a node, in the order in which they are tried.
    pub fn edges_from(&self, id: &NodeId) -> impl ExactSizeIterator<Item = &Edge> + Clone {
        self.edges.get(id).map_or(&[][..], Vec::as_slice).iter().map(|placed| &placed.edge)
    }

    /// Whether the run ends on this node. A fork leads to its join and a loop to its end, without an edge.
    pub fn is_end(&self, id: &NodeId) -> bool {
        let leads_on =
            self.node(id).is_some_and(|node| matches!(node.kind(), NodeKind::Fork(_) | NodeKind::LoopStart(_)));
        !leads_on && (self.edges_from(id).len() == 0 || self.ends.contains(id))
    }

    /// Expands a definition. `path` is the place of the nodes' owner in the file, empty at the top.
    pub(super) fn write_out(
        path: &str,
        nodes: &[Node],
        edges: Option<&[Edge]>,
        entry: Option<&NodeId>,
        end_points: &[NodeId],
        hooks: Vec<(Hook, NodeId)>,
    ) -> Self {
        let ends = end_points.iter().cloned().collect();
        let mut graph = Self { end_points: end_points.to_vec(), ends, hooks, ..Self::default() };
        graph.add_all(path, nodes, edges);
        graph.entry = entry.or_else(|| nodes.first().map(|node| &node.id)).cloned();
        graph
    }

    /// The same graph with the schemas of its input and output.
    pub(super) fn typed(self, input: Option<&Json>, output: Option<&Json>) -> Self {
        Self { input: input.map(Compiled::of), output: output.map(Compiled::of), ..self }
    }

    fn add_all(&mut self, path: &str, nodes: &[Node], edges: Option<&[Edge]>) {
        let at = |what: String| if path.is_empty() { what } else { format!("{path}.{what}") };
        // What leaves a short form leaves its last marker.
        let mut last = BTreeMap::new();
        for (i, node) in nodes.iter().enumerate() {
            let placed = at(format!("nodes[{i}]"));
            if let Some(end) = self.add_node(&placed, node) {
                last.insert(node.id.clone(), end);
            }
        }
        let leaves = |id: &NodeId| last.get(id).unwrap_or(id).clone();
        match edges {
            Some(edges) => {
                for (i, edge) in edges.iter().enumerate() {
                    self.add_edge(at(format!("edges[{i}]")), Edge { from: leaves(&edge.from), ..edge.clone() });
                }
            }
            None => {
                for (i, pair) in nodes.windows(2).enumerate() {
                    if self.chains(&pair[0], &leaves(&pair[0].id)) && !self.begins_hook(&pair[1].id) {
                        let edge = Edge { from: leaves(&pair[0].id), to: pair[1].id.clone(), when: None, judge: None };
                        self.add_edge(at(format!("nodes[{i}]")), edge);
                    }
                }
            }
        }
    }

    /// Whether the next node of a list follows this one: not when it says itself where it leads.
    fn chains(&self, node: &Node, leaves: &NodeId) -> bool {
        let says_itself = match node.kind() {
            NodeKind::Route(route) => route.default.is_some(),
            NodeKind::Condition(_) | NodeKind::Fork(_) | NodeKind::End => true,
            _ => false,
        };
        !says_itself && !self.ends.contains(leaves)
    }

    fn begins_hook(&self, id: &NodeId) -> bool {
        self.hooks.iter().any(|(_, first)| first == id)
    }

    /// Adds a node, written out; gives the marker that is left in its place, if it is another one.
    fn add_node(&mut self, path: &str, node: &Node) -> Option<NodeId> {
        match node.kind() {
            NodeKind::Route(route) => {
                self.place(path.to_owned(), node.clone());
                self.add_routes(path, &node.id, route);
                None
            }
            NodeKind::Condition(condition) => {
                self.place(
                    path.to_owned(),
                    Node { condition: None, route: Some(RouteNode::default()), ..node.clone() },
                );
                self.add_condition(path, &node.id, condition);
                None
            }
            NodeKind::Parallel(parallel) => Some(self.add_parallel(path, node, parallel)),
            NodeKind::Loop(repeat) => Some(self.add_loop(path, node, repeat)),
            _ => {
                self.place(path.to_owned(), node.clone());
                None
            }
        }
    }

    fn place(&mut self, path: String, node: Node) {
        let id = node.id.clone();
        if self.nodes.contains_key(&id) {
            self.doubles.push((path, id));
        } else {
            self.nodes.insert(id, Placed { path, node });
        }
    }

    fn add_edge(&mut self, path: String, edge: Edge) {
        self.edges.entry(edge.from.clone()).or_default().push(PlacedEdge { path, edge });
    }

    fn add_routes(&mut self, path: &str, from: &NodeId, route: &RouteNode) {
        for (i, condition) in route.conditions.iter().enumerate() {
            let edge = Edge {
                from: from.clone(),
                to: condition.to.clone(),
                when: condition.when.clone(),
                judge: condition.judge.clone(),
            };
            self.add_edge(format!("{path}.route.conditions[{i}]"), edge);
        }
        if let Some(to) = &route.default {
            self.add_edge(format!("{path}.route.default"), Edge::default_way(from.clone(), to.clone()));
        }
    }

    fn add_condition(&mut self, path: &str, from: &NodeId, condition: &ConditionNode) {
        let ConditionNode { when, judge, then, otherwise } = condition.clone();
        self.add_edge(format!("{path}.condition.then"), Edge { from: from.clone(), to: then, when, judge });
        self.add_edge(format!("{path}.condition.else"), Edge::default_way(from.clone(), otherwise));
    }

    fn add_parallel(&mut self, path: &str, node: &Node, parallel: &ParallelNode) -> NodeId {
        let join = NodeId::from(format!("{}.join", node.id).as_str());
        let place = format!("{path}.parallel");
        let mut fork = ForkNode {
            join: join.clone(),
            branches: IndexMap::new(),
            for_each: parallel.for_each.clone(),
            variable: parallel.variable.clone(),
            entry: None,
            into: parallel.into.clone(),
            concurrency: parallel.concurrency,
        };
        for (name, body) in &parallel.branches {
            if let Some(entry) = first_of(body) {
                fork.branches.insert(name.clone(), entry);
            }
        }
        fork.entry = parallel.body.as_ref().and_then(first_of);
        let end = JoinNode {
            mode: parallel.mode,
            n: parallel.n,
            on_failed: parallel.on_failed,
            timeout_ms: parallel.timeout_ms,
        };
        self.place(place.clone(), Node { parallel: None, fork: Some(fork), checkpoint: None, ..node.clone() });
        for (name, body) in &parallel.branches {
            self.add_body(&format!("{place}.branches.{name}"), body, &join);
        }
        if let Some(body) = &parallel.body {
            self.add_body(&format!("{place}.body"), body, &join);
        }
        let marker = Node { join: Some(end), checkpoint: node.checkpoint.clone(), ..Node::new(join.clone()) };
        self.place(place, marker);
        join
    }

    fn add_loop(&mut self, path: &str, node: &Node, repeat: &LoopNode) -> NodeId {
        let end = NodeId::from(format!("{}.end", node.id).as_str());
        let place = format!("{path}.loop");
        let begin = LoopNode { end: Some(end.clone()), body: None, ..repeat.clone() };
        let begin = Node { repeat: None, loop_start: Some(Box::new(begin)), checkpoint: None, ..node.clone() };
        self.place(place.clone(), begin);
        if let Some(body) = &repeat.body {
            if let Some(entry) = first_of(body) {
                self.add_edge(format!("{place}.body"), Edge::default_way(node.id.clone(), entry));
            }
            self.add_body(&format!("{place}.body"), body, &end);
        }
        let marker = LoopEndNode { start: node.id.clone() };
        let marker = Node { loop_end: Some(marker), checkpoint: node.checkpoint.clone(), ..Node::new(end.clone()) };
        self.place(place, marker);
        end
    }

    /// Adds nodes inside a node; what they end on leads to `to`.
    fn add_body(&mut self, path: &str, body: &Body, to: &NodeId) {
        let before = self.nodes.len();
        self.add_all(path, &body.nodes, body.edges.as_deref());
        let ends: Vec<_> = self.nodes.values().skip(before).map(|placed| placed.node.id.clone()).collect();
        for id in ends {
            if id != *to && self.is_end(&id) {
                self.add_edge(path.to_owned(), Edge::default_way(id, to.clone()));
            }
        }
    }
}

fn first_of(body: &Body) -> Option<NodeId> {
    body.entry.as_ref().or_else(|| body.nodes.first().map(|node| &node.id)).cloned()
}
