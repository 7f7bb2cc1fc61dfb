//! One question to a model, in the form that is the same for every provider.

use std::sync::Arc;

pub use rethread_events::event::{CacheMode, ReasoningOptions};
pub use rethread_events::message::ToolChoice;
use rethread_events::message::{Message, Part, Role, ToolSpec};
use rethread_events::thread::Messages;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::error::{ErrorKind, LlmError};

/// One question to a model. Its JSON form is what `rethread llm call --request` reads; absent and null mean the
/// same. Cloning is cheap: messages and tools are shared.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The model, as its provider names it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// The conversation, oldest first.
    pub messages: Messages,
    /// The tools on offer.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "no_tools")]
    pub tools: Arc<[ToolSpec]>,
    /// The names of those that may be used now; all when absent. The others are there because earlier requests of the
    /// conversation had them, and a conversation only grows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usable_tools: Option<Arc<[String]>>,
    /// Where in the conversation tools were added. Models that take additions get them there, so that what they were sent
    /// before stays as it was; all others get every tool at the beginning.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub tool_additions: Vec<ToolAddition>,
    /// What system messages after the first one are.
    #[serde(default, skip_serializing_if = "Instructions::is_all")]
    pub instructions: Instructions,
    /// How the model may use them; the provider's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// Whether one answer may ask for several tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// The longest answer, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Randomness; the range is the provider's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Sampling among the k likeliest tokens.
    #[serde(default, deserialize_with = "whole_number", skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u64>,
    /// A seed, where the provider honours one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Texts at which the answer stops.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// The form of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_format: Option<ResponseFormat>,
    /// How much to think before the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<ReasoningOptions>,
    /// The tier of service, in the provider's words: `flex`, `priority`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// How long answers are, where the provider knows that: `low`, `medium` or `high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<String>,
    /// Whether the provider caches the beginning of the prompt; `auto` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheMode>,
    /// Merged into the provider's body as it is: objects are merged, the list `tools` is appended to, anything
    /// else replaces.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// Whether to ask for the answer in pieces. The final [`Response`](crate::Response) is the same either way.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "std::ops::Not::not")]
    pub stream: bool,
}

/// The form of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ResponseFormat {
    /// Plain text, the default.
    Text,
    /// Some JSON object.
    JsonObject,
    /// JSON that fits a schema.
    JsonSchema {
        /// A name for the schema.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The JSON Schema.
        schema: Value,
        /// Whether the provider must enforce it. When absent, it is sent what it can enforce of the schema; when given, the
        /// schema as it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        strict: Option<bool>,
    },
}

/// Tools that were added within a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolAddition {
    /// How many of the messages came before.
    pub after: usize,
    /// The names of the tools, which are among those of the request.
    pub tools: Vec<String>,
}

/// What system messages after the first one are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Instructions {
    /// Further instructions: all of them are in force.
    #[default]
    All,
    /// Other instructions: only the last ones are in force.
    Latest,
}

impl Instructions {
    #[allow(clippy::trivially_copy_pass_by_ref)]
    fn is_all(&self) -> bool {
        *self == Self::All
    }
}

impl Request {
    /// A request of these messages to `model`, everything else by default.
    pub fn new(model: impl Into<String>, messages: impl Into<Messages>) -> Self {
        Self { model: model.into(), messages: messages.into(), ..Self::default() }
    }

    /// The number of answers of a model that the conversation already holds. It numbers the call within its
    /// conversation, the same before and after a restart.
    pub fn n_answers(&self) -> usize {
        self.messages.iter().filter(|m| m.role == Role::Assistant).count()
    }

    /// Whether any tool is on offer, one of the provider's own (in `extra`) included.
    pub fn has_tools(&self) -> bool {
        let own = || self.extra.get("tools").and_then(Value::as_array).is_some_and(|t| !t.is_empty());
        !self.tools.is_empty() || own()
    }

    /// Whether a tool may be used.
    pub fn has_usable_tools(&self) -> bool {
        self.has_tools() && self.usable_tools.as_ref().is_none_or(|names| !names.is_empty())
    }

    /// Whether this tool may be used.
    pub fn is_usable(&self, name: &str) -> bool {
        self.usable_tools.as_ref().is_none_or(|names| names.iter().any(|usable| usable == name))
    }

    /// The names of the tools that may be used, if those are not all.
    pub(crate) fn restricted_to(&self) -> Option<&[String]> {
        self.usable_tools.as_deref().filter(|_| !self.tools.iter().all(|tool| self.is_usable(&tool.name)))
    }

    /// The tools that the conversation began with.
    pub(crate) fn initial_tools(&self) -> impl Iterator<Item = &ToolSpec> {
        let is_added = |tool: &ToolSpec| self.tool_additions.iter().any(|addition| addition.tools.contains(&tool.name));
        self.tools.iter().filter(move |tool| !is_added(tool))
    }

    /// The tools that were added after the first `n` messages.
    pub(crate) fn tools_added_after(&self, n: usize) -> impl Iterator<Item = &ToolSpec> {
        let here = self.tool_additions.iter().filter(move |addition| addition.after == n);
        here.flat_map(|addition| self.tools.iter().filter(|tool| addition.tools.contains(&tool.name)))
    }

    /// Whether all additions come after messages of users and tools.
    pub(crate) fn adds_tools_after_users(&self) -> bool {
        let role = |n: usize| self.messages.iter().nth(n.checked_sub(1)?).map(|message| message.role);
        self.tool_additions.iter().all(|addition| matches!(role(addition.after), Some(Role::User | Role::Tool)))
    }

    /// Removes the tools that may not be used.
    pub fn keep_usable_tools(&mut self) {
        if self.restricted_to().is_some() {
            self.tools = self.tools.iter().filter(|tool| self.is_usable(&tool.name)).cloned().collect();
        }
        self.usable_tools = None;
        self.tool_additions = Vec::new();
        if self.tools.is_empty() && !self.has_tools() {
            self.tool_choice = None;
        }
    }

    /// Puts the last instructions before the conversation, in place of all others.
    pub fn keep_latest_instructions(&mut self) {
        self.instructions = Instructions::All;
        let is_system = |message: &Arc<Message>| message.role == Role::System;
        let n = self.messages.iter().filter(|message| is_system(message)).count();
        let is_first = self.messages.iter().next().is_some_and(is_system);
        if n == 0 || n == 1 && is_first {
            return;
        }
        // The messages are counted in another way now.
        self.tool_additions = Vec::new();
        let latest = self.messages.iter().rfind(|message| is_system(message)).cloned();
        let others = self.messages.iter().filter(|message| !is_system(message)).cloned();
        self.messages = latest.into_iter().chain(others).collect();
    }

    /// Checks whether the request can be sent at all. Checks that only the provider can make (whether the model exists,
    /// whether a temperature is in range) are left to it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRequest`] that names the first fault.
    pub fn validate(&self, provider: &str) -> Result<(), LlmError> {
        let fail = |what: String| Err(LlmError::new(ErrorKind::InvalidRequest, provider, what));
        if self.model.is_empty() {
            return fail("the request names no model".into());
        }
        // What a provider stores (an earlier answer, a prompt) is named in `extra`.
        if self.messages.is_empty() && self.extra.is_empty() {
            return fail("the request has no messages".into());
        }
        for (i, message) in self.messages.iter().enumerate() {
            for part in &message.content {
                let (Part::Image(media) | Part::Document(media) | Part::Audio(media)) = part else { continue };
                if media.data.is_none() && media.url.is_none() {
                    return fail(format!("messages[{i}]: an image or document needs `data` or `url`"));
                }
            }
        }
        let n = self.messages.len();
        if let Some(i) = self.tool_additions.iter().position(|addition| !(1..=n).contains(&addition.after)) {
            return fail(format!("tool_additions[{i}]: `after` is a number of messages, from 1 to {n}"));
        }
        for (name, value) in [("temperature", self.temperature), ("top_p", self.top_p)] {
            if value.is_some_and(|v| !v.is_finite()) {
                return fail(format!("{name} is not a number"));
            }
        }
        Ok(())
    }
}

fn no_tools(tools: &Arc<[ToolSpec]>) -> bool {
    tools.is_empty()
}

/// Some client libraries write whole numbers as `40.0`.
fn whole_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else {
        return Ok(None);
    };
    // The cast is exact for any figure that makes sense here.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = |float: f64| (float.fract() == 0.0 && (0.0..1e15).contains(&float)).then_some(float as u64);
    match number.as_u64().or_else(|| number.as_f64().and_then(whole)) {
        Some(number) => Ok(Some(number)),
        None => Err(serde::de::Error::custom(format!("{number} is not a whole number from 0"))),
    }
}

fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
