//! What executors report of calls: recorded when the call is open, and a warning when it is not.

use super::agent_loop::checked_decision;
use super::questions::informing;
use super::state::{State, Work};
use super::{Effect, Env, check, judging, processors, sizes, summaries};
use crate::event::{
    CallEvent, ContextProcessed, Event, LlmCallCompleted, LlmCallFailed, StrategyDecided, StrategyDecisionFailed,
    ToolCallRetried, ToolExecutionCompleted, ToolExecutionFailed, Warning, WarningCode,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Time};
use crate::tool::Recovery;

/// The longest detail of a warning, in characters.
const DETAIL_CHARS_MAX: usize = 1_000;

/// The events that a report about this attempt at a call leads to.
pub(super) fn reported(state: &State, attempt: u32, event: CallEvent, around: &Env<'_>) -> Vec<Event> {
    let call = event.call_id();
    let open = |kind, what: &str| open_attempt(state, kind, call, attempt, what);
    match event {
        CallEvent::LlmCallCompleted(answer) => {
            if let Some(judging) = judging::of_attempt(state, call, attempt) {
                return judging::answered(judging, answer, around.now);
            }
            open(Kind::Model, "an answer").map(|_| match summaries::of_attempt(state, call, attempt) {
                Some(open) => summaries::answered(open, answer, around.now),
                None => model_completed(answer),
            })
        }
        CallEvent::LlmCallFailed(failed) => {
            if let Some(judging) = judging::of_attempt(state, call, attempt) {
                return judging::failed(judging, call, failed.error, around.now);
            }
            open(Kind::Model, &failed.error.message).map(|_| match summaries::of_attempt(state, call, attempt) {
                Some(open) => summaries::failed(open, failed.error, around.now),
                None => failed.into(),
            })
        }
        CallEvent::LlmTryFailed(failed) => return if_open(state, Kind::Model, call, attempt, failed.into()),
        CallEvent::LlmExecutionProgress(piece) => return if_open(state, Kind::Model, call, attempt, piece.into()),
        CallEvent::ToolExecutionCompleted(answer) => match open(Kind::Tool, "an answer") {
            Ok(effect) => return behind_questions(&effect, tool_answered(&effect, answer)),
            Err(warning) => Err(warning),
        },
        CallEvent::ToolExecutionFailed(mut failed) => match open(Kind::Tool, &failed.error.message) {
            Ok(effect) => {
                let not_started = failed.not_started == Some(true) || says_it_did_nothing(&failed.error);
                failed.not_started = Some(not_started);
                return behind_questions(&effect, tool_failed(&effect, failed, state.clock(around.now)));
            }
            Err(warning) => Err(warning),
        },
        CallEvent::ToolExecutionProgress(progress) => {
            return if_open(state, Kind::Tool, call, attempt, progress.into());
        }
        CallEvent::ContextProcessed(ContextProcessed { messages, variables, output, .. }) => {
            let processed = processors::Processed { messages, variables, output };
            open(Kind::Processor, "a conversation").map(|_| processors::answered(state, call, processed))
        }
        CallEvent::ContextProcessingFailed(failed) => {
            open(Kind::Processor, &failed.error.message).map(|_| failed.into())
        }
        CallEvent::StrategyDecided(decided) => {
            open(Kind::Strategy, "a decision").map(|_| strategy_decided(state, decided, around))
        }
        CallEvent::StrategyDecisionFailed(failed) => open(Kind::Strategy, &failed.error.message).map(|_| failed.into()),
    }
    .map_or_else(|warning| warning.into_iter().collect(), |event| vec![event])
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

/// The open attempt that an answer belongs to, or the warning that there is none.
fn open_attempt(state: &State, kind: Kind, call: CallId, attempt: u32, what: &str) -> Result<Effect, Option<Event>> {
    let (code, detail) = match open_call(state, kind, call) {
        Some(effect) if effect.key().1 == attempt => return Ok(effect),
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
    let warning = || Warning { code, call_id: Some(call), detail: cut(&detail) }.into();
    Err(state.run.is_some().then(warning))
}

/// Progress of a call that is not open any more is of no interest to anybody.
fn if_open(state: &State, kind: Kind, call: CallId, attempt: u32, event: Event) -> Vec<Event> {
    let open = open_call(state, kind, call).is_some_and(|effect| effect.key().1 == attempt);
    if open { vec![event] } else { Vec::new() }
}

pub(super) fn cut(text: &str) -> String {
    text.chars().take(DETAIL_CHARS_MAX).collect()
}

/// The end of a model call.
pub(super) fn model_completed(mut answer: LlmCallCompleted) -> Event {
    let call_id = answer.call_id;
    let failed = |error| LlmCallFailed { node_id: None, call_id, error }.into();
    if let Err(error) = check::answer(&answer.message) {
        return failed(error);
    }
    answer.unusable = check::unusable(&answer.message, answer.finish_reason);
    sizes::or_else(answer.into(), failed)
}

fn strategy_decided(state: &State, decided: StrategyDecided, around: &Env<'_>) -> Event {
    let call_id = decided.call_id;
    let failed = |error| StrategyDecisionFailed { node_id: None, call_id, error }.into();
    let agent_loop = state.node_run().and_then(|run| match &run.work {
        Work::Llm(agent_loop) => Some(agent_loop),
        _ => None,
    });
    let none = || ExecutionError::new(ErrorKind::Internal, "no agent loop is running");
    match agent_loop.ok_or_else(none).and_then(|agent_loop| checked_decision(agent_loop, decided.next, around)) {
        Ok(next) => sizes::or_else(StrategyDecided { node_id: None, call_id, next }.into(), failed),
        Err(error) => failed(error),
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

fn tool_answered(effect: &Effect, mut answer: ToolExecutionCompleted) -> Event {
    let (call_id, duration_ms) = (answer.call_id, answer.duration_ms);
    let failed = |error| {
        let tool_call_id = tool_call_id(effect);
        ToolExecutionFailed { node_id: None, call_id, tool_call_id, error, duration_ms, not_started: Some(false) }
            .into()
    };
    answer.tool_call_id = tool_call_id(effect);
    // JSON knows one null: a value that is null is none.
    answer.value = answer.value.filter(|value| !value.0.is_null());
    match check::result(&answer.content, answer.value.as_ref()) {
        Ok(()) => sizes::or_else(answer.into(), failed),
        Err(error) => failed(error),
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
pub(super) fn tool_failed(effect: &Effect, mut failed: ToolExecutionFailed, clock: Time) -> Event {
    if let Effect::CallTool(run) = effect {
        failed.error.retryable &= run.recovery != Recovery::AtMostOnce || !failed.error.kind.leaves_doubt();
        if failed.error.retryable && run.n_failed < run.options.retries {
            return ToolCallRetried {
                node_id: None,
                call_id: failed.call_id,
                attempt: run.attempt + 1,
                not_before: clock.plus_ms(run.options.retry_delay_ms),
                error: Some(failed.error),
            }
            .into();
        }
    }
    failed.tool_call_id = tool_call_id(effect);
    failed.into()
}
