//! A Chat Completions answer in neutral words. The whole answer and the pieces of a stream fill the same
//! [`Answer`], so both read alike.

use rethread_events::message::{FinishReason, Part, Reasoning, Usage};
use serde_json::{Map, Value};

use crate::error::LlmError;
use crate::response::Response;
use crate::wire::{AnswerContext, draft, json};

/// One tool call, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) index: Option<u64>,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) signature: Option<String>,
}

/// An answer, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) finish: Option<String>,
    pub(super) usage: Usage,
    pub(super) text: String,
    pub(super) text_signature: Option<String>,
    pub(super) refusal: String,
    pub(super) reasoning: String,
    pub(super) details: Vec<Value>,
    pub(super) calls: Vec<Call>,
    pub(super) audio: Option<Value>,
}

/// Reads a whole answer.
pub(super) fn answer(body: &Value, cx: AnswerContext) -> Result<Response, LlmError> {
    let Some(choice) = first_choice(body) else {
        return Err(
            cx.malformed(format!("the answer has no choices: {}", crate::error::excerpt(&body.to_string(), 300)))
        );
    };
    let mut answer = Answer::default();
    answer.envelope(body);
    answer.finish = json::owned(choice, "finish_reason");
    let message = json::object(choice, "message");
    answer.content(message, &mut |_| {});
    for call in json::list(message, "tool_calls") {
        let mut known = Call::default();
        fill_call(&mut known, call);
        answer.calls.push(known);
    }
    if answer.calls.is_empty() {
        answer.legacy_call(message);
    }
    Ok(answer.response(cx))
}

/// The choice of index 0, or the first.
pub(super) fn first_choice(body: &Value) -> Option<&Value> {
    let choices = json::list(body, "choices");
    choices.iter().find(|c| json::count(c, "index") == Some(0)).or_else(|| choices.first())
}

/// A piece of the visible answer.
pub(super) enum Piece<'a> {
    Text(&'a str),
    Reasoning(&'a str),
    Refusal(&'a str),
}

impl Answer {
    /// Id, model and usage; the last figures win.
    pub(super) fn envelope(&mut self, body: &Value) {
        if let Some(id) = json::filled(body, "id") {
            self.id = Some(id.to_owned());
        }
        if let Some(model) = json::filled(body, "model") {
            self.model = Some(model.to_owned());
        }
        if let Some(figures) = body.get("usage").filter(|u| u.is_object()) {
            self.usage = usage(figures);
        }
    }

    /// Text, refusal and reasoning of a message or delta.
    pub(super) fn content(&mut self, message: &Value, each: &mut dyn FnMut(Piece<'_>)) {
        match message.get("reasoning_content").or_else(|| message.get("reasoning")) {
            Some(Value::String(text)) if !text.is_empty() => {
                self.reasoning.push_str(text);
                each(Piece::Reasoning(text));
                self.details(message, None);
            }
            _ => match json::filled(message, "reasoning") {
                Some(text) => {
                    self.reasoning.push_str(text);
                    each(Piece::Reasoning(text));
                    self.details(message, None);
                }
                None => self.details(message, Some(each)),
            },
        }
        match message.get("content") {
            Some(Value::String(text)) if !text.is_empty() => {
                self.text.push_str(text);
                each(Piece::Text(text));
            }
            // Some vendors send a list of parts, thoughts among them.
            Some(Value::Array(parts)) => {
                for part in parts {
                    self.part(part, each);
                }
            }
            _ => {}
        }
        if let Some(text) = json::filled(message, "refusal") {
            self.refusal.push_str(text);
            each(Piece::Refusal(text));
        }
        if let Some(signature) = google_signature(message) {
            self.text_signature = Some(signature.to_owned());
        }
        if let Some(audio) = message.get("audio").filter(|a| a.get("id").is_some()) {
            self.audio = Some(serde_json::json!({ "id": audio["id"] }));
        }
    }

    fn part(&mut self, part: &Value, each: &mut dyn FnMut(Piece<'_>)) {
        if let Some(text) = json::filled(part, "text") {
            self.text.push_str(text);
            each(Piece::Text(text));
        } else if let Some(text) = json::filled(part, "refusal") {
            self.refusal.push_str(text);
            each(Piece::Refusal(text));
        } else if let Some(thought) = part.get("thinking") {
            let inner = thought.as_array().map_or(&[][..], Vec::as_slice);
            let texts = inner.iter().filter_map(|t| json::filled(t, "text"));
            for text in texts.chain(thought.as_str()) {
                self.reasoning.push_str(text);
                each(Piece::Reasoning(text));
            }
        }
    }

    /// `reasoning_details`: kept for the next request; their text counts if no other field contained it (`each` given).
    fn details(&mut self, message: &Value, mut each: Option<&mut dyn FnMut(Piece<'_>)>) {
        for detail in json::list(message, "reasoning_details") {
            if let Some(each) = &mut each
                && let Some(text) = json::filled(detail, "text").or_else(|| json::filled(detail, "summary"))
            {
                self.reasoning.push_str(text);
                each(Piece::Reasoning(text));
            }
            self.merge_detail(detail);
        }
    }

    /// Pieces of one detail share index and type: texts are appended, the rest replaced.
    fn merge_detail(&mut self, detail: &Value) {
        let same = self.details.iter_mut().find(|known| {
            known.get("index") == detail.get("index")
                && known.get("type") == detail.get("type")
                && detail.get("index").is_some()
        });
        let (Some(Value::Object(known)), Value::Object(new)) = (same, detail) else {
            self.details.push(detail.clone());
            return;
        };
        for (key, value) in new {
            match (known.get_mut(key), value) {
                (Some(Value::String(old)), Value::String(more))
                    if matches!(key.as_str(), "text" | "summary" | "data") =>
                {
                    old.push_str(more);
                }
                (_, Value::Null) => {}
                _ => {
                    known.insert(key.clone(), value.clone());
                }
            }
        }
    }

    /// `function_call`, which came before `tool_calls` and some servers still send.
    pub(super) fn legacy_call(&mut self, message: &Value) {
        let function = json::object(message, "function_call");
        if function.is_null() {
            return;
        }
        if self.calls.is_empty() {
            self.calls.push(Call::default());
        }
        if let Some(call) = self.calls.first_mut() {
            fill_function(call, function);
        }
    }

    /// The neutral answer.
    pub(super) fn response(self, cx: AnswerContext) -> Response {
        let mut content = Vec::new();
        let wants_details =
            self.details.iter().any(|d| ["signature", "data"].iter().any(|key| json::filled(d, key).is_some()));
        if !self.reasoning.is_empty() {
            content.push(Part::Reasoning(Reasoning {
                text: Some(self.reasoning),
                provider: Some(cx.provider.into()),
                ..Reasoning::default()
            }));
        }
        if !self.text.is_empty() || self.text_signature.is_some() {
            content.push(Part::Text { text: self.text, signature: self.text_signature, annotations: Vec::new() });
        }
        if !self.refusal.is_empty() {
            content.push(Part::Refusal { text: self.refusal });
        }
        let has_calls = !self.calls.is_empty();
        for call in self.calls {
            let mut neutral = draft::tool_call(call.id, call.name, &call.arguments);
            neutral.signature = call.signature;
            content.push(Part::ToolCall(neutral));
        }
        let mut fields = Map::new();
        if wants_details {
            fields.insert("reasoning_details".into(), self.details.into());
        }
        if let Some(audio) = self.audio {
            fields.insert("audio".into(), audio);
        }
        if !fields.is_empty() {
            content.push(Part::Opaque { provider: super::OPAQUE.into(), data: Value::Object(fields).into() });
        }
        let finish = finish_reason(self.finish.as_deref(), has_calls);
        draft::response(content, (finish, self.finish), self.usage, self.model, self.id, cx)
    }
}

/// Adds a piece of a call to what is known of it.
pub(super) fn fill_call(call: &mut Call, piece: &Value) {
    if call.id.is_empty()
        && let Some(id) = json::filled(piece, "id")
    {
        call.id = id.to_owned();
    }
    if let Some(signature) = google_signature(piece) {
        call.signature = Some(signature.to_owned());
    }
    let function = json::object(piece, "function");
    if function.is_null() {
        // A custom tool takes free text.
        let custom = json::object(piece, "custom");
        if call.name.is_empty()
            && let Some(name) = json::filled(custom, "name")
        {
            call.name = name.to_owned();
        }
        if let Some(input) = json::filled(custom, "input") {
            call.arguments.push_str(input);
        }
    } else {
        fill_function(call, function);
    }
}

fn fill_function(call: &mut Call, function: &Value) {
    // A name comes whole; some servers repeat it with every piece.
    if call.name.is_empty()
        && let Some(name) = json::filled(function, "name")
    {
        call.name = name.to_owned();
    }
    match function.get("arguments") {
        Some(Value::String(text)) => call.arguments.push_str(text),
        // Some servers send the object itself.
        Some(object @ Value::Object(_)) => call.arguments.push_str(&object.to_string()),
        _ => {}
    }
}

fn google_signature(value: &Value) -> Option<&str> {
    json::filled(value.get("extra_content")?.get("google")?, "thought_signature")
}

/// The figures under neutral names.
pub(super) fn usage(figures: &Value) -> Usage {
    let prompt = json::object(figures, "prompt_tokens_details");
    let completion = json::object(figures, "completion_tokens_details");
    Usage {
        input_tokens: json::count(figures, "prompt_tokens"),
        output_tokens: json::count(figures, "completion_tokens"),
        total_tokens: json::count(figures, "total_tokens"),
        cached_input_tokens: json::count(prompt, "cached_tokens")
            .or_else(|| json::count(figures, "prompt_cache_hit_tokens"))
            .or_else(|| json::count(figures, "cached_tokens")),
        cache_write_tokens: json::count(prompt, "cache_write_tokens")
            .or_else(|| json::count(prompt, "cache_creation_tokens")),
        reasoning_tokens: json::count(completion, "reasoning_tokens")
            .or_else(|| json::count(figures, "reasoning_tokens")),
        ..Usage::default()
    }
}

/// Decides by the calls: with a forced tool choice the word is `stop` although there are calls.
pub(super) fn finish_reason(word: Option<&str>, has_calls: bool) -> FinishReason {
    match word {
        Some("length" | "max_tokens" | "model_length") => FinishReason::Length,
        Some("content_filter" | "sensitive") => FinishReason::ContentFilter,
        Some("error" | "network_error") => FinishReason::Error,
        Some("stop" | "eos" | "end_turn" | "tool_calls" | "function_call" | "tool_use") | None if has_calls => {
            FinishReason::ToolCalls
        }
        Some("stop" | "eos" | "end_turn" | "stop_sequence" | "tool_calls" | "function_call") | None => {
            FinishReason::Stop
        }
        Some(_) => FinishReason::Other,
    }
}
