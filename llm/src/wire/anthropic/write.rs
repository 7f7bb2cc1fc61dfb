//! A neutral request in the words of Messages.

use std::collections::BTreeSet;

use rethread_events::message::{Media, Part, Reasoning, Role, ToolChoice, ToolResult};
use rethread_events::thread::Messages;
use serde_json::{Map, Value, json};

use super::NAME;
use crate::error::{ErrorKind, LlmError};
use crate::request::{Request, ResponseFormat};
use crate::wire::{draft, merge_extra, subset};

/// The longest answer when the request does not say, for the provider wants a figure: this, or what the model gives
/// at most.
const MAX_TOKENS: u64 = 16_384;
/// The longest answer of an unknown model.
const MAX_TOKENS_UNKNOWN: u64 = 4_096;
/// The room for the answer beside the thoughts, when the request does not say.
const BESIDE_THOUGHTS: u64 = 4_096;

pub(super) fn body(request: &Request) -> Result<Value, LlmError> {
    let mut body = Map::new();
    body.insert("model".into(), request.model.as_str().into());
    let system: Vec<Value> = request
        .messages
        .iter()
        .filter(|m| m.role == Role::System)
        .flat_map(|m| m.content.iter().filter_map(Part::as_text))
        .filter_map(text_block)
        .collect();
    if !system.is_empty() {
        body.insert("system".into(), system.into());
    }
    body.insert("messages".into(), messages(&request.messages)?.into());
    tools(request, &mut body);
    parameters(request, &mut body);
    if request.stream {
        body.insert("stream".into(), true.into());
    }
    merge_extra(&mut body, &request.extra);
    resolve_conflicts(request, &mut body);
    Ok(Value::Object(body))
}

/// One turn: roles alternate, and results of tools come first in a user's turn.
struct Turn {
    assistant: bool,
    results: Vec<Value>,
    blocks: Vec<Value>,
}

fn messages(messages: &Messages) -> Result<Vec<Value>, LlmError> {
    let mut turns: Vec<Turn> = Vec::new();
    for (i, message) in messages.iter().enumerate() {
        let assistant = match message.role {
            Role::System => continue,
            Role::User | Role::Tool => false,
            Role::Assistant => true,
        };
        let mut results = Vec::new();
        let mut blocks = Vec::new();
        for part in &message.content {
            match part {
                Part::ToolResult(result) => results.push(tool_result(result)),
                part => blocks.extend(if assistant { answer_block(part) } else { block(part) }),
            }
        }
        if message.role == Role::User && results.is_empty() && blocks.is_empty() {
            let why = format!("messages[{i}]: the user message has no text, and Anthropic refuses empty messages");
            return Err(LlmError::new(ErrorKind::InvalidRequest, NAME, why));
        }
        match turns.last_mut() {
            Some(turn) if turn.assistant == assistant => {
                turn.results.extend(results);
                turn.blocks.extend(blocks);
            }
            _ => turns.push(Turn { assistant, results, blocks }),
        }
    }
    // A turn without anything in it is refused; without it, its neighbours are one turn.
    turns.retain(|turn| !turn.results.is_empty() || !turn.blocks.is_empty());
    let mut out: Vec<Value> = Vec::with_capacity(turns.len());
    let mut last_role = None;
    for turn in turns {
        let mut content = turn.results;
        content.extend(turn.blocks);
        if last_role == Some(turn.assistant)
            && let Some(Value::Array(known)) = out.last_mut().and_then(|m| m.get_mut("content"))
        {
            known.extend(content);
            continue;
        }
        last_role = Some(turn.assistant);
        let role = if turn.assistant { "assistant" } else { "user" };
        out.push(json!({ "role": role, "content": content }));
    }
    trim_prefill(&mut out);
    Ok(out)
}

/// A conversation may end with the beginning of the answer, but not with a blank.
fn trim_prefill(messages: &mut [Value]) {
    let Some(last) = messages.last_mut() else { return };
    if last.get("role").and_then(Value::as_str) != Some("assistant") {
        return;
    }
    let block = last.get_mut("content").and_then(Value::as_array_mut).and_then(|c| c.last_mut());
    if let Some(Value::String(text)) = block.and_then(|b| b.get_mut("text")) {
        let kept = text.trim_end().len();
        if kept > 0 {
            text.truncate(kept);
        }
    }
}

fn block(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text, .. } | Part::Refusal { text } => text_block(text),
        Part::Image(media) => Some(json!({ "type": "image", "source": source(media, "image/png")? })),
        Part::Document(media) => Some(json!({ "type": "document", "source": source(media, "application/pdf")? })),
        Part::Opaque { provider, data } if provider == NAME => Some(data.clone().into_value()),
        Part::Reasoning(_) | Part::ToolCall(_) | Part::ToolResult(_) | Part::Opaque { .. } => None,
    }
}

fn answer_block(part: &Part) -> Option<Value> {
    match part {
        Part::Reasoning(thought) => thinking(thought),
        Part::ToolCall(call) => Some(json!({
            "type": "tool_use",
            "id": tool_id(&call.id),
            "name": call.name,
            "input": draft::arguments_object(call),
        })),
        // A model's own pictures cannot go back.
        Part::Image(_) | Part::Document(_) => None,
        part => block(part),
    }
}

/// A text of nothing but blanks is refused, so it is left out everywhere. What the model wrote before its calls is
/// no exception: the signatures of its thoughts hold without it.
fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({ "type": "text", "text": text }))
}

/// Thoughts go back with their signature, unchanged, or not at all: thoughts of another provider have none that
/// holds here.
fn thinking(thought: &Reasoning) -> Option<Value> {
    if thought.provider.as_deref().is_some_and(|provider| provider != NAME) {
        return None;
    }
    if let Some(signature) = thought.signature.as_deref().filter(|s| !s.is_empty()) {
        let text = thought.text.as_deref().unwrap_or_default();
        return Some(json!({ "type": "thinking", "thinking": text, "signature": signature }));
    }
    // An item with an id is of OpenAI's kind.
    let data = thought.encrypted.as_deref().filter(|_| thought.id.is_none())?;
    Some(json!({ "type": "redacted_thinking", "data": data }))
}

fn tool_result(result: &ToolResult) -> Value {
    let mut out = Map::new();
    out.insert("type".into(), "tool_result".into());
    out.insert("tool_use_id".into(), tool_id(&result.tool_call_id).into());
    let blocks: Vec<Value> = result.content.iter().filter_map(block).collect();
    match (blocks.as_slice(), result.content.as_slice()) {
        ([], _) => {}
        ([_], [Part::Text { text, .. }]) => {
            out.insert("content".into(), text.as_str().into());
        }
        _ => {
            out.insert("content".into(), blocks.into());
        }
    }
    if result.is_error {
        out.insert("is_error".into(), true.into());
    }
    Value::Object(out)
}

/// Ids of other providers may hold what is refused here; call and result change alike.
fn tool_id(id: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    id.chars().map(|c| if plain(c) { c } else { '_' }).collect()
}

fn source(media: &Media, default_type: &str) -> Option<Value> {
    let media_type = media.media_type.as_deref().unwrap_or(default_type);
    match (&media.data, &media.url) {
        (Some(data), _) if media_type.starts_with("text/") => {
            // What is no base64 was text to begin with.
            let text = match data_encoding::BASE64.decode(data.as_bytes()) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(_) => data.to_string(),
            };
            Some(json!({ "type": "text", "media_type": "text/plain", "data": text }))
        }
        (Some(data), _) => Some(json!({ "type": "base64", "media_type": media_type, "data": data })),
        (None, Some(url)) => Some(json!({ "type": "url", "url": url })),
        (None, None) => None,
    }
}

fn tools(request: &Request, body: &mut Map<String, Value>) {
    let tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            let mut out = Map::new();
            out.insert("name".into(), tool.name.as_str().into());
            if let Some(description) = &tool.description {
                out.insert("description".into(), description.as_str().into());
            }
            out.insert("input_schema".into(), draft::schema(&tool.parameters));
            Value::Object(out)
        })
        .collect();
    if !tools.is_empty() {
        body.insert("tools".into(), tools.into());
    }
    if !request.has_tools() {
        return declare_used_tools(request, body);
    }
    let one_by_one = request.parallel_tool_calls == Some(false);
    let choice = match &request.tool_choice {
        None if one_by_one => Some(json!({ "type": "auto" })),
        None => None,
        Some(ToolChoice::Auto) => Some(json!({ "type": "auto" })),
        Some(ToolChoice::None) => Some(json!({ "type": "none" })),
        Some(ToolChoice::Required) => Some(json!({ "type": "any" })),
        Some(ToolChoice::Tool(name)) => Some(json!({ "type": "tool", "name": name })),
    };
    if let Some(mut choice) = choice {
        if one_by_one && choice["type"] != "none" {
            choice["disable_parallel_tool_use"] = true.into();
        }
        body.insert("tool_choice".into(), choice);
    }
}

/// `seed` is unknown here and left out, as is JSON without a schema.
fn parameters(request: &Request, body: &mut Map<String, Value>) {
    let budget = request.reasoning.as_ref().and_then(|r| r.budget_tokens).filter(|budget| *budget > 0);
    let effort = request.reasoning.as_ref().and_then(|r| r.effort.as_deref());
    let shown = request.reasoning.as_ref().and_then(|r| r.summary.as_deref()).filter(|s| *s != "none");
    // Newer models take the effort in words, beside the thinking or without it; older ones only think by a budget.
    let thinking = match (budget, effort) {
        (Some(budget), _) => Some(json!({ "type": "enabled", "budget_tokens": budget })),
        (None, _) if supports_effort(&request.model) => {
            shown.map(|_| json!({ "type": "adaptive", "display": "summarized" }))
        }
        (None, Some("none" | "minimal") | None) => None,
        (None, Some(effort)) => {
            let budget = match effort {
                "low" => 2_048,
                "medium" => 8_192,
                _ => 16_384,
            };
            Some(json!({ "type": "enabled", "budget_tokens": budget }))
        }
    };
    let budget = thinking.as_ref().and_then(|t| t["budget_tokens"].as_u64()).unwrap_or(0);
    let default = if budget > 0 { budget + BESIDE_THOUGHTS } else { longest(&request.model) };
    body.insert("max_tokens".into(), request.max_tokens.unwrap_or(default).into());
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(key.into(), value);
        }
    };
    put("thinking", thinking);
    put("temperature", request.temperature.map(Value::from));
    put("top_p", request.top_p.map(Value::from));
    put("top_k", request.top_k.map(Value::from));
    put("stop_sequences", (!request.stop.is_empty()).then(|| request.stop.clone().into()));
    let mut output = Map::new();
    if let Some(ResponseFormat::JsonSchema { schema, strict, .. }) = &request.response_format
        && let Some(schema) = if strict.is_some() { Some(schema.clone()) } else { subset::ANTHROPIC.of(schema) }
    {
        output.insert("format".into(), json!({ "type": "json_schema", "schema": schema }));
    }
    if let Some(effort) = effort.filter(|effort| *effort != "none" && supports_effort(&request.model)) {
        let effort = if effort == "minimal" { "low" } else { effort };
        output.insert("effort".into(), effort.into());
    }
    put("output_config", (!output.is_empty()).then_some(Value::Object(output)));
}

fn longest(model: &str) -> u64 {
    let info = crate::prices::PriceTable::built_in().model_info(NAME, model);
    info.and_then(|info| info.output_tokens_max).map_or(MAX_TOKENS_UNKNOWN, |max| max.min(MAX_TOKENS))
}

/// Whether a model takes an effort in words: from generation 4.6 on, and Opus 4.5. By the first two numbers of its
/// name; a name without any is taken for a new one.
fn supports_effort(model: &str) -> bool {
    let mut numbers = model.split(['-', '.']).filter_map(|word| word.parse::<u32>().ok());
    let (Some(major), minor) = (numbers.next(), numbers.next()) else { return true };
    // A date, not a minor version.
    let minor = minor.filter(|minor| *minor < 100).unwrap_or(0);
    (major, minor) >= (4, 6) || (model.contains("opus") && (major, minor) == (4, 5))
}

/// Declares the tools that the conversation used, if the request declares none, because it is rejected otherwise.
/// Forbids their use.
fn declare_used_tools(request: &Request, body: &mut Map<String, Value>) {
    let used: BTreeSet<&str> =
        request.messages.iter().flat_map(|message| message.tool_calls()).map(|call| call.name.as_str()).collect();
    if used.is_empty() || body.contains_key("tools") {
        return;
    }
    let declared: Vec<_> =
        used.iter().map(|name| json!({ "name": name, "input_schema": { "type": "object" } })).collect();
    body.insert("tools".into(), declared.into());
    body.insert("tool_choice".into(), json!({ "type": "none" }));
}

/// Resolves settings that exclude each other, once all are set.
fn resolve_conflicts(request: &Request, body: &mut Map<String, Value>) {
    let thinking = body.get("thinking").and_then(|t| t.get("type")).and_then(Value::as_str);
    if !matches!(thinking, Some("enabled" | "adaptive")) {
        return;
    }
    // Forced tools and thinking exclude each other; thinking was requested explicitly.
    if let Some(choice) = body.get_mut("tool_choice")
        && matches!(choice.get("type").and_then(Value::as_str), Some("any" | "tool"))
        && let Some(choice) = choice.as_object_mut()
    {
        choice.insert("type".into(), "auto".into());
        choice.remove("name");
    }
    // So do thinking and a temperature other than 1.
    if body.get("temperature").and_then(Value::as_f64).is_some_and(|t| (t - 1.0).abs() > f64::EPSILON) {
        body.remove("temperature");
    }
    body.remove("top_k");
    let budget = body.get("thinking").and_then(|t| t.get("budget_tokens")).and_then(Value::as_u64);
    if let Some(budget) = budget
        && request.max_tokens.is_none()
        && !request.extra.contains_key("max_tokens")
    {
        body.insert("max_tokens".into(), (budget + BESIDE_THOUGHTS).into());
    }
}
