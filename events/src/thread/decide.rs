//! What an input means in a state: the events it leads to at once. What follows from them comes from `advance`.

use super::branches::{branch_ended, branch_spent};
use super::calls::OpenCall;
use super::check;
use super::closing::{recover, tick};
use super::ending::{because, give_up};
use super::input::{Input, Rejected};
use super::questions::{informing, question_failed, respond};
use super::reports::{cut, reported};
use super::state::{State, Work};
use super::{bounds, children, ending, env::Env, migration, queueing, runs, signals};
use crate::event::{
    CheckpointCreated, Event, InteractionFailure, MessageAdded, MessageEffect, ThreadPaused, ThreadResumed,
    VariablesUpdated, WaitChanged,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::message::{Message, Role};
use crate::workflow::{WAIT_MS_MAX, Workflow};

/// The longest name of a checkpoint, in bytes.
const LABEL_BYTES_MAX: usize = 200;

pub(super) fn decide(
    state: &State,
    workflow: &Workflow,
    input: Input,
    around: &Env<'_>,
) -> Result<Vec<Event>, Rejected> {
    match input {
        Input::Reported { attempt, event } => Ok(reported(state, attempt, event, around)),
        Input::ToolAsks { call, attempt, question } => informing::ask(state, (call, attempt), question, around.permits),
        Input::BranchEnded { index, child, outcome } => Ok(branch_ended(state, workflow, (index, child), outcome)),
        Input::BranchSpent { index, child, totals } => Ok(branch_spent(state, (index, child), &totals)),
        Input::BudgetLeft(left) => Ok(bounds::left_by_parent(state, &left)),
        Input::ChildStarted { call, outcome } => Ok(children::started(state, call, outcome)),
        Input::ThreadEnded { thread, outcome } => Ok(children::ended(state, thread, outcome)),
        Input::Tick => Ok(ending::with_hooks(state, workflow, tick(state, around.now, around.permits), around.now)),
        Input::Recover => Ok(recover(state, around)),
        Input::Pause { reason } => {
            run_goes_on(state)?;
            if state.is_paused() {
                return Err(Rejected::AlreadyPaused);
            }
            Ok(vec![ThreadPaused { reason, by: None }.into()])
        }
        Input::Resume => {
            run_goes_on(state)?;
            if !state.is_paused() {
                return Err(Rejected::NotPaused);
            }
            Ok(vec![ThreadResumed { by: None }.into()])
        }
        Input::Raise(raised) => {
            run_goes_on(state)?;
            bounds::raise(state, raised)
        }
        Input::Cancel { reason } => {
            still_running(state)?;
            ending::cancel(state, workflow, reason, around.now)
        }
        Input::CancelByParent { reason } => Ok(ending::cancel_first_run(state, workflow, reason, around.now)),
        Input::Abort { reason } => {
            still_running(state)?;
            let why = because("the thread was aborted", reason.as_deref());
            Ok(give_up(state, ExecutionError::new(ErrorKind::Cancelled, why), around.now))
        }
        Input::Crashed { error } => {
            still_running(state)?;
            Ok(give_up(state, error, around.now))
        }
        Input::Checkpoint { label } => checkpoint(state, label),
        Input::AddMessage(message) => {
            run_goes_on(state)?;
            check::added_message(&message)?;
            will_be_read(state, &message)?;
            Ok(vec![MessageAdded { message: message.into(), effect: MessageEffect::Add, key: None, by: None }.into()])
        }
        Input::Run(given) => runs::run(state, workflow, *given, around),
        Input::Dequeue => Ok(queueing::dequeued(state, around.now)),
        Input::CancelRun { run, reason } => ending::cancel_one(state, workflow, run, reason, around.now),
        Input::SetVariables(variables) => {
            run_goes_on(state)?;
            check::variables(&variables)?;
            Ok(vec![VariablesUpdated { variables, by: None }.into()])
        }
        // Also by a thread that has ended since.
        Input::Signal { id, .. } if state.signals.contains(&id) => Ok(Vec::new()),
        Input::Signal { name, id, payload } => {
            run_goes_on(state)?;
            signals::receive(state, &name, id, payload, around.now)
        }
        Input::ChangeWait { wait, until } => {
            run_goes_on(state)?;
            state.calls.get(wait).and_then(OpenCall::timer).ok_or(Rejected::NoWait(wait))?;
            if until > around.now.plus_ms(WAIT_MS_MAX) {
                return Err(Rejected::Invalid("a wait ends within a hundred years from now".into()));
            }
            Ok(vec![WaitChanged { node_id: None, wait_id: wait, until, by: None }.into()])
        }
        Input::Migrate(to) => {
            run_goes_on(state)?;
            migration::change(state, &to, around.now)
        }
        Input::By { by, input } => {
            let mut events = decide(state, workflow, *input, around)?;
            let recorded = events.iter_mut().filter_map(Event::by_mut);
            recorded.for_each(|recorded| *recorded = Some(by.clone()));
            Ok(events)
        }
        Input::Respond { interaction, data } => respond(state, workflow, interaction, data, around),
        Input::CancelInteraction { interaction } => {
            question_failed(state, interaction, InteractionFailure::Cancelled, None)
        }
        Input::InteractionFailed { interaction, reason, detail } => {
            question_failed(state, interaction, reason, Some(cut(&detail)))
        }
    }
}

fn still_running(state: &State) -> Result<(), Rejected> {
    if state.run.is_none() {
        return Err(Rejected::Invalid("the thread has not begun".into()));
    }
    if state.is_ended() { Err(Rejected::Ended { status: state.status() }) } else { Ok(()) }
}

/// Between two runs there is none that could be changed.
fn run_goes_on(state: &State) -> Result<(), Rejected> {
    still_running(state)?;
    if state.run_has_ended() {
        Err(Rejected::Invalid("the next run is about to begin: try again".into()))
    } else {
        Ok(())
    }
}

/// A message of the user is answered by one more call of the model that is at work. Where that may make no more and the
/// thread does not pause for it, the message is refused.
fn will_be_read(state: &State, message: &Message) -> Result<(), Rejected> {
    match state.node_run().map(|run| &run.work) {
        Some(Work::Llm(agent_loop))
            if message.role == Role::User && agent_loop.is_at_limit() && !bounds::pauses_at_limit(state) =>
        {
            let request = &agent_loop.request;
            Err(Rejected::NotRead { node: request.node_id.clone(), n: request.max_iterations })
        }
        _ => Ok(()),
    }
}

fn checkpoint(state: &State, label: String) -> Result<Vec<Event>, Rejected> {
    run_goes_on(state)?;
    if label.trim().is_empty() || label.len() > LABEL_BYTES_MAX || label.chars().any(char::is_control) {
        return Err(Rejected::Invalid(format!(
            "a checkpoint's name has 1 to {LABEL_BYTES_MAX} bytes and no control characters"
        )));
    }
    if label.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Rejected::Invalid(format!("`{label}` would be read as a seq: add a letter to the name")));
    }
    if state.checkpoint_names.is_taken(&label) {
        return Err(Rejected::LabelTaken(label));
    }
    Ok(vec![CheckpointCreated { label, by: None }.into()])
}
