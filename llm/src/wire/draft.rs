//! The shared code of the protocols for building an answer.

use std::borrow::Cow;
use std::collections::HashSet;

use rethread_events::json::Json;
use rethread_events::json_text;
use rethread_events::message::{FinishReason, Media, Message, Part, Role, ToolCall, Usage};
use serde_json::{Map, Value};

use super::AnswerContext;
#[cfg(any(feature = "anthropic", feature = "gemini"))]
use super::body::{BorrowedValue, object};
use crate::client::{Delta, Listener};
use crate::request::{Instructions, Request};
use crate::response::Response;

/// The beginning of the ids that are made up here. No such id goes to a provider that gave none.
pub(crate) const MADE_ID: &str = "made_";

/// Reads the arguments of a call. No text, `null` and `{}` all mean no arguments; what is not JSON is kept as it
/// came, with `arguments` null.
pub(crate) fn tool_call(id: String, name: String, arguments: &str) -> ToolCall {
    let trimmed = arguments.trim();
    let (arguments, arguments_raw) = if trimmed.is_empty() || trimmed == "null" {
        (Value::Object(Map::new()), None)
    } else {
        match json_text::read(trimmed.as_bytes()) {
            Ok(value) => (value, None),
            Err(_) => (Value::Null, Some(arguments.to_owned())),
        }
    };
    ToolCall { id, name, arguments: Json::from(arguments), arguments_raw, signature: None }
}

/// A call that was cut off. Its arguments stay as they came, and do not run, also where they could be read.
pub(crate) fn cut_call(id: String, name: String, arguments: &str) -> ToolCall {
    ToolCall { id, name, arguments: Json::null(), arguments_raw: Some(arguments.to_owned()), signature: None }
}

/// The text of a call's arguments as they go back to a provider: always JSON.
pub(crate) fn arguments_text(call: &ToolCall) -> String {
    match &*call.arguments.0 {
        Value::Null => "{}".to_owned(),
        // Not by `Display`, which writes each piece by way of the formatter.
        arguments => serde_json::to_string(arguments).unwrap_or_default(),
    }
}

/// A call's arguments as they go back to a provider. Arguments that were cut off go back empty: no provider takes
/// broken JSON.
#[cfg(any(feature = "anthropic", feature = "gemini"))]
pub(crate) fn arguments_object(call: &ToolCall) -> BorrowedValue<'_> {
    match &*call.arguments.0 {
        object @ Value::Object(_) => object.into(),
        _ => object!({}),
    }
}

/// Gives an id to every call that has none or that of an earlier call of the same answer.
pub(crate) fn complete_ids(content: &mut [Part], cx: AnswerContext) {
    let mut seen = HashSet::new();
    let mut index = 0;
    for part in content {
        if let Part::ToolCall(call) = part {
            if call.id.is_empty() || !seen.insert(call.id.clone()) {
                call.id = format!("{MADE_ID}{}_{index}", cx.n_answers);
                seen.insert(call.id.clone());
            }
            index += 1;
        }
    }
}

/// What a user says first where a conversation begins with an answer, for providers that refuse that.
pub(crate) const LEFT_OUT: &str = "[Earlier messages are left out.]";

/// The text before instructions that replace those before them.
const REPLACES: &str = "These instructions replace all earlier ones:\n\n";

/// The text of instructions that come after the beginning of a conversation.
pub(crate) fn instructions(request: &Request, message: &Message) -> String {
    let text = message.joined_text();
    match request.instructions {
        Instructions::Latest if !text.trim().is_empty() => format!("{REPLACES}{text}"),
        Instructions::Latest | Instructions::All => text,
    }
}

/// A name for a conversation by which the provider finds its cache: the same for all requests of the conversation.
pub(crate) fn conversation_key(request: &Request) -> String {
    let mut beginning = Vec::new();
    for message in request.messages.iter() {
        // What cannot be written as JSON cannot be sent either.
        let _ = serde_json::to_writer(&mut beginning, message);
        if message.role == Role::User {
            break;
        }
    }
    blake3::hash(&beginning).to_hex()[..32].to_owned()
}

/// The end of every answer: ids completed, everything in place.
pub(crate) fn response(
    mut content: Vec<Part>,
    finish: (FinishReason, Option<String>),
    usage: Usage,
    model: Option<String>,
    response_id: Option<String>,
    cx: AnswerContext,
) -> Response {
    complete_ids(&mut content, cx);
    for part in &mut content {
        if let Part::Reasoning(reasoning) = part {
            reasoning.prefix = cx.prefix;
        }
    }
    Response {
        finish_reason: finish.0,
        finish_reason_raw: finish.1,
        usage,
        provider: cx.provider.into(),
        model: model.filter(|m| !m.is_empty()),
        response_id: response_id.filter(|id| !id.is_empty()),
        ..Response::of(Message { role: Role::Assistant, content })
    }
}

/// What a provider says of an answer besides its content, by name.
#[derive(Debug, Default)]
pub(crate) struct Details(Map<String, Value>);

impl Details {
    /// Stores what is said under this name. In a stream the last word counts; an empty list or object withdraws it, and
    /// null says nothing.
    pub(crate) fn put(&mut self, name: &str, value: Option<&Value>) {
        match value {
            None | Some(Value::Null) => {}
            Some(value) if is_empty(value) => {
                self.0.remove(name);
            }
            Some(value) if self.0.get(name) == Some(value) => {}
            Some(value) => {
                self.0.insert(name.to_owned(), value.clone());
            }
        }
    }

    pub(crate) fn json(self) -> Option<Json> {
        (!self.0.is_empty()).then(|| Value::Object(self.0).into())
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The text of a tool's result, parts joined with LF; what is not text is left out.
pub(crate) fn result_text(content: &[Part]) -> Cow<'_, str> {
    let mut out = Cow::Borrowed("");
    for text in content.iter().filter_map(Part::as_text) {
        if !out.is_empty() {
            out.to_mut().push('\n');
        }
        out += text;
    }
    out
}

/// Passes an answer that came in one piece to a listener.
pub(crate) fn emit(response: &Response, listener: &mut dyn Listener) {
    let mut index = 0;
    for part in &response.message.content {
        match part {
            Part::Text { text, .. } if !text.is_empty() => listener.delta(Delta::Text(text.clone())),
            Part::Refusal { text } => listener.delta(Delta::Refusal(text.clone())),
            Part::Reasoning(reasoning) => {
                if let Some(text) = reasoning.text.clone().filter(|t| !t.is_empty()) {
                    listener.delta(Delta::Reasoning(text));
                }
            }
            Part::ToolCall(call) => {
                listener.delta(Delta::ToolCall {
                    index,
                    id: Some(call.id.clone()),
                    name: Some(call.name.clone()),
                    arguments_fragment: call.arguments_raw.clone().unwrap_or_else(|| call.arguments.0.to_string()),
                });
                index += 1;
            }
            _ => {}
        }
    }
}

/// A tool's schema, when it declares one.
pub(crate) fn declared(parameters: &Json) -> Option<&Value> {
    match &*parameters.0 {
        Value::Object(map) if map.is_empty() => None,
        schema @ Value::Object(_) => Some(schema),
        _ => None,
    }
}

/// A tool's schema for those who insist on one that says `object`; a tool that declares none takes an empty object.
pub(crate) fn schema(parameters: &Json) -> Value {
    match declared(parameters) {
        Some(schema) if schema.get("type").is_some() => schema.clone(),
        Some(Value::Object(map)) => {
            let mut out = Map::new();
            out.insert("type".into(), "object".into());
            out.extend(map.iter().map(|(k, v)| (k.clone(), v.clone())));
            Value::Object(out)
        }
        _ => serde_json::json!({ "type": "object", "properties": {} }),
    }
}

/// The content of an address, if the address contains it.
pub(crate) fn media(url: &str) -> Media {
    match url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
        Some((media_type, data)) => Media::inline(Some(media_type), data),
        None => Media::at(url),
    }
}

/// The media type of a file. A name of JPEG that no provider takes is a common mistake.
pub(crate) fn media_type<'a>(media: &'a Media, default_type: &'a str) -> &'a str {
    match media.media_type.as_deref() {
        Some("image/jpg") => "image/jpeg",
        Some(media_type) => media_type,
        None => default_type,
    }
}

/// An image or document as a URL: its own, or one that holds the data.
pub(crate) fn url(media: &Media, default_type: &str) -> Option<String> {
    match (&media.data, &media.url) {
        (Some(data), _) => {
            let media_type = media_type(media, default_type);
            Some(format!("data:{media_type};base64,{data}"))
        }
        (None, Some(url)) => Some(url.clone()),
        (None, None) => None,
    }
}

/// The word of Chat Completions for a kind of recording.
pub(crate) fn audio_format(kind: &str) -> Option<&'static str> {
    match kind {
        "audio/wav" | "audio/wave" | "audio/x-wav" | "audio/vnd.wave" => Some("wav"),
        "audio/mpeg" | "audio/mp3" => Some("mp3"),
        _ => None,
    }
}
