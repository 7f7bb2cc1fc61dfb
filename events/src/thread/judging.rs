//! Conditions in natural language, judged by a model.
//!
//! The question and the verdict are events, so a replay calls nothing. If an answer is neither yes nor no, the model is
//! called once more; after that, or if the call fails, the condition counts as not fulfilled, with a warning.

mod verdict;

#[cfg(test)]
mod tests;

use super::calls::ModelCall;
use super::check;
use super::env::Env;
use super::request::of_profile;
use super::state::{ATTEMPTS_MAX, Judging, JudgingStage, State};
use crate::event::{
    ConditionEvaluationCompleted, ConditionEvaluationRequested, Event, FailedUsage, LlmCallCompleted, LlmCallFailed,
    ModelChoice, Warning, WarningCode,
};
use crate::expression::Context;
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{NodeId, Time};
use crate::message::{FinishReason, UsageSource};
use crate::workflow::{Edge, Judge, Workflow};
use verdict::verdict_of;

/// How long one verdict may take when the workflow does not say.
const TIMEOUT_MS_DEFAULT: u64 = 60_000;
/// How much of an answer is kept, in characters.
const ANSWER_CHARS_MAX: usize = 1_000;

/// The event that asks about the condition of an edge.
pub(super) fn request(
    state: &State,
    workflow: &Workflow,
    from: &NodeId,
    (edge, condition): (u32, &str),
    attempt: u32,
    around: &Env<'_>,
) -> Result<Event, ExecutionError> {
    let Some(judge) = &workflow.spec().judge else {
        let message = format!("the workflow has no `judge` for the condition `{condition}`");
        return Err(ExecutionError::new(ErrorKind::Configuration, message));
    };
    let (model, timeout_ms) = judge_of(judge);
    let model = of_fork(state, model);
    check_model(&model, condition, around)?;
    let condition = condition.to_owned();
    let model_profile = around.models.profile(&model);
    let from = from.clone();
    Ok(ConditionEvaluationRequested {
        node_id: from,
        edge,
        condition,
        attempt,
        model,
        timeout_ms,
        model_profile,
        guardrail: None,
    }
    .into())
}

/// The model that judges conditions, and how long one verdict may take.
pub(super) fn judge_of(judge: &Judge) -> (ModelChoice, u64) {
    let model = ModelChoice {
        profile: judge.profile_id.clone(),
        provider: judge.provider.clone(),
        model: judge.model.clone(),
        extra: judge.extra.clone(),
        ..ModelChoice::default()
    };
    (model, judge.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT))
}

/// The model, or the profile that a fork put in the place of all models.
pub(super) fn of_fork(state: &State, model: ModelChoice) -> ModelChoice {
    match &state.changes.profile {
        Some(profile) => of_profile(model, profile),
        None => model,
    }
}

/// A person judges no condition.
pub(super) fn check_model(model: &ModelChoice, condition: &str, around: &Env<'_>) -> Result<(), ExecutionError> {
    if !around.models.is_person(model) {
        return Ok(());
    }
    let message = format!("a person answers for the model that judges the condition `{condition}`");
    let hint = "give the workflow a `judge` that is a model, or ask the person with a user_interaction node";
    Err(ExecutionError::new(ErrorKind::Configuration, message).caused_by(hint))
}

/// The way on after a judgement.
enum EdgeOutcome {
    /// The condition holds.
    Taken,
    /// The model is to be called once more.
    AskAgain,
    /// It does not hold: the edges after this one are to be tried.
    NotTaken,
}

/// Returns the verdict about an edge of the node; `None` if the edge has another condition by now, or the call is still
/// open.
fn verdict_for(state: &State, judging: &Judging, edge: &Edge) -> Option<EdgeOutcome> {
    if rendered(&state.context(), edge)?.ok()? != judging.condition {
        return None;
    }
    match judging.stage {
        JudgingStage::Asking(_) => None,
        JudgingStage::Judged(true) => Some(EdgeOutcome::Taken),
        JudgingStage::Doubtful { ask_again: true } => Some(EdgeOutcome::AskAgain),
        JudgingStage::Judged(false) | JudgingStage::Doubtful { ask_again: false } => Some(EdgeOutcome::NotTaken),
    }
}

/// The events that an answer to the open call leads to.
pub(super) fn answered(state: &State, open: &ModelCall, answer: LlmCallCompleted, now: Time) -> Vec<Event> {
    if let Err(error) = check::answer(&answer.message) {
        return failed(state, open, LlmCallFailed::of_answer(&answer, error), now);
    }
    let text = answer.message.joined_text();
    let error = match answer.finish_reason {
        FinishReason::ContentFilter => {
            Some(ExecutionError::new(ErrorKind::ContentFilter, "the provider's content filter stopped the answer"))
        }
        FinishReason::Error => {
            let message = "the provider reported its answer as faulty";
            Some(ExecutionError::retryable(ErrorKind::MalformedResponse, message))
        }
        finish_reason => check::unusable(&answer.message, finish_reason),
    };
    let completed = ConditionEvaluationCompleted {
        node_id: None,
        call_id: open.call,
        verdict: if error.is_none() { verdict_of(&text) } else { None },
        answer: text.chars().take(ANSWER_CHARS_MAX).collect(),
        error,
        usage: answer.usage,
        cost_nanousd: answer.cost_nanousd,
        prices: answer.prices,
        model: answer.model,
        duration_ms: answer.duration_ms,
        usage_source: answer.usage_source,
        fallback_from: answer.fallback_from,
    };
    with_warning(state, completed)
}

/// The events of a call that failed.
pub(super) fn failed(state: &State, open: &ModelCall, failed: LlmCallFailed, now: Time) -> Vec<Event> {
    let FailedUsage { usage, cost_nanousd, prices } = failed.used.map(|used| *used).unwrap_or_default();
    let completed = ConditionEvaluationCompleted {
        node_id: None,
        call_id: open.call,
        verdict: None,
        answer: String::new(),
        error: Some(failed.error),
        usage,
        cost_nanousd,
        prices,
        model: failed.model,
        duration_ms: now.ms_since(open.requested_at),
        usage_source: UsageSource::default(),
        fallback_from: failed.fallback_from,
    };
    with_warning(state, completed)
}

/// Returns the verdict, and a warning if there is none and no retry.
fn with_warning(state: &State, completed: ConditionEvaluationCompleted) -> Vec<Event> {
    let Some(judging) = state.judging() else {
        return vec![completed.into()];
    };
    let why = match (&completed.verdict, &completed.error) {
        (Some(_), _) => None,
        (None, Some(error)) => Some(error.message.clone()),
        (None, None) if judging.attempt >= ATTEMPTS_MAX => {
            Some(format!("the model answered neither yes nor no: `{}`", completed.answer))
        }
        (None, None) => None,
    };
    let warning = why.map(|why| {
        let (from, condition) = (&judging.node, &judging.condition);
        let detail = format!("the condition `{condition}` from `{from}` counts as false: {why}");
        let detail = detail.chars().take(1_000).collect();
        Warning { code: WarningCode::DoubtfulVerdict, call_id: Some(completed.call_id), detail }.into()
    });
    std::iter::once(completed.into()).chain(warning).collect()
}

/// The next thing to do with the edges of a node, from that place on.
pub(super) fn try_edges(
    state: &State,
    workflow: &Workflow,
    from: &NodeId,
    first: usize,
    around: &Env<'_>,
) -> Result<Event, ExecutionError> {
    let graph = state.graph(workflow).ok_or_else(|| {
        let message = format!("workflow `{}` ({}) has no such graph", workflow.name(), workflow.hash());
        ExecutionError::new(ErrorKind::Configuration, message)
    })?;
    let context = state.context();
    for (i, edge) in graph.edges_from(from).enumerate().skip(first) {
        if let Some(condition) = rendered(&context, edge).transpose()? {
            let i = u32::try_from(i).unwrap_or(u32::MAX);
            return request(state, workflow, from, (i, &condition), 1, around);
        }
        let holds = edge.when.as_ref().map_or(Ok(true), |when| context.holds(when));
        if holds? {
            return Ok(taken(edge));
        }
    }
    let message = format!("no condition of the edges from `{from}` holds, and there is no default edge");
    Err(ExecutionError::new(ErrorKind::Expression, message))
}

/// The condition of an edge that a model judges, with its expressions filled in.
fn rendered(context: &Context, edge: &Edge) -> Option<Result<String, ExecutionError>> {
    Some(context.render(edge.judge.as_ref()?).map_err(Into::into))
}

fn taken(edge: &Edge) -> Event {
    let condition = edge.when.clone().or_else(|| edge.judge.clone());
    crate::event::RouteTaken { from: edge.from.clone(), to: edge.to.clone(), condition, error: None }.into()
}

/// Returns the event after a judgement; `None` while the call is open.
pub(super) fn advance(
    state: &State,
    workflow: &Workflow,
    judging: &Judging,
    around: &Env<'_>,
) -> Option<Result<Event, ExecutionError>> {
    if judging.open_call().is_some() {
        return None;
    }
    let index = usize::try_from(judging.edge).unwrap_or(usize::MAX);
    let edge = state.graph(workflow).and_then(|graph| graph.edges_from(&judging.node).nth(index));
    let asked = (judging.edge, judging.condition.as_str());
    Some(match edge.and_then(|edge| verdict_for(state, judging, edge).map(|way| (edge, way))) {
        Some((edge, EdgeOutcome::Taken)) => Ok(taken(edge)),
        Some((_, EdgeOutcome::AskAgain)) => request(state, workflow, &judging.node, asked, judging.attempt + 1, around),
        Some((_, EdgeOutcome::NotTaken)) => try_edges(state, workflow, &judging.node, index + 1, around),
        // The definition is another one by now: all of its edges are tried.
        None => try_edges(state, workflow, &judging.node, 0, around),
    })
}
