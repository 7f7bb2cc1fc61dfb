//! How a run ends: with its hooks, if it has some, and then with the event that ends it.

use super::closing::{close_all, close_thread};
use super::frames::fail_outwards;
use super::input::Rejected;
use super::state::{HookRun, State};
use super::{queueing, runs, sizes};
use crate::event::{
    Event, Hook, HookEnded, HookStarted, RunEnding, ThreadCancelled, ThreadCompleted, ThreadFailed, VariablesUpdated,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{NodeId, RunId, Time};
use crate::workflow::Workflow;

/// The graph came to an end at a node: so did the hook that runs, or the run completes.
pub(super) fn at_end(state: &State, workflow: &Workflow, id: &NodeId) -> Event {
    match state.own_hooks() {
        Some(hooks) => HookEnded { hook: hooks.hook, node_id: Some(id.clone()), error: None }.into(),
        None => completed(state, workflow, id),
    }
}

/// The run completes if its output fits. One that is a text and fits as JSON is set to that first. A branch has no output
/// of the workflow.
fn completed(state: &State, workflow: &Workflow, id: &NodeId) -> Event {
    let completed = ThreadCompleted { node_id: id.clone(), run_follows: state.has_next_run() }.into();
    if state.branch.is_some() {
        return completed;
    }
    let output = state.output_here().cloned().unwrap_or_default();
    let fail = |error| fail_outwards(state, Some(id), error);
    match workflow.accept_output(None, &output) {
        Ok(accepted) if accepted == output => completed,
        Ok(accepted) => {
            let variables = [("output".to_owned(), accepted)].into_iter().collect();
            sizes::or_else(VariablesUpdated { variables, by: None }.into(), fail)
        }
        Err(error) => fail(error),
    }
}

/// The event, or what comes in its place if it would end the run: the beginning of a hook, or the end of the one that runs.
pub(super) fn or_its_hook(state: &State, workflow: &Workflow, event: Event, now: Time) -> Event {
    // A run that waits for its turn has nothing to compensate.
    let is_before_turn = queueing::is_before_turn(state, workflow);
    if state.branch.is_some() || state.is_between_hooks() || is_before_turn {
        return event;
    }
    let Some(ending) = ending_of(&event) else { return event };
    match (state.own_hooks(), ending) {
        (None, ending) => {
            let own = ending.own_hook().filter(|hook| workflow.spec().hook(*hook).is_some());
            begun(workflow, own.unwrap_or(Hook::Finally), ending, event.by().cloned(), now).unwrap_or(event)
        }
        (Some(hooks), RunEnding::Failed { node_id, error }) => {
            HookEnded { hook: hooks.hook, node_id, error: Some(error) }.into()
        }
        (Some(_), RunEnding::Completed { .. } | RunEnding::Cancelled { .. }) => event,
    }
}

/// The events of one decision, of which the last may end the run.
pub(super) fn with_hooks(state: &State, workflow: &Workflow, mut events: Vec<Event>, now: Time) -> Vec<Event> {
    let last = events.pop().map(|last| or_its_hook(state, workflow, last, now));
    events.extend(last);
    events
}

fn ending_of(event: &Event) -> Option<RunEnding> {
    if let Event::ThreadCompleted(e) = event {
        Some(RunEnding::Completed { node_id: e.node_id.clone() })
    } else if let Event::ThreadFailed(e) = event {
        Some(RunEnding::Failed { node_id: e.node_id.clone(), error: e.error.clone() })
    } else if let Event::ThreadCancelled(e) = event {
        Some(RunEnding::Cancelled { reason: e.reason.clone() })
    } else {
        None
    }
}

/// The beginning of a hook, if the workflow has it.
fn begun(
    workflow: &Workflow,
    hook: Hook,
    ending: RunEnding,
    by: Option<crate::principal::Principal>,
    now: Time,
) -> Option<Event> {
    let node_id = workflow.spec().hook(hook)?.clone();
    Some(HookStarted { hook, node_id, ending, deadline: now.plus_ms(workflow.hook_timeout_ms()), by }.into())
}

/// A hook is over: the next one begins, or the run ends.
pub(super) fn next(state: &State, workflow: &Workflow, now: Time) -> Option<Event> {
    let hooks = state.own_hooks()?;
    let next = if hooks.hook == Hook::Finally {
        None
    } else {
        begun(workflow, Hook::Finally, hooks.ending.clone(), hooks.by.clone(), now)
    };
    Some(next.unwrap_or_else(|| last(state, workflow, hooks)))
}

/// The event that ends a run whose hooks are over.
fn last(state: &State, workflow: &Workflow, hooks: &HookRun) -> Event {
    let run_follows = state.has_next_run();
    match &hooks.ending {
        RunEnding::Completed { node_id } => match hooks.failed.first() {
            None => completed(state, workflow, node_id),
            Some(failed) => {
                let message = format!("hook `{}` failed: {}", failed.hook, failed.error.message);
                let error = ExecutionError { message, ..failed.error.clone() };
                ThreadFailed { node_id: failed.node.clone(), error, run_follows }.into()
            }
        },
        RunEnding::Failed { node_id, error } => {
            let error = ExecutionError { cause: joined(error.cause.clone(), hooks), ..error.clone() };
            ThreadFailed { node_id: node_id.clone(), error, run_follows }.into()
        }
        RunEnding::Cancelled { reason } => {
            let (reason, by, cause) = (reason.clone(), hooks.by.clone(), joined(None, hooks));
            ThreadCancelled { reason, by, run_follows, cause }.into()
        }
    }
}

/// The cause of an error, and the hooks that failed.
fn joined(cause: Option<String>, hooks: &HookRun) -> Option<String> {
    let failed = hooks.failed.iter().map(|failed| {
        let node = failed.node.as_ref().map(|node| format!(" at node `{node}`")).unwrap_or_default();
        format!("hook `{}` failed{node}: {}: {}", failed.hook, failed.error.kind, failed.error.message)
    });
    let causes: Vec<_> = cause.into_iter().chain(failed).collect();
    (!causes.is_empty()).then(|| causes.join("; "))
}

/// The run is cancelled, and with it those that wait.
pub(super) fn cancel(
    state: &State,
    workflow: &Workflow,
    reason: Option<String>,
    now: Time,
) -> Result<Vec<Event>, Rejected> {
    let reason = reason.or_else(|| first_reason(state));
    let mut events = runs::cancel_all_queued(state, &because("the thread was cancelled", reason.as_deref()));
    if state.run_has_ended() {
        return Ok(events);
    }
    match cancel_run(state, workflow, reason, false, now) {
        Ok(ended) => events.extend(ended),
        Err(refused) if events.is_empty() => return Err(refused),
        Err(_) => {}
    }
    Ok(events)
}

/// One run is cancelled: that which goes on, after which those that wait follow, or one of these.
pub(super) fn cancel_one(
    state: &State,
    workflow: &Workflow,
    run: RunId,
    reason: Option<String>,
    now: Time,
) -> Result<Vec<Event>, Rejected> {
    if state.run_id() == run && !state.run_has_ended() {
        return cancel_run(state, workflow, reason, state.has_next_run(), now);
    }
    runs::cancel_queued(state, run, reason)
}

/// The run that goes on is cancelled. `run_follows` says whether another begins after it. A second time, while the hooks of a
/// cancelled run are running, it ends at once. Hooks of a run that ends otherwise run on.
fn cancel_run(
    state: &State,
    workflow: &Workflow,
    reason: Option<String>,
    run_follows: bool,
    now: Time,
) -> Result<Vec<Event>, Rejected> {
    let hooks = state.own_hooks();
    let cause = match hooks.map(|hooks| (hooks, &hooks.ending)) {
        Some((hooks, RunEnding::Completed { .. } | RunEnding::Failed { .. })) => {
            return Err(Rejected::Ending { hook: hooks.hook });
        }
        Some((hooks, RunEnding::Cancelled { .. })) => Some(format!("hook `{}` was cancelled", hooks.hook)),
        None => None,
    };
    let reason = reason.or_else(|| first_reason(state));
    let why = because("the thread was cancelled", reason.as_deref());
    let mut events = close_all(state, &ExecutionError::new(ErrorKind::Cancelled, why), now);
    let cancelled = ThreadCancelled { reason, by: None, run_follows, cause }.into();
    events.push(or_its_hook(state, workflow, cancelled, now));
    Ok(events)
}

/// Why the run was cancelled whose hooks are running.
fn first_reason(state: &State) -> Option<String> {
    match &state.own_hooks()?.ending {
        RunEnding::Cancelled { reason } => reason.clone(),
        RunEnding::Completed { .. } | RunEnding::Failed { .. } => None,
    }
}

/// The first run is cancelled, if it goes on, and not those that wait. Its hooks run on.
pub(super) fn cancel_first_run(state: &State, workflow: &Workflow, reason: Option<String>, now: Time) -> Vec<Event> {
    if state.run_number() != 1 || state.run_has_ended() || state.own_hooks().is_some() {
        return Vec::new();
    }
    cancel_run(state, workflow, reason, state.has_next_run(), now).unwrap_or_default()
}

/// Ends the thread in an error, and cancels the runs that wait. No hook runs: something is wrong with the thread.
pub(super) fn give_up(state: &State, mut error: ExecutionError, now: Time) -> Vec<Event> {
    let mut events = runs::cancel_all_queued(state, &error.message);
    if let Some(hooks) = state.own_hooks() {
        let cut_off = format!("hook `{}` was cut off, and the run was to end as {}", hooks.hook, hooks.ending.status());
        error.cause = Some(error.cause.map_or_else(|| cut_off.clone(), |cause| format!("{cause}; {cut_off}")));
    }
    if !state.run_has_ended() {
        events.extend(close_thread(state, error, now));
    }
    // Those that waited are cancelled.
    for event in &mut events {
        if let Event::ThreadFailed(failed) = event {
            failed.run_follows = false;
        }
    }
    events
}

/// What was done, and why.
pub(super) fn because(what: &str, reason: Option<&str>) -> String {
    reason.map_or_else(|| what.to_owned(), |reason| format!("{what}: {reason}"))
}
