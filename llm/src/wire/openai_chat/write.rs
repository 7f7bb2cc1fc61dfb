//! A neutral request in Chat Completions' words.

use rethread_events::message::{Media, Message, Part, Reasoning, Role, ToolCall, ToolChoice, ToolResult};
use serde_json::{Map, Value, json};

use super::OpenaiChat;
use crate::models::{Known, ModelFacts};
use crate::request::{CacheMode, Request, ResponseFormat};
use crate::wire::body::{self, BorrowedValue, Fields, object};
use crate::wire::{draft, merge_extra, subset};

pub(super) fn body(wire: &OpenaiChat, request: &Request) -> Vec<u8> {
    let mut body = Map::new();
    body.insert("model".into(), request.model.as_str().into());
    let known = wire.models.of(&request.model);
    let facts = &known.facts;
    let mut messages = Messages::default();
    let mut is_leading = true;
    for message in request.messages.iter() {
        is_leading &= message.role == Role::System;
        if message.role == Role::System && !is_leading {
            messages.push(object!({ "role": "system", "content": draft::instructions(request, message) }));
        } else {
            messages.push_message(wire, message);
        }
    }
    messages.push_attachments();
    // Their place.
    body.insert("messages".into(), Value::Null);
    tools(facts, request, &mut body);
    parameters(&known, request, &mut body);
    if request.stream {
        body.insert("stream".into(), true.into());
        body.insert("stream_options".into(), json!({ "include_usage": true }));
    }
    merge_extra(&mut body, &request.extra);
    body::bytes(request, &body, ("messages", messages.sent))
}

fn tools(facts: &ModelFacts, request: &Request, body: &mut Map<String, Value>) {
    let tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            let mut function = Map::new();
            function.insert("name".into(), tool.name.as_str().into());
            if let Some(description) = &tool.description {
                function.insert("description".into(), description.as_str().into());
            }
            let strict = draft::declared(&tool.parameters).filter(|_| facts.strict_tools == Some(true));
            if let Some(schema) = strict.and_then(subset::strict) {
                function.insert("parameters".into(), schema);
                function.insert("strict".into(), true.into());
            } else if let Some(schema) = draft::declared(&tool.parameters) {
                function.insert("parameters".into(), schema.clone());
            }
            json!({ "type": "function", "function": function })
        })
        .collect();
    if !tools.is_empty() {
        body.insert("tools".into(), tools.into());
    }
    if !request.has_tools() {
        return;
    }
    let choice = match (&request.tool_choice, request.restricted_to()) {
        (Some(ToolChoice::None), _) | (_, Some([])) => Some("none".into()),
        (Some(ToolChoice::Tool(name)), _) => Some(json!({ "type": "function", "function": { "name": name } })),
        (choice, Some(names)) => {
            let mode = if *choice == Some(ToolChoice::Required) { "required" } else { "auto" };
            let named = |name: &String| json!({ "type": "function", "function": { "name": name } });
            let tools: Vec<Value> = names.iter().map(named).collect();
            Some(json!({ "type": "allowed_tools", "allowed_tools": { "mode": mode, "tools": tools } }))
        }
        (Some(ToolChoice::Auto), None) => Some("auto".into()),
        (Some(ToolChoice::Required), None) => Some("required".into()),
        (None, None) => None,
    };
    if let Some(choice) = choice {
        body.insert("tool_choice".into(), choice);
    }
    if let Some(parallel) = request.parallel_tool_calls {
        body.insert("parallel_tool_calls".into(), parallel.into());
    }
}

fn parameters(known: &Known, request: &Request, body: &mut Map<String, Value>) {
    let facts = &known.facts;
    if let Some(max) = request.max_tokens {
        let key = if facts.reasons() == Some(true) { "max_completion_tokens" } else { "max_tokens" };
        body.insert(key.into(), max.into());
    }
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(key.into(), value);
        }
    };
    put("temperature", request.temperature.map(Value::from));
    put("top_p", request.top_p.map(Value::from));
    put("top_k", request.top_k.map(Value::from));
    put("seed", request.seed.map(Value::from));
    put("stop", (!request.stop.is_empty()).then(|| request.stop.clone().into()));
    put("response_format", request.response_format.as_ref().and_then(format));
    let effort = request.reasoning.as_ref().and_then(|r| r.effort.clone());
    put("reasoning_effort", effort.map(|effort| known_effort(facts, effort).into()));
    put("verbosity", request.verbosity.as_deref().map(Value::from));
    put("service_tier", request.service_tier.as_deref().map(Value::from));
    cache(known, request, body);
}

/// The word for an effort that the model takes: some have no `minimal`.
pub(in crate::wire) fn known_effort(facts: &ModelFacts, effort: String) -> String {
    if effort == "minimal" && !facts.takes_effort("minimal") { "low".into() } else { effort }
}

/// What OpenAI's cache of prompts is told.
/// <https://developers.openai.com/api/docs/guides/prompt-caching>
pub(in crate::wire) fn cache(known: &Known, request: &Request, body: &mut Map<String, Value>) {
    if !known.takes_cache_key {
        return;
    }
    let mode = request.cache.unwrap_or_default();
    if mode != CacheMode::Off {
        body.insert("prompt_cache_key".into(), draft::conversation_key(request).into());
    }
    // Only newer models have options.
    let Some(longest) = known.facts.cache_ttls.as_ref().and_then(|ttls| ttls.last()) else { return };
    match mode {
        CacheMode::Auto => {}
        CacheMode::Long => {
            body.insert("prompt_cache_options".into(), json!({ "ttl": longest }));
        }
        // Nothing is written where nothing is marked.
        CacheMode::Off => {
            body.insert("prompt_cache_options".into(), json!({ "mode": "explicit" }));
        }
    }
}

fn format(format: &ResponseFormat) -> Option<Value> {
    match format {
        ResponseFormat::Text => None,
        ResponseFormat::JsonObject => Some(json!({ "type": "json_object" })),
        ResponseFormat::JsonSchema { name, schema, strict } => {
            let mut inner = Map::new();
            inner.insert("name".into(), name.as_deref().unwrap_or("answer").into());
            let (schema, strict) = subset::openai(schema, *strict)?;
            inner.insert("schema".into(), schema);
            if let Some(strict) = strict {
                inner.insert("strict".into(), strict.into());
            }
            Some(json!({ "type": "json_schema", "json_schema": inner }))
        }
    }
}

#[derive(Default)]
struct Messages<'a> {
    sent: Vec<BorrowedValue<'a>>,
    /// A tool message contains text only: other content of a tool result follows in a user message, after the last of the
    /// results, because nothing may be between a call and its results.
    attachments: Vec<BorrowedValue<'a>>,
}

impl<'a> Messages<'a> {
    fn push(&mut self, message: BorrowedValue<'a>) {
        self.push_attachments();
        self.sent.push(message);
    }

    fn push_attachments(&mut self) {
        if !self.attachments.is_empty() {
            self.sent.push(object!({ "role": "user", "content": std::mem::take(&mut self.attachments) }));
        }
    }

    fn push_message(&mut self, wire: &'a OpenaiChat, message: &'a Message) {
        match message.role {
            Role::System => self.push(object!({ "role": "system", "content": content(&message.content) })),
            Role::User => {
                // A result may have slipped into a user message; it still has to be a message of its own.
                self.push_results(message);
                let parts: Vec<&Part> = message.content.iter().filter(|p| !matches!(p, Part::ToolResult(_))).collect();
                if !parts.is_empty() || message.content.is_empty() {
                    self.push(object!({ "role": "user", "content": content_of(&parts) }));
                }
            }
            Role::Assistant => self.push(assistant(wire, message)),
            Role::Tool => self.push_results(message),
        }
    }

    fn push_results(&mut self, message: &'a Message) {
        for part in &message.content {
            let Part::ToolResult(result) = part else { continue };
            self.sent.push(object!({
                "role": "tool",
                "tool_call_id": &result.tool_call_id,
                "content": result_content(result),
            }));
            let is_media = |part: &&Part| matches!(part, Part::Image(_) | Part::Document(_) | Part::Audio(_));
            self.attachments.extend(result.content.iter().filter(is_media).filter_map(piece));
        }
    }
}

fn result_content(result: &ToolResult) -> BorrowedValue<'_> {
    let texts: Vec<&Part> = result.content.iter().filter(|p| p.as_text().is_some()).collect();
    if texts.len() > 1 {
        return content_of(&texts);
    }
    let text = draft::result_text(&result.content);
    if text.is_empty() && !result.content.is_empty() && texts.is_empty() {
        return "The result follows.".into();
    }
    text.into()
}

fn assistant<'a>(wire: &'a OpenaiChat, message: &'a Message) -> BorrowedValue<'a> {
    let mut out = Fields::default();
    out.insert("role", "assistant");
    let texts: Vec<&Part> = message.content.iter().filter(|p| p.as_text().is_some_and(|t| !t.is_empty())).collect();
    let calls: Vec<_> = message.tool_calls().map(|call| tool_call(wire, call)).collect();
    let refusal = message.content.iter().find_map(|p| match p {
        Part::Refusal { text } => Some(text.as_str()),
        _ => None,
    });
    match (texts.is_empty(), calls.is_empty() && refusal.is_none()) {
        (false, _) => out.insert("content", content_of(&texts)),
        // An answer that was empty stays in the conversation as one.
        (true, true) => out.insert("content", ""),
        (true, false) => out.insert("content", BorrowedValue::Null),
    }
    if let Some(refusal) = refusal {
        out.insert("refusal", refusal);
    }
    if !calls.is_empty() {
        out.insert("tool_calls", calls);
    }
    if wire.gemini
        && let Some(signature) = message.content.iter().find_map(|p| match p {
            Part::Text { signature, .. } => signature.as_deref(),
            _ => None,
        })
    {
        out.insert("extra_content", google(signature));
    }
    if let Some(field) = &wire.reasoning_field {
        let text: String = message.content.iter().filter_map(reasoning_text).collect();
        if !text.is_empty() {
            out.insert(field, text);
        } else if message.tool_calls().next().is_some() {
            out.insert(field, NO_REASONING);
        }
    }
    // Fields of an earlier answer of this protocol that have no neutral meaning, such as signed reasoning details.
    for part in &message.content {
        if let Part::Opaque { provider, data } = part
            && provider == super::OPAQUE
            && let Value::Object(fields) = &*data.0
        {
            out.merge(fields);
        }
    }
    out.into()
}

/// Stands for the reasoning of calls that came without one, such as those of another provider: DeepSeek and Moonshot refuse
/// calls without the field (`reasoning_content is missing in assistant tool call message`), Moonshot an empty one, too.
/// <https://api-docs.deepseek.com/guides/thinking_mode>
const NO_REASONING: &str = " ";

fn reasoning_text(part: &Part) -> Option<&str> {
    match part {
        Part::Reasoning(Reasoning { text, .. }) => text.as_deref(),
        _ => None,
    }
}

fn tool_call<'a>(wire: &OpenaiChat, call: &'a ToolCall) -> BorrowedValue<'a> {
    let mut out = object!({
        "id": &call.id,
        "type": "function",
        "function": object!({ "name": &call.name, "arguments": draft::arguments_text(call) }),
    });
    if wire.gemini
        && let (Some(signature), Some(out)) = (&call.signature, out.as_object_mut())
    {
        out.insert("extra_content", google(signature));
    }
    out
}

fn google(signature: &str) -> BorrowedValue<'_> {
    object!({ "google": object!({ "thought_signature": signature }) })
}

fn content(parts: &[Part]) -> BorrowedValue<'_> {
    content_of(&parts.iter().collect::<Vec<_>>())
}

/// One text part is a string; anything else a list. What this protocol cannot say is left out.
fn content_of<'a>(parts: &[&'a Part]) -> BorrowedValue<'a> {
    if let [Part::Text { text, .. }] = parts {
        return text.into();
    }
    let list: Vec<_> = parts.iter().filter_map(|part| piece(part)).collect();
    if list.is_empty() { "".into() } else { list.into() }
}

fn piece(part: &Part) -> Option<BorrowedValue<'_>> {
    match part {
        Part::Text { text, .. } | Part::Refusal { text } => Some(object!({ "type": "text", "text": text })),
        Part::Image(media) => {
            let url = draft::url(media, "image/png")?;
            Some(object!({ "type": "image_url", "image_url": object!({ "url": url }) }))
        }
        Part::Document(media) => document(media),
        Part::Audio(media) => audio(media),
        Part::Opaque { provider, data } if provider == super::OPAQUE => Some((&*data.0).into()),
        Part::Reasoning(_) | Part::ToolCall(_) | Part::ToolResult(_) | Part::Opaque { .. } | Part::ProviderTool(_) => {
            None
        }
    }
}

fn audio(media: &Media) -> Option<BorrowedValue<'_>> {
    let data = media.data.as_deref()?;
    let format = media.media_type.as_deref().and_then(draft::audio_format).unwrap_or("wav");
    Some(object!({ "type": "input_audio", "input_audio": object!({ "data": data, "format": format }) }))
}

fn document(media: &Media) -> Option<BorrowedValue<'_>> {
    match (&media.data, &media.url) {
        (Some(_), _) => {
            let file_data = draft::url(media, "application/pdf")?;
            let filename = media.name.as_deref().unwrap_or("document.pdf");
            Some(object!({ "type": "file", "file": object!({ "filename": filename, "file_data": file_data }) }))
        }
        // This protocol fetches no documents; the model gets the address.
        (None, Some(url)) => Some(object!({ "type": "text", "text": url })),
        (None, None) => None,
    }
}
