//! What the machine owes to nobody but itself.

use super::branches::{self, Verdict};
use super::labels::is_of;
use super::state::{NodeRun, Phase, Run, State, Work};
use super::{Status, Surroundings};
use super::{nodes, questions};
use crate::event::{
    CheckpointCreated, Event, NodeCompleted, NodeFailed, NodeStarted, RouteTaken, ThreadCompleted, ThreadFailed,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{NodeId, Time};
use crate::workflow::{Node, NodeKind, Workflow};

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
        Phase::Failing { node, error } => {
            Some(match state.node_of(workflow, node).and_then(|node| node.on_error.as_ref()) {
                Some(target) => RouteTaken {
                    from: node.clone(),
                    to: target.clone(),
                    condition: Some(format!("error {}", error.kind)),
                }
                .into(),
                None => failed(Some(node), error.clone()),
            })
        }
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
    if state.ends_as_branch_at(id) {
        return ThreadCompleted { node: id.clone() }.into();
    }
    let Some(node) = state.node_of(workflow, id) else {
        return failed(Some(id), no_such_node(workflow, id));
    };
    if attempt == 1 && state.totals.n_iterations >= run.max_iterations {
        let message = format!("the thread has entered {} nodes (max_iterations)", run.max_iterations);
        return failed(Some(id), ExecutionError::new(ErrorKind::Limit, message));
    }
    NodeStarted { node: id.clone(), attempt, deadline: node.timeout_ms.map(|ms| now.plus_ms(ms)) }.into()
}

fn in_node(state: &State, workflow: &Workflow, run: &NodeRun, around: &Surroundings<'_>) -> Option<Event> {
    let node = state.node_of(workflow, &run.node);
    let missing = || give_up(None, run, no_such_node(workflow, &run.node), around.now);
    match &run.work {
        Work::Ready => Some(match node {
            Some(node) => nodes::begin(state, workflow, node, run, around)
                .unwrap_or_else(|error| give_up(Some(node), run, error, around.now)),
            None => missing(),
        }),
        // What runs needs no definition: all that decides its course is in its request.
        Work::Llm(agent_loop) => questions::follow_up(state, workflow, around).or_else(|| agent_loop.advance(around)),
        Work::Tool(_) => None,
        Work::Branches(fan) => branches::advance(state, fan, around).or_else(|| match fan.verdict() {
            Verdict::Failed(error) => Some(give_up(node, run, error, around.now)),
            Verdict::Open | Verdict::Enough => None,
        }),
        Work::Asking(_) => questions::follow_up(state, workflow, around),
        Work::Approved(tool) => {
            Some(nodes::run_approved(node, tool, around).unwrap_or_else(|error| give_up(node, run, error, around.now)))
        }
        Work::Done { .. } => Some(completed(run, around.now)),
        Work::Failed(error) => Some(give_up(node, run, error.clone(), around.now)),
    }
}

pub(super) fn completed(run: &NodeRun, now: Time) -> Event {
    NodeCompleted { node: run.node.clone(), duration_ms: now.ms_since(run.started_at) }.into()
}

/// The try failed; it is repeated when the node's policy and the error allow it, and when nothing that wrote to the
/// world could happen twice: another try would make other calls, under other keys.
fn give_up(node: Option<&Node>, run: &NodeRun, mut error: ExecutionError, now: Time) -> Event {
    let policy = node.and_then(|node| node.retry).filter(|policy| run.attempt < policy.max_attempts);
    let policy = policy.filter(|_| may_be_repeated(&error));
    let retry_at = match (policy, &run.wrote) {
        (Some(policy), None) => Some(now.plus_ms(policy.wait_ms(run.attempt))),
        (Some(_), Some(tool)) => {
            let why = format!("not tried again, because `{tool}` wrote to the world in this try, or may have");
            error.cause = Some(error.cause.map_or_else(|| why.clone(), |cause| format!("{cause}; {why}")));
            None
        }
        (None, _) => None,
    };
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
    let Some(graph) = state.graph(workflow) else {
        return failed(Some(id), no_such_node(workflow, id));
    };
    if graph.is_end(id) {
        return ThreadCompleted { node: id.clone() }.into();
    }
    if let Some(NodeKind::Fork(fork)) = graph.node(id).map(Node::kind) {
        return enter(state, run, workflow, &fork.join, 1, around.now);
    }
    let edges = graph.edges_from(id);
    if edges.len() == 1
        && let Some(only) = edges.clone().next()
        && only.is_default()
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
    let label = state.node_of(workflow, id)?.checkpoint.as_ref()?;
    let entered = state.path.last()?.seq;
    let mut since = state.checkpoints.iter().rev().take_while(|checkpoint| checkpoint.seq > entered);
    let has_it = since.any(|checkpoint| is_of(&checkpoint.label, label));
    (!has_it).then(|| state.labels.next(label))
}

/// Whether the machine waits for a person.
pub(super) fn waits_for_somebody(state: &State) -> bool {
    matches!(state.status(), Status::Waiting | Status::Paused)
}
