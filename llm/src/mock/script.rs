//! The script of a [`Mock`](super::Mock), as written in a YAML or JSON file.

use regex::Regex;
use rethread_events::json::Json;
use rethread_events::message::{FinishReason, Usage};
use rethread_events::workflow::Faults;
use serde::{Deserialize, Serialize};

use super::faults::pattern;
use crate::error::{ErrorKind, LlmError, model_kind};
use crate::request::Request;

/// The answers of a scripted model. A call gets the first answer whose conditions are true; answers without conditions
/// are used for the calls of the conversation in order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MockScript {
    /// The answers.
    pub answers: Vec<MockAnswer>,
    /// Whether the answers without conditions begin again when they are used up.
    pub repeat: bool,
    /// The answer when nothing else fits; without it such a call fails with `not_found`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<MockAnswer>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MockAnswer {
    /// Only for this call of the conversation, from 0: the number of answers it already holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<usize>,
    /// Only when this regular expression is found in the text of the last message.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Only for this model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_model: Option<String>,
    /// The text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The reasoning before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// A refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// The tools it asks for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<MockCall>,
    /// The pieces it streams in; without `text` they are the text. Without them the text is streamed by words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<String>,
    /// The wait before anything comes, in milliseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub delay_ms: u64,
    /// The wait before each piece, in milliseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub chunk_delay_ms: u64,
    /// Why it stops; by default `tool_calls` when there are any, else `stop`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<FinishReason>,
    /// The figures; estimated when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The name it gives itself; the requested one when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// It fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<MockError>,
}

/// A tool it asks for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MockCall {
    /// The tool.
    pub name: String,
    /// The arguments.
    #[serde(default)]
    pub arguments: Json,
    /// The arguments as text, for those that are not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_raw: Option<String>,
    /// The id; made from the number of the call when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// A failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MockError {
    /// The kind of the error.
    #[serde(deserialize_with = "model_kind")]
    pub kind: ErrorKind,
    /// The provider's message.
    #[serde(default)]
    pub message: String,
    /// How long it asks to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Only this many attempts fail, then the answer comes; all of them when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// How many pieces are streamed before it fails.
    #[serde(default, skip_serializing_if = "is_zero_usize")]
    pub after_chunks: usize,
}

/// A script that cannot be followed. Its text has a line for each fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    /// The file of the script, where it has one.
    pub file: Option<String>,
    /// Everything that is wrong with it.
    pub faults: Faults,
}

impl std::fmt::Display for ScriptError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, fault) in self.faults.0.iter().enumerate() {
            let line = if i > 0 { "\n" } else { "" };
            match &self.file {
                Some(file) => write!(f, "{line}{file}:{fault}")?,
                None => write!(f, "{line}{fault}")?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for ScriptError {}

impl MockError {
    pub(super) fn to_error(&self) -> LlmError {
        let message = if self.message.is_empty() { format!("scripted {}", self.kind) } else { self.message.clone() };
        let mut error = LlmError::new(self.kind, super::NAME, message);
        error.retry_after_ms = self.retry_after_ms;
        error.status = self.status;
        error
    }
}

impl MockAnswer {
    /// The text as one.
    pub(super) fn full_text(&self) -> Option<String> {
        self.text.clone().or_else(|| (!self.chunks.is_empty()).then(|| self.chunks.concat()))
    }

    /// The text in the pieces it streams in.
    pub(super) fn pieces(&self) -> Vec<String> {
        if !self.chunks.is_empty() {
            return self.chunks.clone();
        }
        self.text.iter().flat_map(|text| text.split_inclusive(' ')).map(str::to_owned).collect()
    }

    /// Whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        self.full_text().is_none()
            && self.reasoning.is_none()
            && self.refusal.is_none()
            && self.tool_calls.is_empty()
            && self.error.is_none()
    }

    /// Whether it answers only some calls.
    pub(super) fn has_condition(&self) -> bool {
        self.call.is_some() || self.pattern.is_some() || self.for_model.is_some()
    }
}

/// A script ready to be followed.
pub(super) struct Compiled {
    script: MockScript,
    patterns: Vec<Option<Regex>>,
    /// The places of the answers without conditions.
    in_order: Vec<usize>,
    any_pattern: bool,
}

impl Compiled {
    pub(super) fn new(script: MockScript) -> Result<Self, ScriptError> {
        let faults = Faults(script.flaws());
        if !faults.0.is_empty() {
            return Err(ScriptError { file: None, faults });
        }
        let patterns: Vec<_> = script.answers.iter().map(|answer| pattern(answer).and_then(Result::ok)).collect();
        let in_order = script
            .answers
            .iter()
            .enumerate()
            .filter(|(_, answer)| !answer.has_condition())
            .map(|(index, _)| index)
            .collect();
        let any_pattern = patterns.iter().any(Option::is_some);
        Ok(Self { script, patterns, in_order, any_pattern })
    }

    pub(super) fn only(otherwise: MockAnswer) -> Self {
        Self {
            script: MockScript { otherwise: Some(otherwise), ..MockScript::default() },
            patterns: Vec::new(),
            in_order: Vec::new(),
            any_pattern: false,
        }
    }

    /// The answer to a request: the first whose conditions hold, else the next in order, else `otherwise`.
    pub(super) fn find(&self, request: &Request, number: usize) -> Option<&MockAnswer> {
        let last = if self.any_pattern { super::last_text(request) } else { String::new() };
        let fits = |(answer, pattern): (&MockAnswer, &Option<Regex>)| {
            answer.has_condition()
                && answer.call.is_none_or(|call| call == number)
                && answer.for_model.as_ref().is_none_or(|model| *model == request.model)
                && pattern.as_ref().is_none_or(|pattern| pattern.is_match(&last))
        };
        if let Some(place) = self.script.answers.iter().zip(&self.patterns).position(fits) {
            return self.script.answers.get(place);
        }
        let place = match self.in_order.len() {
            0 => None,
            n if self.script.repeat => self.in_order.get(number % n),
            _ => self.in_order.get(number),
        };
        match place {
            Some(place) => self.script.answers.get(*place),
            None => self.script.otherwise.as_ref(),
        }
    }
}

/// The error when a script has no answer.
pub(super) fn no_matching_answer(request: &Request, number: usize) -> LlmError {
    let last = super::last_text(request);
    LlmError::new(
        ErrorKind::NotFound,
        super::NAME,
        format!(
            "the script has no answer for call {number} of the conversation (last message: {:?}); add one, or set \
             `otherwise` or `repeat`",
            crate::error::excerpt(&last, 80)
        ),
    )
}

// serde's `skip_serializing_if` wants references.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero_usize(n: &usize) -> bool {
    *n == 0
}
