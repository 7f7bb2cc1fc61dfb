//! Sub-workflows that run themselves on every way, and so never end.

use crate::workflow::fault::Fault;
use crate::workflow::graph::Graph;
use crate::workflow::node::NodeKind;
use std::collections::BTreeSet;

use super::ways::Shape;

/// Finds sub-workflows of which no run can end, because every way through them runs one of them again.
pub(super) fn check(subs: &[(&str, &Graph)], faults: &mut Vec<Fault>) {
    let mut endless: BTreeSet<&str> = subs.iter().map(|(name, _)| *name).collect();
    loop {
        let ends = |(name, graph): &&(&str, &Graph)| endless.contains(name) && can_end(graph, &endless);
        let ending: Vec<&str> = subs.iter().filter(ends).map(|(name, _)| *name).collect();
        if ending.is_empty() {
            break;
        }
        endless.retain(|name| !ending.contains(name));
    }
    for (name, graph) in subs.iter().filter(|(name, _)| endless.contains(name)) {
        let calls =
            |kind: NodeKind<'_>| matches!(kind, NodeKind::SubWorkflow(sub) if endless.contains(sub.workflow.as_str()));
        let call = graph.nodes.values().find(|placed| calls(placed.node.kind()));
        if let Some(placed) = call {
            let message = format!("sub-workflow `{name}` runs itself on every way, and never ends");
            faults.push(
                Fault::new(format!("{}.sub_workflow.workflow", placed.path), message)
                    .hint("lead a way around this node: a route, or an edge with `when`"),
            );
        }
    }
}

/// Whether a way leads from the entry to an end without running one of these.
fn can_end(graph: &Graph, endless: &BTreeSet<&str>) -> bool {
    let shape = Shape::new(graph);
    let Some(entry) = graph.entry.as_ref().and_then(|entry| shape.number(entry)) else { return true };
    let mut seen = BTreeSet::new();
    let mut todo = vec![entry];
    while let Some(i) = todo.pop() {
        let Some(placed) = shape.placed(i).filter(|_| seen.insert(i)) else { continue };
        if matches!(placed.node.kind(), NodeKind::SubWorkflow(sub) if endless.contains(sub.workflow.as_str())) {
            // It does not return; the edge for its error is followed.
            todo.extend(placed.node.after_failure().filter_map(|target| shape.number(target)));
            continue;
        }
        if graph.is_end(&placed.node.id) {
            return true;
        }
        todo.extend(shape.after(placed));
    }
    false
}
