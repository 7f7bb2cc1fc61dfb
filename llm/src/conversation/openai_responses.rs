//! The items of Responses.

use rethread_events::message::{Message, Part, Role, ToolResult};
use serde_json::Value;

use super::{ConversationError, list, parts, text, unknown};
use crate::wire::openai_responses::push_item_of_answer;
use crate::wire::{draft, json};

pub(super) fn read(body: &Value) -> Result<Vec<Message>, ConversationError> {
    let mut messages = Vec::new();
    if let Some(system) = json::filled(body, "instructions") {
        messages.push(Message::text(Role::System, system));
    }
    if let Some(said) = json::text(body, "input") {
        messages.push(Message::text(Role::User, said));
        return Ok(messages);
    }
    for (i, item) in list(body, "input")?.iter().enumerate() {
        let place = format!("input[{i}]");
        match json::text(item, "type") {
            None | Some("message") => match text(item, "role", &place)? {
                "system" | "developer" => messages.push(message(Role::System, item, &place)?),
                "user" => messages.push(message(Role::User, item, &place)?),
                "assistant" => extend_answer(&mut messages, message(Role::Assistant, item, &place)?.content),
                _ => {
                    let what = "expected the role `system`, `developer`, `user` or `assistant`";
                    return Err(ConversationError::new(place, what));
                }
            },
            Some("function_call_output") => {
                let output = item.get("output").unwrap_or(&Value::Null);
                let content = parts(output, &format!("{place}.output"), part)?;
                let tool_call_id = text(item, "call_id", &place)?.to_owned();
                let result = ToolResult { tool_call_id, name: None, content, is_error: false };
                messages.push(Message { role: Role::Tool, content: vec![Part::ToolResult(result)] });
            }
            // It refers to an item that only the provider has.
            Some("item_reference") => return Err(unknown("an item", item, &place)),
            Some("function_call") => {
                text(item, "call_id", &place)?;
                text(item, "name", &place)?;
                text(item, "arguments", &place)?;
                add_item(&mut messages, item);
            }
            Some(_) => add_item(&mut messages, item),
        }
    }
    Ok(messages)
}

fn message(role: Role, item: &Value, place: &str) -> Result<Message, ConversationError> {
    let said = item.get("content").unwrap_or(&Value::Null);
    Ok(Message { role, content: parts(said, &format!("{place}.content"), part)? })
}

fn part(part: &Value, place: &str) -> Result<Part, ConversationError> {
    match json::text(part, "type") {
        Some("input_text" | "output_text") => Ok(Part::text(text(part, "text", place)?)),
        Some("refusal") => Ok(Part::Refusal { text: text(part, "refusal", place)?.to_owned() }),
        Some("input_image") => Ok(Part::Image(draft::media(text(part, "image_url", place)?))),
        Some("input_file") => {
            let name = if part.get("file_url").is_some() { "file_url" } else { "file_data" };
            Ok(Part::Document(draft::media(text(part, name, place)?)))
        }
        _ => Err(unknown("a part", part, place)),
    }
}

fn add_item(messages: &mut Vec<Message>, item: &Value) {
    let mut content = Vec::new();
    push_item_of_answer(item, &mut content);
    extend_answer(messages, content);
}

/// Adds an item to the answer that it continues.
fn extend_answer(messages: &mut Vec<Message>, content: Vec<Part>) {
    match messages.last_mut() {
        Some(last) if last.role == Role::Assistant => last.content.extend(content),
        _ => messages.push(Message { role: Role::Assistant, content }),
    }
}
