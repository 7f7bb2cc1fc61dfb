//! Guardrails: what a node checks before its model reads an input, before an answer is used, and before a tool runs.
//!
//! A check that cannot be made counts as a condition that holds: nothing passes that was not checked. Outcomes are events,
//! so a replay checks nothing again.

use super::agent_loop::{Gate, kind_of};
use super::asks;
use super::env::Env;
use super::judging;
use super::questions::question_failed;
use super::state::{AgentLoop, Check, CheckStage, JudgingStage, State, Work};
use crate::event::{
    CheckedContent, ConditionEvaluationRequested, Event, GuardedContent, Guardrail, GuardrailAction, GuardrailCheck,
    GuardrailCompleted, GuardrailOutcome, GuardrailRequested, InteractionFailure, JudgedGuardrail, ModelChoice,
};
use crate::expression::Context;
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::CallId;
use crate::json::Json;

/// The most characters that a model judges. What is longer cannot be checked.
const JUDGED_CHARS_MAX: usize = 100_000;
/// The most characters of a reason.
const REASON_CHARS_MAX: usize = 1_000;

/// What the guardrails decide before the loop continues.
pub(super) fn gate(state: &State, agent_loop: &AgentLoop, around: &Env<'_>) -> Gate {
    if agent_loop.request.guardrails.is_empty() {
        return Gate::Open;
    }
    if let Some(call) = agent_loop.guarding.open_call() {
        return if agent_loop.has_failed() { no_answer_needed(state, call) } else { Gate::Closed };
    }
    let Some((content, index)) = agent_loop.check_due(&state.conversation) else {
        return Gate::Open;
    };
    let internal = |message: &str| Gate::event(agent_loop.failed(ExecutionError::new(ErrorKind::Internal, message)));
    let Some(guardrail) = usize::try_from(index).ok().and_then(|index| agent_loop.request.guardrails.get(index)) else {
        return internal("there is no such guardrail");
    };
    let stage = agent_loop.guarding.check.as_deref().filter(|check| check.content == content).map(|check| &check.stage);
    let due = Due { state, agent_loop, guardrail, index, content, around };
    match stage {
        Some(CheckStage::Stopped { reason }) => {
            let node = &agent_loop.request.node_id;
            let checked = due.checked();
            let text = checked.0.as_str().unwrap_or_default();
            let what = due.content.in_words();
            Gate::event(asks::about_content(node, (&guardrail.name, what), reason, text))
        }
        Some(CheckStage::Judging(judged)) => match &judged.stage {
            JudgingStage::Asking(_) => Gate::Closed,
            JudgingStage::Judged(false) => due.completed(GuardrailOutcome::Allow {}, None),
            JudgingStage::Judged(true) => due.tripped(None),
            JudgingStage::Doubtful { ask_again: true } => match &guardrail.check {
                GuardrailCheck::Judge { model, timeout_ms, .. } => {
                    due.judge(judged.condition.clone(), model, *timeout_ms, judged.attempt + 1)
                }
                GuardrailCheck::Expression { .. } | GuardrailCheck::Function { .. } => {
                    internal("no model judges for this guardrail")
                }
            },
            JudgingStage::Doubtful { ask_again: false } => {
                let message = format!("the model gave no verdict about `{}`", judged.condition);
                due.tripped(Some(ExecutionError::new(ErrorKind::MalformedResponse, message)))
            }
        },
        Some(CheckStage::Due) | None => due.begin(),
        Some(CheckStage::Calling(_) | CheckStage::Asking(_)) => Gate::Closed,
    }
}

/// The loop has failed meanwhile: no person is asked any more. What a function or a model says is waited for.
fn no_answer_needed(state: &State, call: CallId) -> Gate {
    let question = question_failed(state, call, InteractionFailure::Cancelled, Some("the node has failed".into()));
    match question.ok().and_then(|events| events.into_iter().next()) {
        Some(event) => Gate::event(event),
        None => Gate::Closed,
    }
}

/// A check that is due.
struct Due<'a> {
    state: &'a State,
    agent_loop: &'a AgentLoop,
    guardrail: &'a Guardrail,
    index: u32,
    content: CheckedContent,
    around: &'a Env<'a>,
}

impl Due<'_> {
    fn begin(self) -> Gate {
        match &self.guardrail.check {
            GuardrailCheck::Expression { when } => match self.context().holds(when) {
                Ok(false) => self.completed(GuardrailOutcome::Allow {}, None),
                Ok(true) => self.tripped(None),
                Err(error) => self.tripped(Some(error.into())),
            },
            GuardrailCheck::Judge { condition, model, timeout_ms } => match self.context().render(condition) {
                Ok(condition) => self.judge(condition, model, *timeout_ms, 1),
                Err(error) => self.tripped(Some(error.into())),
            },
            GuardrailCheck::Function { timeout_ms, .. } => Gate::event(GuardrailRequested {
                node_id: self.agent_loop.request.node_id.clone(),
                guardrail: self.index,
                deadline: self.around.now.plus_ms(*timeout_ms),
                content: self.content,
            }),
        }
    }

    fn judge(self, condition: String, model: &ModelChoice, timeout_ms: u64, attempt: u32) -> Gate {
        let n_chars = match &*self.checked().0 {
            serde_json::Value::String(text) => text.chars().count(),
            call => call.to_string().chars().count(),
        };
        if n_chars > JUDGED_CHARS_MAX {
            let message = format!("{n_chars} characters, at most {JUDGED_CHARS_MAX} are judged");
            return self.tripped(Some(ExecutionError::new(ErrorKind::TooLarge, message)));
        }
        let model = judging::of_fork(self.state, model.clone());
        if let Err(error) = judging::check_model(&model, &condition, self.around) {
            return self.tripped(Some(error));
        }
        let model_profile = self.around.models.profile(&model);
        let guardrail = Some(JudgedGuardrail { index: self.index, content: self.content });
        let node_id = self.agent_loop.request.node_id.clone();
        Gate::event(ConditionEvaluationRequested {
            node_id,
            edge: 0,
            condition,
            attempt,
            model,
            timeout_ms,
            model_profile,
            guardrail,
        })
    }

    /// The condition holds, or could not be checked.
    fn tripped(self, error: Option<ExecutionError>) -> Gate {
        let reason = self.reason(error.as_ref());
        let outcome = match &self.guardrail.then {
            GuardrailAction::Reject => GuardrailOutcome::Reject { reason },
            GuardrailAction::Ask if self.agent_loop.is_handoff(&self.content) => GuardrailOutcome::Reject { reason },
            GuardrailAction::Ask => GuardrailOutcome::Ask { reason },
            GuardrailAction::Replace(with) => match self.context().fill(&with.0) {
                Ok(with) => checked_outcome(GuardrailOutcome::Replace { with: with.into(), reason }, &self.content),
                Err(error) => {
                    GuardrailOutcome::Reject { reason: format!("{reason}; it could not be replaced: {error}") }
                }
            },
        };
        self.completed(outcome, error)
    }

    fn reason(&self, error: Option<&ExecutionError>) -> String {
        if let Some(error) = error {
            return cut(&format!("the check failed: {}", error.message));
        }
        let own = self.guardrail.reason.as_ref().and_then(|reason| self.context().render(reason).ok());
        cut(&own.unwrap_or_else(|| match &self.guardrail.check {
            GuardrailCheck::Expression { when } => format!("`{when}` holds"),
            GuardrailCheck::Judge { condition, .. } => condition.clone(),
            GuardrailCheck::Function { name, .. } => format!("function `{name}`"),
        }))
    }

    fn completed(self, outcome: GuardrailOutcome, error: Option<ExecutionError>) -> Gate {
        Gate::event(GuardrailCompleted {
            node_id: None,
            call_id: CallId(self.state.next_seq()),
            guardrail: self.index,
            name: self.guardrail.name.clone(),
            content: self.content,
            outcome,
            error,
        })
    }

    fn context(&self) -> Context {
        self.state.context_with_checked(self.checked())
    }

    fn checked(&self) -> Json {
        self.agent_loop.checked_value(&self.content, &self.state.conversation)
    }
}

/// An outcome that can be used; else its rejection.
fn checked_outcome(outcome: GuardrailOutcome, content: &CheckedContent) -> GuardrailOutcome {
    match outcome {
        GuardrailOutcome::Replace { with, reason } => {
            let fits = match kind_of(content) {
                GuardedContent::Input | GuardedContent::Answer => with.0.is_string(),
                GuardedContent::ToolCall => with.0.is_object() && !with.is_too_deep(),
            };
            let reason = cut(&reason);
            if fits {
                GuardrailOutcome::Replace { with, reason }
            } else {
                let reason = format!("{reason}; its replacement is not a text, or for a tool call an object");
                GuardrailOutcome::Reject { reason }
            }
        }
        GuardrailOutcome::Reject { reason } => GuardrailOutcome::Reject { reason: cut(&reason) },
        GuardrailOutcome::Ask { reason } => GuardrailOutcome::Ask { reason: cut(&reason) },
        GuardrailOutcome::Allow {} => GuardrailOutcome::Allow {},
    }
}

fn cut(reason: &str) -> String {
    reason.chars().take(REASON_CHARS_MAX).collect()
}

/// The outcome that a function of the application reports.
pub(super) fn completed(state: &State, reported: GuardrailCompleted) -> Vec<Event> {
    let Some(Work::Llm(agent_loop)) = state.node_run().map(|run| &run.work) else { return Vec::new() };
    let Some(Check { content, guardrail, .. }) = agent_loop.guarding.check.as_deref() else { return Vec::new() };
    let name = usize::try_from(*guardrail).ok().and_then(|index| agent_loop.request.guardrails.get(index));
    let outcome = match checked_outcome(reported.outcome, content) {
        GuardrailOutcome::Ask { reason } if agent_loop.is_handoff(content) => GuardrailOutcome::Reject { reason },
        outcome => outcome,
    };
    let completed = GuardrailCompleted {
        node_id: None,
        call_id: reported.call_id,
        guardrail: *guardrail,
        name: name.map(|guardrail| guardrail.name.clone()).unwrap_or_default(),
        content: content.clone(),
        outcome,
        error: reported.error,
    };
    vec![super::sizes::or_else(completed.clone().into(), |error| {
        let outcome = GuardrailOutcome::Reject { reason: cut(&format!("the check failed: {}", error.message)) };
        GuardrailCompleted { outcome, error: Some(error), ..completed }.into()
    })]
}

/// The end of a check that could not be made.
pub(super) fn failed(state: &State, call: CallId, error: ExecutionError) -> Vec<Event> {
    completed(state, GuardrailCompleted::failed(call, error))
}
