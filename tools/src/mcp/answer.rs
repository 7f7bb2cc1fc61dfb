//! Converts the result of a server's tool.

use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::json::Json;
use rethread_events::message::{Media, Part};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Map, Value};

use crate::ToolOutput;
use crate::schema::Arguments;
use crate::tool::Answer;

/// The answer: texts one below the other, then pictures. Its value is the structured content; without any, a text that
/// is a JSON object or list, which is how older servers answer with data. The model reads the structured content, too,
/// unless the texts are the same.
pub(super) fn from(mut result: CallToolResult, output: Option<&Arguments>) -> Answer {
    // Some servers write null for a field that is absent.
    result.structured_content = result.structured_content.filter(|value| !value.is_null());
    let mut answer = ToolOutput::default();
    let blocks: Vec<String> = result.content.iter().filter_map(|block| Some(block.as_text()?.text.clone())).collect();
    for block in result.content {
        add(&mut answer, block);
    }
    if let Some(value) = &result.structured_content
        && !is_said(value, &blocks)
    {
        let value = without_media(value, &answer.parts);
        line(&mut answer.text, &value.to_string());
    }
    if result.is_error == Some(true) {
        let message = if answer.text.trim().is_empty() { "the tool failed without a message" } else { &answer.text };
        return Err(ExecutionError::new(ErrorKind::Failed, message));
    }
    if let Some(value) = result.structured_content {
        if output.is_none_or(|schema| schema.check(&value).is_ok()) {
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

/// Whether texts are the structured content. Servers wrap what is no object as `result`, and write a list as one text for
/// each item.
fn is_said(value: &Value, texts: &[String]) -> bool {
    let is = |value: &Value, text: &String| {
        value.as_str() == Some(text) || serde_json::from_str::<Value>(text).is_ok_and(|said| said == *value)
    };
    let inner = value.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.get("result"));
    let is_whole = |value: &Value| texts.iter().any(|text| is(value, text));
    let is_listed = |value: &Value| {
        let items = value.as_array().filter(|items| !items.is_empty() && items.len() == texts.len());
        items.is_some_and(|items| items.iter().zip(texts).all(|(item, text)| is(item, text)))
    };
    [Some(value), inner].into_iter().flatten().any(|value| is_whole(value) || is_listed(value))
}

/// The value with a note in the place of each picture, document or recording that the model gets as one.
fn without_media(value: &Value, parts: &[Part]) -> Value {
    let is_part = |text: &str| {
        parts.iter().any(|part| match part {
            Part::Image(media) | Part::Document(media) | Part::Audio(media) => {
                media.data.as_deref().is_some_and(|data| data == text)
            }
            _ => false,
        })
    };
    match value {
        Value::String(text) if is_part(text) => "[it follows as a part of its own]".into(),
        Value::Array(items) => items.iter().map(|item| without_media(item, parts)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), without_media(value, parts))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
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
