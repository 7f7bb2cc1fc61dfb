//! A Messages answer in neutral words.

use rethread_events::json::Json;
use rethread_events::message::{FinishReason, Part, Reasoning, ToolCall, Usage};
use serde_json::{Map, Value};

use super::NAME;
use crate::error::LlmError;
use crate::response::Response;
use crate::wire::{AnswerContext, draft, json};

/// Reads a whole answer.
pub(super) fn answer(body: &Value, cx: AnswerContext) -> Result<Response, LlmError> {
    let Some(blocks) = body.get("content").and_then(Value::as_array) else {
        return Err(
            cx.malformed(format!("the answer has no content: {}", crate::error::excerpt(&body.to_string(), 300)))
        );
    };
    let content = blocks.iter().map(part_of_answer).collect();
    let mut figures = Figures::default();
    figures.add(json::object(body, "usage"));
    Ok(respond(
        content,
        json::text(body, "stop_reason"),
        figures.usage(),
        json::owned(body, "model"),
        json::owned(body, "id"),
        cx,
    ))
}

/// Puts an answer together, whole or streamed.
pub(super) fn respond(
    content: Vec<Part>,
    stop_reason: Option<&str>,
    usage: Usage,
    model: Option<String>,
    id: Option<String>,
    cx: AnswerContext,
) -> Response {
    let has_calls = content.iter().any(|part| matches!(part, Part::ToolCall(_)));
    let finish = match stop_reason {
        Some("tool_use") => FinishReason::ToolCalls,
        Some("end_turn" | "stop_sequence") | None if has_calls => FinishReason::ToolCalls,
        Some("end_turn" | "stop_sequence") | None => FinishReason::Stop,
        Some("max_tokens" | "model_context_window_exceeded") => FinishReason::Length,
        Some("refusal") => FinishReason::Refusal,
        Some("pause_turn") => FinishReason::Pause,
        Some(_) => FinishReason::Other,
    };
    let raw = stop_reason.map(str::to_owned);
    draft::response(content, (finish, raw), usage, model, id, cx)
}

/// Reads a block of a whole answer.
pub(crate) fn part_of_answer(block: &Value) -> Part {
    part(block, None)
}

/// Reads a block. `input` is the text of a tool's input, where it came in pieces.
pub(super) fn part(block: &Value, input: Option<&str>) -> Part {
    match json::text(block, "type") {
        Some("text") => Part::text(json::text(block, "text").unwrap_or_default()),
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
        _ => Part::Opaque { provider: NAME.into(), data: Json::from(with_input(block, input)) },
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
    if let Some(input) = input.and_then(|text| serde_json::from_str::<Value>(text).ok())
        && let Some(fields) = block.as_object_mut()
    {
        fields.insert("input".into(), input);
    }
    block
}

/// The figures as Anthropic reports them: tokens read from and written to its cache are not part of the input.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures(Usage);

impl Figures {
    /// Figures are cumulative: what is stated replaces what was known.
    pub(super) fn add(&mut self, figures: &Value) {
        let put = |known: &mut Option<u64>, new: Option<u64>| *known = new.or(*known);
        let Self(usage) = self;
        put(&mut usage.input_tokens, json::count(figures, "input_tokens"));
        put(&mut usage.output_tokens, json::count(figures, "output_tokens"));
        put(&mut usage.cached_input_tokens, json::count(figures, "cache_read_input_tokens"));
        put(&mut usage.cache_write_tokens, json::count(figures, "cache_creation_input_tokens"));
        let details = json::object(figures, "output_tokens_details");
        put(&mut usage.reasoning_tokens, json::count(details, "thinking_tokens"));
    }

    /// The neutral figures: the input is the whole prompt, its cached part included, as with every other provider.
    pub(super) fn usage(self) -> Usage {
        let Self(usage) = self;
        let cache = [usage.cached_input_tokens, usage.cache_write_tokens].into_iter().flatten();
        let input_tokens = usage.input_tokens.map(|input| cache.fold(input, u64::saturating_add));
        let total_tokens = input_tokens.zip(usage.output_tokens).map(|(input, output)| input.saturating_add(output));
        Usage { input_tokens, total_tokens, ..usage }
    }
}
