//! The messages of Anthropic.

use rethread_events::message::{Media, Message, Part, Role, ToolResult};
use serde_json::Value;

use super::{ConversationError, list, parts, text, unknown};
use crate::wire::anthropic::part_of_answer;

pub(super) fn read(body: &Value) -> Result<Vec<Message>, ConversationError> {
    let mut messages = Vec::new();
    if let Some(system) = body.get("system").filter(|system| !system.is_null()) {
        messages.push(Message { role: Role::System, content: parts(system, "system", text_block)? });
    }
    for (i, message) in list(body, "messages")?.iter().enumerate() {
        let place = format!("messages[{i}]");
        let content = format!("{place}.content");
        let said = message.get("content").unwrap_or(&Value::Null);
        match text(message, "role", &place)? {
            "assistant" => {
                let content = parts(said, &content, |block, _| Ok(part_of_answer(block)))?;
                messages.push(Message { role: Role::Assistant, content });
            }
            "user" => {
                let content = parts(said, &content, block)?;
                // Results come before what the user says in the same message.
                let (results, said): (Vec<_>, Vec<_>) =
                    content.into_iter().partition(|part| matches!(part, Part::ToolResult(_)));
                let of_roles = [(Role::Tool, results), (Role::User, said)];
                let filled = of_roles.into_iter().filter(|(_, content)| !content.is_empty());
                messages.extend(filled.map(|(role, content)| Message { role, content }));
            }
            _ => return Err(ConversationError::new(place, "expected the role `user` or `assistant`")),
        }
    }
    Ok(messages)
}

fn text_block(block: &Value, place: &str) -> Result<Part, ConversationError> {
    match block.get("type").and_then(Value::as_str) {
        Some("text") => Ok(Part::text(text(block, "text", place)?)),
        _ => Err(unknown("a block", block, place)),
    }
}

/// A block of a user's message.
fn block(block: &Value, place: &str) -> Result<Part, ConversationError> {
    match block.get("type").and_then(Value::as_str) {
        Some("image") => Ok(Part::Image(source(block, place)?)),
        Some("document") => Ok(Part::Document(source(block, place)?)),
        Some("tool_result") => {
            let content = match block.get("content") {
                None | Some(Value::Null) => Vec::new(),
                Some(content) => parts(content, &format!("{place}.content"), of_result)?,
            };
            let is_error = block.get("is_error").and_then(Value::as_bool).unwrap_or_default();
            let tool_call_id = text(block, "tool_use_id", place)?.to_owned();
            Ok(Part::ToolResult(ToolResult { tool_call_id, name: None, content, is_error }))
        }
        _ => text_block(block, place),
    }
}

fn of_result(part: &Value, place: &str) -> Result<Part, ConversationError> {
    if part.get("type").and_then(Value::as_str) == Some("tool_result") {
        return Err(unknown("a part of a result", part, place));
    }
    block(part, place)
}

fn source(block: &Value, place: &str) -> Result<Media, ConversationError> {
    let place = format!("{place}.source");
    let source = block.get("source").unwrap_or(&Value::Null);
    match source.get("type").and_then(Value::as_str) {
        Some("base64") => Ok(Media::inline(Some(text(source, "media_type", &place)?), text(source, "data", &place)?)),
        Some("url") => Ok(Media::at(text(source, "url", &place)?)),
        _ => Err(unknown("a source", source, &place)),
    }
}
