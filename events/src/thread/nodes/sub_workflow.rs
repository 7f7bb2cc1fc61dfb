//! A workflow inside a workflow: sees its inputs, its own variables, and those of the thread.

use super::super::check;
use super::super::state::{Frame, SUB_WORKFLOWS_DEPTH_MAX, State, SubFrame};
use crate::codec::OrderedMap;
use crate::event::{Event, NodeContext, SubWorkflowCompleted, SubWorkflowFailed, SubWorkflowStarted};
use crate::expression::{Context, ExpressionError};
use crate::fault::{ErrorKind, ExecutionError};
use crate::json::Json;
use crate::workflow::{Node, NodeKind, SubWorkflowNode, Workflow};

pub(super) fn begin(
    state: &State,
    workflow: &Workflow,
    node: &Node,
    sub: &SubWorkflowNode,
) -> Result<Event, ExecutionError> {
    let depth = state.frames().iter().filter(|frame| matches!(frame, Frame::Sub(_))).count();
    if depth >= SUB_WORKFLOWS_DEPTH_MAX {
        let message = format!("sub-workflows are nested {depth} deep, which is the limit");
        return Err(ExecutionError::new(ErrorKind::Limit, message));
    }
    let name = sub.workflow.as_str();
    let (Some(inner), Some(graph)) = (workflow.spec().workflows.get(name), workflow.graph(Some(name))) else {
        let message = format!("there is no workflow `{name}`");
        return Err(ExecutionError::new(ErrorKind::Configuration, message));
    };
    let Some(entry) = graph.entry() else {
        return Err(ExecutionError::new(ErrorKind::Configuration, format!("workflow `{name}` has no node")));
    };
    if let Some(context) = &sub.context {
        check::conversation_is_free(state, context)?;
    }
    let context = state.context();
    let inputs = sub.inputs.iter().map(|(name, value)| Ok((name.clone(), context.fill(&value.0)?.into())));
    let inputs = inputs.collect::<Result<OrderedMap<Json>, ExpressionError>>()?;
    workflow.check_inputs(name, &inputs)?;
    let mut variables = inner.variables.clone();
    for (name, value) in inputs.iter() {
        variables.insert(name.clone(), value.clone());
    }
    Ok(SubWorkflowStarted {
        node_id: node.id.clone(),
        workflow: name.to_owned(),
        entry: entry.clone(),
        variables,
        max_iterations: workflow.sub_workflow_max_iterations(name),
        context: sub.context.clone().unwrap_or(NodeContext::Fresh),
    }
    .into())
}

/// The inner workflow reached an end: what it gives to the one around it.
pub(in super::super) fn complete(state: &State, workflow: &Workflow, open: &SubFrame) -> Event {
    let node = open.run.node.clone();
    let given = state.output_here().cloned().unwrap_or_default();
    let made = workflow.accept_output(Some(&open.workflow), &given).and_then(|output| {
        let context = if output == given { state.context() } else { state.context_with_output(output.clone()) };
        let variables = outputs(state, workflow, open, &context)?;
        Ok((output, variables))
    });
    match made {
        Ok((output, mut variables)) => {
            let output = variables.shift_remove("output").unwrap_or(output);
            let output = Some(output).filter(|output| !output.0.is_null());
            SubWorkflowCompleted { node_id: node, output, variables }.into()
        }
        Err(error) => SubWorkflowFailed { node_id: node, error }.into(),
    }
}

fn outputs(
    state: &State,
    workflow: &Workflow,
    open: &SubFrame,
    context: &Context,
) -> Result<OrderedMap<Json>, ExpressionError> {
    let i = state.frames().iter().rposition(|frame| matches!(frame, Frame::Sub(_))).unwrap_or(0);
    let caller = state.frames()[..i].iter().rev().find_map(|frame| match frame {
        Frame::Sub(outer) => Some(outer.workflow.as_str()),
        Frame::Loop(_) => None,
    });
    let node = workflow.graph(caller).and_then(|graph| graph.node(&open.run.node));
    let Some(NodeKind::SubWorkflow(sub)) = node.map(Node::kind) else {
        return Ok(OrderedMap::default());
    };
    sub.outputs.iter().map(|(name, text)| Ok((name.clone(), context.evaluate_text(text)?))).collect()
}
