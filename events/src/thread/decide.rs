//! What an input means in a state: the events it leads to at once. What follows from them comes from `advance`.

use super::apply::answer_hash;
use super::input::{Input, ModelAnswer, Rejected};
use super::nodes::evaluate_answer;
use super::state::{InteractionStage, Phase, State, Work};
use super::{Effect, RECOVERIES_MAX, Surroundings};
use crate::event::{
    CheckpointCreated, Event, InteractionFailure, LlmCallCompleted, LlmCallFailed, LlmCallRetried,
    LlmExecutionProgress, LlmTryFailed, MessageAdded, NodeFailed, ThreadCancelled, ThreadFailed, ThreadPaused,
    ThreadRecovered, ThreadResumed, ToolCallRetried, ToolExecutionCompleted, ToolExecutionFailed,
    ToolExecutionProgress, UserInteractionFailed, UserInteractionResponded, VariablesUpdated, Warning, WarningCode,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Time};
use crate::json::Json;
use crate::tool::Recovery;
use crate::workflow::Workflow;

/// The longest detail of a warning, in characters.
const DETAIL_CHARS_MAX: usize = 1_000;
/// The longest name of a checkpoint, in bytes.
const LABEL_BYTES_MAX: usize = 200;

pub(super) fn decide(
    state: &State,
    workflow: &Workflow,
    input: Input,
    around: &Surroundings<'_>,
) -> Result<Vec<Event>, Rejected> {
    match input {
        Input::ModelAnswered { call, attempt, answer } => {
            Ok(answered(state, call, attempt, "an answer", |_| model_answered(call, answer)))
        }
        Input::ModelFailed { call, attempt, error } => {
            Ok(answered(state, call, attempt, &error.message, |_| LlmCallFailed { call, error: error.clone() }.into()))
        }
        Input::ModelTryFailed { call, attempt, try_number, error, wait_ms } => {
            Ok(if_open(state, call, attempt, || LlmTryFailed { call, try_number, error, wait_ms }.into()))
        }
        Input::ModelProgress { call, attempt, index, text, reasoning, restarted } => {
            Ok(if_open(state, call, attempt, || {
                LlmExecutionProgress { call, attempt, index, text, reasoning, restarted }.into()
            }))
        }
        Input::ToolAnswered { call, attempt, content, value, duration_ms } => {
            Ok(answered(state, call, attempt, "an answer", |effect| {
                let tool_call_id = tool_call_id(effect);
                ToolExecutionCompleted { call, tool_call_id, content, value, duration_ms }.into()
            }))
        }
        Input::ToolFailed { call, attempt, error, duration_ms } => {
            let detail = error.message.clone();
            Ok(answered(state, call, attempt, &detail, |effect| {
                tool_failed(effect, call, error, duration_ms, around.now)
            }))
        }
        Input::ToolProgress { call, attempt, message } => {
            Ok(if_open(state, call, attempt, || ToolExecutionProgress { call, attempt, message }.into()))
        }
        Input::Tick => Ok(tick(state, around.now)),
        Input::Recover => Ok(recover(state, around)),
        Input::Pause { reason } => {
            still_running(state)?;
            if state.is_paused() {
                return Err(Rejected::AlreadyPaused);
            }
            Ok(vec![ThreadPaused { reason }.into()])
        }
        Input::Resume => {
            still_running(state)?;
            if !state.is_paused() {
                return Err(Rejected::NotPaused);
            }
            Ok(vec![ThreadResumed {}.into()])
        }
        Input::Cancel { reason } => {
            still_running(state)?;
            let why = because("the thread was cancelled", reason.as_deref());
            let mut events = close_node(state, &ExecutionError::new(ErrorKind::Cancelled, why), None);
            events.push(ThreadCancelled { reason }.into());
            Ok(events)
        }
        Input::Abort { reason } => {
            still_running(state)?;
            let why = because("the thread was aborted", reason.as_deref());
            Ok(close_thread(state, ExecutionError::new(ErrorKind::Cancelled, why)))
        }
        Input::Checkpoint { label } => checkpoint(state, label),
        Input::AddMessage(message) => {
            still_running(state)?;
            Ok(vec![MessageAdded { message: message.into() }.into()])
        }
        Input::SetVariables(variables) => {
            still_running(state)?;
            Ok(vec![VariablesUpdated { variables }.into()])
        }
        Input::Respond { interaction, data } => respond(state, workflow, interaction, data),
        Input::CancelInteraction { interaction } => {
            question_failed(state, interaction, InteractionFailure::Cancelled, None)
        }
        Input::InteractionFailed { interaction, detail } => {
            question_failed(state, interaction, InteractionFailure::HandlerError, Some(cut(&detail)))
        }
    }
}

fn still_running(state: &State) -> Result<(), Rejected> {
    if state.is_ended() { Err(Rejected::Ended { status: state.status() }) } else { Ok(()) }
}

fn because(what: &str, reason: Option<&str>) -> String {
    reason.map_or_else(|| what.to_owned(), |reason| format!("{what}: {reason}"))
}

fn cut(text: &str) -> String {
    text.chars().take(DETAIL_CHARS_MAX).collect()
}

/// The open call that an answer belongs to, or the warning that there is none.
fn answered(state: &State, call: CallId, attempt: u32, what: &str, event: impl FnOnce(&Effect) -> Event) -> Vec<Event> {
    let open = state.effects().into_iter().find(|effect| effect.key().0 == call);
    let (code, detail) = match open {
        Some(effect) if effect.key().1 == attempt => return vec![event(&effect)],
        Some(effect) => (
            WarningCode::StaleAttempt,
            format!("attempt {attempt} answered when attempt {} was running: {what}", effect.key().1),
        ),
        None if call.0 < state.next => (WarningCode::LateAnswer, format!("the call is closed: {what}")),
        None => (WarningCode::UnknownCall, format!("there is no such call: {what}")),
    };
    if state.run.is_none() {
        return Vec::new();
    }
    vec![Warning { code, call: Some(call), detail: cut(&detail) }.into()]
}

/// Progress of a call that is not open any more is of no interest to anybody.
fn if_open(state: &State, call: CallId, attempt: u32, event: impl FnOnce() -> Event) -> Vec<Event> {
    if state.effects().iter().any(|effect| effect.key() == (call, attempt)) { vec![event()] } else { Vec::new() }
}

fn model_answered(call: CallId, answer: ModelAnswer) -> Event {
    LlmCallCompleted {
        call,
        message: answer.message,
        finish_reason: answer.finish_reason,
        usage: answer.usage,
        cost_nanousd: answer.cost_nanousd,
        prices: answer.prices,
        model: answer.model,
        response_id: answer.response_id,
        cached: answer.cached,
        duration_ms: answer.duration_ms,
    }
    .into()
}

fn tool_call_id(effect: &Effect) -> Option<String> {
    match effect {
        Effect::CallTool(run) => run.tool_call_id.clone(),
        Effect::CallModel(_) | Effect::AskPerson(_) => None,
    }
}

/// A tool said that it failed: it is tried again as often as it was declared, when the error allows it.
fn tool_failed(effect: &Effect, call: CallId, error: ExecutionError, duration_ms: u64, now: Time) -> Event {
    if let Effect::CallTool(run) = effect
        && error.retryable
        && run.n_failed < run.options.retries
    {
        return ToolCallRetried {
            call,
            attempt: run.attempt + 1,
            not_before: now.plus_ms(run.options.retry_delay_ms),
            error: Some(error),
        }
        .into();
    }
    ToolExecutionFailed { call, tool_call_id: tool_call_id(effect), error, duration_ms }.into()
}

fn checkpoint(state: &State, label: String) -> Result<Vec<Event>, Rejected> {
    still_running(state)?;
    if label.trim().is_empty() || label.len() > LABEL_BYTES_MAX || label.chars().any(char::is_control) {
        return Err(Rejected::Invalid(format!(
            "a checkpoint's name has 1 to {LABEL_BYTES_MAX} bytes and no control characters"
        )));
    }
    if label.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Rejected::Invalid(format!("`{label}` would be taken for a seq: put a letter into the name")));
    }
    if state.checkpoints.iter().any(|checkpoint| checkpoint.label == label) {
        return Err(Rejected::LabelTaken(label));
    }
    Ok(vec![CheckpointCreated { label }.into()])
}

/// What became of the calls that were in flight when the last runtime left the thread.
pub(super) fn recover(state: &State, around: &Surroundings<'_>) -> Vec<Event> {
    let open = state.effects();
    let calls: Vec<_> =
        open.iter().filter(|effect| !matches!(effect, Effect::AskPerson(_))).map(|effect| effect.key().0).collect();
    if calls.is_empty() {
        return Vec::new();
    }
    let mut events: Vec<Event> = vec![ThreadRecovered { calls }.into()];
    for effect in open {
        let (call, attempt) = effect.key();
        if attempt >= RECOVERIES_MAX {
            let message = format!("given up: the process ended {RECOVERIES_MAX} times while the call was running");
            events.push(close_call(&effect, &ExecutionError::new(ErrorKind::Limit, message), around.now));
            continue;
        }
        match effect {
            Effect::CallModel(_) => events.push(LlmCallRetried { call, attempt: attempt + 1 }.into()),
            Effect::CallTool(ref run) => match run.recovery {
                Recovery::Safe | Recovery::Idempotent => events
                    .push(ToolCallRetried { call, attempt: attempt + 1, not_before: around.now, error: None }.into()),
                Recovery::AtMostOnce => {
                    let error = ExecutionError::new(
                        ErrorKind::Indeterminate,
                        format!(
                            "the process ended while `{}` was running: it may or may not have taken effect, and it \
                             was not run again",
                            run.name
                        ),
                    );
                    events.push(close_call(&effect, &error, around.now));
                }
            },
            Effect::AskPerson(_) => {}
        }
    }
    events
}

/// The terminal event of an open call.
fn close_call(effect: &Effect, error: &ExecutionError, now: Time) -> Event {
    let error = error.clone();
    match effect {
        Effect::CallModel(open) => LlmCallFailed { call: open.call, error }.into(),
        Effect::CallTool(run) => ToolExecutionFailed {
            call: run.call,
            tool_call_id: run.tool_call_id.clone(),
            error,
            duration_ms: now.ms_since(run.requested_at),
        }
        .into(),
        Effect::AskPerson(ask) => UserInteractionFailed {
            interaction: ask.id,
            reason: if error.kind == ErrorKind::Timeout {
                InteractionFailure::Timeout
            } else {
                InteractionFailure::Cancelled
            },
            detail: Some(error.message),
        }
        .into(),
    }
}

/// Ends everything that is open in the node that runs, and the try of the node.
fn close_node(state: &State, error: &ExecutionError, retry_at: Option<Time>) -> Vec<Event> {
    let mut events: Vec<Event> =
        state.effects().iter().map(|effect| close_call(effect, error, state.last_at)).collect();
    if let Phase::InNode(run) = &state.phase {
        if let Work::Llm(agent_loop) = &run.work {
            events.push(agent_loop.failed(error.clone()));
        }
        let failed = NodeFailed { node: run.node.clone(), attempt: run.attempt, error: error.clone(), retry_at };
        events.push(failed.into());
    }
    events
}

fn close_thread(state: &State, error: ExecutionError) -> Vec<Event> {
    let mut events = close_node(state, &error, None);
    let node = match &state.phase {
        Phase::InNode(run) => Some(run.node.clone()),
        Phase::Entering { node, .. } | Phase::Leaving { node } | Phase::Failing { node, .. } => Some(node.clone()),
        Phase::New | Phase::Ended(_) => None,
    };
    events.push(ThreadFailed { node, error }.into());
    events
}

/// Time has passed: the largest thing that ran out of it ends, and with it all that it holds.
fn tick(state: &State, now: Time) -> Vec<Event> {
    if state.is_ended() {
        return Vec::new();
    }
    let timeout = |what: &str| ExecutionError::retryable(ErrorKind::Timeout, format!("{what} ran out of time"));
    if state.run.as_ref().and_then(|run| run.deadline).is_some_and(|deadline| deadline <= now) {
        return close_thread(state, timeout("the thread"));
    }
    let Phase::InNode(run) = &state.phase else {
        return Vec::new();
    };
    if state.is_paused() {
        return Vec::new();
    }
    if run.deadline.is_some_and(|deadline| deadline <= now) {
        let error = timeout(&format!("node `{}`", run.node));
        let mut events: Vec<Event> = state.effects().iter().map(|effect| close_call(effect, &error, now)).collect();
        // The node's own retry policy decides what follows; an agent loop ends first.
        if let Work::Llm(agent_loop) = &run.work {
            events.push(agent_loop.failed(error));
        }
        return events;
    }
    let late = state.effects().into_iter().filter(|effect| match effect {
        Effect::CallModel(call) => call.deadline <= now,
        Effect::CallTool(tool) => tool.deadline <= now,
        Effect::AskPerson(ask) => ask.deadline.is_some_and(|deadline| deadline <= now),
    });
    late.map(|effect| match &effect {
        Effect::CallModel(_) => close_call(&effect, &timeout("the model"), now),
        Effect::CallTool(tool) => {
            let error = timeout(&format!("tool `{}`", tool.name));
            // A tool that may have taken effect is not tried again for being slow.
            let error = ExecutionError { retryable: tool.recovery != Recovery::AtMostOnce, ..error };
            tool_failed(&effect, tool.call, error, now.ms_since(tool.requested_at), now)
        }
        Effect::AskPerson(_) => close_call(&effect, &timeout("the question"), now),
    })
    .collect()
}

fn respond(state: &State, workflow: &Workflow, id: CallId, data: Json) -> Result<Vec<Event>, Rejected> {
    if let Some(Some(answer)) = state.questions.get(&id) {
        return if *answer == answer_hash(&data) { Ok(Vec::new()) } else { Err(Rejected::InteractionClosed(id)) };
    }
    let ask = open_question(state, id)?;
    if matches!(ask.stage, InteractionStage::Asked)
        && let Some(node) = state.node_run().and_then(|run| workflow.node(&run.node))
    {
        // An answer that cannot be used is refused, and the question stays open for a better one.
        evaluate_answer(state, node, id, &data).map_err(|e| Rejected::Invalid(e.to_string()))?;
    }
    Ok(vec![UserInteractionResponded { interaction: id, input_data: data }.into()])
}

fn open_question(state: &State, id: CallId) -> Result<&super::Interaction, Rejected> {
    match state.interaction() {
        Some(ask) if ask.id == id => Ok(ask),
        _ if state.questions.contains_key(&id) => Err(Rejected::InteractionClosed(id)),
        _ => Err(Rejected::UnknownInteraction(id)),
    }
}

fn question_failed(
    state: &State,
    id: CallId,
    reason: InteractionFailure,
    detail: Option<String>,
) -> Result<Vec<Event>, Rejected> {
    if !matches!(open_question(state, id)?.stage, InteractionStage::Asked) {
        return Err(Rejected::InteractionClosed(id));
    }
    Ok(vec![UserInteractionFailed { interaction: id, reason, detail }.into()])
}
