//! Checks that are newer than the first format. They apply to a definition that is read or built, and not to one that a
//! log already has, whose threads continue as they began.

use std::collections::BTreeSet;

use super::arguments;
use super::parts::{at, check_name, check_schema, no_node};
use super::search;
use crate::event::NodeContext;
use crate::ids::NodeId;
use crate::schema::Compiled;
use crate::workflow::agents::OfferedAgent;
use crate::workflow::fault::Fault;
use crate::workflow::flow::{Edge, JoinMode};
use crate::workflow::graph::Graph;
use crate::workflow::node::{Body, Node, NodeKind};
use crate::workflow::spec::WorkflowSpec;

/// `graphs` contains that of the workflow, and those of its sub-workflows in their order.
pub(super) fn check(spec: &WorkflowSpec, graphs: &[&Graph], faults: &mut Vec<Fault>) {
    check_order("", &spec.nodes, spec.edges.as_deref(), Some(&spec.end_points), faults);
    for (name, sub) in &spec.workflows {
        let path = format!("workflows.{name}");
        check_order(&path, &sub.nodes, sub.edges.as_deref(), Some(&sub.end_points), faults);
    }
    search::check(&spec.search, faults);
    for graph in graphs {
        check_quorums(graph, faults);
        check_contexts(graph, faults);
        check_own_conversations(graph, faults);
        check_inputs(spec, graph, faults);
        check_arguments(spec, graph, faults);
        check_answers(graph, faults);
    }
    let subs = spec.workflows.iter();
    let subs = subs.map(|(name, sub)| (format!("workflows.{name}"), &sub.input_schema, &sub.output_schema));
    let ends = std::iter::once((String::new(), &spec.input_schema, &spec.output_schema)).chain(subs);
    for ((path, input, output), graph) in ends.zip(graphs) {
        let input = ("input_schema", input.as_ref().zip(graph.input.as_ref()));
        let output = ("output_schema", output.as_ref().zip(graph.output.as_ref()));
        for (key, schema) in [input, output] {
            if let Some((schema, compiled)) = schema {
                check_schema(&at(&path, key), schema, compiled, faults);
            }
        }
    }
}

/// The schemas of answers can be used.
fn check_answers(graph: &Graph, faults: &mut Vec<Fault>) {
    for placed in graph.nodes.values() {
        if let NodeKind::Llm(llm) = placed.node.kind()
            && let Some(schema) = &llm.output_schema
        {
            check_schema(&format!("{}.llm.output_schema", placed.path), schema, &Compiled::of(schema), faults);
        }
    }
}

/// What a sub-workflow or a child is given fits its `input_schema`.
fn check_inputs(spec: &WorkflowSpec, graph: &Graph, faults: &mut Vec<Fault>) {
    for placed in graph.nodes.values() {
        let (kind, name, inputs) = match placed.node.kind() {
            NodeKind::SubWorkflow(sub) => ("sub_workflow", &sub.workflow, &sub.inputs),
            NodeKind::StartThread(start) => ("start_thread", &start.workflow, &start.inputs),
            _ => continue,
        };
        if let Some(schema) = spec.workflows.get(name).and_then(|inner| inner.input_schema.as_ref()) {
            let path = format!("{}.{kind}.inputs", placed.path);
            arguments::check(&path, &format!("workflow `{name}`"), inputs, schema, faults);
        }
    }
}

/// What a model gives an agent is an object.
fn check_arguments(spec: &WorkflowSpec, graph: &Graph, faults: &mut Vec<Fault>) {
    for placed in graph.nodes.values() {
        let NodeKind::Llm(llm) = placed.node.kind() else { continue };
        for (i, agent) in llm.agents.iter().enumerate() {
            let schema = spec.workflows.get(&agent.workflow).and_then(|sub| sub.input_schema.as_ref());
            if schema.is_some_and(|schema| schema.0["type"] != "object") {
                let name = &agent.workflow;
                let message = format!("the `input_schema` of workflow `{name}` has no `type: object`");
                faults.push(
                    Fault::new(format!("{}.llm.agents[{i}]", placed.path), message)
                        .hint("a model calls an agent with an object; its properties become variables"),
                );
            }
        }
    }
}

/// No agent has the conversation that is open while its model calls it.
fn check_own_conversations(graph: &Graph, faults: &mut Vec<Fault>) {
    for placed in graph.nodes.values() {
        let NodeKind::Llm(llm) = placed.node.kind() else { continue };
        let Some(own) = llm.context.name() else { continue };
        for (i, agent) in llm.agents.iter().enumerate().filter(|(_, agent)| agent.context.name() == Some(own)) {
            let message =
                format!("agent `{}` has the conversation `{own}`, which is that of its caller", agent.workflow);
            let hint = "give one of the two another name, or write `context: shared` for the agent";
            faults.push(Fault::new(format!("{}.llm.agents[{i}].context", placed.path), message).hint(hint));
        }
    }
}

/// A context names nodes of the same graph that say something.
fn check_contexts(graph: &Graph, faults: &mut Vec<Fault>) {
    let contexts = graph.nodes.values().flat_map(|placed| match placed.node.kind() {
        NodeKind::Llm(llm) => {
            let of_agent = |(i, agent): (usize, &'_ OfferedAgent)| {
                (format!("{}.llm.agents[{i}].context", placed.path), agent.context.clone())
            };
            let own = (format!("{}.llm.context", placed.path), llm.context.clone());
            std::iter::once(own).chain(llm.agents.iter().enumerate().map(of_agent)).collect()
        }
        NodeKind::SubWorkflow(sub) => {
            let path = format!("{}.sub_workflow.context", placed.path);
            sub.context.iter().map(|context| (path.clone(), context.clone())).collect()
        }
        _ => Vec::new(),
    });
    for (path, context) in contexts {
        let nodes = match context {
            NodeContext::From(nodes) => nodes,
            NodeContext::Named(name) => {
                check_name(&format!("{path}.named"), "name", &name, faults);
                continue;
            }
            NodeContext::Shared | NodeContext::Fresh => continue,
        };
        if nodes.is_empty() {
            faults.push(Fault::new(format!("{path}.from"), "no node is named").hint("write `context: fresh`"));
        }
        for (i, id) in nodes.iter().enumerate() {
            let path = format!("{path}.from[{i}]");
            match graph.node(id).map(Node::kind) {
                None => faults.push(no_node(path, id)),
                Some(NodeKind::Llm(_) | NodeKind::UserInteraction(_) | NodeKind::ContextProcessor(_)) => {}
                Some(_) => {
                    let hint = "name llm, user_interaction or context_processor nodes";
                    faults.push(Fault::new(path, format!("node `{id}` says nothing")).hint(hint));
                }
            }
        }
    }
}

/// A join does not wait for more branches than there are.
fn check_quorums(graph: &Graph, faults: &mut Vec<Fault>) {
    for node in graph.nodes() {
        let NodeKind::Fork(fork) = node.kind() else { continue };
        let Some(placed) = graph.nodes.get(&fork.join) else { continue };
        let NodeKind::Join(join) = placed.node.kind() else { continue };
        let n_branches = fork.branches.len();
        if let (JoinMode::NOfM, Some(n), None) = (join.mode, join.n, &fork.for_each)
            && n as usize > n_branches
        {
            // A `parallel` node is its own join.
            let is_short = placed.path.ends_with(".parallel");
            let path = if is_short { format!("{}.n", placed.path) } else { format!("{}.join.n", placed.path) };
            let message = format!("{n} branches must succeed and `{}` has {n_branches}", node.id);
            faults.push(Fault::new(path, message).hint(format!("give at most {n_branches}, or use mode all")));
        }
    }
}

/// In a list without `edges`, a node that a route leads to does not follow the node before it as well. `ends` are the end
/// points, where the list can have some.
fn check_order(path: &str, nodes: &[Node], edges: Option<&[Edge]>, ends: Option<&[NodeId]>, faults: &mut Vec<Fault>) {
    for (i, node) in nodes.iter().enumerate() {
        let path = at(path, &format!("nodes[{i}]"));
        let mut inside = |path: String, body: &Body| {
            check_order(&path, &body.nodes, body.edges.as_deref(), None, faults);
        };
        match node.kind() {
            NodeKind::Loop(repeat) => repeat.body.iter().for_each(|body| inside(format!("{path}.loop.body"), body)),
            NodeKind::Parallel(parallel) => {
                parallel.body.iter().for_each(|body| inside(format!("{path}.parallel.body"), body));
                for (name, body) in &parallel.branches {
                    inside(format!("{path}.parallel.branches.{name}"), body);
                }
            }
            _ => {}
        }
    }
    if edges.is_some() {
        return;
    }
    let mut told = BTreeSet::new();
    for (i, node) in nodes.iter().enumerate() {
        for target in targets(node) {
            let Some(t) = nodes.iter().position(|node| node.id == *target).filter(|t| *t > i + 1) else { continue };
            let before = &nodes[t - 1];
            let goes_on = leads_on(before) && !ends.is_some_and(|ends| ends.contains(&before.id));
            if !goes_on || matches!(nodes[t].kind(), NodeKind::End) || !told.insert(t) {
                continue;
            }
            let message = format!(
                "`{}` leads to `{target}`, and `{target}` also follows `{}`, because the list has no `edges`",
                node.id, before.id
            );
            let hint = match ends {
                Some(_) => format!("write `edges`, or name `{}` under `end_points`", before.id),
                None => "write `edges`: the body is done at a node without one".to_owned(),
            };
            faults.push(Fault::new(at(path, &format!("nodes[{t}]")), message).hint(hint));
        }
    }
}

/// The nodes that a route leads to, or a handoff.
fn targets(node: &Node) -> Vec<&NodeId> {
    match node.kind() {
        NodeKind::Llm(llm) => llm.handoffs.iter().collect(),
        NodeKind::Route(route) => {
            route.conditions.iter().map(|condition| &condition.to).chain(&route.default).collect()
        }
        NodeKind::Condition(condition) => vec![&condition.then, &condition.otherwise],
        _ => Vec::new(),
    }
}

/// Whether the next node of a list without edges follows this one.
fn leads_on(node: &Node) -> bool {
    match node.kind() {
        NodeKind::Route(route) => route.default.is_none(),
        NodeKind::Condition(_) | NodeKind::Fork(_) | NodeKind::End => false,
        _ => true,
    }
}
