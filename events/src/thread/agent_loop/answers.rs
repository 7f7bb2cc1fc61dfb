//! Reads answers of models, and writes the prompts about their errors.

use super::super::{check, sizes};
use crate::event::{Event, LlmCallCompleted, LlmCallFailed};
use crate::fault::{ErrorKind, ExecutionError};
use crate::json_text;
use crate::message::{FinishReason, Message, Part};

/// The most characters of a fault in a prompt.
const FAULT_CHARS_MAX: usize = 300;

/// Returns why an answer cannot be used, by its finish reason.
pub(super) fn not_usable(finish_reason: FinishReason) -> Option<ExecutionError> {
    match finish_reason {
        FinishReason::ContentFilter => {
            let message = "the provider's content filter stopped the answer";
            Some(ExecutionError::new(ErrorKind::ContentFilter, message))
        }
        FinishReason::Error => {
            let message = "the provider reported its answer as faulty";
            Some(ExecutionError::retryable(ErrorKind::MalformedResponse, message))
        }
        _ => None,
    }
}

/// The text of an answer, or of a refusal when there is no other text.
pub(super) fn answer_text(message: &Message) -> String {
    let text = message.joined_text();
    if !text.is_empty() {
        return text;
    }
    let refusals = message.content.iter().filter_map(|part| match part {
        Part::Refusal { text } => Some(text.as_str()),
        _ => None,
    });
    refusals.collect()
}

/// Returns an error as a model reads it in place of a tool's result.
pub(in super::super) fn error_text(error: &ExecutionError) -> String {
    format!("Error ({}): {}", error.kind, error.message)
}

/// The end of a model call.
pub(in super::super) fn model_completed(mut answer: Box<LlmCallCompleted>) -> Event {
    if let Err(error) = check::answer(&answer.message) {
        return LlmCallFailed::of_answer(&answer, error).into();
    }
    answer.unusable = check::unusable(&answer.message, answer.finish_reason);
    let without_answer = LlmCallFailed::of_answer(&answer, ExecutionError::new(ErrorKind::Internal, ""));
    sizes::or_else(Event::LlmCallCompleted(answer), |error| LlmCallFailed { error, ..without_answer }.into())
}

/// The text inside a code fence that is all of it; else the text.
pub(super) fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let fenced = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    fenced.map_or(text, |inner| inner.strip_prefix("json").unwrap_or(inner)).trim()
}

/// An answer that was to be JSON, in a code fence or not, or what is wrong with it, for the model.
pub(super) fn read_json<T: serde::de::DeserializeOwned>(answer: &str) -> Result<T, String> {
    json_text::read(unfenced(answer).as_bytes()).map_err(|e| {
        let why: String = e.to_string().chars().take(FAULT_CHARS_MAX).collect();
        format!("it is not the JSON that was asked for ({why})")
    })
}
