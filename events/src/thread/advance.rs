//! What the machine owes to nobody but itself.

use super::nodes;
use super::state::{NodeRun, Phase, Run, State, Work};
use super::{Status, Surroundings};
use crate::event::{
    CheckpointCreated, Event, NodeCompleted, NodeFailed, NodeStarted, RouteTaken, ThreadCompleted, ThreadFailed,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{NodeId, Time};
use crate::workflow::{Node, Workflow};

pub(super) fn advance(state: &State, workflow: &Workflow, around: &Surroundings<'_>) -> Option<Event> {
    let run = state.run.as_ref()?;
    if state.is_paused() {
        return None;
    }
    match &state.phase {
        Phase::New | Phase::Ended(_) => None,
        Phase::Entering { node, attempt, not_before, .. } => {
            (*not_before <= around.now).then(|| enter(state, run, workflow, node, *attempt, around.now))
        }
        Phase::InNode(node_run) => in_node(state, workflow, node_run, around),
        Phase::Leaving { node } => Some(leave(state, run, workflow, node, around)),
        Phase::Failing { node, error } => Some(match workflow.node(node).and_then(|node| node.on_error.as_ref()) {
            Some(target) => {
                RouteTaken { from: node.clone(), to: target.clone(), condition: Some(format!("error {}", error.kind)) }
                    .into()
            }
            None => failed(Some(node), error.clone()),
        }),
    }
}

fn failed(node: Option<&NodeId>, error: ExecutionError) -> Event {
    ThreadFailed { node: node.cloned(), error }.into()
}

fn no_such_node(workflow: &Workflow, id: &NodeId) -> ExecutionError {
    let message = format!("workflow `{}` ({}) has no node `{id}`", workflow.name(), workflow.hash());
    ExecutionError::new(ErrorKind::Configuration, message)
}

fn enter(state: &State, run: &Run, workflow: &Workflow, id: &NodeId, attempt: u32, now: Time) -> Event {
    let Some(node) = workflow.node(id) else {
        return failed(Some(id), no_such_node(workflow, id));
    };
    if attempt == 1 && state.totals.n_iterations >= run.max_iterations {
        let message = format!("the thread has entered {} nodes (max_iterations)", run.max_iterations);
        return failed(Some(id), ExecutionError::new(ErrorKind::Limit, message));
    }
    NodeStarted { node: id.clone(), attempt, deadline: node.timeout_ms.map(|ms| now.plus_ms(ms)) }.into()
}

fn in_node(state: &State, workflow: &Workflow, run: &NodeRun, around: &Surroundings<'_>) -> Option<Event> {
    let Some(node) = workflow.node(&run.node) else {
        return Some(give_up(None, run, no_such_node(workflow, &run.node), around.now));
    };
    match &run.work {
        Work::Ready => Some(
            nodes::begin(state, node, run, around).unwrap_or_else(|error| give_up(Some(node), run, error, around.now)),
        ),
        Work::Llm(agent_loop) => agent_loop.advance(around),
        Work::Tool(_) => None,
        Work::Asking(ask) => nodes::process_answer(state, node, ask),
        Work::Done { .. } => Some(completed(run, around.now)),
        Work::Failed(error) => Some(give_up(Some(node), run, error.clone(), around.now)),
    }
}

pub(super) fn completed(run: &NodeRun, now: Time) -> Event {
    NodeCompleted { node: run.node.clone(), duration_ms: now.ms_since(run.started_at) }.into()
}

/// The try failed; it is repeated when the node's policy and the error allow it.
fn give_up(node: Option<&Node>, run: &NodeRun, error: ExecutionError, now: Time) -> Event {
    let policy = node.and_then(|node| node.retry).filter(|policy| run.attempt < policy.max_attempts);
    let retry_at = policy.filter(|_| may_be_repeated(&error)).map(|policy| now.plus_ms(policy.wait_ms(run.attempt)));
    NodeFailed { node: run.node.clone(), attempt: run.attempt, error, retry_at }.into()
}

/// A node is repeated after any error that another try can mend. `Indeterminate` is not one: the call may have
/// happened, and a new try would be another call.
fn may_be_repeated(error: &ExecutionError) -> bool {
    match error.kind {
        ErrorKind::Timeout
        | ErrorKind::Failed
        | ErrorKind::Panicked
        | ErrorKind::RateLimit
        | ErrorKind::Overloaded
        | ErrorKind::Server
        | ErrorKind::Connection
        | ErrorKind::StreamInterrupted
        | ErrorKind::MalformedResponse
        | ErrorKind::Limit => true,
        ErrorKind::Indeterminate
        | ErrorKind::Cancelled
        | ErrorKind::InvalidArguments
        | ErrorKind::UnknownTool
        | ErrorKind::TooLarge
        | ErrorKind::Denied
        | ErrorKind::NotFound
        | ErrorKind::Conflict
        | ErrorKind::Authentication
        | ErrorKind::Permission
        | ErrorKind::InvalidRequest
        | ErrorKind::ContextLength
        | ErrorKind::ContentFilter
        | ErrorKind::Quota
        | ErrorKind::Expression
        | ErrorKind::Configuration
        | ErrorKind::Internal => error.retryable,
    }
}

fn leave(state: &State, run: &Run, workflow: &Workflow, id: &NodeId, around: &Surroundings<'_>) -> Event {
    if let Some(label) = checkpoint_due(state, workflow, id) {
        return CheckpointCreated { label }.into();
    }
    if workflow.is_end(id) {
        return ThreadCompleted { node: id.clone() }.into();
    }
    let edges = workflow.edges_from(id);
    if let [only] = edges
        && only.when.is_none()
    {
        return enter(state, run, workflow, &only.to, 1, around.now);
    }
    let context = state.context();
    for edge in edges {
        let holds = edge.when.as_ref().map_or(Ok(true), |when| context.holds(when));
        match holds {
            Ok(true) => {
                return RouteTaken { from: id.clone(), to: edge.to.clone(), condition: edge.when.clone() }.into();
            }
            Ok(false) => {}
            Err(e) => return failed(Some(id), ExecutionError::new(ErrorKind::Expression, e.to_string())),
        }
    }
    let message = format!("no condition of the edges from `{id}` holds, and there is no default edge");
    failed(Some(id), ExecutionError::new(ErrorKind::Expression, message))
}

/// The name of the moment after a node that asks for one, unless this visit has it already.
fn checkpoint_due(state: &State, workflow: &Workflow, id: &NodeId) -> Option<String> {
    let label = workflow.node(id)?.checkpoint.as_ref()?;
    let entered = state.path.iter().rev().find(|visit| visit.node == *id)?.seq;
    if state.checkpoints.last().is_some_and(|last| last.seq > entered && is_numbered(&last.label, label)) {
        return None;
    }
    let n = state.checkpoints.iter().filter(|checkpoint| is_numbered(&checkpoint.label, label)).count();
    Some(if n == 0 { label.clone() } else { format!("{label}#{}", n + 1) })
}

fn is_numbered(label: &str, base: &str) -> bool {
    label.strip_prefix(base).is_some_and(|rest| {
        rest.is_empty() || rest.strip_prefix('#').is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// Whether the machine waits for a person.
pub(super) fn waits_for_somebody(state: &State) -> bool {
    matches!(state.status(), Status::Waiting | Status::Paused)
}
