//! A Responses answer in neutral words.

use rethread_events::message::{FinishReason, Part, Reasoning, Usage};
use serde_json::{Map, Value};

use super::NAME;
use crate::error::{ErrorKind, LlmError};
use crate::response::Response;
use crate::wire::{AnswerContext, draft, fault, json};

/// Reads a `response` object. `items` are those that a stream sent one by one, for servers whose last event omits them.
pub(super) fn answer(body: &Value, items: &[Value], cx: AnswerContext) -> Result<Response, LlmError> {
    let status = json::text(body, "status");
    if status == Some("failed") || json::object(body, "error").is_object() {
        return Err(fault::from_value(cx.provider, None, json::object(body, "error")));
    }
    if let Some(status @ ("queued" | "in_progress")) = status {
        let why = format!(
            "the answer is not finished (status `{status}`); set `\"background\": true` in `extra` to \
             wait for a background answer"
        );
        // The provider continues to write it: a retry would pay for a second one.
        return Err(LlmError { retryable: false, ..cx.malformed(why) });
    }
    if status == Some("cancelled") {
        return Err(LlmError::new(
            ErrorKind::Cancelled,
            cx.provider,
            "the provider says that the answer was cancelled",
        ));
    }
    let output = json::list(body, "output");
    if body.get("output").is_none_or(|o| !o.is_array()) && items.is_empty() {
        return Err(
            cx.malformed(format!("the answer has no output: {}", crate::error::excerpt(&body.to_string(), 300)))
        );
    }
    let mut content = Vec::new();
    for item in if output.is_empty() { items } else { output } {
        push_item_of_answer(item, &mut content);
    }
    let has_calls = content.iter().any(|part| matches!(part, Part::ToolCall(_)));
    let reason = json::text(json::object(body, "incomplete_details"), "reason");
    let finish = match (status, reason) {
        (Some("incomplete"), Some("content_filter")) => FinishReason::ContentFilter,
        (Some("incomplete"), _) => FinishReason::Length,
        (Some("completed") | None, _) if has_calls => FinishReason::ToolCalls,
        (Some("completed") | None, _) => FinishReason::Stop,
        (Some(_), _) => FinishReason::Other,
    };
    let raw = reason.or(status).map(str::to_owned);
    let usage = usage(json::object(body, "usage"));
    let model = json::owned(body, "model");
    Ok(draft::response(content, (finish, raw), usage, model, json::owned(body, "id"), cx))
}

pub(crate) fn push_item_of_answer(item: &Value, content: &mut Vec<Part>) {
    match json::text(item, "type") {
        Some("message") => {
            push_fields(item, "phase", content);
            for part in json::list(item, "content") {
                if let Some(text) = json::text(part, "text") {
                    content.push(Part::text(text));
                } else if let Some(text) = json::text(part, "refusal") {
                    content.push(Part::Refusal { text: text.into() });
                }
            }
        }
        Some("function_call") => {
            push_fields(item, "namespace", content);
            let id = json::filled(item, "call_id").or_else(|| json::filled(item, "id"));
            content.push(Part::ToolCall(draft::tool_call(
                id.unwrap_or_default().to_owned(),
                json::text(item, "name").unwrap_or_default().to_owned(),
                json::text(item, "arguments").unwrap_or_default(),
            )));
        }
        Some("reasoning") => content.push(Part::Reasoning(reasoning(item))),
        _ => content.push(Part::Opaque { provider: NAME.into(), data: item.clone().into() }),
    }
}

/// The mark of an opaque part that holds fields of the item after it.
const FIELDS: &str = "item_fields";

/// Stores a field without neutral meaning that the provider requires with its item in later requests.
fn push_fields(item: &Value, key: &str, content: &mut Vec<Part>) {
    if let Some(word) = item.get(key).filter(|word| word.is_string()) {
        content.push(Part::Opaque {
            provider: NAME.into(),
            data: serde_json::json!({ "type": FIELDS, "fields": { key: word } }).into(),
        });
    }
}

/// The fields that an opaque part holds for the item after it.
pub(super) fn fields(data: &Value) -> Option<&Map<String, Value>> {
    (json::text(data, "type") == Some(FIELDS)).then(|| data.get("fields")?.as_object())?
}

fn reasoning(item: &Value) -> Reasoning {
    let texts = |key| json::list(item, key).iter().filter_map(|part| json::filled(part, "text")).collect::<Vec<_>>();
    let mut said = texts("summary");
    if said.is_empty() {
        said = texts("content");
    }
    let encrypted = json::filled(item, "encrypted_content").map(str::to_owned);
    Reasoning {
        text: (!said.is_empty()).then(|| said.join("\n\n")),
        redacted: said.is_empty(),
        signature: None,
        encrypted,
        id: json::filled(item, "id").map(str::to_owned),
        provider: Some(NAME.into()),
        prefix: None,
    }
}

fn usage(figures: &Value) -> Usage {
    let input = json::object(figures, "input_tokens_details");
    let output = json::object(figures, "output_tokens_details");
    Usage {
        input_tokens: json::count(figures, "input_tokens"),
        output_tokens: json::count(figures, "output_tokens"),
        total_tokens: json::count(figures, "total_tokens"),
        cached_input_tokens: json::count(input, "cached_tokens"),
        cache_write_tokens: json::count(input, "cache_write_tokens"),
        reasoning_tokens: json::count(output, "reasoning_tokens"),
        ..Usage::default()
    }
}
