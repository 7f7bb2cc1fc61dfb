//! A neutral request in the words of `generateContent`.

use std::collections::HashMap;

use rethread_events::message::{Media, Message, Part, ProviderTool, Role, ToolChoice, ToolResult};
use serde_json::{Map, Value, json};

use super::{NAME, read, schema};
use crate::models::ModelFacts;
use crate::request::{ReasoningOptions, Request, ResponseFormat};
use crate::wire::body::{self, BorrowedValue, Fields, object};
use crate::wire::draft::{self, MADE_ID};
use crate::wire::merge_extra;

pub(super) fn body(facts: &ModelFacts, request: &Request) -> Vec<u8> {
    let mut body = Map::new();
    let system: Vec<Value> = request
        .messages
        .iter()
        .filter(|m| m.role == Role::System)
        .flat_map(|m| m.content.iter().filter_map(Part::as_text))
        .filter(|text| !text.is_empty())
        .map(|text| json!({ "text": text }))
        .collect();
    if !system.is_empty() {
        body.insert("systemInstruction".into(), json!({ "parts": system }));
    }
    // Their place.
    body.insert("contents".into(), Value::Null);
    tools(request, &mut body);
    let config = generation_config(facts, request);
    if let Some(tier) = &request.service_tier {
        body.insert("serviceTier".into(), tier.as_str().into());
    }
    if !config.is_empty() {
        body.insert("generationConfig".into(), config.into());
    }
    merge_extra(&mut body, &request.extra);
    body::bytes(request, &body, ("contents", contents(request)))
}

/// Results of one turn are in one content of their own, as many as there were calls.
fn contents(request: &Request) -> Vec<BorrowedValue<'_>> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut out: Vec<(bool, &'static str, Vec<BorrowedValue<'_>>)> = Vec::new();
    let mut push = |results: bool, role, parts: Vec<_>| {
        if parts.is_empty() {
            return;
        }
        match out.last_mut() {
            Some((true, _, known)) if results => known.extend(parts),
            _ => out.push((results, role, parts)),
        }
    };
    for message in request.messages.iter() {
        match message.role {
            Role::System => {}
            Role::Assistant => {
                names.extend(message.tool_calls().map(|call| (call.id.as_str(), call.name.as_str())));
                push(false, "model", answer(message));
            }
            Role::User | Role::Tool => {
                let mut results = Vec::new();
                for part in &message.content {
                    if let Part::ToolResult(result) = part {
                        push_result(result, &names, &mut results);
                    }
                }
                let mut parts: Vec<_> = message.content.iter().filter_map(part).collect();
                // What a person said is never left out; an empty text is taken.
                if parts.is_empty() && results.is_empty() && message.role == Role::User {
                    parts.push(object!({ "text": "" }));
                }
                push(true, "user", results);
                push(false, "user", parts);
            }
        }
    }
    // A conversation begins with the user.
    if out.first().is_some_and(|(_, role, _)| *role == "model") {
        out.insert(0, (false, "user", vec![object!({ "text": draft::LEFT_OUT })]));
    }
    out.into_iter().map(|(_, role, parts)| object!({ "role": role, "parts": parts })).collect()
}

fn answer(message: &Message) -> Vec<BorrowedValue<'_>> {
    // Those of the image, document or recording after them.
    let mut fields = None;
    message
        .content
        .iter()
        .filter_map(|piece| match (piece, fields.take()) {
            (Part::Reasoning(thought), _) => {
                // A thought goes back only when it was signed, and only to where it came from.
                let own = thought.provider.as_deref().is_none_or(|provider| provider == NAME);
                let signature = thought.signature.as_deref().filter(|s| own && !s.is_empty())?;
                let text = thought.text.as_deref().unwrap_or_default();
                Some(object!({ "text": text, "thought": true, "thoughtSignature": signature }))
            }
            (Part::ToolCall(call), _) => {
                let mut function = Fields::default();
                function.insert("name", &call.name);
                function.insert("args", draft::arguments_object(call));
                if !call.id.starts_with(MADE_ID) {
                    function.insert("id", &call.id);
                }
                Some(signed(object!({ "functionCall": function }), call.signature.as_deref()))
            }
            (Part::Opaque { provider, data }, _) if provider == NAME && read::fields(&data.0).is_some() => {
                fields = read::fields(&data.0);
                None
            }
            (piece @ (Part::Image(_) | Part::Document(_) | Part::Audio(_)), Some(fields)) => {
                let mut out = part(piece)?;
                out.as_object_mut()?.extend(fields);
                Some(out)
            }
            (piece, _) => part(piece),
        })
        .collect()
}

fn part(part: &Part) -> Option<BorrowedValue<'_>> {
    match part {
        Part::Text { text, signature, .. } => {
            if text.is_empty() && signature.is_none() {
                return None;
            }
            Some(signed(object!({ "text": text }), signature.as_deref()))
        }
        Part::Refusal { text } => Some(object!({ "text": text })),
        Part::Image(media) => media_part(media, "image/png"),
        Part::Document(media) => media_part(media, "application/pdf"),
        Part::Audio(media) => media_part(media, "audio/wav"),
        Part::Opaque { provider, data } | Part::ProviderTool(ProviderTool { provider, data, .. })
            if provider == NAME =>
        {
            Some((&*data.0).into())
        }
        Part::Reasoning(_) | Part::ToolCall(_) | Part::ToolResult(_) | Part::Opaque { .. } | Part::ProviderTool(_) => {
            None
        }
    }
}

fn signed<'a>(mut part: BorrowedValue<'a>, signature: Option<&'a str>) -> BorrowedValue<'a> {
    if let (Some(signature), Some(fields)) = (signature, part.as_object_mut()) {
        fields.insert("thoughtSignature", signature);
    }
    part
}

fn media_part<'a>(media: &'a Media, default_type: &'a str) -> Option<BorrowedValue<'a>> {
    let media_type = draft::media_type(media, default_type);
    match (&media.data, &media.url) {
        (Some(data), _) => Some(object!({ "inlineData": object!({ "mimeType": media_type, "data": &**data }) })),
        (None, Some(url)) => {
            let mut file = Fields::default();
            file.insert("fileUri", url);
            // A wrong guess would be refused; without it, the provider detects the type.
            if media.media_type.is_some() {
                file.insert("mimeType", media_type);
            }
            Some(object!({ "fileData": file }))
        }
        (None, None) => None,
    }
}

/// A result is an object with `output` or `error`; pictures follow it as parts of their own.
fn push_result<'a>(result: &'a ToolResult, names: &HashMap<&str, &'a str>, out: &mut Vec<BorrowedValue<'a>>) {
    let id = result.tool_call_id.as_str();
    let name = result.name.as_deref().or_else(|| names.get(id).copied()).unwrap_or("unknown");
    let key = if result.is_error { "error" } else { "output" };
    let mut response = Fields::default();
    response.insert(key, draft::result_text(&result.content));
    let mut function = Fields::default();
    function.insert("name", name);
    function.insert("response", response);
    if !id.starts_with(MADE_ID) && !id.is_empty() {
        function.insert("id", id);
    }
    out.push(object!({ "functionResponse": function }));
    out.extend(result.content.iter().filter(|p| p.as_text().is_none()).filter_map(part));
}

fn tools(request: &Request, body: &mut Map<String, Value>) {
    // Older models cannot be restricted to some of their tools.
    let restricted = request.restricted_to().filter(|_| supports_json_schema(&request.model));
    let declared = request.tools.iter().filter(|tool| restricted.is_some() || request.is_usable(&tool.name));
    let declared: Vec<_> = declared.collect();
    if !declared.is_empty() {
        let functions: Vec<Value> = declared
            .into_iter()
            .map(|tool| {
                let mut out = Map::new();
                out.insert("name".into(), tool.name.as_str().into());
                // A function without a description is refused by some models.
                let description = tool.description.as_deref().unwrap_or(&tool.name);
                out.insert("description".into(), description.into());
                if draft::declared(&tool.parameters).is_some() {
                    let parameters = schema::lower(&draft::schema(&tool.parameters));
                    out.insert("parametersJsonSchema".into(), parameters);
                }
                Value::Object(out)
            })
            .collect();
        body.insert("tools".into(), json!([{ "functionDeclarations": functions }]));
    }
    if !request.has_tools() {
        return;
    }
    let config = match (&request.tool_choice, restricted) {
        (Some(ToolChoice::None), _) | (_, Some([])) => Some(json!({ "mode": "NONE" })),
        (Some(ToolChoice::Tool(name)), _) => Some(json!({ "mode": "ANY", "allowedFunctionNames": [name] })),
        (Some(ToolChoice::Required), None) => Some(json!({ "mode": "ANY" })),
        (Some(ToolChoice::Required), Some(names)) => Some(json!({ "mode": "ANY", "allowedFunctionNames": names })),
        (_, Some(names)) => Some(json!({ "mode": "VALIDATED", "allowedFunctionNames": names })),
        (Some(ToolChoice::Auto), None) => Some(json!({ "mode": "AUTO" })),
        (None, None) => None,
    };
    if let Some(config) = config {
        body.insert("toolConfig".into(), json!({ "functionCallingConfig": config }));
    }
}

fn generation_config(facts: &ModelFacts, request: &Request) -> Map<String, Value> {
    let mut config = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            config.insert(key.into(), value);
        }
    };
    put("maxOutputTokens", request.max_tokens.map(Value::from));
    put("temperature", request.temperature.map(Value::from));
    put("topP", request.top_p.map(Value::from));
    put("topK", request.top_k.map(Value::from));
    put("seed", request.seed.map(Value::from));
    put("stopSequences", (!request.stop.is_empty()).then(|| request.stop.clone().into()));
    match &request.response_format {
        None | Some(ResponseFormat::Text) => {}
        Some(ResponseFormat::JsonObject) => put("responseMimeType", Some("application/json".into())),
        Some(ResponseFormat::JsonSchema { schema, .. }) => {
            put("responseMimeType", Some("application/json".into()));
            if supports_json_schema(&request.model) {
                put("responseJsonSchema", Some(schema::lower(schema)));
            } else {
                put("responseSchema", Some(schema::dialect(schema)));
            }
        }
    }
    if let Some(options) = &request.reasoning {
        let thinking = thinking(facts, options, &request.model);
        put("thinkingConfig", (!thinking.is_empty()).then_some(Value::Object(thinking)));
    }
    config
}

/// Models of generation 2.5 think by a budget in tokens, later ones by a level in words.
fn thinking(facts: &ModelFacts, options: &ReasoningOptions, model: &str) -> Map<String, Value> {
    let mut out = Map::new();
    match (&options.effort, options.budget_tokens) {
        (_, Some(budget)) => {
            out.insert("thinkingBudget".into(), known_budget(model, budget).into());
        }
        (Some(effort), None) if without_prefix(model).starts_with("gemini-2") => {
            let budget = match effort.to_ascii_lowercase().as_str() {
                "none" => 0,
                "minimal" => 512,
                "low" => 1_024,
                "medium" => 8_192,
                _ => 24_576,
            };
            out.insert("thinkingBudget".into(), known_budget(model, budget).into());
        }
        (Some(effort), None) => {
            let effort = if effort == "minimal" && !facts.takes_effort("minimal") { "low" } else { effort.as_str() };
            out.insert("thinkingLevel".into(), effort.into());
        }
        (None, None) => {}
    }
    if let Some(summary) = &options.summary {
        out.insert("includeThoughts".into(), (summary != "none").into());
    }
    out
}

/// A budget that the model takes: some have a least one, and 2.5 Pro always thinks. A negative one is up to the model.
/// <https://ai.google.dev/gemini-api/docs/thinking#set-budget>
fn known_budget(model: &str, budget: i64) -> i64 {
    let model = without_prefix(model);
    match budget {
        0.. if model.starts_with("gemini-2.5-pro") => budget.max(128),
        1.. if model.starts_with("gemini-2.5-flash-lite") => budget.max(512),
        budget => budget,
    }
}

fn supports_json_schema(model: &str) -> bool {
    let model = without_prefix(model);
    !["gemini-1", "gemini-2.0"].iter().any(|old| model.starts_with(old))
}

fn without_prefix(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}
