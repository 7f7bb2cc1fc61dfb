//! The messages of Chat Completions.

use rethread_events::message::{Message, Part, Reasoning, Role, ToolResult};
use serde_json::Value;

use super::{ConversationError, list, parts, text, unknown};
use crate::wire::{draft, json};

pub(super) fn read(body: &Value) -> Result<Vec<Message>, ConversationError> {
    let messages = list(body, "messages")?.iter().enumerate();
    messages.map(|(i, message)| read_message(message, &format!("messages[{i}]"))).collect()
}

fn read_message(message: &Value, place: &str) -> Result<Message, ConversationError> {
    let at = format!("{place}.content");
    let said = message.get("content").unwrap_or(&Value::Null);
    let (role, content) = match text(message, "role", place)? {
        "system" | "developer" => (Role::System, parts(said, &at, part)?),
        "user" => (Role::User, parts(said, &at, part)?),
        "assistant" => (Role::Assistant, answer(message, place)?),
        "tool" => {
            let tool_call_id = text(message, "tool_call_id", place)?.to_owned();
            let name = json::filled(message, "name").map(str::to_owned);
            let content = parts(said, &at, part)?;
            (Role::Tool, vec![Part::ToolResult(ToolResult { tool_call_id, name, content, is_error: false })])
        }
        _ => {
            return Err(ConversationError::new(
                place,
                "expected the role `system`, `developer`, `user`, `assistant` or `tool`",
            ));
        }
    };
    Ok(Message { role, content })
}

fn part(part: &Value, place: &str) -> Result<Part, ConversationError> {
    match json::text(part, "type") {
        Some("text") => Ok(Part::text(text(part, "text", place)?)),
        Some("refusal") => Ok(Part::Refusal { text: text(part, "refusal", place)?.to_owned() }),
        Some("image_url") => Ok(Part::Image(draft::media(text(json::object(part, "image_url"), "url", place)?))),
        Some("file") => Ok(Part::Document(draft::media(text(json::object(part, "file"), "file_data", place)?))),
        _ => Err(unknown("a part", part, place)),
    }
}

fn answer(message: &Value, place: &str) -> Result<Vec<Part>, ConversationError> {
    let mut content = Vec::new();
    if let Some(thought) = json::filled(message, "reasoning_content").or_else(|| json::filled(message, "reasoning")) {
        content.push(Part::Reasoning(Reasoning { text: Some(thought.to_owned()), ..Reasoning::default() }));
    }
    if let Some(said) = message.get("content").filter(|said| !said.is_null() && said.as_str() != Some("")) {
        content.extend(parts(said, &format!("{place}.content"), part)?);
    }
    if let Some(text) = json::filled(message, "refusal") {
        content.push(Part::Refusal { text: text.to_owned() });
    }
    for (i, call) in json::list(message, "tool_calls").iter().enumerate() {
        let place = format!("{place}.tool_calls[{i}]");
        let function = json::object(call, "function");
        let name = text(function, "name", &place)?.to_owned();
        let arguments = text(function, "arguments", &place)?;
        content.push(Part::ToolCall(draft::tool_call(text(call, "id", &place)?.to_owned(), name, arguments)));
    }
    if message.get("function_call").is_some_and(|call| !call.is_null()) {
        return Err(ConversationError::new(place, "`function_call` names no id of the call: write it as `tool_calls`"));
    }
    Ok(content)
}
