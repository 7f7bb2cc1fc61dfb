//! The next run of a thread, and what a message means that comes while one is going on.

use super::agent_loop::INTERRUPTED;
use super::calls::{CallKind, OpenCall};
use super::check;
use super::closing::close_call;
use super::env::Env;
use super::input::{Rejected, RunInput};
use super::questions::question_failed;
use super::state::{RUN_KEY_BYTES_MAX, RUNS_QUEUED_MAX, Stage, State, Totals, Work};
use crate::codec::OrderedMap;
use crate::event::{
    BudgetLimits, Event, InteractionFailure, LlmCallFailed, MessageAdded, MessageEffect, OnLimit, OnMessage,
    OnUnpriced, OperationType, PastRun, RunCancelled, RunQueued, RunSource, RunStarted,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{RunId, Time};
use crate::json::Json;
use crate::message::{Message, Role};
use crate::tool::Recovery;
use crate::workflow::{Budget, Faults, Workflow, WorkflowSpec};

/// The run of each of these consecutive events of a thread, if `last` is the run that the last one belongs to. What happens
/// between two runs, or asks for a run that has to wait, belongs to the run before.
pub fn runs_of(events: &[Event], last: RunId) -> Vec<RunId> {
    let mut runs = vec![last; events.len()];
    let mut run = last;
    for (event, of) in events.iter().zip(&mut runs).rev() {
        *of = run;
        if let Event::RunStarted(started) = event {
            run = started.previous.run_id;
        }
    }
    runs
}

/// A thread is given the next run.
pub(super) fn run(
    state: &State,
    workflow: &Workflow,
    given: RunInput,
    around: &Env<'_>,
) -> Result<Vec<Event>, Rejected> {
    check::value(&given.input)?;
    check::variables(&given.variables)?;
    if state.run.is_none() {
        return Err(Rejected::Invalid("the thread has not begun".into()));
    }
    if state.branch().is_some_and(|branch| branch.owner.is_some()) {
        return Err(Rejected::Invalid(
            "a branch takes no run of its own: give it to the thread that it belongs to".into(),
        ));
    }
    if let Some(key) = &given.key {
        if key.is_empty() || key.len() > RUN_KEY_BYTES_MAX {
            return Err(Rejected::Invalid(format!("the key of a request has 1 to {RUN_KEY_BYTES_MAX} bytes")));
        }
        if let Some(used) = state.runs.used(key) {
            let is_same = used.is_for(&accepted(workflow, given.input.clone())?);
            return if is_same { Ok(Vec::new()) } else { Err(Rejected::KeyReused) };
        }
    }
    if given.after.is_some_and(|after| state.run_id() != after || !state.is_ended()) {
        return Err(Rejected::RunGoesOn { run: state.run_id() });
    }
    if state.is_ended() {
        let started = begun(state, workflow, given, (RunId(state.next_seq()), RunSource::Input), around.now);
        return Ok(vec![started.map_err(|faults| Rejected::Invalid(faults.to_string()))?.into()]);
    }
    if given.definition.is_some() {
        return Err(Rejected::DefinitionLate { run: state.run_id() });
    }
    let policy = given.on_message.unwrap_or(workflow.spec().on_message);
    match policy {
        OnMessage::Reject => Err(Rejected::RunGoesOn { run: state.run_id() }),
        // The run that it could steer has ended, or does no more than its hooks.
        OnMessage::Steer | OnMessage::Interrupt if state.run_has_ended() || state.hooks().is_some() => {
            queued(state, workflow, given)
        }
        OnMessage::Queue => queued(state, workflow, given),
        OnMessage::Steer => Ok(vec![message(given, MessageEffect::Steer)?]),
        OnMessage::Interrupt => {
            let mut events = vec![message(given, MessageEffect::Interrupt)?];
            events.extend(interrupted(state, around.now));
            Ok(events)
        }
    }
}

/// Cancels a queued run.
pub(super) fn cancel_queued(state: &State, run: RunId, reason: Option<String>) -> Result<Vec<Event>, Rejected> {
    let waits = state.queued_runs().iter().any(|queued| queued.id == run);
    if !waits && !state.waiting_messages().any(|waiting| waiting == run) {
        return Err(Rejected::RunNotOpen { run });
    }
    Ok(vec![RunCancelled { run_id: run, reason, by: None }.into()])
}

/// Cancels all queued runs, because the thread is to end.
pub(super) fn cancel_all_queued(state: &State, reason: &str) -> Vec<Event> {
    let runs = state.queued_runs().iter().map(|queued| queued.id).chain(state.waiting_messages());
    let cancelled = |run_id| RunCancelled { run_id, reason: Some(reason.to_owned()), by: None }.into();
    runs.map(cancelled).collect()
}

/// The run that begins by itself after the one that has ended: with what no model has read, or the first of the queue.
pub(super) fn owed(state: &State, workflow: &Workflow, now: Time) -> Option<Event> {
    let (given, id, by) = if let Some(first) = state.runs.steering.first() {
        // It came for the run before.
        let texts: Vec<_> = state.runs.steering.iter().map(|steering| steering.message.joined_text()).collect();
        let given = RunInput { input: texts.join("\n\n").into(), ..RunInput::default() };
        (given, (first.id, RunSource::Unread), None)
    } else {
        let queued = state.queued_runs().first()?;
        let given =
            RunInput { input: queued.input.clone(), variables: queued.variables.clone(), ..RunInput::default() };
        (given, (queued.id, RunSource::Queue), queued.by.clone())
    };
    match begun(state, workflow, given, id, now) {
        Ok(started) => Some(RunStarted { by, ..started }.into()),
        Err(faults) => {
            let reason = Some(faults.to_string());
            Some(RunCancelled { run_id: id.0, reason, by: None }.into())
        }
    }
}

/// The first event of a run. Variables of the definition are set where the thread does not have them.
pub(super) fn begun(
    state: &State,
    workflow: &Workflow,
    given: RunInput,
    (run_id, from): (RunId, RunSource),
    now: Time,
) -> Result<RunStarted, Faults> {
    let spec = workflow.spec();
    let new = spec.variables.iter().filter(|(name, _)| state.variables().get(name.as_str()).is_none());
    let mut variables: OrderedMap<_> = new.map(|(name, value)| (name.clone(), value.clone())).collect();
    for (name, value) in given.variables.iter() {
        variables.insert(name.clone(), value.clone());
    }
    let began = state.run.as_ref().map_or(now, |run| run.started_at);
    let (deadline, budget) = limits_of_run(spec, began, state.totals(), now);
    Ok(RunStarted {
        run_id,
        number: state.run_number() + 1,
        previous: PastRun {
            run_id: state.run_id(),
            started: state.run_started(),
            ended: state.run_ended().unwrap_or_default(),
        },
        workflow: workflow.reference(),
        input: workflow.accept_input(given.input)?,
        variables,
        entry: workflow.main().entry().cloned().unwrap_or_else(|| "".into()),
        deadline,
        max_iterations: workflow.max_iterations(),
        budget,
        on_limit: spec.on_limit,
        from,
        key: given.key,
        by: None,
        traceparent: given.traceparent,
    })
}

/// The deadline and the budget of a run that begins: its own, or what the runs before it left of those of the thread, where
/// that is less.
pub(super) fn limits_of_run(
    spec: &WorkflowSpec,
    began: Time,
    spent: &Totals,
    now: Time,
) -> (Option<Time>, Option<BudgetLimits>) {
    let own = spec.timeout_ms.map(|ms| now.plus_ms(ms));
    let thread = spec.thread.as_ref();
    let of_thread = thread.and_then(|limits| limits.timeout_ms).map(|ms| began.plus_ms(ms));
    let deadline = own.into_iter().chain(of_thread).min();
    let left = thread.and_then(|limits| limits.budget.as_ref()).map(|budget| left_of(budget.limits(), spent));
    let budget = match (spec.budget.as_ref().map(Budget::limits), left) {
        (Some(own), Some(left)) => Some(lesser(&own, &left)),
        (own, left) => own.or(left),
    };
    (deadline, budget)
}

/// What is left of a budget. Of one in money there is nothing left once the cost of a call is not known, unless such calls
/// are not to be counted.
fn left_of(budget: BudgetLimits, spent: &Totals) -> BudgetLimits {
    let is_known = spent.n_unpriced == 0 || budget.on_unpriced == OnUnpriced::Allow;
    let cost_left = |limit: u64| if is_known { limit.saturating_sub(spent.cost_nanousd.unwrap_or(0)) } else { 0 };
    BudgetLimits {
        tokens: budget.tokens.map(|limit| limit.saturating_sub(spent.tokens())),
        cost_nanousd: budget.cost_nanousd.map(cost_left),
        ..budget
    }
}

/// Both budgets at once: what is spent first counts, and the stricter policy.
fn lesser(a: &BudgetLimits, b: &BudgetLimits) -> BudgetLimits {
    let min = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
    let fails = [a.on_exceeded, b.on_exceeded].contains(&OnLimit::Fail);
    let refuses = [a, b].iter().any(|it| it.cost_nanousd.is_some() && it.on_unpriced == OnUnpriced::Refuse);
    BudgetLimits {
        tokens: min(a.tokens, b.tokens),
        cost_nanousd: min(a.cost_nanousd, b.cost_nanousd),
        on_exceeded: if fails { OnLimit::Fail } else { OnLimit::Pause },
        on_unpriced: if refuses { OnUnpriced::Refuse } else { OnUnpriced::Allow },
    }
}

fn queued(state: &State, workflow: &Workflow, given: RunInput) -> Result<Vec<Event>, Rejected> {
    if state.queued_runs().len() >= RUNS_QUEUED_MAX {
        return Err(Rejected::QueueFull { n: RUNS_QUEUED_MAX });
    }
    let (run_id, input) = (RunId(state.next_seq()), accepted(workflow, given.input)?);
    let RunInput { variables, key, traceparent, .. } = given;
    Ok(vec![RunQueued { run_id, input, variables, key, by: None, traceparent }.into()])
}

fn accepted(workflow: &Workflow, input: Json) -> Result<Json, Rejected> {
    workflow.accept_input(input).map_err(|faults| Rejected::Invalid(faults.to_string()))
}

/// A message to the run that is going on.
fn message(given: RunInput, effect: MessageEffect) -> Result<Event, Rejected> {
    let Some(text) = given.input.0.as_str().map(str::to_owned).filter(|_| given.variables.is_empty()) else {
        return Err(Rejected::Invalid(
            "a message to the run that is going on is a text without variables: queue the run, or wait for its end"
                .into(),
        ));
    };
    Ok(MessageAdded { message: Message::text(Role::User, &text).into(), effect, key: given.key, by: None }.into())
}

/// What an interruption ends: the call of the model, questions about tools, and the tool calls that may be made again.
fn interrupted(state: &State, now: Time) -> Vec<Event> {
    let Some(Work::Llm(agent_loop)) = state.node_run().map(|run| &run.work) else {
        return Vec::new();
    };
    if !agent_loop.may_be_interrupted() {
        return Vec::new();
    }
    let error = || ExecutionError::new(ErrorKind::Interrupted, INTERRUPTED);
    match &agent_loop.stage {
        Stage::Asking(call) if !agent_loop.request.relay => {
            vec![LlmCallFailed::new(*call, error()).into()]
        }
        Stage::Tools(_) => {
            let calls = state.calls.in_order(|open| open.is_wanted() && !open.is_of_tool());
            calls.into_iter().flat_map(|open| interrupted_tool(state, open, &error(), now)).collect()
        }
        _ => Vec::new(),
    }
}

fn interrupted_tool(state: &State, open: &OpenCall, error: &ExecutionError, now: Time) -> Vec<Event> {
    match &open.kind {
        CallKind::Tool(run) if run.recovery != Recovery::AtMostOnce => close_call(state, open, error, now),
        CallKind::Branch(_) => {
            let stopped = "stopped before its end: a message of the user came first. What it had done stays done.";
            close_call(state, open, &ExecutionError { message: stopped.to_owned(), ..error.clone() }, now)
        }
        // The answer that a guardrail has stopped comes first.
        CallKind::Question(ask) if ask.operation_type == OperationType::ApproveContent => Vec::new(),
        CallKind::Question(ask) => {
            let why = Some(INTERRUPTED.to_owned());
            question_failed(state, ask.id, InteractionFailure::Cancelled, why).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}
