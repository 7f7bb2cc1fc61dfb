//! Converts the result of a server's tool.

use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::json::Json;
use rethread_events::message::{Media, Part};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use crate::ToolOutput;
use crate::schema::Arguments;
use crate::tool::Answer;

/// The answer: texts one below the other, then pictures. Its value is the structured content; without any, a text that
/// is a JSON object or list, which is how older servers answer with data.
pub(super) fn from(result: CallToolResult, output: Option<&Arguments>) -> Answer {
    let mut answer = ToolOutput::default();
    for block in result.content {
        add(&mut answer, block);
    }
    if result.is_error == Some(true) {
        let message = if answer.text.trim().is_empty() { "the tool failed without a message" } else { &answer.text };
        return Err(ExecutionError::new(ErrorKind::Failed, message));
    }
    if let Some(value) = result.structured_content {
        let is_whole = output.is_none_or(|schema| schema.check(&value).is_ok());
        if answer.text.is_empty() && answer.parts.is_empty() {
            answer.text = value.to_string();
        }
        if is_whole {
            answer.value = Some(Json::from(value));
        } else {
            line(&mut answer.text, "[the structured answer does not fit the schema that the server gave for it]");
        }
    } else if answer.parts.is_empty() {
        // A text such as `5` stays a text: it may not be meant as a number.
        let data = serde_json::from_str(&answer.text).ok().filter(|data: &Value| data.is_object() || data.is_array());
        answer.value = data.map(Json::from);
    }
    Ok(answer)
}

fn add(answer: &mut ToolOutput, block: ContentBlock) {
    match block {
        ContentBlock::Text(text) => line(&mut answer.text, &text.text),
        ContentBlock::Image(image) => {
            answer.parts.push(Part::Image(Media::inline(Some(&image.mime_type), image.data)));
        }
        ContentBlock::Audio(audio) => {
            answer.parts.push(Part::Audio(Media::inline(Some(&audio.mime_type), audio.data)));
        }
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                line(&mut answer.text, &format!("[{uri}]\n{text}"));
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => match mime_type.as_deref() {
                Some(kind @ "application/pdf") => {
                    answer.parts.push(Part::Document(Media::inline(Some(kind), blob)));
                }
                Some(kind) if kind.starts_with("image/") => {
                    answer.parts.push(Part::Image(Media::inline(Some(kind), blob)));
                }
                Some(kind) if kind.starts_with("audio/") => {
                    answer.parts.push(Part::Audio(Media::inline(Some(kind), blob)));
                }
                _ => line(&mut answer.text, &format!("[{uri}: binary content left out]")),
            },
            _ => line(&mut answer.text, "[a resource of a kind that is not known here]"),
        },
        ContentBlock::ResourceLink(link) => line(&mut answer.text, &format!("[{}: {}]", link.name, link.uri)),
        _ => line(&mut answer.text, "[content of a kind that is not known here]"),
    }
}

fn line(text: &mut String, more: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(more);
}
