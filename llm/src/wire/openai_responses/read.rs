//! A Responses answer in neutral words.

use rethread_events::event::FailedUsage;
use rethread_events::message::{FinishReason, Media, Part, ProviderTool, ProviderToolStep, Reasoning, Usage};
use serde_json::{Map, Value};

use super::NAME;
use crate::error::{ErrorKind, LlmError};
use crate::response::Response;
use crate::wire::draft::{self, Details};
use crate::wire::openai_chat::sources;
use crate::wire::{AnswerContext, fault, json};

/// Reads a `response` object. `items` are those that a stream sent one by one, for servers whose last event omits them.
pub(super) fn answer(body: &Value, items: &[Value], cx: AnswerContext) -> Result<Response, LlmError> {
    let status = json::text(body, "status");
    let with_usage = |error: LlmError| {
        let reported = Some(usage(body, json::list(body, "output"))).filter(|usage| *usage != Usage::default());
        LlmError { used: reported.map(FailedUsage::reported), ..error }
    };
    if status == Some("failed") || json::object(body, "error").is_object() {
        return Err(with_usage(fault::from_value(cx.provider, None, json::object(body, "error"))));
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
        let why = "the provider says that the answer was cancelled";
        return Err(with_usage(LlmError::new(ErrorKind::Cancelled, cx.provider, why)));
    }
    let output = json::list(body, "output");
    if body.get("output").is_none_or(|o| !o.is_array()) && items.is_empty() {
        return Err(
            cx.malformed(format!("the answer has no output: {}", crate::error::excerpt(&body.to_string(), 300)))
        );
    }
    let output = if output.is_empty() { items } else { output };
    let mut content = Vec::new();
    output.iter().for_each(|item| push_item_of_answer(item, &mut content));
    let waits_for = waits_for(output, &content);
    let has_calls = content.iter().any(|part| matches!(part, Part::ToolCall(_)));
    let reason = json::text(json::object(body, "incomplete_details"), "reason");
    let finish = match (status, reason) {
        (Some("incomplete"), Some("content_filter")) => FinishReason::ContentFilter,
        (Some("incomplete"), _) => FinishReason::Length,
        (Some("completed") | None, _) if output.iter().any(is_cut) => FinishReason::Length,
        (Some("completed") | None, _) if has_calls => FinishReason::ToolCalls,
        (Some("completed") | None, _) if waits_for.is_none() => FinishReason::Stop,
        (Some(_) | None, _) => FinishReason::Other,
    };
    let raw = reason.or(waits_for).or(status).map(str::to_owned);
    let mut details = Details::default();
    for name in ["input_transformations", "prompt_cache_diagnostics"] {
        details.put(name, body.get(name));
    }
    let texts = output.iter().flat_map(|item| json::list(item, "content"));
    let logprobs: Vec<_> = texts.flat_map(|text| json::list(text, "logprobs")).cloned().collect();
    details.put("logprobs", Some(&logprobs.into()));
    Ok(Response {
        service_tier: json::filled(body, "service_tier").map(str::to_owned),
        details: details.json(),
        ..draft::response(
            content,
            (finish, raw),
            usage(body, output),
            json::owned(body, "model"),
            json::owned(body, "id"),
            cx,
        )
    })
}

/// The type of the item for which an answer waits that says nothing, such as `mcp_approval_request`.
fn waits_for<'a>(output: &'a [Value], content: &[Part]) -> Option<&'a str> {
    let says =
        |part: &Part| matches!(part, Part::Text { .. } | Part::Refusal { .. } | Part::ToolCall(_) | Part::Image(_));
    let is_open = |part: &Part| matches!(part, Part::ProviderTool(tool) if tool.step == ProviderToolStep::Call);
    let waits = content.last().is_some_and(is_open) && !content.iter().any(says);
    waits.then(|| json::text(output.last()?, "type"))?
}

pub(crate) fn push_item_of_answer(item: &Value, content: &mut Vec<Part>) {
    match json::text(item, "type") {
        Some("message") => {
            push_fields(item, "phase", content);
            for part in json::list(item, "content") {
                if let Some(text) = json::owned(part, "text") {
                    let annotations = json::list(part, "annotations");
                    let annotations = annotations.iter().map(|found| sources::annotation(NAME, found)).collect();
                    content.push(Part::Text { text, signature: None, annotations });
                } else if let Some(text) = json::text(part, "refusal") {
                    content.push(Part::Refusal { text: text.into() });
                }
            }
        }
        Some("function_call") => {
            push_fields(item, "namespace", content);
            let id = json::filled(item, "call_id").or_else(|| json::filled(item, "id"));
            let call = if is_cut(item) { draft::cut_call } else { draft::tool_call };
            content.push(Part::ToolCall(call(
                id.unwrap_or_default().to_owned(),
                json::text(item, "name").unwrap_or_default().to_owned(),
                json::text(item, "arguments").unwrap_or_default(),
            )));
        }
        Some("reasoning") => content.push(Part::Reasoning(reasoning(item))),
        kind => match kind.and_then(provider_tool) {
            Some((step, name)) => push_provider_tool(step, name, item, content),
            None => content.push(Part::Opaque { provider: NAME.into(), data: item.clone().into() }),
        },
    }
}

/// Whether an item is a call whose arguments did not come to their end. Some servers leave `in_progress` at whole calls.
fn is_cut(item: &Value) -> bool {
    let is_cut = match json::text(item, "status") {
        Some("incomplete") => true,
        Some("in_progress") => json::filled(item, "arguments").is_none(),
        _ => false,
    };
    is_cut && json::text(item, "type") == Some("function_call")
}

/// What of a call of a provider's tool an item holds, and the name of the tool. A call that the application carries out
/// has no result.
fn provider_tool(kind: &str) -> Option<(ProviderToolStep, &str)> {
    let (step, tail) = match kind {
        "web_search_call" | "file_search_call" | "code_interpreter_call" | "image_generation_call" | "mcp_call" => {
            (ProviderToolStep::Both, "_call")
        }
        "mcp_list_tools" => (ProviderToolStep::Both, ""),
        "computer_call" | "shell_call" | "local_shell_call" | "apply_patch_call" | "tool_search_call" => {
            (ProviderToolStep::Call, "_call")
        }
        "mcp_approval_request" => (ProviderToolStep::Call, ""),
        "shell_call_output" | "apply_patch_call_output" => (ProviderToolStep::Result, "_call_output"),
        "tool_search_output" => (ProviderToolStep::Result, "_output"),
        _ => return None,
    };
    Some((step, kind.strip_suffix(tail)?))
}

/// An image that a call made follows it as a part of its own; the call goes back without it.
fn push_provider_tool(step: ProviderToolStep, name: &str, item: &Value, content: &mut Vec<Part>) {
    let (id, mut data) = (json::owned(item, "id"), item.clone());
    let image = data.get_mut("result").filter(|_| name == "image_generation").map(Value::take);
    content.push(Part::ProviderTool(ProviderTool {
        provider: NAME.into(),
        step,
        id: id.clone(),
        name: json::filled(item, "name").unwrap_or(name).to_owned(),
        data: data.into(),
    }));
    if let Some(Value::String(image)) = image {
        let media_type = match json::filled(item, "output_format").unwrap_or("png") {
            "svg" => "image/svg+xml".to_owned(),
            format => format!("image/{format}"),
        };
        content.push(Part::Image(Media { name: id, ..Media::inline(Some(&media_type), image) }));
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

pub(super) fn usage(body: &Value, output: &[Value]) -> Usage {
    let figures = json::object(body, "usage");
    let input = json::object(figures, "input_tokens_details");
    let output_details = json::object(figures, "output_tokens_details");
    let tools = json::object(body, "tool_usage");
    let searches = || output.iter().filter(|item| is_search(item)).count() as u64;
    let n_searches = json::count(json::object(tools, "web_search"), "num_requests").unwrap_or_else(searches);
    let mut usage = Usage {
        input_tokens: json::count(figures, "input_tokens"),
        output_tokens: json::count(figures, "output_tokens"),
        total_tokens: json::count(figures, "total_tokens"),
        cached_input_tokens: json::count(input, "cached_tokens"),
        cache_write_tokens: json::count(input, "cache_write_tokens"),
        cache_write_long_tokens: json::positive(json::object(input, "cache_write_tokens_details"), "ttl_12h_tokens"),
        reasoning_tokens: json::count(output_details, "reasoning_tokens"),
        n_searches: Some(n_searches).filter(|n| *n > 0),
        ..Usage::default()
    };
    // Making images is counted apart from the answer.
    let images = json::object(tools, "image_gen");
    usage.add(&Usage {
        input_tokens: json::positive(images, "input_tokens"),
        output_tokens: json::positive(images, "output_tokens"),
        total_tokens: json::positive(images, "total_tokens"),
        image_output_tokens: json::positive(images, "output_tokens"),
        ..Usage::default()
    });
    usage
}

/// Whether an item is a search that is billed; opening a page is not.
fn is_search(item: &Value) -> bool {
    json::text(item, "type") == Some("web_search_call")
        && json::text(item, "status") == Some("completed")
        && json::text(json::object(item, "action"), "type") == Some("search")
}
