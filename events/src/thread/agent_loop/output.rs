//! Answers that must fit a schema: extracts the value from an answer, and repeats the call if the answer does not fit.

#[cfg(test)]
mod tests;

use serde_json::Value;

use super::super::request::AnswerForm;
use super::super::state::{AgentLoop, Stage};
use super::super::transition::TransitionError;
use super::answers::unfenced;
use crate::event::{AnswerFault, AnswerRejected, Event, OutputSpec};
use crate::fault::{ErrorKind, ExecutionError};
use crate::json::Json;
use crate::json_text;
use crate::message::FinishReason;
use crate::schema::{Compiled, Mismatch, in_words};

/// The most faults of an answer that are recorded.
const FAULTS_MAX: usize = 20;
/// The brackets of lists and objects.
const BRACKETS: [char; 4] = ['{', '}', '[', ']'];

/// The form of the answer, for providers that can enforce one.
pub(super) fn form(output: &OutputSpec) -> AnswerForm {
    AnswerForm { name: "answer", schema: output.schema.clone(), is_exact: false }
}

/// The prompt, followed by the form in words, for providers that do not enforce it.
pub(in super::super) fn with_form(prompt: &str, output: &OutputSpec) -> String {
    format!(
        "{prompt}\n\nYour final answer must be JSON and nothing else. It must fit this JSON Schema:\n{}",
        output.schema.0
    )
}

/// The value in an answer, if the request has a schema; or what is wrong with the answer.
pub(super) fn read(
    agent_loop: &AgentLoop,
    content: &str,
    finish_reason: FinishReason,
) -> Result<Option<Json>, Vec<Mismatch>> {
    let Some(output) = &agent_loop.request.output else { return Ok(None) };
    let fault = |message: String| vec![Mismatch { pointer: String::new(), message }];
    if finish_reason == FinishReason::Length {
        return Err(fault("it is cut off at the limit of its length; write a shorter one".into()));
    }
    let value = Json::from(only_value(content).map_err(fault)?);
    if value.is_too_deep() {
        return Err(fault(format!("it is nested deeper than {} levels", Json::DEPTH_MAX)));
    }
    Compiled::of(&output.schema).check(&value).map(|()| Some(value))
}

/// The only JSON value in a text: the text itself, in a code fence or not, or one list or object with prose around it. What
/// is ambiguous is an error: a part of a broken value is not taken for the answer.
fn only_value(content: &str) -> Result<Value, String> {
    let mended = json_text::mended(content.as_bytes());
    let text = mended.as_deref().unwrap_or(content).trim();
    if text.is_empty() {
        return Err("it is empty; JSON was asked for".into());
    }
    let whole = match serde_json::from_str(unfenced(text)) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let Some(from) = text.find(['{', '[']) else {
        return Err("it is prose; JSON was asked for".into());
    };
    let mut values = serde_json::Deserializer::from_str(&text[from..]).into_iter::<Value>();
    match values.next() {
        Some(Ok(value)) if !text[from + values.byte_offset()..].contains(BRACKETS) => Ok(value),
        Some(Ok(_)) => Err("it has more than one JSON value, or brackets after it; one value was asked for".into()),
        Some(Err(error)) if error.is_eof() => Err(format!("its JSON ends too early ({error})")),
        Some(Err(error)) if from > 0 => Err(format!("its JSON is invalid ({error}, counted from the first bracket)")),
        Some(Err(_)) | None => Err(format!("its JSON is invalid ({whole})")),
    }
}

/// Returns the event after an answer that does not fit: the call is repeated, or the loop fails.
pub(super) fn rejected(agent_loop: &AgentLoop, faults: Vec<Mismatch>) -> Event {
    let max = agent_loop.request.output.as_ref().map_or(0, |output| output.max_repairs);
    if agent_loop.n_repairs >= max {
        let asked = match max {
            0 => String::new(),
            1 => ", also after it was asked for again".to_owned(),
            n => format!(", also after it was asked for again {n} times"),
        };
        let message = format!("the answer does not fit `output_schema`{asked}: {}", in_words("answer", &faults));
        return agent_loop.failed(ExecutionError::retryable(ErrorKind::InvalidOutput, message));
    }
    let faults: Vec<_> = faults
        .into_iter()
        .take(FAULTS_MAX)
        .map(|Mismatch { pointer, message }| AnswerFault { pointer, message })
        .collect();
    let prompt = prompt(&faults);
    AnswerRejected { node_id: agent_loop.request.node_id.clone(), attempt: agent_loop.n_repairs + 1, faults, prompt }
        .into()
}

/// Returns the prompt for another answer.
fn prompt(faults: &[AnswerFault]) -> String {
    let lines: String = faults
        .iter()
        .map(|fault| match fault.pointer.as_str() {
            "" => format!("- {}\n", fault.message),
            pointer => format!("- at {pointer}: {}\n", fault.message),
        })
        .collect();
    format!(
        "That answer cannot be used:\n{lines}\nAnswer again: the whole JSON and nothing else, so that it fits the JSON Schema \
         that was given."
    )
}

/// The message of a loop that has no call left for another answer.
pub(super) fn left_no_call(agent_loop: &AgentLoop) -> String {
    let n = agent_loop.request.max_iterations;
    format!("the model was called {n} times and gave no answer that fits `output_schema` (max_iterations)")
}

impl AgentLoop {
    /// Applies the rejection of the last answer.
    pub(in super::super) fn answer_rejected(&mut self, event: &AnswerRejected) -> Result<(), TransitionError> {
        let max = self.request.output.as_ref().map_or(0, |output| output.max_repairs);
        if !self.has_answered() || event.attempt != self.n_repairs + 1 || event.attempt > max {
            return Err(TransitionError("no answer is to be rejected"));
        }
        self.n_repairs = event.attempt;
        self.stage = Stage::ToAsk;
        Ok(())
    }
}
