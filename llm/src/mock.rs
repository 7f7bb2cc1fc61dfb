//! A model that follows a script: for tests, examples and the first run on a machine without keys.
//!
//! Its answers depend on the request alone, never on earlier calls: the number of the call is the number of answers in
//! the conversation. So a thread that repeats a call after a crash gets the same answer.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rethread_events::json::Json;
use rethread_events::memory::Embedding;
use rethread_events::message::{FinishReason, Part, Reasoning, Role, ToolCall, UnitPrices, Usage};
use serde_json::Value;

use crate::client::{CallContext, Client, Delta, Health, Listener, ModelEntry};
use crate::error::{ErrorKind, LlmError};
use crate::request::Request;
use crate::response::{Cost, Response};
use crate::wire::{AnswerContext, draft};

mod faults;
mod script;

pub use faults::script_faults;
pub use script::{MockAnswer, MockCall, MockError, MockScript, ScriptError};

/// The provider's name.
const NAME: &str = "mock";

/// A scripted model.
pub struct Mock {
    script: script::Compiled,
}

impl Mock {
    /// A model that follows `script`.
    ///
    /// # Errors
    /// All faults of the script: answers that are empty, patterns that are no regular expressions.
    pub fn new(script: MockScript) -> Result<Self, ScriptError> {
        Ok(Self { script: script::Compiled::new(script)? })
    }

    /// A model that always says the same.
    pub fn saying(text: impl Into<String>) -> Self {
        let otherwise = MockAnswer { text: Some(text.into()), ..MockAnswer::default() };
        Self { script: script::Compiled::only(otherwise) }
    }

    async fn answer(&self, request: &Request, cx: CallContext<'_>) -> Result<Response, LlmError> {
        let number = request.n_answers();
        let Some(answer) = self.script.find(request, number) else {
            return Err(script::no_matching_answer(request, number));
        };
        pause(answer.delay_ms).await;
        if let Some(error) = &answer.error
            && cx.attempt <= error.attempts.unwrap_or(u32::MAX)
        {
            if error.after_chunks > 0 && request.stream {
                let pieces = answer.pieces();
                for piece in pieces.iter().take(error.after_chunks) {
                    pause(answer.chunk_delay_ms).await;
                    cx.listener.delta(Delta::Text(piece.clone()));
                }
            }
            return Err(error.to_error());
        }
        let response = build(answer, request, number);
        if request.stream && cx.listener.wants_deltas() {
            stream(answer, &response, cx.listener).await;
        }
        Ok(response)
    }
}

async fn pause(ms: u64) {
    // Not even a yield when the script wants no delay: a benchmark measures everything else.
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

async fn stream(answer: &MockAnswer, response: &Response, listener: &mut dyn Listener) {
    for reasoning in response.reasoning() {
        listener.delta(Delta::Reasoning(reasoning.text.clone().unwrap_or_default()));
    }
    for piece in answer.pieces() {
        pause(answer.chunk_delay_ms).await;
        listener.delta(Delta::Text(piece));
    }
    for (index, call) in response.tool_calls().enumerate() {
        pause(answer.chunk_delay_ms).await;
        listener.delta(Delta::ToolCall {
            index,
            id: Some(call.id.clone()),
            name: Some(call.name.clone()),
            arguments_fragment: call.arguments_raw.clone().unwrap_or_else(|| call.arguments.0.to_string()),
        });
    }
}

fn build(answer: &MockAnswer, request: &Request, number: usize) -> Response {
    let mut content = Vec::new();
    if let Some(text) = &answer.reasoning {
        content.push(Part::Reasoning(Reasoning { text: Some(text.clone()), ..Reasoning::default() }));
    }
    if let Some(text) = answer.full_text() {
        content.push(Part::text(text));
    }
    if let Some(text) = &answer.refusal {
        content.push(Part::Refusal { text: text.clone() });
    }
    for (index, call) in answer.tool_calls.iter().enumerate() {
        content.push(Part::ToolCall(tool_call(call, number, index)));
    }
    let finish = answer.finish_reason.unwrap_or_else(|| {
        if !answer.tool_calls.is_empty() {
            FinishReason::ToolCalls
        } else if answer.refusal.is_some() {
            FinishReason::Refusal
        } else {
            FinishReason::Stop
        }
    });
    let usage = answer.usage.unwrap_or_else(|| estimate(request, &content));
    let cx = AnswerContext::new(NAME, number);
    let id = format!("mock-{number}");
    let model = answer.model.clone().or_else(|| Some(request.model.clone()));
    let response = draft::response(content, (finish, None), usage, model, Some(id), cx);
    Response { cost: Some(Cost { nanousd: 0, prices: Some(UnitPrices::default()) }), ..response }
}

fn tool_call(call: &MockCall, number: usize, index: usize) -> ToolCall {
    let id = call.id.clone().unwrap_or_else(|| format!("call_{number}_{index}"));
    match &call.arguments_raw {
        Some(raw) => draft::tool_call(id, call.name.clone(), raw),
        None => {
            let arguments = match &*call.arguments.0 {
                Value::Null => Json::from(Value::Object(serde_json::Map::new())),
                _ => call.arguments.clone(),
            };
            ToolCall { id, name: call.name.clone(), arguments, arguments_raw: None, signature: None }
        }
    }
}

/// Approximate usage if the script has none: a token for every four bytes, as in English text. Exact counting would
/// cost more than everything else the mock does.
fn estimate(request: &Request, answer: &[Part]) -> Usage {
    let input: usize = request.messages.iter().flat_map(|m| &m.content).map(|part| 1 + weight(part) / 4).sum();
    let output: usize = answer.iter().map(|part| 1 + weight(part) / 4).sum();
    let (input, output) = (input as u64, output as u64);
    Usage {
        input_tokens: Some(input),
        output_tokens: Some(output),
        total_tokens: Some(input + output),
        ..Usage::default()
    }
}

fn weight(part: &Part) -> usize {
    match part {
        Part::Text { text, .. } | Part::Refusal { text } => text.len(),
        Part::Reasoning(reasoning) => reasoning.text.as_ref().map_or(0, String::len),
        Part::ToolCall(call) => call.name.len() + json_weight(&call.arguments.0),
        Part::ToolResult(result) => result.content.iter().map(weight).sum(),
        Part::Image(_) | Part::Document(_) | Part::Audio(_) => 1_000,
        Part::Opaque { .. } | Part::ProviderTool(_) => 0,
    }
}

fn json_weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(list) => list.iter().map(json_weight).sum::<usize>() + 2,
        Value::Object(map) => map.iter().map(|(k, v)| k.len() + 4 + json_weight(v)).sum::<usize>() + 2,
    }
}

impl Client for Mock {
    fn provider(&self) -> &str {
        NAME
    }

    fn call<'a>(&'a self, request: &'a Request, cx: CallContext<'a>) -> BoxFuture<'a, Result<Response, LlmError>> {
        self.answer(request, cx).boxed()
    }

    /// Texts with the same groups of three characters are similar: other forms of a word, not other words.
    fn embed<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Embedding, LlmError>> {
        let made = Embedding::new(NAME, &characters_of(text));
        let none = || LlmError::new(ErrorKind::InvalidRequest, NAME, "the text has no letter or digit");
        std::future::ready(made.ok_or_else(none)).boxed()
    }

    fn check(&self) -> BoxFuture<'_, Health> {
        std::future::ready(Health::good(NAME, Duration::ZERO)).boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<ModelEntry>, LlmError>> {
        let entry = ModelEntry {
            id: "mock".into(),
            display_name: None,
            owned_by: None,
            context_tokens_max: None,
            output_tokens_max: None,
        };
        std::future::ready(Ok(vec![entry])).boxed()
    }
}

/// How often each group of three letters or digits is in a text, in this many numbers.
const GROUPS: usize = 512;

fn characters_of(text: &str) -> Vec<f32> {
    let mut vector = vec![0.0; GROUPS];
    for word in text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let word: Vec<char> = format!(" {word} ").chars().collect();
        for group in word.windows(3) {
            let place = group.iter().fold(0_usize, |place, c| place.wrapping_mul(31).wrapping_add(*c as usize));
            vector[place % GROUPS] += 1.0;
        }
    }
    vector
}

/// The text that patterns are matched against: the texts of the last message, including results of tools.
fn last_text(request: &Request) -> String {
    let Some(last) = request.messages.last() else { return String::new() };
    let mut out = last.joined_text();
    if last.role == Role::Tool {
        for part in &last.content {
            if let Part::ToolResult(result) = part {
                out.push_str(&draft::result_text(&result.content));
            }
        }
    }
    out
}

/// Shared, so that many threads can follow one script.
impl From<Mock> for Arc<dyn Client> {
    fn from(mock: Mock) -> Self {
        Arc::new(mock)
    }
}

#[cfg(test)]
mod tests;
