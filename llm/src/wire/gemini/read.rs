//! A Gemini answer in neutral words. A stream is a row of answers, each with a few more parts, so both read alike.

use rethread_events::json::Json;
use rethread_events::message::{FinishReason, Part, Reasoning, ToolCall, Usage};
use serde_json::{Map, Value};

use super::{NAME, partial};
use crate::client::{Delta, Listener};
use crate::error::LlmError;
use crate::response::Response;
use crate::wire::{AnswerContext, draft, fault, json};

/// An answer, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Answer {
    content: Vec<Part>,
    n_calls: usize,
    /// The calls whose arguments are still coming in, the one that began last at the end.
    open: Vec<OpenCall>,
    finish: Option<String>,
    blocked: Option<String>,
    usage: Usage,
    model: Option<String>,
    id: Option<String>,
    began: bool,
}

/// A call whose arguments are coming in.
#[derive(Debug)]
struct OpenCall {
    /// Its place in the content.
    place: usize,
    /// Its place among the calls.
    index: usize,
    arguments: Map<String, Value>,
}

/// Reads a whole answer.
pub(super) fn answer(body: &Value, cx: AnswerContext) -> Result<Response, LlmError> {
    let mut answer = Answer::default();
    answer.add(body, cx, &mut ())?;
    if !answer.began {
        return Err(
            cx.malformed(format!("the answer has no candidates: {}", crate::error::excerpt(&body.to_string(), 300)))
        );
    }
    Ok(answer.response(cx))
}

impl Answer {
    /// Whether the provider said that this was all.
    pub(super) fn ended(&self) -> bool {
        self.finish.is_some() || self.blocked.is_some()
    }

    /// Takes an answer or the next piece of one.
    pub(super) fn add(&mut self, body: &Value, cx: AnswerContext, listener: &mut dyn Listener) -> Result<(), LlmError> {
        if let Some(model) = json::filled(body, "modelVersion") {
            self.model = Some(model.to_owned());
        }
        if let Some(id) = json::filled(body, "responseId") {
            self.id = Some(id.to_owned());
        }
        if let Some(figures) = body.get("usageMetadata").filter(|u| u.is_object()) {
            add_usage(figures, &mut self.usage);
        }
        if let Some(reason) = json::filled(json::object(body, "promptFeedback"), "blockReason") {
            self.blocked = Some(reason.to_owned());
            self.began = true;
        }
        // With several candidates the first is the answer; in a stream it may be missing from a piece.
        let candidates = json::list(body, "candidates");
        self.began |= !candidates.is_empty();
        let candidate = candidates.iter().find(|c| json::count(c, "index").unwrap_or(0) == 0);
        let Some(candidate) = candidate else { return Ok(()) };
        for part in json::list(json::object(candidate, "content"), "parts") {
            self.part(part, listener).map_err(|why| cx.malformed(why))?;
        }
        if let Some(reason) = json::filled(candidate, "finishReason") {
            self.finish = Some(reason.to_owned());
        }
        Ok(())
    }

    fn part(&mut self, part: &Value, listener: &mut dyn Listener) -> Result<(), String> {
        let signature = json::filled(part, "thoughtSignature")
            .or_else(|| json::filled(part, "thought_signature"))
            .map(str::to_owned);
        let function = part.get("functionCall").or_else(|| part.get("function_call"));
        if let Some(function) = function.filter(|f| f.is_object()) {
            self.call(function, signature, listener)?;
        } else if let Some(text) = json::text(part, "text") {
            let thought = part.get("thought").and_then(Value::as_bool) == Some(true);
            if !text.is_empty() && listener.wants_deltas() {
                let text = text.to_owned();
                listener.delta(if thought { Delta::Reasoning(text) } else { Delta::Text(text) });
            }
            if thought { self.thought(text, signature) } else { self.text(text, signature) }
        } else if part.as_object().is_some_and(|fields| !fields.is_empty()) {
            self.content.push(Part::Opaque { provider: NAME.into(), data: part.clone().into() });
        }
        Ok(())
    }

    /// Text continues the text before it, unless one of the two is signed: a signature belongs to exactly the part
    /// it came with.
    fn text(&mut self, text: &str, signature: Option<String>) {
        match self.content.last_mut() {
            Some(Part::Text { text: known, signature: None, .. }) if signature.is_none() => known.push_str(text),
            _ if text.is_empty() && signature.is_none() => {}
            _ => self.content.push(Part::Text { text: text.to_owned(), signature, annotations: Vec::new() }),
        }
    }

    fn thought(&mut self, text: &str, signature: Option<String>) {
        match self.content.last_mut() {
            Some(Part::Reasoning(Reasoning { text: Some(known), signature: None, .. })) if signature.is_none() => {
                known.push_str(text);
            }
            _ => self.content.push(Part::Reasoning(Reasoning {
                text: Some(text.to_owned()),
                signature,
                provider: Some(NAME.into()),
                ..Reasoning::default()
            })),
        }
    }

    /// Takes a call, or a piece of one. A piece with a name begins a call; a piece without one continues the call of its
    /// id, or the one that began last.
    fn call(&mut self, function: &Value, signature: Option<String>, listener: &mut dyn Listener) -> Result<(), String> {
        let name = json::filled(function, "name");
        let known = json::filled(function, "id").and_then(|id| self.open.iter().position(|open| self.id(open) == id));
        let at = match (known, name) {
            (Some(at), _) => at,
            (None, Some(name)) => {
                self.begin(name, function);
                self.open.len() - 1
            }
            (None, None) => match self.open.len().checked_sub(1) {
                Some(at) => at,
                // The mark at the end of a call that was whole without it.
                None if self.n_calls > 0 && function.as_object().is_some_and(Map::is_empty) => return Ok(()),
                None => return Err("a piece of a function call has no name, and no call is open".into()),
            },
        };
        let open = &mut self.open[at];
        match function.get("args") {
            None | Some(Value::Null) => {}
            Some(Value::Object(arguments)) => open.arguments.extend(arguments.clone()),
            Some(_) => return Err("the arguments of a function call are not an object".into()),
        }
        partial::apply(&mut open.arguments, function)?;
        if let (Some(signature), Some(Part::ToolCall(call))) = (signature, self.content.get_mut(open.place)) {
            call.signature = Some(signature);
        }
        if function.get("willContinue").and_then(Value::as_bool) != Some(true) {
            self.end(at, listener);
        }
        Ok(())
    }

    fn id(&self, open: &OpenCall) -> &str {
        match self.content.get(open.place) {
            Some(Part::ToolCall(call)) => &call.id,
            _ => "",
        }
    }

    fn begin(&mut self, name: &str, function: &Value) {
        self.open.push(OpenCall { place: self.content.len(), index: self.n_calls, arguments: Map::new() });
        self.n_calls += 1;
        self.content.push(Part::ToolCall(ToolCall {
            id: json::owned(function, "id").unwrap_or_default(),
            name: name.to_owned(),
            arguments: Json::from(Value::Null),
            arguments_raw: None,
            signature: None,
        }));
    }

    /// All arguments of a call have come in.
    fn end(&mut self, at: usize, listener: &mut dyn Listener) {
        let OpenCall { place, index, arguments } = self.open.remove(at);
        let Some(Part::ToolCall(call)) = self.content.get_mut(place) else { return };
        call.arguments = Json::from(Value::Object(arguments));
        if listener.wants_deltas() {
            listener.delta(Delta::ToolCall {
                index,
                id: Some(call.id.clone()).filter(|id| !id.is_empty()),
                name: Some(call.name.clone()),
                arguments_fragment: call.arguments.0.to_string(),
            });
        }
    }

    /// The neutral answer.
    pub(super) fn response(mut self, cx: AnswerContext) -> Response {
        // Arguments that were cut off are not run: they stay as they came.
        for open in std::mem::take(&mut self.open) {
            if let Some(Part::ToolCall(call)) = self.content.get_mut(open.place) {
                call.arguments_raw = Some(Value::Object(open.arguments).to_string());
            }
        }
        let raw = self.finish.or(self.blocked.clone());
        let finish = match raw.as_deref() {
            _ if self.blocked.is_some() => FinishReason::ContentFilter,
            Some("STOP" | "FINISH_REASON_UNSPECIFIED") | None if self.n_calls > 0 => FinishReason::ToolCalls,
            Some("STOP") | None => FinishReason::Stop,
            Some("MAX_TOKENS") => FinishReason::Length,
            Some(
                "SAFETY"
                | "RECITATION"
                | "LANGUAGE"
                | "BLOCKLIST"
                | "PROHIBITED_CONTENT"
                | "SPII"
                | "IMAGE_SAFETY"
                | "IMAGE_PROHIBITED_CONTENT"
                | "IMAGE_RECITATION"
                | "MODEL_ARMOR",
            ) => FinishReason::ContentFilter,
            Some(
                "MALFORMED_FUNCTION_CALL"
                | "UNEXPECTED_TOOL_CALL"
                | "TOO_MANY_TOOL_CALLS"
                | "MISSING_THOUGHT_SIGNATURE"
                | "MALFORMED_RESPONSE",
            ) => FinishReason::Error,
            Some(_) => FinishReason::Other,
        };
        draft::response(self.content, (finish, raw), self.usage, self.model, self.id, cx)
    }
}

/// Reads one piece of a stream into `answer`.
pub(super) fn piece(
    answer: &mut Answer,
    value: &Value,
    cx: AnswerContext,
    listener: &mut dyn Listener,
) -> Result<(), LlmError> {
    if fault::is_error(value) {
        return Err(fault::from_value(cx.provider, None, value));
    }
    answer.add(value, cx, listener)
}

/// Figures are cumulative: the last ones win. Thoughts are billed as output and counted apart here; elsewhere
/// output means both, and so it does in a neutral answer.
fn add_usage(figures: &Value, usage: &mut Usage) {
    let put = |known: &mut Option<u64>, new: Option<u64>| *known = new.or(*known);
    put(&mut usage.input_tokens, json::count(figures, "promptTokenCount"));
    put(&mut usage.total_tokens, json::count(figures, "totalTokenCount"));
    put(&mut usage.cached_input_tokens, json::count(figures, "cachedContentTokenCount"));
    put(&mut usage.reasoning_tokens, json::count(figures, "thoughtsTokenCount"));
    let spoken = json::count(figures, "candidatesTokenCount");
    if spoken.is_some() || usage.reasoning_tokens.is_some() {
        usage.output_tokens = Some(spoken.unwrap_or(0) + usage.reasoning_tokens.unwrap_or(0));
    }
}
