//! A Gemini answer in neutral words. A stream is a row of answers, each with a few more parts, so both read alike.

use rethread_events::json::Json;
use rethread_events::message::{FinishReason, Media, Part, ProviderTool, ProviderToolStep, Reasoning, ToolCall, Usage};
use serde_json::{Map, Value};

use super::grounding::Grounding;
use super::{NAME, partial, plain};
use crate::client::{Delta, Listener};
use crate::error::LlmError;
use crate::response::Response;
use crate::wire::draft::{self, Details};
use crate::wire::plain::replace;
use crate::wire::{AnswerContext, fault, json};

/// An answer, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Answer {
    content: Vec<Part>,
    n_calls: usize,
    /// The calls whose arguments are still coming in, the one that began last at the end.
    open: Vec<OpenCall>,
    finish: Option<String>,
    blocked: Option<String>,
    figures: Figures,
    service_tier: Option<String>,
    model: Option<String>,
    id: Option<String>,
    began: bool,
    grounding: Grounding,
    logprobs: Map<String, Value>,
    details: Details,
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

    /// Returns the usage that is reported so far.
    pub(super) fn usage(&self) -> Usage {
        self.figures.usage(&self.grounding, self.model.as_deref())
    }

    /// Takes a piece that holds nothing but text.
    pub(super) fn plain(&mut self, piece: plain::Piece<'_>, listener: &mut dyn Listener) {
        replace(&mut self.model, &piece.model_version);
        replace(&mut self.id, &piece.response_id);
        self.figures.add(piece.usage_metadata.into());
        self.began = true;
        let [candidate] = piece.candidates;
        let [part] = candidate.content.parts;
        self.said(&part.text.0, part.thought, None, listener);
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
            self.figures.add(figures.into());
            self.service_tier = json::filled(figures, "trafficType").map(tier_of_traffic).or(self.service_tier.take());
        }
        let feedback = json::object(body, "promptFeedback");
        if let Some(reason) = json::filled(feedback, "blockReason") {
            self.blocked = Some(reason.to_owned());
            self.began = true;
            self.details.put("prompt_feedback", Some(feedback));
        }
        self.details.put("safety_ratings", feedback.get("safetyRatings"));
        // With several candidates the first is the answer; in a stream it may be missing from a piece.
        let candidates = json::list(body, "candidates");
        self.began |= !candidates.is_empty();
        let candidate = candidates.iter().find(|c| json::count(c, "index").unwrap_or(0) == 0);
        let Some(candidate) = candidate else { return Ok(()) };
        for part in json::list(json::object(candidate, "content"), "parts") {
            self.part(part, listener).map_err(|why| cx.malformed(why))?;
        }
        self.grounding.add(json::object(candidate, "groundingMetadata"));
        for (name, key) in DETAILS {
            self.details.put(name, candidate.get(key));
        }
        self.add_logprobs(json::object(candidate, "logprobsResult"));
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
            let is_thought = part.get("thought").and_then(Value::as_bool) == Some(true);
            self.said(text, is_thought, signature, listener);
        } else if let Some(fields) = part.as_object().filter(|fields| !fields.is_empty()) {
            self.other(fields);
        }
        Ok(())
    }

    fn said(&mut self, text: &str, is_thought: bool, signature: Option<String>, listener: &mut dyn Listener) {
        if !text.is_empty() && listener.wants_deltas() {
            let text = text.to_owned();
            listener.delta(if is_thought { Delta::Reasoning(text) } else { Delta::Text(text) });
        }
        if is_thought { self.thought(text, signature) } else { self.text(text, signature) }
    }

    /// Takes what is neither text nor a call: what the model made, and what the provider's own tools did.
    fn other(&mut self, fields: &Map<String, Value>) {
        let data = || Json::from(Value::Object(fields.clone()));
        let is_thought = fields.get("thought").and_then(Value::as_bool) == Some(true);
        if let Some((key, media)) = media(fields).filter(|_| !is_thought) {
            // Its signature and the like.
            let more: Map<_, _> = fields
                .iter()
                .filter(|(name, _)| *name != key)
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            if !more.is_empty() {
                let data = serde_json::json!({ "type": FIELDS, "fields": more }).into();
                self.content.push(Part::Opaque { provider: NAME.into(), data });
            }
            let kind = media.media_type.as_deref().and_then(|kind| kind.split('/').next());
            self.content.push(match kind {
                Some("image") => Part::Image(media),
                Some("audio") => Part::Audio(media),
                _ => Part::Document(media),
            });
        } else if let Some((step, name, item)) = provider_tool(fields) {
            let (id, name) = (json::owned(item, "id"), json::filled(item, "toolType").unwrap_or(name).to_owned());
            let tool = ProviderTool { provider: NAME.into(), step, id, name, data: data() };
            self.content.push(Part::ProviderTool(tool));
        } else {
            self.content.push(Part::Opaque { provider: NAME.into(), data: data() });
        }
    }

    /// Each piece of a stream has those of its own tokens.
    fn add_logprobs(&mut self, logprobs: &Value) {
        for (key, value) in logprobs.as_object().into_iter().flatten() {
            match (self.logprobs.get_mut(key), value) {
                (Some(Value::Array(known)), Value::Array(more)) => known.extend(more.iter().cloned()),
                _ => {
                    self.logprobs.insert(key.clone(), value.clone());
                }
            }
        }
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
        self.grounding.annotate(&mut self.content);
        let usage = self.figures.usage(&self.grounding, self.model.as_deref());
        self.details.put("grounding", Some(&self.grounding.json()));
        self.details.put("logprobs", Some(&self.logprobs.into()));
        Response {
            service_tier: self.service_tier,
            details: self.details.json(),
            ..draft::response(self.content, (finish, raw), usage, self.model, self.id, cx)
        }
    }
}

/// What is kept of a candidate besides its content, and its names there.
const DETAILS: [(&str, &str); 5] = [
    ("finish_message", "finishMessage"),
    ("citations", "citationMetadata"),
    ("url_context", "urlContextMetadata"),
    ("safety_ratings", "safetyRatings"),
    ("avg_logprobs", "avgLogprobs"),
];

/// The mark of an opaque part that holds fields of the image, document or recording after it: they go back in one part.
const FIELDS: &str = "part_fields";

/// The fields that an opaque part holds for the part after it.
pub(super) fn fields(data: &Value) -> Option<&Map<String, Value>> {
    (json::text(data, "type") == Some(FIELDS)).then(|| data.get("fields")?.as_object())?
}

/// What a part holds inline or by reference, and the field that holds it.
fn media(fields: &Map<String, Value>) -> Option<(&'static str, Media)> {
    let of = |key: &'static str, content: &str| {
        let media = fields.get(key)?;
        Some((key, media, json::owned(media, content)?))
    };
    let (key, media, content) = of("inlineData", "data").or_else(|| of("fileData", "fileUri"))?;
    let media_type = json::owned(media, "mimeType");
    let made = if key == "fileData" { Media::at(content) } else { Media::inline(None, content) };
    Some((key, Media { media_type, name: json::owned(media, "displayName"), ..made }))
}

/// What of a call of a provider's tool a part holds, the name of the tool, and the item.
fn provider_tool(fields: &Map<String, Value>) -> Option<(ProviderToolStep, &'static str, &Value)> {
    [
        ("executableCode", ProviderToolStep::Call, "code_execution"),
        ("codeExecutionResult", ProviderToolStep::Result, "code_execution"),
        ("toolCall", ProviderToolStep::Call, "tool"),
        ("toolResponse", ProviderToolStep::Result, "tool"),
    ]
    .into_iter()
    .find_map(|(key, step, name)| Some((step, name, fields.get(key)?)))
}

/// The tier of service in the words of the other address: Vertex says it in the figures.
fn tier_of_traffic(traffic: &str) -> String {
    match traffic.strip_prefix("ON_DEMAND") {
        Some("") => "standard".to_owned(),
        Some(tier) => tier.trim_start_matches('_').to_ascii_lowercase(),
        None => traffic.to_ascii_lowercase(),
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

/// The figures as Gemini reports them.
#[derive(Debug, Default)]
struct Figures {
    prompt: Option<u64>,
    answer: Option<u64>,
    thoughts: Option<u64>,
    /// What tools added to the prompt, which is not part of it.
    of_tools: Option<u64>,
    total: Option<u64>,
    cached: Option<u64>,
    audio_input: Option<u64>,
    audio_output: Option<u64>,
    image_output: Option<u64>,
}

impl Figures {
    /// Figures are cumulative: the last ones win.
    fn add(&mut self, new: Self) {
        let put = |known: &mut Option<u64>, new: Option<u64>| *known = new.or(*known);
        put(&mut self.prompt, new.prompt);
        put(&mut self.answer, new.answer);
        put(&mut self.thoughts, new.thoughts);
        put(&mut self.of_tools, new.of_tools);
        put(&mut self.total, new.total);
        put(&mut self.cached, new.cached);
        put(&mut self.audio_input, new.audio_input);
        put(&mut self.audio_output, new.audio_output);
        put(&mut self.image_output, new.image_output);
    }

    /// The neutral figures: the input is all that is billed as input, the output includes the thoughts.
    fn usage(&self, grounding: &Grounding, model: Option<&str>) -> Usage {
        let of_tools = self.of_tools.unwrap_or(0);
        // Sometimes thoughts are counted in the answer.
        let parts =
            self.prompt.zip(self.answer).map(|(prompt, answer)| prompt.saturating_add(answer).saturating_add(of_tools));
        let is_whole = parts.is_some() && parts == self.total;
        let thoughts = self.thoughts.filter(|_| !is_whole);
        let output = [self.answer, thoughts].into_iter().flatten().reduce(u64::saturating_add);
        // What searches bring is not billed as input, the searches are billed.
        let billed_of_tools = self.of_tools.filter(|_| !grounding.searched());
        Usage {
            input_tokens: self.prompt,
            tool_input_tokens: billed_of_tools,
            output_tokens: output,
            total_tokens: self.total,
            cached_input_tokens: self.cached,
            reasoning_tokens: self.thoughts,
            audio_input_tokens: self.audio_input,
            audio_output_tokens: self.audio_output,
            image_output_tokens: self.image_output,
            n_searches: grounding.n_searches(model),
            ..Usage::default()
        }
    }
}

impl From<&Value> for Figures {
    fn from(figures: &Value) -> Self {
        Self {
            prompt: json::count(figures, "promptTokenCount"),
            answer: json::count(figures, "candidatesTokenCount"),
            thoughts: json::count(figures, "thoughtsTokenCount"),
            of_tools: json::count(figures, "toolUsePromptTokenCount"),
            total: json::count(figures, "totalTokenCount"),
            cached: json::count(figures, "cachedContentTokenCount"),
            audio_input: of_modality(figures, "promptTokensDetails", "AUDIO"),
            audio_output: of_modality(figures, "candidatesTokensDetails", "AUDIO"),
            image_output: of_modality(figures, "candidatesTokensDetails", "IMAGE"),
        }
    }
}

impl From<plain::Figures> for Figures {
    fn from(figures: plain::Figures) -> Self {
        Self {
            prompt: figures.prompt_token_count,
            answer: figures.candidates_token_count,
            thoughts: figures.thoughts_token_count,
            of_tools: figures.tool_use_prompt_token_count,
            total: figures.total_token_count,
            cached: figures.cached_content_token_count,
            ..Self::default()
        }
    }
}

/// The tokens of one kind in a list of figures.
fn of_modality(figures: &Value, list: &str, modality: &str) -> Option<u64> {
    let found = json::list(figures, list).iter().find(|entry| json::text(entry, "modality") == Some(modality))?;
    json::positive(found, "tokenCount")
}
