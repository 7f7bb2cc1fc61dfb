//! A node that starts branches: plans them, all at once.

use super::super::{env::Env, for_each::list_of, state::State};
use crate::event::{Branches, Event, ForkStarted, NamedBranch};
use crate::fault::{ErrorKind, ExecutionError};
use crate::workflow::{ForkNode, JoinMode, Node, NodeKind, Workflow};

/// How many branches of a list run at once when the node does not say.
const CONCURRENCY_DEFAULT: u32 = 64;
/// The most branches of a fork.
const BRANCHES_MAX: usize = 1_000_000;
/// The default name of the element.
const ITEM: &str = "item";

pub(super) fn begin(
    state: &State,
    workflow: &Workflow,
    node: &Node,
    fork: &ForkNode,
    around: &Env<'_>,
) -> Result<Event, ExecutionError> {
    let Some(NodeKind::Join(join)) = state.node_of(workflow, &fork.join).map(Node::kind) else {
        let message = format!("node `{}` has no join `{}`", node.id, fork.join);
        return Err(ExecutionError::new(ErrorKind::Configuration, message));
    };
    let branches = branches(state, node, fork)?;
    let n = u32::try_from(branches.len()).unwrap_or(u32::MAX);
    let n_needed = match join.mode {
        JoinMode::All => n,
        JoinMode::Any => 1,
        JoinMode::NOfM => join.n.unwrap_or(n),
    };
    if n_needed > n {
        let message = format!(
            "{n_needed} branches of node `{}` must succeed (join `{}`), and the list has {n} elements: lower `n`, or go \
             round the node when the list is too short",
            node.id, fork.join
        );
        return Err(ExecutionError::new(ErrorKind::Configuration, message));
    }
    let concurrency_max = fork.concurrency.unwrap_or(match branches {
        Branches::Named(_) => n.max(1),
        Branches::Each { .. } => CONCURRENCY_DEFAULT,
    });
    Ok(ForkStarted {
        node_id: node.id.clone(),
        join: fork.join.clone(),
        branches,
        n_needed,
        on_failed: join.on_failed,
        concurrency_max,
        deadline: join.timeout_ms.map(|ms| around.now.plus_ms(ms)),
        quorum: join.mode != JoinMode::All,
        into: fork.into.clone(),
    }
    .into())
}

fn branches(state: &State, node: &Node, fork: &ForkNode) -> Result<Branches, ExecutionError> {
    let (Some(list), Some(entry)) = (&fork.for_each, &fork.entry) else {
        let named = fork.branches.iter().map(|(name, entry)| NamedBranch { name: name.clone(), entry: entry.clone() });
        return Ok(Branches::Named(named.collect()));
    };
    let items = list_of(state, &node.id, ("for_each", list))?;
    if items.len() > BRANCHES_MAX {
        let message = format!("node `{}` would start {} branches, the limit is {BRANCHES_MAX}", node.id, items.len());
        return Err(ExecutionError::new(ErrorKind::Limit, message));
    }
    Ok(Branches::Each { entry: entry.clone(), variable: fork.variable.clone().unwrap_or_else(|| ITEM.into()), items })
}
