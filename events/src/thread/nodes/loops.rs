//! A loop: its list is evaluated once, when it begins; its condition before each iteration.

use super::super::env::Env;
use super::super::for_each::list_of;
use super::super::state::{LoopFrame, NodeRun, State};
use crate::event::{Event, LoopEnded, LoopIterationStarted, LoopStarted};
use crate::fault::{ErrorKind, ExecutionError};
use crate::workflow::{LOOP_ITERATIONS_MAX, LoopNode, Node, NodeKind};

/// How the element of a list is called when the node does not say.
const VARIABLE_DEFAULT: &str = "item";
/// The most bytes of the results that a loop collects.
const RESULTS_BYTES_MAX: u64 = 16 << 20;

pub(super) fn begin(
    state: &State,
    node: &Node,
    repeat: &LoopNode,
    run: &NodeRun,
    around: &Env<'_>,
) -> Result<Event, ExecutionError> {
    if state.loop_frame().is_some_and(|open| open.node == node.id && open.n_begun == 0) {
        return Ok(run.completed(around.now).into());
    }
    let Some(end) = &repeat.end else {
        let message = format!("loop `{}` has no end condition", node.id);
        return Err(ExecutionError::new(ErrorKind::Configuration, message));
    };
    let items = repeat.for_each.as_ref().map(|list| list_of(state, &node.id, ("for_each", list))).transpose()?;
    let bounds = [repeat.times, items.as_ref().map(|items| items.len() as u64), Some(most(repeat))];
    Ok(LoopStarted {
        node_id: node.id.clone(),
        end: end.clone(),
        items,
        variable: repeat.variable.clone().unwrap_or_else(|| VARIABLE_DEFAULT.to_owned()),
        n_iterations_max: bounds.into_iter().flatten().min().unwrap_or(0),
        into: repeat.into.clone(),
    }
    .into())
}

fn most(repeat: &LoopNode) -> u64 {
    repeat.max_iterations.unwrap_or(LOOP_ITERATIONS_MAX)
}

/// The next iteration of the loop, or its end.
pub(in super::super) fn next(state: &State, node: Option<&Node>, open: &LoopFrame) -> Event {
    let ended = |error| LoopEnded { node_id: open.node.clone(), n_iterations: open.n_begun, error }.into();
    let Some(NodeKind::LoopStart(repeat)) = node.map(Node::kind) else {
        let message = format!("`{}` is not the start of a loop in this definition", open.node);
        return ended(Some(ExecutionError::new(ErrorKind::Configuration, message)));
    };
    if open.n_result_bytes > RESULTS_BYTES_MAX {
        let message = format!(
            "the results of loop `{}` (into) have {} bytes after {} iterations, the limit is {RESULTS_BYTES_MAX}",
            open.node, open.n_result_bytes, open.n_begun
        );
        return ended(Some(ExecutionError::new(ErrorKind::Limit, message)));
    }
    let is_over = repeat.times.is_some_and(|times| open.n_begun >= times)
        || open.items.as_ref().is_some_and(|items| open.n_begun >= items.len() as u64);
    if is_over {
        return ended(None);
    }
    if let Some(condition) = &repeat.condition {
        match state.context().holds(condition) {
            Ok(true) => {}
            Ok(false) => return ended(None),
            Err(e) => return ended(Some(e.into())),
        }
    }
    if open.n_begun >= most(repeat) {
        let message =
            format!("loop `{}` ran {} iterations and has not ended (max_iterations)", open.node, open.n_begun);
        return ended(Some(ExecutionError::new(ErrorKind::Limit, message)));
    }
    LoopIterationStarted { node_id: open.node.clone(), index: open.n_begun }.into()
}
