//! A neutral request in the words of Messages.

use std::borrow::Cow;
use std::collections::BTreeSet;

use rethread_events::event::RequestChange;
use rethread_events::message::{
    Annotation, Media, Message, Part, ProviderTool, Reasoning, Role, ToolChoice, ToolResult, ToolSpec,
};
use serde_json::{Map, Value, json};

use super::NAME;
use super::prefix::Prefix;
use super::refusals::LeftOut;
use crate::error::{ErrorKind, LlmError};
use crate::models::{ModelFacts, PromptCache, SystemMessages, Thinking};
use crate::request::{CacheMode, Request, ResponseFormat};
use crate::wire::body::{self, BorrowedValue, Fields, object};
use crate::wire::{BETAS, Built, draft, merge_extra, subset};

/// The present version of the API, and the one that still takes parameters of sampling.
/// <https://platform.claude.com/docs/en/api/versioning>
pub(super) const VERSION: &str = "2026-10-21";
const VERSION_WITH_SAMPLING: &str = "2023-06-01";
/// The beta in which a request says what happens to thoughts that do not fit.
/// <https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks>
const BINDING_BETA: &str = "thinking-binding-controls-2026-08-01";
/// The beta in which a message of the conversation defines tools.
/// <https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages>
const ADDITIONS_BETA: &str = "inline-tools-2026-09-15";
/// The longest answer when the request does not say, for the provider wants a figure: this, or what the model gives
/// at most.
const MAX_TOKENS: u64 = 16_384;
/// The longest answer of an unknown model.
const MAX_TOKENS_UNKNOWN: u64 = 4_096;
/// The fewest tokens in which a model thinks.
/// <https://platform.claude.com/docs/en/build-with-claude/extended-thinking>
const BUDGET_MIN: u64 = 1_024;
/// The room for the answer beside the thoughts, when the request does not say.
const BESIDE_THOUGHTS: u64 = 4_096;

pub(super) fn build(facts: &ModelFacts, request: &Request) -> Result<Built, LlmError> {
    let mut body = Map::new();
    body.insert("model".into(), request.model.as_str().into());
    let is_first = |message: &&std::sync::Arc<Message>| message.role == Role::System;
    let in_place = facts.system_messages == Some(SystemMessages::Anywhere);
    let leading = request.messages.iter().take_while(is_first).count();
    let instructions = request.messages.iter().take(if in_place { leading } else { usize::MAX }).filter(is_first);
    let texts = instructions.flat_map(|m| m.content.iter().filter_map(Part::as_text));
    let mut system: Vec<Value> =
        texts.filter(|text| !is_blank(text)).map(|text| json!({ "type": "text", "text": text })).collect();
    let mut tools: Vec<Value> = request.initial_tools().map(tool).collect();
    if tools.is_empty() && !request.has_tools() {
        tools = used_tools(request);
    }
    let caches = facts.cache == Some(PromptCache::Explicit) && request.cache != Some(CacheMode::Off);
    let marker = match request.cache {
        Some(CacheMode::Long) => json!({ "type": "ephemeral", "ttl": "1h" }),
        Some(CacheMode::Auto | CacheMode::Off) | None => json!({ "type": "ephemeral" }),
    };
    // The mark of the beginning stays where it is for the whole conversation; that of its end moves by itself.
    if let Some(last) = system.last_mut().or(tools.last_mut()).filter(|_| caches) {
        last["cache_control"] = marker.clone();
    }
    let is_bound = facts.bound_thinking == Some(true);
    if !system.is_empty() {
        body.insert("system".into(), system.into());
    }
    // The place of the messages, which are made below: after all that comes before them is known.
    body.insert("messages".into(), Value::Null);
    if !tools.is_empty() {
        body.insert("tools".into(), tools.into());
    }
    choice(request, &mut body);
    if caches {
        body.insert("cache_control".into(), marker);
    }
    let mut changes = parameters(facts, request, &mut body);
    if request.stream {
        body.insert("stream".into(), true.into());
    }
    merge_extra(&mut body, &request.extra);
    resolve_conflicts(facts, request, &mut body);
    let mut prefix = Prefix::new(is_bound, body.get("system"), body.get("tools"));
    let left_out = LeftOut::of(request);
    let messages = messages(request, in_place, &left_out, &mut prefix)?;
    changes.extend(prefix.changes());
    changes.extend(left_out.change());
    let mut built = Built { changes, prefix: is_bound.then(|| prefix.hash()), ..Built::default() };
    let samples = ["temperature", "top_p", "top_k"].iter().any(|name| body.contains_key(*name));
    built.headers.push(("anthropic-version", if samples { VERSION_WITH_SAMPLING } else { VERSION }.to_owned()));
    let binds = body.get("thinking").is_some_and(|thinking| thinking.get("block_binding").is_some());
    let adds = !request.tool_additions.is_empty();
    let betas: Vec<&str> = binds.then_some(BINDING_BETA).into_iter().chain(adds.then_some(ADDITIONS_BETA)).collect();
    if !betas.is_empty() {
        built.headers.push((BETAS, betas.join(",")));
    }
    built.body = body::bytes(request, &body, ("messages", messages));
    Ok(built)
}

/// One turn: roles alternate, and results of tools come first in a user's turn.
#[derive(Default)]
pub(super) struct Turn<'a> {
    assistant: bool,
    results: Vec<BorrowedValue<'a>>,
    blocks: Vec<BorrowedValue<'a>>,
    /// Instructions that came before or in a user's turn: they follow it.
    instructions: Vec<BorrowedValue<'a>>,
}

impl<'a> Turn<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.results.is_empty() && self.blocks.is_empty()
    }

    pub(super) fn role(&self) -> &'static str {
        if self.assistant { "assistant" } else { "user" }
    }

    pub(super) fn content(&self) -> impl Iterator<Item = &BorrowedValue<'a>> {
        self.results.iter().chain(&self.blocks)
    }
}

/// A message as it is sent: its role and its content.
type Sent<'a> = (&'static str, Vec<BorrowedValue<'a>>);

fn messages<'a>(
    request: &'a Request,
    in_place: bool,
    left_out: &LeftOut,
    prefix: &mut Prefix,
) -> Result<Vec<BorrowedValue<'a>>, LlmError> {
    let mut out: Vec<Sent<'a>> = Vec::new();
    let mut open: Option<Turn<'a>> = None;
    let mut is_leading = true;
    // Instructions after an answer wait for the user's turn that they follow.
    let mut waiting: Vec<BorrowedValue<'a>> = Vec::new();
    // A conversation begins with the user.
    let mut kept = request.messages.iter().enumerate().filter(|(i, _)| !left_out.holds(*i));
    let first = kept.find(|(_, message)| message.role != Role::System);
    if first.is_some_and(|(_, message)| message.role == Role::Assistant) {
        let blocks = vec![object!({ "type": "text", "text": draft::LEFT_OUT })];
        open = Some(Turn { blocks, ..Turn::default() });
    }
    for (i, message) in request.messages.iter().enumerate() {
        let added = || request.tools_added_after(i + 1).map(addition);
        if left_out.holds(i) {
            waiting.extend(added());
            continue;
        }
        if message.role == Role::System {
            let said = (in_place && !is_leading).then(|| text_block(draft::instructions(request, message)));
            let blocks = said.flatten().into_iter().chain(added());
            match &mut open {
                Some(turn) if !turn.assistant => turn.instructions.extend(blocks),
                _ => waiting.extend(blocks),
            }
            continue;
        }
        is_leading = false;
        let assistant = message.role == Role::Assistant;
        if open.as_ref().is_some_and(|turn| turn.assistant != assistant)
            && let Some(turn) = open.take()
        {
            close(turn, &mut out, prefix);
        }
        // The thoughts of an answer depend on what is sent before it. Answers in a row are one turn of the first one.
        let takes_thoughts = !assistant || prefix.takes_thoughts(message, open.as_ref());
        let turn = open.get_or_insert_with(|| Turn { assistant, ..Turn::default() });
        let n_before = (turn.results.len(), turn.blocks.len());
        for part in &message.content {
            match part {
                Part::ToolResult(result) => turn.results.push(tool_result(result)),
                Part::Reasoning(_) if !takes_thoughts => {}
                part => turn.blocks.extend(if assistant { answer_block(part) } else { block(part) }),
            }
        }
        if message.role == Role::User && n_before == (turn.results.len(), turn.blocks.len()) {
            let why = format!("messages[{i}]: the user message has no text, and Anthropic refuses empty messages");
            return Err(LlmError::new(ErrorKind::InvalidRequest, NAME, why));
        }
        if assistant {
            waiting.extend(added());
        } else {
            turn.instructions.append(&mut waiting);
            turn.instructions.extend(added());
        }
    }
    if let Some(turn) = open {
        close(turn, &mut out, prefix);
    }
    // Without a user's turn after them, they end the conversation.
    if !waiting.is_empty() && out.last().is_some_and(|(role, _)| *role == "user") {
        push_instructions(waiting, &mut out, prefix);
    }
    trim_prefill(&mut out);
    Ok(out.into_iter().map(|(role, content)| object!({ "role": role, "content": content })).collect())
}

/// Adds a turn to the messages. A turn without anything in it is refused; without it, its neighbours are one turn.
fn close<'a>(turn: Turn<'a>, out: &mut Vec<Sent<'a>>, prefix: &mut Prefix) {
    if !turn.is_empty() {
        let role = turn.role();
        prefix.add(role, turn.content());
        let content = turn.results.into_iter().chain(turn.blocks);
        match out.last_mut().filter(|(last, _)| *last == role) {
            Some((_, known)) => known.extend(content),
            None => out.push((role, content.collect())),
        }
    }
    push_instructions(turn.instructions, out, prefix);
}

/// Instructions after a user's turn.
/// <https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages>
fn push_instructions<'a>(blocks: Vec<BorrowedValue<'a>>, out: &mut Vec<Sent<'a>>, prefix: &mut Prefix) {
    if !blocks.is_empty() {
        prefix.add("system", &blocks);
        out.push(("system", blocks));
    }
}

/// A conversation may end with the beginning of the answer, but not with a blank.
fn trim_prefill(messages: &mut [Sent<'_>]) {
    let Some(("assistant", content)) = messages.last_mut() else { return };
    let text = content.last_mut().and_then(BorrowedValue::as_object_mut).and_then(|block| block.get_mut("text"));
    if let Some(BorrowedValue::String(text)) = text {
        let kept = text.trim_end().len();
        if kept > 0 {
            text.to_mut().truncate(kept);
        }
    }
}

fn block(part: &Part) -> Option<BorrowedValue<'_>> {
    match part {
        Part::Text { text, .. } | Part::Refusal { text } => text_block(text),
        Part::Image(media) => Some(object!({ "type": "image", "source": source(media, "image/png")? })),
        Part::Document(media) => Some(object!({ "type": "document", "source": source(media, "application/pdf")? })),
        Part::Opaque { provider, data } | Part::ProviderTool(ProviderTool { provider, data, .. })
            if provider == NAME =>
        {
            Some((&*data.0).into())
        }
        Part::Reasoning(_)
        | Part::ToolCall(_)
        | Part::ToolResult(_)
        | Part::Opaque { .. }
        | Part::ProviderTool(_)
        | Part::Audio(_) => None,
    }
}

/// A text with the citations that it came with: all of an answer goes back. In other turns they are refused.
fn cited_text<'a>(text: &'a str, annotations: &'a [Annotation]) -> Option<BorrowedValue<'a>> {
    let mut block = text_block(text)?;
    let own = annotations.iter().filter(|annotation| annotation.provider.as_deref() == Some(NAME));
    let citations: Vec<_> = own.filter_map(|annotation| citation(&annotation.data.as_ref()?.0)).collect();
    if let Some(fields) = block.as_object_mut().filter(|_| !citations.is_empty()) {
        fields.insert("citations", citations);
    }
    Some(block)
}

/// A citation as a request takes it: without the id of the file, which only answers have.
fn citation(citation: &Value) -> Option<BorrowedValue<'_>> {
    let mut citation = BorrowedValue::from(citation);
    citation.as_object_mut()?.remove("file_id");
    Some(citation)
}

fn answer_block(part: &Part) -> Option<BorrowedValue<'_>> {
    match part {
        Part::Text { text, annotations, .. } => cited_text(text, annotations),
        Part::Reasoning(thought) => thinking(thought),
        Part::ToolCall(call) => Some(object!({
            "type": "tool_use",
            "id": tool_id(&call.id),
            "name": &call.name,
            "input": draft::arguments_object(call),
        })),
        // A model's own pictures cannot go back.
        Part::Image(_) | Part::Document(_) => None,
        part => block(part),
    }
}

/// A text of nothing but blanks is refused, so it is left out everywhere. What the model wrote before its calls is
/// no exception: the signatures of its thoughts hold without it.
fn text_block<'a>(text: impl Into<Cow<'a, str>>) -> Option<BorrowedValue<'a>> {
    let text = text.into();
    (!is_blank(&text)).then(|| object!({ "type": "text", "text": text }))
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Thoughts go back with their signature, unchanged, or not at all: thoughts of another provider have none that
/// holds here.
pub(super) fn thinking(thought: &Reasoning) -> Option<BorrowedValue<'_>> {
    if thought.provider.as_deref().is_some_and(|provider| provider != NAME) {
        return None;
    }
    if let Some(signature) = thought.signature.as_deref().filter(|s| !s.is_empty()) {
        let text = thought.text.as_deref().unwrap_or_default();
        return Some(object!({ "type": "thinking", "thinking": text, "signature": signature }));
    }
    // An item with an id is of OpenAI's kind.
    let data = thought.encrypted.as_deref().filter(|_| thought.id.is_none())?;
    Some(object!({ "type": "redacted_thinking", "data": data }))
}

fn tool_result(result: &ToolResult) -> BorrowedValue<'_> {
    let mut out = Fields::default();
    out.insert("type", "tool_result");
    out.insert("tool_use_id", tool_id(&result.tool_call_id));
    let blocks: Vec<_> = result.content.iter().filter_map(block).collect();
    match (blocks.as_slice(), result.content.as_slice()) {
        ([], _) => {}
        ([_], [Part::Text { text, .. }]) => out.insert("content", text),
        _ => out.insert("content", blocks),
    }
    if result.is_error {
        out.insert("is_error", true);
    }
    out.into()
}

/// Ids of other providers may hold what is refused here; call and result change alike.
fn tool_id(id: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    id.chars().map(|c| if plain(c) { c } else { '_' }).collect()
}

fn source<'a>(media: &'a Media, default_type: &'a str) -> Option<BorrowedValue<'a>> {
    let media_type = draft::media_type(media, default_type);
    match (&media.data, &media.url) {
        (Some(data), _) if media_type.starts_with("text/") => {
            // What is no base64 was text to begin with.
            let text = match data_encoding::BASE64.decode(data.as_bytes()) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(_) => data.to_string(),
            };
            Some(object!({ "type": "text", "media_type": "text/plain", "data": text }))
        }
        (Some(data), _) => Some(object!({ "type": "base64", "media_type": media_type, "data": &**data })),
        (None, Some(url)) => Some(object!({ "type": "url", "url": url })),
        (None, None) => None,
    }
}

fn tool(tool: &ToolSpec) -> Value {
    let mut out = Map::new();
    out.insert("name".into(), tool.name.as_str().into());
    if let Some(description) = &tool.description {
        out.insert("description".into(), description.as_str().into());
    }
    out.insert("input_schema".into(), draft::schema(&tool.parameters));
    Value::Object(out)
}

fn addition(spec: &ToolSpec) -> BorrowedValue<'_> {
    json!({ "type": "tool_addition", "tool": { "type": "tool_definition", "definition": tool(spec) } }).into()
}

/// The tools that the conversation used, if the request declares none, because it is rejected otherwise.
fn used_tools(request: &Request) -> Vec<Value> {
    let used: BTreeSet<&str> =
        request.messages.iter().flat_map(|message| message.tool_calls()).map(|call| call.name.as_str()).collect();
    used.iter().map(|name| json!({ "name": name, "input_schema": { "type": "object" } })).collect()
}

/// Which tools may be used. Tools are never removed for one call: that would be another conversation.
fn choice(request: &Request, body: &mut Map<String, Value>) {
    if !body.contains_key("tools") && !request.has_tools() {
        return;
    }
    let one_by_one = request.parallel_tool_calls == Some(false);
    let choice = match &request.tool_choice {
        _ if !request.has_usable_tools() => Some(json!({ "type": "none" })),
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

/// Whether the request turns thinking off.
fn is_off(facts: &ModelFacts, request: &Request) -> bool {
    let reasoning = request.reasoning.as_ref();
    let is_none = reasoning.is_some_and(|r| r.effort.as_deref() == Some("none") || r.budget_tokens == Some(0));
    is_none && (facts.thinking != Some(Thinking::Always) || facts.thinking_off.is_some())
}

/// How the model thinks.
fn thinking_config(facts: &ModelFacts, request: &Request) -> Option<Value> {
    let reasoning = request.reasoning.as_ref();
    let budget = reasoning.and_then(|r| r.budget_tokens).filter(|budget| *budget > 0);
    let effort = reasoning.and_then(|r| r.effort.as_deref());
    let shown =
        reasoning.and_then(|r| r.summary.as_deref()).map(|s| if s == "none" { "omitted" } else { "summarized" });
    let is_adaptive = matches!(facts.thinking, Some(Thinking::Adaptive | Thinking::Always));
    let budget = budget.filter(|_| facts.takes_budget());
    let max_tokens = request.extra.get("max_tokens").and_then(Value::as_u64).or(request.max_tokens);
    if is_off(facts, request) {
        let off = facts.thinking_off.as_deref().unwrap_or("disabled");
        return (is_adaptive || facts.thinking_off.is_some()).then(|| json!({ "type": off }));
    }
    if is_adaptive && budget.is_none() {
        let is_bound = facts.bound_thinking == Some(true);
        let asks = effort.is_some() && facts.thinks_by_default != Some(true);
        let forces = matches!(request.tool_choice, Some(ToolChoice::Required | ToolChoice::Tool(_)));
        // A forced tool turns thinking off by itself, and refuses a request that says anything of it.
        if shown.is_none() && !asks && (!is_bound || forces) {
            return None;
        }
        let mut thinking = json!({ "type": "adaptive" });
        if let Some(shown) = shown {
            thinking["display"] = shown.into();
        }
        if is_bound {
            // The second net: what does not fit all the same is dropped there, and reported.
            thinking["block_binding"] = json!({ "prefix_mismatch_behavior": "drop_block" });
        }
        return Some(thinking);
    }
    if facts.thinking == Some(Thinking::None) {
        return None;
    }
    // Older models think by a budget; words for the effort become one, within the longest answer.
    let budget = budget.or_else(|| {
        let budget = match effort? {
            "none" | "minimal" => return None,
            "low" => 2_048,
            "medium" => 8_192,
            _ => 16_384,
        };
        match max_tokens {
            Some(max) if max <= BUDGET_MIN => None,
            Some(max) => Some(budget.min(i64::try_from(BUDGET_MIN.max(max / 2)).unwrap_or(i64::MAX))),
            None => Some(budget),
        }
    })?;
    Some(json!({ "type": "enabled", "budget_tokens": budget }))
}

/// Says that an effort has no room to think.
fn no_room(facts: &ModelFacts, request: &Request, thinking: Option<&Value>) -> Option<RequestChange> {
    let reasoning = request.reasoning.as_ref().filter(|reasoning| reasoning.budget_tokens.is_none());
    let effort = reasoning?.effort.as_deref()?;
    let is_by_budget = !matches!(facts.thinking, Some(Thinking::Adaptive | Thinking::Always | Thinking::None));
    let asks = is_by_budget && !matches!(effort, "none" | "minimal") && thinking.is_none();
    asks.then(|| {
        let why = format!("`{}` thinks in {BUDGET_MIN} tokens or more: raise `max_tokens` above that", request.model);
        RequestChange::new("reasoning.effort", why)
    })
}

/// `seed` is unknown here and left out, as is JSON without a schema. Returns what else is left out.
fn parameters(facts: &ModelFacts, request: &Request, body: &mut Map<String, Value>) -> Vec<RequestChange> {
    let thinking = thinking_config(facts, request);
    let changes = no_room(facts, request, thinking.as_ref()).into_iter().collect();
    let budget = thinking.as_ref().and_then(|t| t["budget_tokens"].as_u64()).unwrap_or(0);
    let default = if budget > 0 { beside_thoughts(facts, budget) } else { longest(facts) };
    body.insert("max_tokens".into(), request.max_tokens.unwrap_or(default).into());
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(key.into(), value);
        }
    };
    put("thinking", thinking);
    put("temperature", request.temperature.filter(|_| !is_dropped(facts, request.temperature)).map(Value::from));
    put("top_p", request.top_p.filter(|_| !is_dropped(facts, request.top_p)).map(Value::from));
    put("top_k", request.top_k.map(Value::from));
    put("stop_sequences", (!request.stop.is_empty()).then(|| request.stop.clone().into()));
    put("service_tier", request.service_tier.as_deref().map(Value::from));
    let mut output = Map::new();
    if let Some(ResponseFormat::JsonSchema { schema, strict, .. }) = &request.response_format
        && let Some(schema) = if strict.is_some() { Some(schema.clone()) } else { subset::ANTHROPIC.of(schema) }
    {
        output.insert("format".into(), json!({ "type": "json_schema", "schema": schema }));
    }
    let effort = request.reasoning.as_ref().and_then(|r| r.effort.as_deref());
    if let Some(effort) = effort.filter(|effort| *effort != "none" && facts.efforts.is_some()) {
        let effort = if effort == "minimal" { "low" } else { effort };
        output.insert("effort".into(), effort.into());
    }
    put("output_config", (!output.is_empty()).then_some(Value::Object(output)));
    changes
}

/// A default value says nothing, and newer models refuse even that.
fn is_dropped(facts: &ModelFacts, value: Option<f64>) -> bool {
    let is_default = value.is_some_and(|value| (value - 1.0).abs() < f64::EPSILON);
    is_default && facts.sampling == Some(crate::models::Sampling::Never)
}

/// The longest answer with thoughts of so many tokens, which are part of it.
fn beside_thoughts(facts: &ModelFacts, budget: u64) -> u64 {
    budget.saturating_add(BESIDE_THOUGHTS).min(facts.output.unwrap_or(u64::MAX))
}

fn longest(facts: &ModelFacts) -> u64 {
    facts.output.map_or(MAX_TOKENS_UNKNOWN, |max| max.min(MAX_TOKENS))
}

/// Resolves settings that exclude each other, once all are set.
fn resolve_conflicts(facts: &ModelFacts, request: &Request, body: &mut Map<String, Value>) {
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
        body.insert("max_tokens".into(), beside_thoughts(facts, budget).into());
    }
}
