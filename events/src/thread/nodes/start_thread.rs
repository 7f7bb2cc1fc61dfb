//! A node that starts a child.

use super::super::env::Env;
use super::super::state::{CHILDREN_DEPTH_MAX, CHILDREN_MAX, State};
use crate::codec::OrderedMap;
use crate::event::{ChildStartRequested, Event};
use crate::expression::ExpressionError;
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::ThreadId;
use crate::json::Json;
use crate::workflow::{Node, StartThreadNode, Workflow};

pub(super) fn begin(
    state: &State,
    workflow: &Workflow,
    node: &Node,
    start: &StartThreadNode,
    around: &Env<'_>,
) -> Result<Event, ExecutionError> {
    let limit = |message: String| Err(ExecutionError::new(ErrorKind::Limit, message));
    if state.children.n_in_run >= CHILDREN_MAX {
        return limit(format!("a run starts at most {CHILDREN_MAX} threads"));
    }
    if state.children.depth >= CHILDREN_DEPTH_MAX {
        return limit(format!("threads start threads {CHILDREN_DEPTH_MAX} deep at most"));
    }
    let name = &start.workflow;
    if !workflow.spec().workflows.contains_key(name) {
        return Err(ExecutionError::new(ErrorKind::Configuration, format!("there is no workflow `{name}`")));
    }
    let context = state.context();
    let inputs = start.inputs.iter().map(|(name, value)| Ok((name.clone(), context.fill(&value.0)?.into())));
    let inputs = inputs.collect::<Result<OrderedMap<Json>, ExpressionError>>()?;
    workflow.check_inputs(name, &inputs)?;
    Ok(ChildStartRequested {
        node_id: node.id.clone(),
        child: ThreadId::of_branch(state.thread(), state.next_seq(), around.now),
        workflow: name.clone(),
        inputs,
        on_parent_end: start.on_parent_end,
        into: start.into.clone(),
    }
    .into())
}
