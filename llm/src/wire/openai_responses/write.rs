//! A neutral request in the words of Responses.

use rethread_events::event::RequestChange;
use rethread_events::message::{Media, Message, Part, ProviderTool, Reasoning, Role, ToolChoice, ToolResult, ToolSpec};
use serde_json::{Map, Value, json};

use super::{NAME, OpenaiResponses};
use crate::models::{Known, ModelFacts, SystemMessages};
use crate::request::{Request, ResponseFormat};
use crate::wire::body::{self, BorrowedValue, Fields, object};
use crate::wire::openai_chat::write::{cache, known_effort};
use crate::wire::{Built, draft, json, merge_extra, subset};

pub(super) fn build(wire: &OpenaiResponses, request: &Request) -> Built {
    let mut body = Map::new();
    body.insert("model".into(), request.model.as_str().into());
    let known = wire.models.of(&request.model);
    let facts = &known.facts;
    let stores = stores(request);
    let leading = request.messages.iter().take_while(|m| m.role == Role::System).count();
    let instructions: Vec<String> = request.messages.iter().take(leading).map(|m| m.joined_text()).collect();
    let mut input = Vec::with_capacity(request.messages.len() + 1 - leading);
    let mut n_thoughts_left_out = 0;
    if !instructions.is_empty() {
        let text = instructions.join("\n\n");
        if facts.system_messages == Some(SystemMessages::Anywhere) {
            // Newer models read the field `instructions` after the input, where no cache holds it.
            // <https://developers.openai.com/api/docs/guides/keep-prefix-unchanged>
            input.push(object!({ "role": "developer", "content": text }));
        } else {
            body.insert("instructions".into(), text.into());
        }
    }
    for (i, message) in request.messages.iter().enumerate().skip(leading) {
        if message.role == Role::System {
            input.push(object!({ "role": "developer", "content": draft::instructions(request, message) }));
        } else {
            n_thoughts_left_out += push_message(message, stores, &mut input);
        }
        let added: Vec<_> = request.tools_added_after(i + 1).map(|spec| tool(facts, spec).into()).collect();
        if !added.is_empty() {
            // <https://developers.openai.com/api/docs/guides/keep-prefix-unchanged>
            input.push(object!({ "type": "additional_tools", "role": "developer", "tools": added }));
        }
    }
    // Its place.
    body.insert("input".into(), Value::Null);
    tools(facts, request, &mut body);
    parameters(&known, request, &mut body);
    if request.stream {
        body.insert("stream".into(), true.into());
    }
    if !stores {
        body.insert("store".into(), false.into());
    }
    merge_extra(&mut body, &request.extra);
    let changes = without_what_followed(n_thoughts_left_out).into_iter().collect();
    Built { changes, ..body::bytes(request, &body, ("input", input)).into() }
}

/// What is said of thoughts that are left out: what they led to was filtered out of the conversation.
fn without_what_followed(n: u64) -> Option<RequestChange> {
    let why = "what they led to is no longer in the conversation, and the provider refuses thoughts without it";
    (n > 0).then(|| RequestChange { n: Some(n), ..RequestChange::new("thoughts", why) })
}

/// Whether the provider stores the answer. The log has everything: prompts and answers do not stay at the provider unasked.
/// A background answer has to.
fn stores(request: &Request) -> bool {
    let is = |name: &str| request.extra.get(name).and_then(Value::as_bool);
    is("store").unwrap_or(is("background") == Some(true))
}

fn tools(facts: &ModelFacts, request: &Request, body: &mut Map<String, Value>) {
    let tools: Vec<Value> = request.initial_tools().map(|spec| tool(facts, spec)).collect();
    if !tools.is_empty() {
        body.insert("tools".into(), tools.into());
    }
    if !request.has_tools() {
        return;
    }
    let choice = match (&request.tool_choice, request.restricted_to()) {
        (Some(ToolChoice::None), _) | (_, Some([])) => Some("none".into()),
        (Some(ToolChoice::Tool(name)), _) => Some(json!({ "type": "function", "name": name })),
        (choice, Some(names)) => {
            let mode = if *choice == Some(ToolChoice::Required) { "required" } else { "auto" };
            let tools: Vec<Value> = names.iter().map(|name| json!({ "type": "function", "name": name })).collect();
            Some(json!({ "type": "allowed_tools", "mode": mode, "tools": tools }))
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

fn tool(facts: &ModelFacts, tool: &ToolSpec) -> Value {
    let mut out = Map::new();
    out.insert("type".into(), "function".into());
    out.insert("name".into(), tool.name.as_str().into());
    if let Some(description) = &tool.description {
        out.insert("description".into(), description.as_str().into());
    }
    let strict = draft::declared(&tool.parameters).filter(|_| facts.strict_tools == Some(true));
    let strict = strict.and_then(subset::strict);
    // Left out, it would mean true here, and most schemas do not meet its terms.
    let is_strict = strict.is_some();
    out.insert("parameters".into(), strict.unwrap_or_else(|| draft::schema(&tool.parameters)));
    out.insert("strict".into(), is_strict.into());
    Value::Object(out)
}

/// `stop`, `top_k` and `seed` are unknown here and left out, as is a thinking budget in tokens.
fn parameters(known: &Known, request: &Request, body: &mut Map<String, Value>) {
    let facts = &known.facts;
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(key.into(), value);
        }
    };
    put("max_output_tokens", request.max_tokens.map(Value::from));
    put("temperature", request.temperature.map(Value::from));
    put("top_p", request.top_p.map(Value::from));
    let mut text = Map::new();
    if let Some(format) = request.response_format.as_ref().and_then(format) {
        text.insert("format".into(), format);
    }
    if let Some(verbosity) = &request.verbosity {
        text.insert("verbosity".into(), verbosity.as_str().into());
    }
    put("text", (!text.is_empty()).then_some(Value::Object(text)));
    put("service_tier", request.service_tier.as_deref().map(Value::from));
    if let Some(options) = &request.reasoning {
        let mut reasoning = Map::new();
        if let Some(effort) = &options.effort {
            reasoning.insert("effort".into(), known_effort(facts, effort.clone()).into());
        }
        if let Some(summary) = options.summary.as_ref().filter(|summary| *summary != "none") {
            reasoning.insert("summary".into(), summary.as_str().into());
        }
        put("reasoning", (!reasoning.is_empty()).then_some(Value::Object(reasoning)));
    }
    // The next turn has to send the reasoning back; only what is requested arrives in a form that can be sent.
    if facts.reasons() == Some(true) && !is_chat_model(&request.model) {
        put("include", Some(json!(["reasoning.encrypted_content"])));
    }
    cache(known, request, body);
}

/// A chat model of a family that reasons refuses to encrypt its reasoning.
fn is_chat_model(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    name.starts_with("chat-") || name.starts_with("gpt-") && name.contains("-chat")
}

fn format(format: &ResponseFormat) -> Option<Value> {
    match format {
        ResponseFormat::Text => None,
        ResponseFormat::JsonObject => Some(json!({ "type": "json_object" })),
        ResponseFormat::JsonSchema { name, schema, strict } => {
            let mut out = Map::new();
            out.insert("type".into(), "json_schema".into());
            out.insert("name".into(), name.as_deref().unwrap_or("answer").into());
            let (schema, strict) = subset::openai(schema, *strict)?;
            out.insert("schema".into(), schema);
            if let Some(strict) = strict {
                out.insert("strict".into(), strict.into());
            }
            Some(Value::Object(out))
        }
    }
}

/// Adds the items of a message, and returns how many thoughts of it are left out.
fn push_message<'a>(message: &'a Message, stores: bool, input: &mut Vec<BorrowedValue<'a>>) -> u64 {
    match message.role {
        Role::System => {
            input.push(object!({ "role": "developer", "content": message.joined_text() }));
        }
        Role::User | Role::Tool => {
            let n_before = input.len();
            input.extend(message.content.iter().filter_map(|part| match part {
                Part::ToolResult(result) => Some(output(result)),
                Part::Opaque { provider, data } | Part::ProviderTool(ProviderTool { provider, data, .. })
                    if provider == NAME && !is_content(&data.0) =>
                {
                    Some((&*data.0).into())
                }
                _ => None,
            }));
            let is_new = input.len() == n_before && message.role == Role::User;
            match content(&message.content) {
                // What a person said is never left out; an empty text is taken.
                None if is_new => input.push(object!({ "role": "user", "content": "" })),
                None => {}
                Some(content) => input.push(object!({ "role": "user", "content": content })),
            }
        }
        Role::Assistant => return push_answer(message, stores, input),
    }
    0
}

/// An answer goes back as the items it came in. A reasoning item must be followed by the item it led to: one that
/// led to nothing is left out.
#[derive(Default)]
struct Answer<'a> {
    /// Whether the provider stores answers, so that it knows its reasoning by the id.
    stores: bool,
    items: Vec<BorrowedValue<'a>>,
    /// Reasoning that waits for the item it led to, with the updates of the configuration in between. An update goes back in
    /// any case.
    waiting: Vec<(Waits, BorrowedValue<'a>)>,
    /// Fields of the next item.
    fields: Vec<&'a Map<String, Value>>,
    texts: Vec<&'a str>,
}

/// What waits for the next item of an answer.
#[derive(PartialEq, Eq)]
enum Waits {
    Reasoning,
    Update,
}

/// The item that changes the effort from its place in the conversation on. No reasoning leads to it.
/// `ResponseConfigurationUpdate` of OpenAI's OpenAPI document; <https://openrouter.ai/docs/cookbook/evaluate-and-optimize/model-migrations/gpt-6-astra>
const CONFIGURATION_UPDATE: &str = "configuration_update";

impl<'a> Answer<'a> {
    fn push(&mut self, item: BorrowedValue<'a>) {
        self.items.extend(self.waiting.drain(..).map(|(_, item)| item));
        self.items.push(item);
    }

    /// Ends the answer, and returns how many thoughts led to nothing.
    fn end(&mut self) -> u64 {
        self.end_message();
        let (thoughts, updates): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(|(waits, _)| *waits == Waits::Reasoning);
        self.items.extend(updates.into_iter().map(|(_, item)| item));
        thoughts.len() as u64
    }

    fn push_with_fields(&mut self, mut item: BorrowedValue<'a>) {
        if let Some(known) = item.as_object_mut() {
            self.fields.drain(..).for_each(|fields| known.extend(fields));
        }
        self.push(item);
    }

    /// Texts in a row are one message.
    fn end_message(&mut self) {
        let content: BorrowedValue<'a> = match self.texts.as_slice() {
            [] => return,
            [text] => (*text).into(),
            texts => {
                let text = |text: &&'a str| object!({ "type": "output_text", "text": *text });
                texts.iter().map(text).collect::<Vec<_>>().into()
            }
        };
        self.texts.clear();
        self.push_with_fields(object!({ "role": "assistant", "content": content }));
    }

    fn part(&mut self, part: &'a Part) {
        if let Part::Text { text, .. } | Part::Refusal { text } = part {
            if !text.is_empty() {
                self.texts.push(text);
            }
            return;
        }
        self.end_message();
        match part {
            Part::Reasoning(thought) => {
                let thought = reasoning(thought, self.stores);
                self.waiting.extend(thought.map(|thought| (Waits::Reasoning, thought)));
            }
            Part::ToolCall(call) => self.push_with_fields(object!({
                "type": "function_call",
                "call_id": &call.id,
                "name": &call.name,
                "arguments": draft::arguments_text(call),
            })),
            Part::Opaque { provider, data } if provider == NAME => match super::read::fields(&data.0) {
                Some(fields) => self.fields.push(fields),
                None if json::text(&data.0, "type") == Some(CONFIGURATION_UPDATE) => {
                    self.waiting.push((Waits::Update, (&*data.0).into()));
                }
                None => self.push((&*data.0).into()),
            },
            Part::ProviderTool(tool) if tool.provider == NAME => self.push((&*tool.data.0).into()),
            _ => {}
        }
    }
}

fn push_answer<'a>(message: &'a Message, stores: bool, input: &mut Vec<BorrowedValue<'a>>) -> u64 {
    let mut answer = Answer { stores, ..Answer::default() };
    for part in &message.content {
        answer.part(part);
    }
    let n_thoughts = answer.end();
    input.append(&mut answer.items);
    n_thoughts
}

fn reasoning(thought: &Reasoning, stores: bool) -> Option<BorrowedValue<'_>> {
    if thought.provider.as_deref().is_some_and(|provider| provider != NAME) {
        return None;
    }
    // Nothing that the provider would know again:
    // `Item with id 'rs_1' not found. Items are not persisted when store is set to false.`
    if thought.encrypted.is_none() && !(stores && thought.id.is_some()) {
        return None;
    }
    let mut out = Fields::default();
    out.insert("type", "reasoning");
    if let Some(id) = &thought.id {
        out.insert("id", id);
    }
    let text = thought.text.as_deref().filter(|text| !text.is_empty());
    let summary: Vec<_> = text.map(|text| object!({ "type": "summary_text", "text": text })).into_iter().collect();
    out.insert("summary", summary);
    if let Some(encrypted) = &thought.encrypted {
        out.insert("encrypted_content", encrypted);
    }
    Some(out.into())
}

fn output(result: &ToolResult) -> BorrowedValue<'_> {
    let only_text = result.content.iter().all(|part| part.as_text().is_some());
    let text = || draft::result_text(&result.content).into();
    let output = if only_text { text() } else { content(&result.content).unwrap_or(BorrowedValue::Null) };
    object!({ "type": "function_call_output", "call_id": &result.tool_call_id, "output": output })
}

/// One text part is a string, anything else a list; `None` when there is nothing to say.
fn content(parts: &[Part]) -> Option<BorrowedValue<'_>> {
    if let [Part::Text { text, .. }] = parts {
        return Some(text.into());
    }
    let list: Vec<_> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Text { text, .. } | Part::Refusal { text } => Some(object!({ "type": "input_text", "text": text })),
            Part::Image(media) => {
                let url = draft::url(media, "image/png")?;
                Some(object!({ "type": "input_image", "detail": "auto", "image_url": url }))
            }
            Part::Document(media) => file(media),
            Part::Opaque { provider, data } if provider == NAME && is_content(&data.0) => {
                Some((&*data.0).into())
            }
            Part::Reasoning(_)
            | Part::ToolCall(_)
            | Part::ToolResult(_)
            | Part::Opaque { .. }
            | Part::ProviderTool(_)
            // The protocol takes no sound.
            | Part::Audio(_) => None,
        })
        .collect();
    (!list.is_empty()).then(|| list.into())
}

/// Whether an opaque item is a part of a message; the others are items of their own.
fn is_content(data: &Value) -> bool {
    let kind = data.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| kind.starts_with("input_"))
}

fn file(media: &Media) -> Option<BorrowedValue<'_>> {
    match (&media.data, &media.url) {
        (Some(_), _) => {
            let data = draft::url(media, "application/pdf")?;
            let filename = media.name.as_deref().unwrap_or("document.pdf");
            Some(object!({ "type": "input_file", "filename": filename, "file_data": data }))
        }
        (None, Some(url)) => Some(object!({ "type": "input_file", "file_url": url })),
        (None, None) => None,
    }
}
