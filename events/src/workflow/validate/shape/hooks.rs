//! Checks that a node belongs to the workflow or to its hooks, and no node of `finally` to another hook.

use crate::event::Hook;
use crate::ids::NodeId;
use crate::workflow::definition::Workflow;
use crate::workflow::fault::Fault;
use crate::workflow::validate::ways::{Shape, reach};

/// Finds hooks with a node that is also reached from the entry, or that `finally` shares with another hook.
pub(super) fn check(shape: &Shape<'_>, faults: &mut Vec<Fault>) {
    let Some(entry) = &shape.graph.entry else { return };
    let from = |first| reach(shape.number(first).into_iter().collect(), &shape.next);
    let hooks: Vec<_> = shape.graph.hooks().map(|(hook, first)| (hook, from(first))).collect();
    let of_run = if hooks.is_empty() { Vec::new() } else { from(entry) };
    for (hook, nodes) in &hooks {
        if let Some(shared) = first_shared(shape, nodes, &of_run) {
            let message = format!("node `{shared}` of the hook is also reached from `{entry}`");
            let hint = "give the hook nodes of its own, and no edge, on_error or list order that leads to them";
            faults.push(Fault::new(hook.key(), message).hint(hint));
            continue;
        }
        let others = hooks.iter().filter(|(other, _)| *hook == Hook::Finally && other != hook);
        for (other, others) in others {
            if let Some(shared) = first_shared(shape, nodes, others) {
                let message = format!("node `{shared}` of the hook also belongs to hook `{other}`");
                let hint = "`finally` runs after the other hook: give it nodes of its own";
                faults.push(Fault::new(hook.key(), message).hint(hint));
            }
        }
    }
}

impl Workflow {
    /// Whether a node of the workflow itself belongs to a hook. Costs a walk through the hooks.
    pub fn is_of_hook(&self, id: &NodeId) -> bool {
        let shape = Shape::new(self.main());
        let first = shape.graph.hooks().filter_map(|(_, first)| shape.number(first)).collect();
        shape.number(id).is_some_and(|number| reach(first, &shape.next)[number])
    }
}

/// The first node, in the order of the file, that is in both.
fn first_shared(shape: &Shape<'_>, nodes: &[bool], others: &[bool]) -> Option<String> {
    let shared = nodes.iter().zip(others).position(|(one, other)| *one && *other)?;
    shape.placed(shared).map(|placed| placed.node.id.to_string())
}
