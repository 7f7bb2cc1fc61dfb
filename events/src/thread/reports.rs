//! Reports of executors about calls: recorded if the call is open, otherwise a warning.

use super::agent_loop::{checked_decision, model_completed};
use super::calls::{CallKind, OpenCall, ToolRun};
use super::processed::Processed;
use super::questions::informing;
use super::state::{State, Work};
use super::{check, env::Env, guardrails, judging, processors, sizes, summaries};
use crate::event::{
    CallEvent, ContextProcessed, Event, StrategyDecided, StrategyDecisionFailed, ToolCallRetried,
    ToolExecutionCompleted, ToolExecutionFailed, Warning, WarningCode,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Time};
use crate::tool::Recovery;

/// The longest detail of a warning, in characters.
const DETAIL_CHARS_MAX: usize = 1_000;

/// The events that a report about this attempt at a call leads to.
pub(super) fn reported(state: &State, attempt: u32, event: CallEvent, around: &Env<'_>) -> Vec<Event> {
    let call = event.call_id();
    let of_model = |what: &str| open_attempt(state, OpenCall::model, call, attempt, what);
    let of_tool = |what: &str| open_attempt(state, OpenCall::tool, call, attempt, what);
    let of_processor = |what: &str| open_attempt(state, OpenCall::processor, call, attempt, what);
    let of_guardrail = |what: &str| open_attempt(state, OpenCall::guardrail, call, attempt, what);
    let of_strategy = |what: &str| open_attempt(state, OpenCall::strategy, call, attempt, what);
    let events = match event {
        CallEvent::LlmCallCompleted(answer) => of_model("an answer").map(|(open, model)| match open.kind {
            CallKind::Judge(_) => judging::answered(state, model, *answer, around.now),
            CallKind::Summary(_) => vec![summaries::answered(model, *answer, around.now)],
            _ => vec![model_completed(answer)],
        }),
        CallEvent::LlmCallFailed(failed) => of_model(&failed.error.message).map(|(open, model)| match open.kind {
            CallKind::Judge(_) => judging::failed(state, model, failed, around.now),
            CallKind::Summary(_) => vec![summaries::failed(model, failed, around.now)],
            _ => vec![failed.into()],
        }),
        CallEvent::LlmTryFailed(failed) => return if_open(state, OpenCall::model, call, attempt, failed.into()),
        CallEvent::LlmRequestChanged(changed) => return if_open(state, OpenCall::model, call, attempt, changed.into()),
        CallEvent::LlmExecutionProgress(piece) => return if_open(state, OpenCall::model, call, attempt, piece.into()),
        CallEvent::ToolExecutionCompleted(answer) => {
            of_tool("an answer").map(|(_, run)| behind_questions(state, call, tool_answered(run, answer)))
        }
        CallEvent::ToolExecutionFailed(mut failed) => of_tool(&failed.error.message).map(|(_, run)| {
            failed.not_started |= says_it_did_nothing(&failed.error);
            behind_questions(state, call, tool_failed(run, failed, state.clock(around.now)))
        }),
        CallEvent::ToolExecutionProgress(progress) => {
            return if_open(state, OpenCall::tool, call, attempt, progress.into());
        }
        CallEvent::ContextProcessed(ContextProcessed { messages, variables, output, .. }) => {
            let processed = Processed { messages, variables, output };
            of_processor("a conversation").map(|(_, run)| vec![processors::answered(state, run, processed)])
        }
        CallEvent::ContextProcessingFailed(failed) => of_processor(&failed.error.message).map(|_| vec![failed.into()]),
        CallEvent::GuardrailCompleted(completed) => {
            of_guardrail("an outcome").map(|_| guardrails::completed(state, completed))
        }
        CallEvent::StrategyDecided(decided) => {
            of_strategy("a decision").map(|_| vec![strategy_decided(state, *decided, around)])
        }
        CallEvent::StrategyDecisionFailed(failed) => of_strategy(&failed.error.message).map(|_| vec![failed.into()]),
    };
    events.unwrap_or_else(|warning| warning)
}

/// Returns the open attempt that an answer belongs to, or a warning that there is none. `of_kind` says whether a call
/// can be answered in this way.
fn open_attempt<'s, T>(
    state: &'s State,
    of_kind: fn(&OpenCall) -> Option<&T>,
    call: CallId,
    attempt: u32,
    what: &str,
) -> Result<(&'s OpenCall, &'s T), Vec<Event>> {
    let (code, detail) = match state.calls.get(call).filter(|open| open.is_wanted()).map(|open| (open, of_kind(open))) {
        Some((open, Some(run))) if open.attempt() == attempt => return Ok((open, run)),
        Some((open, Some(_))) => (
            WarningCode::StaleAttempt,
            format!("attempt {attempt} answered when attempt {} was running: {what}", open.attempt()),
        ),
        Some((_, None)) => (WarningCode::UnknownCall, format!("the call is of another kind: {what}")),
        None if call.0 < state.next => (WarningCode::LateAnswer, format!("no such call is open: {what}")),
        None => (WarningCode::UnknownCall, format!("there is no such call: {what}")),
    };
    let warning = || Warning { code, call_id: Some(call), detail: cut(&detail) }.into();
    Err(state.run.is_some().then(warning).into_iter().collect())
}

/// Ignores progress of a call that is not open any more.
fn if_open<T>(
    state: &State,
    of_kind: fn(&OpenCall) -> Option<&T>,
    call: CallId,
    attempt: u32,
    event: Event,
) -> Vec<Event> {
    let open = state.calls.get(call).filter(|open| open.is_wanted() && of_kind(open).is_some());
    if open.is_some_and(|open| open.attempt() == attempt) { vec![event] } else { Vec::new() }
}

pub(super) fn cut(text: &str) -> String {
    text.chars().take(DETAIL_CHARS_MAX).collect()
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

fn tool_answered(run: &ToolRun, mut answer: ToolExecutionCompleted) -> Event {
    let (call_id, duration_ms) = (answer.call_id, answer.duration_ms);
    let failed = |error| {
        let (tool_call_id, not_started) = (run.tool_call_id.clone(), false);
        ToolExecutionFailed { node_id: None, call_id, tool_call_id, error, duration_ms, not_started }.into()
    };
    answer.tool_call_id.clone_from(&run.tool_call_id);
    // JSON knows one null: a value that is null is none.
    answer.value = answer.value.filter(|value| !value.0.is_null());
    match check::result(&answer.content, answer.value.as_ref()) {
        Ok(()) => sizes::or_else(answer.into(), failed),
        Err(error) => failed(error),
    }
}

/// The end of a tool call, or of an attempt at it, after the ends of the tool's questions.
pub(super) fn behind_questions(state: &State, call: CallId, event: Event) -> Vec<Event> {
    let asks = informing::left_by(state, call, "the tool that asked has ended");
    asks.into_iter().chain(std::iter::once(event)).collect()
}

/// Returns whether a tool that began reports that it did nothing: its error allows another try, and does not leave the
/// result of the call unknown. A plain failure does not say so.
fn says_it_did_nothing(error: &ExecutionError) -> bool {
    error.retryable && !error.kind.leaves_doubt()
}

/// A tool failed: it is tried again as often as it was declared, when the error allows it and nothing that wrote to
/// the world could happen twice. `clock` is what the clocks of calls show.
pub(super) fn tool_failed(run: &ToolRun, mut failed: ToolExecutionFailed, clock: Time) -> Event {
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
    failed.tool_call_id.clone_from(&run.tool_call_id);
    failed.into()
}
