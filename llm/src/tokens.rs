//! Counting tokens before a provider does: text, messages, tools, whole requests.
//!
//! Text is counted exactly as OpenAI's models read it (encodings `cl100k_base` and `o200k_base` by way of
//! `tiktoken-rs`); text in the form of a special token counts as plain text. For other providers' models the figure is
//! an estimate. Where a provider has reported its own figures, those are preferred ([`usage_or_count`]).
//!
//! Without the feature `tokens` every byte counts as a token, which is never too few: limits that rest on counts hold, and
//! are reached earlier.

use std::sync::Arc;

use parking_lot::Mutex;
use rethread_events::message::{FinishReason, Message, Part, ProviderTool, ToolSpec, Usage, UsageSource};
use serde_json::Value;

use crate::request::Request;
use crate::response::Response;

mod cache;
mod encoding;
mod known;
mod truncate;

pub use encoding::Encoding;
pub use truncate::{Truncated, truncate};

/// What OpenAI adds around each message: three tokens, the role among them counted apart.
/// <https://cookbook.openai.com/examples/how_to_count_tokens_with_tiktoken>
const PER_MESSAGE: u64 = 3;
/// Every answer is primed with three tokens.
const PRIMING: u64 = 3;
/// An image of 1 024 × 1 024 at high detail: 85 and four tiles of 170.
/// <https://platform.openai.com/docs/guides/images-vision>
const PER_IMAGE: u64 = 765;
/// A page of a document, very roughly; documents are counted by the size of their data.
const DOCUMENT_BYTES_PER_TOKEN: u64 = 40;

/// Counts for one model. Counts of texts are cached by content, those of messages and tools by their address as well,
/// bounded, and shared by all threads that use the counter.
pub struct Counter {
    encoding: Encoding,
    /// Models that think are billed one token less per request.
    thinks: bool,
    cache: Mutex<cache::Cache>,
    known: Mutex<known::Known>,
}

impl Counter {
    /// The counter for a model; an unknown model is counted with the newest encoding.
    pub fn for_model(model: &str) -> Self {
        let thinks = crate::models::ModelTable::built_in().reasons(model);
        Self::new(Encoding::of_model(model), thinks)
    }

    /// A counter with this encoding, for a model that thinks before it answers or does not.
    pub fn new(encoding: Encoding, thinks: bool) -> Self {
        Self { encoding, thinks, cache: Mutex::default(), known: Mutex::default() }
    }

    /// The encoding that is counted with.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The tokens of a text. Cold it runs at several MB/s; a text seen before costs its hash.
    pub fn text(&self, text: &str) -> u64 {
        // A short text is counted as fast as it is looked up.
        if text.len() <= 32 {
            return self.encoding.count(text);
        }
        let key = cache::key(text);
        if let Some(count) = self.cache.lock().get(&key) {
            return count;
        }
        let count = self.encoding.count(text);
        self.cache.lock().insert(key, count);
        count
    }

    /// The tokens of many texts, in their order.
    pub fn texts<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> Vec<u64> {
        texts.into_iter().map(|text| self.text(text)).collect()
    }

    fn count_message(&self, message: &Message) -> u64 {
        // Every role is one token.
        PER_MESSAGE + 1 + self.parts(&message.content)
    }

    fn parts(&self, parts: &[Part]) -> u64 {
        parts.iter().map(|part| self.part(part)).sum()
    }

    fn part(&self, part: &Part) -> u64 {
        match part {
            Part::Text { text, .. } | Part::Refusal { text } => self.text(text),
            Part::Image(_) => PER_IMAGE,
            Part::Document(media) | Part::Audio(media) => {
                media.data.as_ref().map_or(0, |data| data.len() as u64 / DOCUMENT_BYTES_PER_TOKEN)
            }
            Part::Reasoning(thought) => thought.text.as_deref().map_or(0, |text| self.text(text)),
            Part::ToolCall(call) => {
                let arguments = call.arguments_raw.clone().unwrap_or_else(|| call.arguments.0.to_string());
                PER_MESSAGE + self.text(&call.name) + self.text(&arguments)
            }
            Part::ToolResult(result) => PER_MESSAGE + self.parts(&result.content),
            Part::Opaque { data, .. } | Part::ProviderTool(ProviderTool { data, .. }) => self.text(&data.0.to_string()),
        }
    }

    fn count_tools(&self, tools: &[ToolSpec]) -> u64 {
        if tools.is_empty() {
            return 0;
        }
        // 7 for each function, 12 once at the end (10 and 12 with the older encoding).
        let init = if self.encoding == Encoding::O200kBase { 7 } else { 10 };
        let each = tools.iter().map(|tool| {
            let description = tool.description.as_deref().unwrap_or_default();
            let line = format!("{}:{}", tool.name, description.trim_end_matches('.'));
            init + self.text(&line) + self.properties(&tool.parameters.0)
        });
        each.sum::<u64>() + 12
    }

    /// 3 once, 3 for each property with its name, type and description, 3 less and 3 more for each value of an
    /// enumeration. What is nested counts the same way.
    fn properties(&self, schema: &Value) -> u64 {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return 0;
        };
        if properties.is_empty() {
            return 0;
        }
        let each = properties.iter().map(|(name, property)| {
            let word = |key| property.get(key).and_then(Value::as_str).unwrap_or_default();
            let mut count = 3;
            if let Some(values) = property.get("enum").and_then(Value::as_array) {
                let values = values.iter().map(|value| {
                    3 + value.as_str().map_or_else(|| self.text(&value.to_string()), |text| self.text(text))
                });
                count = (count + values.sum::<u64>()).saturating_sub(3);
            }
            let line = format!("{name}:{}:{}", word("type"), word("description").trim_end_matches('.'));
            count
                + self.text(&line)
                + self.properties(property)
                + property.get("items").map_or(0, |i| self.properties(i))
        });
        3 + each.sum::<u64>()
    }

    /// The tokens of the prompt of a request.
    pub fn request(&self, request: &Request) -> u64 {
        self.prompt(self.messages(&request.messages)) + self.tools(&request.tools)
    }

    /// Returns how many tokens the provider adds to messages of `messages` tokens.
    fn prompt(&self, messages: u64) -> u64 {
        (messages + PRIMING).saturating_sub(u64::from(self.thinks))
    }
}

/// Returns the reported figures of the prompt and of the answer. Zero tokens for a prompt, or for an answer with
/// content, count as no figure. A blocked prompt has no answer, and no figure for it.
fn reported(response: &Response) -> (Option<u64>, Option<u64>) {
    let Usage { input_tokens, output_tokens, .. } = response.usage;
    let is_empty = response.message.content.is_empty();
    let is_blocked = is_empty && response.finish_reason == FinishReason::ContentFilter && input_tokens.is_some();
    let output_tokens = output_tokens.or(is_blocked.then_some(0));
    (input_tokens.filter(|n| *n > 0), output_tokens.filter(|n| *n > 0 || is_empty))
}

/// The provider's figures, completed by counting where it gave none, and who counted. The total is at least the sum of
/// prompt and answer: one that is larger holds tokens that no part names, such as hidden reasoning.
pub fn usage_or_count(counter: &Counter, request: &Request, response: &Response) -> (Usage, UsageSource) {
    let (said_input, said_output) = reported(response);
    let input = said_input.unwrap_or_else(|| counter.request(request));
    let output = said_output.unwrap_or_else(|| counter.parts(&response.message.content));
    let is_reported = said_input.is_some() && said_output.is_some();
    let source = if is_reported { UsageSource::Provider } else { UsageSource::Counted };
    let total = response.usage.total_tokens.unwrap_or(0).max(input.saturating_add(output));
    let (input, output, total) = (Some(input), Some(output), Some(total));
    (Usage { input_tokens: input, output_tokens: output, total_tokens: total, ..response.usage }, source)
}

/// The response with what the provider did not report counted. What takes a while to count is counted beside the tasks that
/// wait for IO.
pub async fn complete(counter: Arc<Counter>, request: &Request, mut response: Response) -> Response {
    if let (Some(_), Some(output)) = reported(&response) {
        response.usage.output_tokens = Some(output);
        return response;
    }
    if counter.is_quick(&request.messages, &request.tools, &response.message.content) {
        response.complete_usage(&counter, request);
        return response;
    }
    let (request, mut copy) = (request.clone(), response.clone());
    let counting = tokio::task::spawn_blocking(move || {
        copy.complete_usage(&counter, &request);
        copy
    });
    counting.await.unwrap_or(response)
}

#[cfg(test)]
mod tests;
