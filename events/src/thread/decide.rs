//! What an input means in a state: the events it leads to at once. What follows from them comes from `advance`.

use super::agent_loop::checked_decision;
use super::branches::branch_ended;
use super::check;
use super::closing::{close_all, close_thread, recover, tick};
use super::input::{Input, ModelAnswer, Rejected};
use super::questions::{informing, question_failed, respond};
use super::state::{State, Work};
use super::{Effect, Env, bounds, judging, processors, sizes, summaries};
use crate::event::{
    CheckpointCreated, ContextProcessingFailed, Event, InteractionFailure, LlmCallCompleted, LlmCallFailed,
    LlmExecutionProgress, LlmTryFailed, MessageAdded, StrategyDecided, StrategyDecision, StrategyDecisionFailed,
    ThreadCancelled, ThreadPaused, ThreadResumed, ToolCallRetried, ToolExecutionCompleted, ToolExecutionFailed,
    ToolExecutionProgress, VariablesUpdated, Warning, WarningCode,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Hash, Time};
use crate::json::Json;
use crate::message::{Message, Part, Role};
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
    around: &Env<'_>,
) -> Result<Vec<Event>, Rejected> {
    match input {
        Input::ModelAnswered { call, attempt, answer } => Ok(match judging::of_attempt(state, call, attempt) {
            Some(judging) => judging::answered(judging, call, answer, around.now),
            None => answered(state, Kind::Model, call, attempt, "an answer", |_| {
                vec![match summaries::of_attempt(state, call, attempt) {
                    Some(open) => summaries::answered(open, answer, around.now),
                    None => model_completed(call, answer),
                }]
            }),
        }),
        Input::ModelFailed { call, attempt, error } => Ok(match judging::of_attempt(state, call, attempt) {
            Some(judging) => judging::failed(judging, call, error, around.now),
            None => {
                let detail = error.message.clone();
                answered(state, Kind::Model, call, attempt, &detail, |_| {
                    vec![match summaries::of_attempt(state, call, attempt) {
                        Some(open) => summaries::failed(open, error, around.now),
                        None => LlmCallFailed { node_id: None, call_id: call, error }.into(),
                    }]
                })
            }
        }),
        Input::ModelTryFailed { call, attempt, try_number, error, wait_ms } => {
            Ok(if_open(state, Kind::Model, call, attempt, || {
                LlmTryFailed { node_id: None, call_id: call, try_number, error, wait_ms }.into()
            }))
        }
        Input::ModelProgress { call, attempt, index, text, reasoning, restarted } => {
            Ok(if_open(state, Kind::Model, call, attempt, || {
                LlmExecutionProgress { node_id: None, call_id: call, attempt, index, text, reasoning, restarted }.into()
            }))
        }
        Input::ToolAnswered { call, attempt, content, value, full, duration_ms } => {
            Ok(answered(state, Kind::Tool, call, attempt, "an answer", |effect| {
                behind_questions(effect, tool_answered(effect, call, content, value, full, duration_ms))
            }))
        }
        Input::ToolFailed { begun, call, attempt, error, duration_ms } => {
            let detail = error.message.clone();
            let not_started = !begun || says_it_did_nothing(&error);
            Ok(answered(state, Kind::Tool, call, attempt, &detail, |effect| {
                let clock = state.clock(around.now);
                behind_questions(effect, tool_failed(effect, call, error, not_started, duration_ms, clock))
            }))
        }
        Input::ToolProgress { call, attempt, message } => Ok(if_open(state, Kind::Tool, call, attempt, || {
            ToolExecutionProgress { node_id: None, call_id: call, attempt, message }.into()
        })),
        Input::ToolAsks { call, attempt, question } => informing::ask(state, (call, attempt), question, around.permits),
        Input::ContextProcessed { call, attempt, processed } => {
            Ok(answered(state, Kind::Processor, call, attempt, "a conversation", |_| {
                vec![processors::answered(state, call, processed)]
            }))
        }
        Input::ContextProcessingFailed { call, attempt, error } => {
            let detail = error.message.clone();
            Ok(answered(state, Kind::Processor, call, attempt, &detail, |_| {
                vec![ContextProcessingFailed { node_id: None, call_id: call, error }.into()]
            }))
        }
        Input::StrategyDecided { call, attempt, next } => {
            Ok(answered(state, Kind::Strategy, call, attempt, "a decision", |_| {
                vec![strategy_decided(state, call, next, around)]
            }))
        }
        Input::StrategyFailed { call, attempt, error } => {
            let detail = error.message.clone();
            Ok(answered(state, Kind::Strategy, call, attempt, &detail, |_| {
                vec![StrategyDecisionFailed { node_id: None, call_id: call, error }.into()]
            }))
        }
        Input::BranchEnded { index, child, outcome } => Ok(branch_ended(state, index, child, outcome)),
        Input::Tick => Ok(tick(state, around.now, around.permits)),
        Input::Recover => Ok(recover(state, around)),
        Input::Pause { reason } => {
            still_running(state)?;
            if state.is_paused() {
                return Err(Rejected::AlreadyPaused);
            }
            Ok(vec![ThreadPaused { reason, by: None }.into()])
        }
        Input::Resume => {
            still_running(state)?;
            if !state.is_paused() {
                return Err(Rejected::NotPaused);
            }
            Ok(vec![ThreadResumed { by: None }.into()])
        }
        Input::Raise(raised) => {
            still_running(state)?;
            bounds::raise(state, raised)
        }
        Input::Cancel { reason } => {
            still_running(state)?;
            let why = because("the thread was cancelled", reason.as_deref());
            let mut events = close_all(state, &ExecutionError::new(ErrorKind::Cancelled, why), around.now);
            events.push(ThreadCancelled { reason, by: None }.into());
            Ok(events)
        }
        Input::Abort { reason } => {
            still_running(state)?;
            let why = because("the thread was aborted", reason.as_deref());
            Ok(close_thread(state, ExecutionError::new(ErrorKind::Cancelled, why), around.now))
        }
        Input::Crashed { error } => {
            still_running(state)?;
            Ok(close_thread(state, error, around.now))
        }
        Input::Checkpoint { label } => checkpoint(state, label),
        Input::AddMessage(message) => {
            still_running(state)?;
            check::added_message(&message)?;
            will_be_read(state, &message)?;
            Ok(vec![MessageAdded { message: message.into(), by: None }.into()])
        }
        Input::SetVariables(variables) => {
            still_running(state)?;
            check::variables(&variables)?;
            Ok(vec![VariablesUpdated { variables, by: None }.into()])
        }
        Input::By { by, input } => {
            let mut events = decide(state, workflow, *input, around)?;
            events.iter_mut().filter_map(Event::by_mut).for_each(|recorded| *recorded = Some(by.clone()));
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

fn because(what: &str, reason: Option<&str>) -> String {
    reason.map_or_else(|| what.to_owned(), |reason| format!("{what}: {reason}"))
}

fn cut(text: &str) -> String {
    text.chars().take(DETAIL_CHARS_MAX).collect()
}

/// Whose answer it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Model,
    Tool,
    Processor,
    Strategy,
}

fn open_call(state: &State, kind: Kind, call: CallId) -> Option<Effect> {
    state.effects().into_iter().find(|effect| {
        effect.key().0 == call
            && match effect {
                Effect::CallModel(_) => kind == Kind::Model,
                Effect::CallTool(_) => kind == Kind::Tool,
                Effect::RunProcessor(_) => kind == Kind::Processor,
                Effect::AskStrategy(_) => kind == Kind::Strategy,
                Effect::AskPerson(_) | Effect::RunBranch(_) => false,
            }
    })
}

/// The events that an answer leads to, or the warning that no call is open that it could belong to.
fn answered(
    state: &State,
    kind: Kind,
    call: CallId,
    attempt: u32,
    what: &str,
    events: impl FnOnce(&Effect) -> Vec<Event>,
) -> Vec<Event> {
    let (code, detail) = match open_call(state, kind, call) {
        Some(effect) if effect.key().1 == attempt => return events(&effect),
        Some(effect) => (
            WarningCode::StaleAttempt,
            format!("attempt {attempt} answered when attempt {} was running: {what}", effect.key().1),
        ),
        None if state.effects().iter().any(|effect| effect.key().0 == call) => {
            (WarningCode::UnknownCall, format!("the call is one of another kind: {what}"))
        }
        None if call.0 < state.next => (WarningCode::LateAnswer, format!("no such call is open: {what}")),
        None => (WarningCode::UnknownCall, format!("there is no such call: {what}")),
    };
    if state.run.is_none() {
        return Vec::new();
    }
    vec![Warning { code, call_id: Some(call), detail: cut(&detail) }.into()]
}

/// Progress of a call that is not open any more is of no interest to anybody.
fn if_open(state: &State, kind: Kind, call: CallId, attempt: u32, event: impl FnOnce() -> Event) -> Vec<Event> {
    let open = open_call(state, kind, call).is_some_and(|effect| effect.key().1 == attempt);
    if open { vec![event()] } else { Vec::new() }
}

/// The end of a model call.
pub(super) fn model_completed(call: CallId, answer: ModelAnswer) -> Event {
    if let Err(error) = check::answer(&answer.message) {
        return LlmCallFailed { node_id: None, call_id: call, error }.into();
    }
    let completed = LlmCallCompleted {
        node_id: None,
        call_id: call,
        unusable: check::unusable(&answer.message, answer.finish_reason),
        message: answer.message,
        finish_reason: answer.finish_reason,
        usage: answer.usage,
        cost_nanousd: answer.cost_nanousd,
        prices: answer.prices,
        model: answer.model,
        response_id: answer.response_id,
        cached: answer.cached,
        duration_ms: answer.duration_ms,
        usage_source: answer.usage_source,
    };
    sizes::or_else(completed.into(), |error| LlmCallFailed { node_id: None, call_id: call, error }.into())
}

fn strategy_decided(state: &State, call: CallId, next: StrategyDecision, around: &Env<'_>) -> Event {
    let agent_loop = state.node_run().and_then(|run| match &run.work {
        Work::Llm(agent_loop) => Some(agent_loop),
        _ => None,
    });
    let none = || ExecutionError::new(ErrorKind::Internal, "no agent loop is running");
    match agent_loop.ok_or_else(none).and_then(|agent_loop| checked_decision(agent_loop, next, around)) {
        Ok(next) => sizes::or_else(StrategyDecided { node_id: None, call_id: call, next }.into(), |error| {
            StrategyDecisionFailed { node_id: None, call_id: call, error }.into()
        }),
        Err(error) => StrategyDecisionFailed { node_id: None, call_id: call, error }.into(),
    }
}

fn tool_call_id(effect: &Effect) -> Option<String> {
    match effect {
        Effect::CallTool(run) => run.tool_call_id.clone(),
        Effect::CallModel(_)
        | Effect::RunProcessor(_)
        | Effect::AskStrategy(_)
        | Effect::AskPerson(_)
        | Effect::RunBranch(_) => None,
    }
}

fn tool_answered(
    effect: &Effect,
    call: CallId,
    content: Vec<Part>,
    value: Option<Json>,
    full_output: Option<Hash>,
    duration_ms: u64,
) -> Event {
    let tool_call_id = tool_call_id(effect);
    // JSON knows one null: a value that is null is none.
    let value = value.filter(|value| !value.0.is_null());
    match check::result(&content, value.as_ref()) {
        Ok(()) => {
            let id = tool_call_id.clone();
            let completed = ToolExecutionCompleted {
                node_id: None,
                call_id: call,
                tool_call_id,
                content,
                value,
                duration_ms,
                full_output,
            };
            sizes::or_else(completed.into(), |error| {
                ToolExecutionFailed {
                    node_id: None,
                    call_id: call,
                    tool_call_id: id,
                    error,
                    duration_ms,
                    not_started: Some(false),
                }
                .into()
            })
        }
        Err(error) => ToolExecutionFailed {
            node_id: None,
            call_id: call,
            tool_call_id,
            error,
            duration_ms,
            not_started: Some(false),
        }
        .into(),
    }
}

/// The end of a tool call, or of an attempt at it, behind the ends of what the tool was asking.
pub(super) fn behind_questions(effect: &Effect, event: Event) -> Vec<Event> {
    let asks = match effect {
        Effect::CallTool(run) => informing::left_by(run, "the tool that asked has ended"),
        Effect::CallModel(_)
        | Effect::RunProcessor(_)
        | Effect::AskStrategy(_)
        | Effect::AskPerson(_)
        | Effect::RunBranch(_) => Vec::new(),
    };
    asks.into_iter().chain(std::iter::once(event)).collect()
}

/// Whether a tool that began says that it did nothing: it allows another try itself, and its error is not one that hides
/// what became of the call. That it failed does not say so.
fn says_it_did_nothing(error: &ExecutionError) -> bool {
    error.retryable && !error.kind.leaves_doubt()
}

/// A tool failed: it is tried again as often as it was declared, when the error allows it and nothing that wrote to
/// the world could happen twice. `clock` is what the clocks of calls show.
pub(super) fn tool_failed(
    effect: &Effect,
    call: CallId,
    mut error: ExecutionError,
    not_started: bool,
    duration_ms: u64,
    clock: Time,
) -> Event {
    if let Effect::CallTool(run) = effect {
        error.retryable &= run.recovery != Recovery::AtMostOnce || !error.kind.leaves_doubt();
        if error.retryable && run.n_failed < run.options.retries {
            return ToolCallRetried {
                node_id: None,
                call_id: call,
                attempt: run.attempt + 1,
                not_before: clock.plus_ms(run.options.retry_delay_ms),
                error: Some(error),
            }
            .into();
        }
    }
    let (tool_call_id, not_started) = (tool_call_id(effect), Some(not_started));
    ToolExecutionFailed { node_id: None, call_id: call, tool_call_id, error, duration_ms, not_started }.into()
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
    if state.labels.is_taken(&label) {
        return Err(Rejected::LabelTaken(label));
    }
    Ok(vec![CheckpointCreated { label, by: None }.into()])
}
