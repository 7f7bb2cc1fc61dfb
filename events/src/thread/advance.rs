//! The next event that follows without an input.

use super::agent_loop::Gate;
use super::checkpoint_names::is_of;
use super::frames::fail_outwards;
use super::state::{Frame, NodeRun, Phase, State, Verdict, Work};
use super::{
    bounds, branches, ending, env::Env, guardrails, judging, nodes, processors, questions, queueing, runs, sizes,
    status::Status, summaries,
};
use crate::event::{
    CaughtError, CheckpointCreated, ContextProcessingFailed, Event, NodeFailed, NodeStarted, RouteTaken,
    ThreadCompleted,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{NodeId, Time, ToolName};
use crate::workflow::{Node, NodeKind, Workflow};

pub(super) fn advance(state: &State, workflow: &Workflow, around: &Env<'_>) -> Option<Event> {
    let event = next(state, workflow, around)?;
    let event = bounds::within_budget(state, within_event_limit(state, event), around.now)?;
    Some(ending::or_its_hook(state, workflow, event, around.now))
}

fn next(state: &State, workflow: &Workflow, around: &Env<'_>) -> Option<Event> {
    state.run.as_ref()?;
    if state.is_paused() {
        return None;
    }
    if let Some(event) = queueing::owed(state, workflow, around) {
        return Some(event);
    }
    if state.is_queued() {
        return None;
    }
    match &state.phase {
        Phase::New => None,
        Phase::Ended(_) => runs::owed(state, workflow, around.now),
        Phase::BetweenHooks => ending::next(state, workflow, around.now),
        Phase::Entering { node, attempt, not_before, .. } => {
            (*not_before <= around.now).then(|| enter(state, workflow, node, *attempt, around.now))
        }
        Phase::InNode(node_run) => in_node(state, workflow, node_run, around),
        Phase::Leaving { node, handoff } => Some(leave(state, workflow, node, handoff.as_ref(), around)),
        Phase::Judging(judging) => judging::advance(state, workflow, judging, around)
            .map(|event| event.unwrap_or_else(|error| fail_outwards(state, Some(&judging.node), error))),
        Phase::Failing { node, error, tool } => {
            Some(match state.node_of(workflow, node).and_then(|node| node.after_error(error.kind)) {
                Some(target) => RouteTaken {
                    from: node.clone(),
                    to: target.clone(),
                    condition: Some(format!("error {}", error.kind)),
                    error: Some(caught(state, workflow, node, error, tool.as_ref())),
                }
                .into(),
                None => fail_outwards(state, Some(node), error.clone()),
            })
        }
    }
}

/// The error for the node that `on_error` leads to.
fn caught(
    state: &State,
    workflow: &Workflow,
    id: &NodeId,
    error: &ExecutionError,
    failed: Option<&ToolName>,
) -> CaughtError {
    let tool = match state.node_of(workflow, id).map(Node::kind) {
        Some(NodeKind::Tool(tool)) => Some(tool.tool_name.clone()),
        _ => failed.cloned(),
    };
    let ExecutionError { kind, message, cause, .. } = error.clone();
    CaughtError { kind, message, node: id.clone(), tool, source: cause }
}

fn no_such_node(workflow: &Workflow, id: &NodeId) -> ExecutionError {
    let message = format!("workflow `{}` ({}) has no node `{id}`", workflow.name(), workflow.hash());
    ExecutionError::new(ErrorKind::Configuration, message)
}

fn enter(state: &State, workflow: &Workflow, id: &NodeId, attempt: u32, now: Time) -> Event {
    if state.ends_as_branch_at(id) {
        return ThreadCompleted { node_id: id.clone(), run_follows: state.has_next_run() }.into();
    }
    let Some(node) = state.node_of(workflow, id) else {
        return fail_outwards(state, Some(id), no_such_node(workflow, id));
    };
    let (n_entered, n_max) = state.entered_of();
    if attempt == 1 && n_entered >= n_max {
        let what = match state.frames().last() {
            None => "the thread".to_owned(),
            Some(Frame::Loop(open)) => format!("an iteration of loop `{}`", open.node),
            Some(Frame::Sub(open)) => format!("sub-workflow `{}`", open.workflow),
        };
        let message = format!("{what} has entered {n_max} nodes (max_iterations)");
        if let Some(pause) = bounds::pause(state, &message) {
            return pause;
        }
        return fail_outwards(state, Some(id), ExecutionError::new(ErrorKind::Limit, message));
    }
    NodeStarted { node_id: id.clone(), attempt, deadline: node.timeout_ms.map(|ms| now.plus_ms(ms)) }.into()
}

fn in_node(state: &State, workflow: &Workflow, run: &NodeRun, around: &Env<'_>) -> Option<Event> {
    let node = state.node_of(workflow, &run.node);
    let missing = || give_up(state, None, run, no_such_node(workflow, &run.node), around.now);
    match &run.work {
        Work::Ready => Some(match node {
            Some(node) => nodes::begin(state, workflow, node, run, around)
                .unwrap_or_else(|error| give_up(state, Some(node), run, error, around.now)),
            None => missing(),
        }),
        // What runs needs no definition: all that decides its course is in its request.
        Work::Llm(agent_loop) => questions::follow_up(state, workflow, around)
            .or_else(|| bounds::loop_at_limit(state, agent_loop))
            .or_else(|| match guardrails::gate(state, agent_loop, around).or(|| agent_loop.gate(around.now)) {
                Gate::Event(event) => Some(*event),
                Gate::Closed => None,
                Gate::Open => summaries::before_call(state, agent_loop, around).or_else(|| {
                    let next = (state.thread(), state.next_seq());
                    agent_loop.advance(&state.calls, state.conversation.has_unread(), next, around)
                }),
            }),
        Work::Waiting(wait) => state.calls.get(*wait).is_none().then(|| run.completed(around.now).into()),
        Work::Tool(_) | Work::Asking(_) => questions::follow_up(state, workflow, around),
        Work::Processing { .. } => processors::advance(state, state.processor_run()?, around),
        Work::Branches(fan) => branches::advance(state, fan, around).or_else(|| match fan.verdict() {
            Verdict::Failed(error) => Some(give_up(state, node, run, error, around.now)),
            Verdict::Open | Verdict::Enough => None,
        }),
        Work::Approved(tool) => {
            let request = nodes::run_approved(node, tool, around);
            Some(request.unwrap_or_else(|error| give_up(state, node, run, error, around.now)))
        }
        Work::Done { .. } | Work::HandedOver { .. } => Some(run.completed(around.now).into()),
        Work::Failed(error) => Some(give_up(state, node, run, error.clone(), around.now)),
    }
}

/// The try failed; it is repeated when the node's policy and the error allow it, and when nothing that may have changed the
/// world could happen twice. The policy cannot override that.
fn give_up(state: &State, node: Option<&Node>, run: &NodeRun, mut error: ExecutionError, now: Time) -> Event {
    let policy = node.and_then(|node| node.retry.as_ref()).filter(|policy| run.attempt < policy.max_attempts);
    let policy = policy.filter(|policy| match &policy.on {
        Some(kinds) => kinds.contains(&error.kind),
        None => may_be_repeated(&error),
    });
    let retry_at = match (policy, &run.wrote) {
        (Some(policy), None) => Some(now.plus_ms(policy.wait_ms(run.attempt, chance(state)))),
        (Some(_), Some(agent)) if calls_agent(node, agent) => {
            let why = format!(
                "not tried again, whatever `retry` says: agent `{agent}` ran in this try and may have changed something"
            );
            error.cause = Some(error.cause.map_or_else(|| why.clone(), |cause| format!("{cause}; {why}")));
            None
        }
        (Some(_), Some(tool)) => {
            let why = format!(
                "not tried again, whatever `retry` says: `{tool}` began in this try and may have changed something; a tool \
                 whose calls may be repeated is declared `safe`, or `idempotent`"
            );
            error.cause = Some(error.cause.map_or_else(|| why.clone(), |cause| format!("{cause}; {why}")));
            None
        }
        (None, _) => None,
    };
    NodeFailed { node_id: run.node.clone(), attempt: run.attempt, error, retry_at }.into()
}

fn calls_agent(node: Option<&Node>, name: &ToolName) -> bool {
    node.and_then(|node| node.llm.as_ref())
        .is_some_and(|llm| llm.agents.iter().any(|agent| agent.workflow == name.as_str()))
}

/// A number as good as drawn by lot, and the same whenever this moment of this thread is looked at.
fn chance(state: &State) -> u64 {
    let moment = format!("{} {}", state.thread(), state.next_seq().0);
    crate::ids::Hash::of(moment.as_bytes()).number()
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
        | ErrorKind::Internal
        | ErrorKind::CrashedProcess
        | ErrorKind::InvalidInput
        | ErrorKind::InvalidOutput
        | ErrorKind::Interrupted
        | ErrorKind::Guardrail => error.retryable,
    }
}

fn leave(state: &State, workflow: &Workflow, id: &NodeId, handoff: Option<&NodeId>, around: &Env<'_>) -> Event {
    if let Some(open) = state.loop_frame()
        && !open.is_inside
    {
        // The moment after its end has a name when it is left for good, the one after its beginning at once.
        return match checkpoint_due(state, workflow, id).filter(|_| open.n_begun == 0) {
            Some(label) => CheckpointCreated { label, by: None }.into(),
            None => nodes::next_iteration(state, state.node_of(workflow, &open.node), open),
        };
    }
    let in_loop = state.loop_frame().is_some_and(|open| open.node == *id);
    if !in_loop && let Some(label) = checkpoint_due(state, workflow, id) {
        return CheckpointCreated { label, by: None }.into();
    }
    if let Some(to) = handoff {
        let condition = Some("handoff".to_owned());
        return RouteTaken { from: id.clone(), to: to.clone(), condition, error: None }.into();
    }
    let fail = |error| fail_outwards(state, Some(id), error);
    let Some(graph) = state.graph(workflow) else {
        return fail(no_such_node(workflow, id));
    };
    if graph.is_end(id) {
        return match state.own_frames().last() {
            None => ending::at_end(state, workflow, id),
            Some(Frame::Sub(open)) => nodes::complete_sub_workflow(state, workflow, open),
            Some(Frame::Loop(open)) => {
                let message = format!("`{id}` ends the run inside loop `{}`", open.node);
                fail(ExecutionError::new(ErrorKind::Configuration, message))
            }
        };
    }
    if let Some(NodeKind::Fork(fork)) = graph.node(id).map(Node::kind) {
        return enter(state, workflow, &fork.join, 1, around.now);
    }
    let mut edges = graph.edges_from(id);
    if edges.len() == 1
        && let Some(only) = edges.next()
        && only.is_default()
    {
        return enter(state, workflow, &only.to, 1, around.now);
    }
    judging::try_edges(state, workflow, id, 0, around).unwrap_or_else(fail)
}

/// The name of the moment after a node that asks for one, unless this visit has it already.
fn checkpoint_due(state: &State, workflow: &Workflow, id: &NodeId) -> Option<String> {
    let label = state.node_of(workflow, id)?.checkpoint.as_ref()?;
    let entered = state.path.last()?.seq;
    let mut since = state.checkpoints.iter().rev().take_while(|checkpoint| checkpoint.seq > entered);
    let has_it = since.any(|checkpoint| is_of(&checkpoint.label, label));
    (!has_it).then(|| state.checkpoint_names.next(label))
}

/// Whether the machine waits for a person.
pub(super) fn waits_for_a_person(state: &State) -> bool {
    matches!(state.status(), Status::Waiting | Status::Suspended | Status::Queued | Status::Paused)
}

/// An event that the machine owes to itself, or the failure of what made it too large.
fn within_event_limit(state: &State, event: Event) -> Event {
    let Some(error) = sizes::fault_of(&event) else {
        return event;
    };
    match &state.phase {
        Phase::InNode(run) => match &run.work {
            Work::Ready | Work::Approved(_) => {
                NodeFailed { node_id: run.node.clone(), attempt: run.attempt, error, retry_at: None }.into()
            }
            Work::Llm(agent_loop) if state.calls.is_empty() => agent_loop.failed(error),
            Work::Processing { call, .. } => ContextProcessingFailed { node_id: None, call_id: *call, error }.into(),
            // What these decide is small, or no larger than what was recorded before.
            Work::Llm(_)
            | Work::Tool(_)
            | Work::Asking(_)
            | Work::Waiting(_)
            | Work::Branches(_)
            | Work::Done { .. }
            | Work::HandedOver { .. }
            | Work::Failed(_) => event,
        },
        Phase::Leaving { node, .. } if matches!(state.own_frames().last(), Some(Frame::Sub(_))) => {
            fail_outwards(state, Some(node), error)
        }
        Phase::New
        | Phase::Entering { .. }
        | Phase::Leaving { .. }
        | Phase::Judging(_)
        | Phase::Failing { .. }
        | Phase::BetweenHooks
        | Phase::Ended(_) => event,
    }
}
