//! A Chat Completions answer in neutral words. The whole answer and the pieces of a stream fill the same
//! [`Answer`], so both read alike.

use data_encoding::BASE64;
use rethread_events::json_text;
use rethread_events::message::{Annotation, FinishReason, Media, Part, Reasoning, Usage};
use serde_json::{Map, Value};

use super::OPAQUE;
use super::sources;
use super::think::ThinkTag;
use crate::Provider;
use crate::error::LlmError;
use crate::response::{Cost, Response};
use crate::wire::draft::{self, Details};
use crate::wire::{AnswerContext, fault, json};

/// One tool call, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) index: Option<u64>,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) signature: Option<String>,
    /// Whether its arguments did not come to their end.
    pub(super) is_cut: bool,
}

/// An answer, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) finish: Option<String>,
    pub(super) service_tier: Option<String>,
    pub(super) usage: Usage,
    /// What a gateway says that it bills, in nano-dollars.
    cost: Option<u64>,
    text: String,
    text_signature: Option<String>,
    annotations: Vec<Annotation>,
    refusal: String,
    reasoning: String,
    reasoning_details: Vec<Value>,
    think_tag: Option<ThinkTag>,
    is_of_gemini: bool,
    pub(super) calls: Vec<Call>,
    images: Vec<Media>,
    audio: Audio,
    logprobs: Vec<Value>,
    details: Details,
}

/// What a model speaks, as far as it is known.
#[derive(Debug, Default)]
struct Audio {
    id: Option<String>,
    format: Option<String>,
    /// Base64. The pieces may be padded.
    data: Vec<String>,
    transcript: String,
}

/// Reads a whole answer.
pub(super) fn answer(body: &Value, cx: AnswerContext) -> Result<Response, LlmError> {
    let Some(choice) = first_choice(body) else {
        return Err(
            cx.malformed(format!("the answer has no choices: {}", crate::error::excerpt(&body.to_string(), 300)))
        );
    };
    let mut answer = Answer::new(cx);
    answer.envelope(body);
    answer.choice(choice);
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
    pub(super) fn new(cx: AnswerContext) -> Self {
        let is_of_gemini = cx.provider == Provider::GeminiOpenai.name();
        Self { is_of_gemini, think_tag: cx.splits_think_tag.then(ThinkTag::default), ..Self::default() }
    }

    /// What is said beside the choices; the last figures win.
    pub(super) fn envelope(&mut self, body: &Value) {
        for (known, key) in [(&mut self.id, "id"), (&mut self.model, "model"), (&mut self.service_tier, "service_tier")]
        {
            if let Some(word) = json::filled(body, key) {
                *known = Some(word.to_owned());
            }
        }
        if let Some(figures) = body.get("usage").filter(|u| u.is_object()) {
            self.usage = with_reasoning(usage(figures));
            self.cost = reported_cost(figures);
        }
        // Searching models name their sources here.
        self.details.put("citations", body.get("citations"));
    }

    /// What is said of a choice besides its message or delta.
    pub(super) fn choice(&mut self, choice: &Value) {
        if let Some(reason) = json::filled(choice, "finish_reason") {
            self.finish = Some(reason.to_owned());
        }
        let logprobs = json::object(choice, "logprobs");
        for tokens in ["content", "refusal"] {
            self.logprobs.extend(json::list(logprobs, tokens).iter().cloned());
        }
    }

    /// Takes text, in which there may be thoughts.
    pub(super) fn say(&mut self, text: &str, each: &mut dyn FnMut(Piece<'_>)) {
        let Some(mut tag) = self.think_tag.take() else {
            self.text.push_str(text);
            return each(Piece::Text(text));
        };
        tag.push(text, &mut |piece| self.take(piece, each));
        self.think_tag = Some(tag);
    }

    /// No more text comes.
    pub(super) fn end_text(&mut self, each: &mut dyn FnMut(Piece<'_>)) {
        if let Some(mut tag) = self.think_tag.take() {
            tag.end(&mut |piece| self.take(piece, each));
            self.think_tag = Some(tag);
        }
    }

    /// Takes a thought that the server told from the text: then the text has no tags.
    fn think(&mut self, text: &str, each: &mut dyn FnMut(Piece<'_>)) {
        self.end_text(each);
        self.take(Piece::Reasoning(text), each);
    }

    fn take(&mut self, piece: Piece<'_>, each: &mut dyn FnMut(Piece<'_>)) {
        let (known, text) = match piece {
            Piece::Text(text) => (&mut self.text, text),
            Piece::Reasoning(text) => (&mut self.reasoning, text),
            Piece::Refusal(text) => (&mut self.refusal, text),
        };
        known.push_str(text);
        each(piece);
    }

    /// The content of a message or delta, but its calls.
    pub(super) fn content(&mut self, message: &Value, each: &mut dyn FnMut(Piece<'_>)) {
        match message.get("reasoning_content").or_else(|| message.get("reasoning")) {
            Some(Value::String(text)) if !text.is_empty() => {
                self.think(text, each);
                self.details(message, None);
            }
            _ => match json::filled(message, "reasoning") {
                Some(text) => {
                    self.think(text, each);
                    self.details(message, None);
                }
                None => self.details(message, Some(each)),
            },
        }
        match message.get("content") {
            Some(Value::String(text)) if !text.is_empty() => self.say(text, each),
            // Some vendors send a list of parts, thoughts among them.
            Some(Value::Array(parts)) => {
                for part in parts {
                    self.part(part, each);
                }
            }
            _ => {}
        }
        if let Some(text) = json::filled(message, "refusal") {
            self.take(Piece::Refusal(text), each);
        }
        self.annotations.extend(json::list(message, "annotations").iter().map(|a| sources::annotation(OPAQUE, a)));
        json::list(message, "images").iter().for_each(|image| self.image(image));
        if let Some(signature) = google_signature(message) {
            self.text_signature = Some(signature.to_owned());
        }
        let audio = json::object(message, "audio");
        if !audio.is_null() {
            self.audio(audio, each);
        }
    }

    /// What a model spoke is its text if it wrote none.
    fn audio(&mut self, audio: &Value, each: &mut dyn FnMut(Piece<'_>)) {
        let known = &mut self.audio;
        known.id = json::filled(audio, "id").map(str::to_owned).or(known.id.take());
        known.format = json::filled(audio, "format").map(str::to_owned).or(known.format.take());
        known.data.extend(json::filled(audio, "data").map(str::to_owned));
        if let Some(text) = json::filled(audio, "transcript") {
            known.transcript.push_str(text);
            if self.text.is_empty() {
                each(Piece::Text(text));
            }
        }
    }

    fn image(&mut self, image: &Value) {
        self.images.extend(json::filled(json::object(image, "image_url"), "url").map(draft::media));
    }

    fn part(&mut self, part: &Value, each: &mut dyn FnMut(Piece<'_>)) {
        if let Some(text) = json::filled(part, "text") {
            self.say(text, each);
        } else if let Some(text) = json::filled(part, "refusal") {
            self.take(Piece::Refusal(text), each);
        } else if part.get("image_url").is_some() {
            self.image(part);
        } else if let Some(thought) = part.get("thinking") {
            let inner = thought.as_array().map_or(&[][..], Vec::as_slice);
            let texts = inner.iter().filter_map(|t| json::filled(t, "text"));
            for text in texts.chain(thought.as_str()) {
                self.think(text, each);
            }
        }
    }

    /// `reasoning_details`: kept for the next request; their text counts if no other field contained it (`each` given).
    fn details(&mut self, message: &Value, mut each: Option<&mut dyn FnMut(Piece<'_>)>) {
        for detail in json::list(message, "reasoning_details") {
            if let Some(each) = &mut each
                && let Some(text) = json::filled(detail, "text").or_else(|| json::filled(detail, "summary"))
            {
                self.think(text, each);
            }
            self.merge_detail(detail);
        }
    }

    /// Pieces of one detail share index and type: texts are appended, the rest replaced.
    fn merge_detail(&mut self, detail: &Value) {
        let same = self.reasoning_details.iter_mut().find(|known| {
            known.get("index") == detail.get("index")
                && known.get("type") == detail.get("type")
                && detail.get("index").is_some()
        });
        let (Some(Value::Object(known)), Value::Object(new)) = (same, detail) else {
            self.reasoning_details.push(detail.clone());
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
        if let Some(call) = self.calls.first_mut()
            && !is_same(&call.arguments, function.get("arguments"))
        {
            fill_function(call, function);
        }
    }

    /// The neutral answer.
    pub(super) fn response(mut self, cx: AnswerContext) -> Response {
        self.end_text(&mut |_| {});
        let mut content = Vec::new();
        let wants_details = self
            .reasoning_details
            .iter()
            .any(|d| ["signature", "data"].iter().any(|key| json::filled(d, key).is_some()));
        if !self.reasoning.is_empty() {
            content.push(Part::Reasoning(Reasoning {
                text: Some(self.reasoning),
                provider: Some(cx.provider.into()),
                ..Reasoning::default()
            }));
        }
        let is_spoken = self.text.is_empty() && !self.audio.transcript.is_empty();
        if let Some(tag) = &self.think_tag {
            let n_before = tag.n_chars.saturating_sub(self.text.chars().count());
            self.annotations.iter_mut().for_each(|annotation| move_back(annotation, n_before as u64));
        }
        let text = if is_spoken {
            self.audio.transcript
        } else {
            self.details.put("transcript", Some(&self.audio.transcript.into()));
            self.text
        };
        if !text.is_empty() || self.text_signature.is_some() || !self.annotations.is_empty() {
            content.push(Part::Text { text, signature: self.text_signature, annotations: self.annotations });
        }
        if !self.refusal.is_empty() {
            content.push(Part::Refusal { text: self.refusal });
        }
        content.extend(self.images.into_iter().map(Part::Image));
        if !self.audio.data.is_empty() {
            let data = joined(self.audio.data);
            let media_type = media_type(self.audio.format.as_deref(), &data);
            content.push(Part::Audio(Media { name: self.audio.id.clone(), ..Media::inline(Some(&media_type), data) }));
        }
        let has_calls = !self.calls.is_empty();
        let is_cut = self.calls.iter().any(|call| call.is_cut);
        for call in self.calls {
            let made = if call.is_cut { draft::cut_call } else { draft::tool_call };
            let mut neutral = made(call.id, call.name, &call.arguments);
            neutral.signature = call.signature;
            content.push(Part::ToolCall(neutral));
        }
        let mut fields = Map::new();
        if wants_details {
            fields.insert("reasoning_details".into(), self.reasoning_details.into());
        }
        if let Some(id) = self.audio.id {
            fields.insert("audio".into(), serde_json::json!({ "id": id }));
            if is_spoken {
                // The recording goes back in place of what was said in it.
                fields.insert("content".into(), Value::Null);
            }
        }
        if !fields.is_empty() {
            content.push(Part::Opaque { provider: OPAQUE.into(), data: Value::Object(fields).into() });
        }
        let finish = if is_cut { FinishReason::Length } else { finish_reason(self.finish.as_deref(), has_calls) };
        self.details.put("logprobs", Some(&self.logprobs.into()));
        let billed = billed(&self.usage).filter(|_| self.is_of_gemini);
        Response {
            calls: billed.into_iter().collect(),
            service_tier: self.service_tier,
            details: self.details.json(),
            cost: self.cost.map(|nanousd| Cost { nanousd, prices: None }),
            ..draft::response(content, (finish, self.finish), self.usage, self.model, self.id, cx)
        }
    }
}

/// Moves an annotation of a text to what is left of it without its first characters.
fn move_back(annotation: &mut Annotation, n_before: u64) {
    let moved = |at: Option<u64>| at.and_then(|at| at.checked_sub(n_before));
    (annotation.start, annotation.end) = (moved(annotation.start), moved(annotation.end));
}

/// Pieces of base64 as one. Pieces that are padded are encoded each for itself.
fn joined(pieces: Vec<String>) -> String {
    let Some((_, before)) = pieces.split_last() else { return String::new() };
    if before.iter().any(|piece| piece.ends_with('=')) {
        let decoded: Result<Vec<_>, _> = pieces.iter().map(|piece| BASE64.decode(piece.as_bytes())).collect();
        if let Ok(decoded) = decoded {
            return BASE64.encode(&decoded.concat());
        }
    }
    pieces.concat()
}

/// The media type of a recording: of its format, or as its first bytes say.
fn media_type(format: Option<&str>, data: &str) -> String {
    const BEGINNINGS: [(&str, &str); 4] = [("SUQz", "mp3"), ("//", "mp3"), ("T2dn", "opus"), ("ZkxhQ", "flac")];
    let seen = BEGINNINGS.iter().find(|(begin, _)| data.starts_with(begin)).map(|(_, format)| *format);
    match format.or(seen).unwrap_or("wav") {
        "mp3" => "audio/mpeg".into(),
        "opus" => "audio/ogg".into(),
        "pcm16" => "audio/pcm".into(),
        format => format!("audio/{format}"),
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

/// Whether arguments that came again are those that are known, which are complete.
pub(super) fn is_same(known: &str, again: Option<&Value>) -> bool {
    let Ok(known) = json_text::read::<Value>(known.as_bytes()) else { return false };
    match again {
        Some(Value::String(text)) => json_text::read::<Value>(text.as_bytes()).is_ok_and(|again| again == known),
        Some(again) => *again == known,
        None => false,
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
        audio_input_tokens: json::positive(prompt, "audio_tokens"),
        audio_output_tokens: json::positive(completion, "audio_tokens"),
        image_output_tokens: json::positive(completion, "image_tokens"),
        ..Usage::default()
    }
}

/// The figures with the reasoning that xAI states beside the output in it, where the sum says that it is not.
/// <https://docs.x.ai/docs/guides/reasoning>
fn with_reasoning(usage: Usage) -> Usage {
    match hidden(&usage).filter(|hidden| usage.reasoning_tokens == Some(*hidden)) {
        Some(hidden) => Usage { output_tokens: usage.output_tokens.map(|own| own.saturating_add(hidden)), ..usage },
        None => usage,
    }
}

/// The tokens that are in the sum alone.
fn hidden(usage: &Usage) -> Option<u64> {
    let hidden = usage.total_tokens?.saturating_sub(usage.input_tokens?).saturating_sub(usage.output_tokens?);
    (hidden > 0).then_some(hidden)
}

/// What is billed where it differs from the figures: Gemini's endpoint counts thoughts in the sum alone, and bills them as
/// output.
fn billed(usage: &Usage) -> Option<Usage> {
    let hidden = hidden(usage)?;
    let output_tokens = usage.output_tokens.map(|own| own.saturating_add(hidden));
    Some(Usage { output_tokens, reasoning_tokens: usage.reasoning_tokens.or(Some(hidden)), ..*usage })
}

/// The cost that a gateway puts into its figures, in nano-dollars. With a key of one's own for the provider, that one's
/// bill comes on top.
/// <https://openrouter.ai/docs/use-cases/usage-accounting>
fn reported_cost(figures: &Value) -> Option<u64> {
    let cost = figures.get("cost")?.as_f64()?;
    let is_own = figures.get("is_byok").and_then(Value::as_bool) == Some(true);
    let upstream = || json::object(figures, "cost_details").get("upstream_inference_cost")?.as_f64();
    fault::nano_dollars(cost + if is_own { upstream().unwrap_or(0.0) } else { 0.0 })
}

/// Decides by the calls: with a forced tool choice the word is `stop` although there are calls. Gateways pass on the words
/// of other providers, some in capitals.
pub(super) fn finish_reason(word: Option<&str>, has_calls: bool) -> FinishReason {
    match word.map(str::to_ascii_lowercase).as_deref() {
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
