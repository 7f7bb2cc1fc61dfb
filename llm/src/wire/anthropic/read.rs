//! A Messages answer in neutral words.

use rethread_events::json::Json;
use rethread_events::json_text;
use rethread_events::message::{
    Annotation, FinishReason, Part, ProviderTool, ProviderToolStep, Reasoning, SourceKind, ToolCall, Usage,
};
use serde_json::{Map, Value};

use super::{NAME, refusals};
use crate::error::LlmError;
use crate::response::Response;
use crate::wire::draft::{self, Details};
use crate::wire::{AnswerContext, json};

/// Reads a whole answer.
pub(super) fn answer(body: &Value, cx: AnswerContext) -> Result<Response, LlmError> {
    let Some(blocks) = body.get("content").and_then(Value::as_array) else {
        return Err(
            cx.malformed(format!("the answer has no content: {}", crate::error::excerpt(&body.to_string(), 300)))
        );
    };
    let mut envelope = Envelope::default();
    envelope.add(body);
    Ok(envelope.respond(blocks.iter().map(part_of_answer).collect(), cx))
}

/// What an answer says besides its content.
#[derive(Debug, Default)]
pub(super) struct Envelope {
    id: Option<String>,
    model: Option<String>,
    stop_reason: Option<String>,
    service_tier: Option<String>,
    speed: Option<String>,
    inference_geo: Option<String>,
    figures: Figures,
    details: Details,
}

impl Envelope {
    /// Takes a message, or the part of one that an event holds. The last word counts.
    pub(super) fn add(&mut self, message: &Value) {
        let put = |known: &mut Option<String>, value: &Value, key: &str| {
            if let Some(word) = json::filled(value, key) {
                *known = Some(word.to_owned());
            }
        };
        put(&mut self.id, message, "id");
        put(&mut self.model, message, "model");
        put(&mut self.stop_reason, message, "stop_reason");
        let figures = json::object(message, "usage");
        put(&mut self.service_tier, figures, "service_tier");
        // <https://platform.claude.com/docs/en/build-with-claude/fast-mode>
        put(&mut self.speed, figures, "speed");
        // <https://platform.claude.com/docs/en/manage-claude/data-residency>
        put(&mut self.inference_geo, figures, "inference_geo");
        self.figures.add(figures);
        for name in ["stop_sequence", "container", "context_management", "input_transformations", "diagnostics"] {
            self.details.put(name, message.get(name));
        }
        let stop = json::object(message, "stop_details");
        let name = if json::text(stop, "type") == Some("refusal") { "refusal" } else { "stop_details" };
        self.details.put(name, Some(stop));
    }

    /// Returns the figures so far, of all calls of models together.
    pub(super) fn usage(&self) -> Usage {
        sum(&self.figures.clone().calls())
    }

    /// Puts an answer together, whole or streamed.
    pub(super) fn respond(self, mut content: Vec<Part>, cx: AnswerContext) -> Response {
        let has_calls = content.iter().any(|part| matches!(part, Part::ToolCall(_)));
        let finish = match self.stop_reason.as_deref() {
            Some("tool_use") => FinishReason::ToolCalls,
            Some("end_turn" | "stop_sequence") | None if has_calls => FinishReason::ToolCalls,
            Some("end_turn" | "stop_sequence") | None => FinishReason::Stop,
            Some("max_tokens" | "model_context_window_exceeded") => FinishReason::Length,
            Some("refusal") => FinishReason::Refusal,
            // The next request goes on after a summary, as it does after a pause.
            // <https://platform.claude.com/docs/en/build-with-claude/compaction>
            Some("pause_turn" | "compaction") => FinishReason::Pause,
            Some(_) => FinishReason::Other,
        };
        if finish == FinishReason::Refusal {
            content.push(refusals::mark());
        }
        let calls = self.figures.calls();
        let usage = sum(&calls);
        Response {
            calls: if calls.len() > 1 { calls } else { Vec::new() },
            service_tier: self.service_tier,
            speed: self.speed,
            inference_geo: self.inference_geo,
            details: self.details.json(),
            ..draft::response(content, (finish, self.stop_reason), usage, self.model, self.id, cx)
        }
    }
}

/// Reads a block of a whole answer.
pub(crate) fn part_of_answer(block: &Value) -> Part {
    part(block, None)
}

/// Reads a block. `input` is the text of a tool's input, where it came in pieces.
pub(super) fn part(block: &Value, input: Option<&str>) -> Part {
    match json::text(block, "type") {
        Some("text") => Part::Text {
            text: json::owned(block, "text").unwrap_or_default(),
            signature: None,
            annotations: json::list(block, "citations").iter().map(annotation).collect(),
        },
        Some("thinking") => Part::Reasoning(Reasoning {
            text: json::owned(block, "thinking"),
            signature: json::filled(block, "signature").map(str::to_owned),
            provider: Some(NAME.into()),
            ..Reasoning::default()
        }),
        Some("redacted_thinking") => Part::Reasoning(Reasoning {
            encrypted: json::owned(block, "data"),
            redacted: true,
            provider: Some(NAME.into()),
            ..Reasoning::default()
        }),
        Some("tool_use") => Part::ToolCall(tool_call(block, input)),
        kind => {
            let data = Json::from(with_input(block, input));
            match kind.and_then(|kind| provider_tool(kind, block)) {
                Some((step, id, name)) => {
                    let (id, name) = (json::owned(block, id), name.to_owned());
                    Part::ProviderTool(ProviderTool { provider: NAME.into(), step, id, name, data })
                }
                None => Part::Opaque { provider: NAME.into(), data },
            }
        }
    }
}

/// What of a call of a provider's tool a block holds, the field with the id of the call, and the name of the tool.
fn provider_tool<'a>(kind: &'a str, block: &'a Value) -> Option<(ProviderToolStep, &'static str, &'a str)> {
    match kind {
        "server_tool_use" | "mcp_tool_use" => {
            Some((ProviderToolStep::Call, "id", json::filled(block, "name").unwrap_or(kind)))
        }
        kind => Some((ProviderToolStep::Result, "tool_use_id", kind.strip_suffix("_tool_result")?)),
    }
}

/// Reads a citation. Its positions are those in the source; it is about the whole text that has it.
/// <https://platform.claude.com/docs/en/build-with-claude/citations>
fn annotation(citation: &Value) -> Annotation {
    let title = json::filled(citation, "document_title").or_else(|| json::filled(citation, "title"));
    let index = || Some(json::count(citation, "document_index")?.to_string());
    let (kind, url, document) = match json::text(citation, "type") {
        Some("search_result_location") => (SourceKind::SearchResult, json::owned(citation, "source"), None),
        _ => match json::owned(citation, "url") {
            Some(url) => (SourceKind::Url, Some(url), None),
            None => (SourceKind::Document, None, json::owned(citation, "file_id").or_else(index)),
        },
    };
    Annotation {
        url,
        document,
        title: title.map(str::to_owned),
        quote: json::owned(citation, "cited_text"),
        provider: Some(NAME.into()),
        data: Some(citation.clone().into()),
        ..Annotation::new(kind)
    }
}

fn tool_call(block: &Value, input: Option<&str>) -> ToolCall {
    let id = json::owned(block, "id").unwrap_or_default();
    let name = json::owned(block, "name").unwrap_or_default();
    match input.filter(|text| !text.trim().is_empty()) {
        Some(text) => draft::tool_call(id, name, text),
        None => {
            let arguments = match block.get("input") {
                None | Some(Value::Null) => Value::Object(Map::new()),
                Some(input) => input.clone(),
            };
            ToolCall { id, name, arguments: Json::from(arguments), arguments_raw: None, signature: None }
        }
    }
}

/// A block of the provider's own tools, with its input in place.
fn with_input(block: &Value, input: Option<&str>) -> Value {
    let mut block = block.clone();
    if let Some(input) = input.and_then(|text| json_text::read::<Value>(text.as_bytes()).ok())
        && let Some(fields) = block.as_object_mut()
    {
        fields.insert("input".into(), input);
    }
    block
}

fn sum(calls: &[Usage]) -> Usage {
    calls.iter().fold(Usage::default(), |mut sum, call| {
        sum.add(call);
        sum
    })
}

/// The figures as Anthropic reports them.
#[derive(Debug, Clone, Default)]
struct Figures {
    /// Those of the answer.
    own: Usage,
    /// Those of its steps, each of which is a call of a model.
    steps: Vec<Usage>,
    /// Those of steps that the answer's own leave out.
    beside: Vec<Usage>,
}

impl Figures {
    /// Figures are cumulative: what is stated replaces what was known.
    fn add(&mut self, figures: &Value) {
        add_stated(&mut self.own, figures);
        if let Some(steps) = figures.get("iterations").and_then(Value::as_array) {
            let stated = |step: &Value| {
                let mut usage = Usage::default();
                add_stated(&mut usage, step);
                neutral(usage)
            };
            let (beside, own): (Vec<&Value>, Vec<&Value>) = steps.iter().partition(|step| is_beside(step));
            self.beside = beside.into_iter().map(stated).collect();
            self.steps = own.into_iter().map(stated).collect();
        }
    }

    /// The figures of each call of a model.
    fn calls(self) -> Vec<Usage> {
        let own = neutral(self.own);
        let mut sum = Usage { n_searches: own.n_searches, ..Usage::default() };
        self.steps.iter().for_each(|step| sum.add(step));
        // Only figures that add up tell the steps apart.
        let mut calls = if sum == own { self.steps } else { vec![own] };
        if let Some(first) = calls.first_mut() {
            first.n_searches = own.n_searches;
        }
        calls.extend(self.beside);
        calls
    }
}

/// Whether the figures of a step are missing from those of the answer.
/// <https://platform.claude.com/docs/en/build-with-claude/compaction>
fn is_beside(step: &Value) -> bool {
    matches!(json::text(step, "type"), Some("compaction" | "advisor_message"))
}

/// Adds figures in Anthropic's sense: tokens read from and written to its cache are not part of the input.
fn add_stated(usage: &mut Usage, figures: &Value) {
    let put = |known: &mut Option<u64>, new: Option<u64>| *known = new.or(*known);
    put(&mut usage.input_tokens, json::count(figures, "input_tokens"));
    put(&mut usage.output_tokens, json::count(figures, "output_tokens"));
    put(&mut usage.cached_input_tokens, json::count(figures, "cache_read_input_tokens"));
    let written = json::object(figures, "cache_creation");
    let (short, long) =
        (json::count(written, "ephemeral_5m_input_tokens"), json::positive(written, "ephemeral_1h_input_tokens"));
    let sum = short.or(long).map(|_| short.unwrap_or(0).saturating_add(long.unwrap_or(0)));
    put(&mut usage.cache_write_tokens, json::count(figures, "cache_creation_input_tokens").or(sum));
    put(&mut usage.cache_write_long_tokens, long);
    put(&mut usage.reasoning_tokens, json::count(json::object(figures, "output_tokens_details"), "thinking_tokens"));
    put(&mut usage.n_searches, json::positive(json::object(figures, "server_tool_use"), "web_search_requests"));
}

/// The neutral figures: the input is the whole prompt, its cached part included, as with every other provider.
fn neutral(usage: Usage) -> Usage {
    let cache = [usage.cached_input_tokens, usage.cache_write_tokens].into_iter().flatten();
    let input_tokens = usage.input_tokens.map(|input| cache.fold(input, u64::saturating_add));
    let total_tokens = input_tokens.zip(usage.output_tokens).map(|(input, output)| input.saturating_add(output));
    Usage { input_tokens, total_tokens, ..usage }
}
