//! Conversations in the JSON of providers, which a thread can begin with.

#[cfg(feature = "anthropic")]
mod anthropic;
#[cfg(feature = "openai")]
mod openai_chat;
#[cfg(feature = "openai")]
mod openai_responses;
#[cfg(test)]
mod tests;

use std::fmt;

use rethread_events::message::{Message, Part, Role};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The form of a conversation of a provider. The words are those of `provider` in a profile; each needs the feature of
/// that provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConversationFormat {
    #[cfg(feature = "openai")]
    /// The `messages` of OpenAI's Chat Completions, which most other providers also take.
    OpenaiChat,
    #[cfg(feature = "openai")]
    /// The `input` items of OpenAI's Responses.
    OpenaiResponses,
    #[cfg(feature = "anthropic")]
    /// The `messages` of Anthropic's Messages.
    Anthropic,
}

/// The part of a conversation that cannot be read, and its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct ConversationError {
    /// The place, such as `messages[3].content[1]`.
    pub place: String,
    /// The fault there.
    pub what: String,
}

impl ConversationError {
    fn new(place: impl fmt::Display, what: impl Into<String>) -> Self {
        Self { place: place.to_string(), what: what.into() }
    }
}

/// Reads a conversation: a list of messages, or the whole body of a request, whose instructions become a system message.
/// Without a format it is a list of messages of rethread. Tool results are put in the order of the calls that they answer.
/// What has no meaning here is refused: files that lie at a provider, sounds, and items that name others by an id. The
/// content of answers that only the provider understands is kept for it.
///
/// # Errors
/// The first thing that cannot be read.
pub fn read_conversation(format: Option<ConversationFormat>, body: &Value) -> Result<Vec<Message>, ConversationError> {
    let messages = match format {
        None => Vec::deserialize(body).map_err(|error| ConversationError::new("messages", error.to_string()))?,
        #[cfg(feature = "openai")]
        Some(ConversationFormat::OpenaiChat) => openai_chat::read(body)?,
        #[cfg(feature = "openai")]
        Some(ConversationFormat::OpenaiResponses) => openai_responses::read(body)?,
        #[cfg(feature = "anthropic")]
        Some(ConversationFormat::Anthropic) => anthropic::read(body)?,
    };
    Ok(with_results_in_order(messages))
}

/// The list under this name, or the list that the body is.
fn list<'a>(body: &'a Value, name: &str) -> Result<&'a [Value], ConversationError> {
    let list = if body.is_array() { Some(body) } else { body.get(name) };
    let what = || format!("expected a list, or an object with a list under `{name}`");
    list.and_then(Value::as_array).map(Vec::as_slice).ok_or_else(|| ConversationError::new(name, what()))
}

/// A text, which must be there.
fn text<'a>(value: &'a Value, name: &str, place: &str) -> Result<&'a str, ConversationError> {
    let what = || format!("expected a text under `{name}`");
    value.get(name).and_then(Value::as_str).ok_or_else(|| ConversationError::new(place, what()))
}

/// Content that is a text or a list of parts.
fn parts(
    content: &Value,
    place: &str,
    read: impl Fn(&Value, &str) -> Result<Part, ConversationError>,
) -> Result<Vec<Part>, ConversationError> {
    match content {
        Value::String(text) => Ok(vec![Part::text(text)]),
        Value::Array(parts) => parts.iter().enumerate().map(|(i, part)| read(part, &format!("{place}[{i}]"))).collect(),
        _ => Err(ConversationError::new(place, "expected a text or a list")),
    }
}

fn unknown(what: &str, value: &Value, place: &str) -> ConversationError {
    let name = value.get("type").or_else(|| value.get("role")).and_then(Value::as_str).unwrap_or("none");
    ConversationError::new(place, format!("{what} of type `{name}` cannot be read"))
}

/// The results of each answer's calls in one message, in the order of the calls, with the names of the tools.
fn with_results_in_order(messages: Vec<Message>) -> Vec<Message> {
    let mut joined: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        match joined.last_mut() {
            Some(last) if last.role == Role::Tool && message.role == Role::Tool => last.content.extend(message.content),
            _ => joined.push(message),
        }
    }
    let mut calls: Vec<(String, String)> = Vec::new();
    for message in &mut joined {
        if message.role != Role::Tool {
            calls = message.tool_calls().map(|call| (call.id.clone(), call.name.clone())).collect();
            continue;
        }
        let place_of = |part: &Part| match part {
            Part::ToolResult(result) => calls.iter().position(|(id, _)| *id == result.tool_call_id),
            _ => None,
        };
        message.content.sort_by_key(|part| place_of(part).unwrap_or(usize::MAX));
        for part in &mut message.content {
            let name = place_of(part).map(|at| calls[at].1.clone());
            if let Part::ToolResult(result) = part {
                result.name = result.name.take().or(name);
            }
        }
    }
    joined
}
