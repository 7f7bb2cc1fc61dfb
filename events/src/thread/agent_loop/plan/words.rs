//! The prompts for plans and steps, and how a plan is parsed. The events have the prompts, so
//! these words may change.

use serde::Deserialize;

use super::super::super::request::AnswerForm;
use super::super::super::state::PlanRun;
use super::super::answers::read_json;
use crate::event::PlanStrategy;
use crate::fault::{ErrorKind, ExecutionError};
use crate::json::Json;

/// How an answer begins that says that a step could not be done.
pub(super) const FAILED: &str = "FAILED:";
/// The longest step, in characters.
const STEP_CHARS_MAX: usize = 4_000;
/// How much of an answer is repeated in an error, in characters.
const SHOWN_CHARS_MAX: usize = 1_000;

const MAKE_A_PLAN: &str = "Make a plan for this before anything is done. Each step is one piece of work that can be \
    done and reported on by itself, in the order of the plan.";

/// The prompt after all steps were done.
pub(super) const FINISH: &str = "All steps of the plan are done. Now answer the request that the plan was made for: \
    the answer alone, complete by itself, with what the steps brought.";

/// The form of a plan.
pub(in super::super) fn form() -> AnswerForm {
    AnswerForm {
        name: "plan",
        is_exact: true,
        schema: Json::from(serde_json::json!({
            "type": "object",
            "properties": { "steps": { "type": "array", "items": { "type": "string" } } },
            "required": ["steps"],
            "additionalProperties": false,
        })),
    }
}

/// The form in words, for providers that do not enforce it.
fn form_in_words(strategy: &PlanStrategy) -> String {
    format!(
        "Answer with JSON and nothing else: {{\"steps\": [\"what is to be done first\", \"then\"]}}, with 1 to {} steps.",
        strategy.max_steps
    )
}

/// Returns the prompt for the first plan.
pub(super) fn first(strategy: &PlanStrategy) -> String {
    let instructions = strategy.prompt.as_deref().unwrap_or(MAKE_A_PLAN);
    format!("{instructions}\n\n{}", form_in_words(strategy))
}

/// Returns the prompt for another plan after a step failed.
pub(super) fn anew(run: &PlanRun, strategy: &PlanStrategy, index: u32, error: &ExecutionError) -> String {
    let own = strategy.prompt.as_ref().map(|prompt| format!("\n\n{prompt}")).unwrap_or_default();
    format!(
        "{}\n\nMake a new plan for what is left to do: another way round what failed. Steps that were done stay \
         done.{own}\n\n{}",
        what_failed(run, index, error),
        form_in_words(strategy)
    )
}

/// Returns the prompt after an answer that was no plan.
pub(super) fn once_more(fault: &str, strategy: &PlanStrategy) -> String {
    format!("That is no plan: {fault}. {}", form_in_words(strategy))
}

/// Returns the prompt for a step.
pub(super) fn step(run: &PlanRun, index: u32, step: &str) -> String {
    format!(
        "Step {} of {}: {step}\n\nDo this step and no other, then say what came of it. If it cannot be done, begin your \
         answer with {FAILED} and say why.",
        index + 1,
        run.steps.len()
    )
}

/// The error of a node whose plans failed.
pub(super) fn given_up(run: &PlanRun, strategy: &PlanStrategy, index: u32, error: &ExecutionError) -> ExecutionError {
    let plans = match strategy.max_replans {
        0 => "no new plan is allowed (max_replans)".to_owned(),
        n => format!("the plan was replaced {n} times (max_replans)"),
    };
    let message = format!("{}; {plans}", what_failed(run, index, error));
    ExecutionError { retryable: error.retryable, ..ExecutionError::new(ErrorKind::Failed, message) }
}

fn what_failed(run: &PlanRun, index: u32, error: &ExecutionError) -> String {
    let step = run.steps.get(index as usize).map_or("", String::as_str);
    format!("Step {} of {} failed ({}): {}", index + 1, run.steps.len(), shown(step), error.message)
}

/// A text from outside, cut.
pub(super) fn shown(text: &str) -> String {
    let mut chars = text.chars();
    let mut shown: String = chars.by_ref().take(SHOWN_CHARS_MAX).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

#[derive(Deserialize)]
struct Plan {
    steps: Vec<String>,
}

/// The steps of a plan, or what is wrong with it, for the model.
pub(super) fn read(answer: &str, strategy: &PlanStrategy) -> Result<Vec<String>, String> {
    let plan: Plan = read_json(answer)?;
    let (n, max) = (plan.steps.len(), strategy.max_steps as usize);
    if n == 0 {
        return Err("it has no steps".into());
    }
    if n > max {
        return Err(format!("it has {n} steps, at most {max} are allowed"));
    }
    if let Some(i) = plan.steps.iter().position(|step| step.trim().is_empty()) {
        return Err(format!("step {} is empty", i + 1));
    }
    if let Some(i) = plan.steps.iter().position(|step| step.chars().nth(STEP_CHARS_MAX).is_some()) {
        return Err(format!("step {} is longer than {STEP_CHARS_MAX} characters", i + 1));
    }
    Ok(plan.steps)
}
