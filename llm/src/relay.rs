//! A person as the model: a person pastes the prompt into some chat, and the answer back.
//!
//! A runtime puts the [`prompt`] to a person as a question that survives a restart, and [`read`]s the answer. Code
//! that calls a model without a runtime uses a [`Relay`]; on the command line it prints and reads. The prompt depends
//! on the request alone.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rethread_events::json::Json;
use rethread_events::message::{FinishReason, Part, Role, ToolCall, ToolChoice, Usage};
use serde::Deserialize;
use serde_json::Value;

use crate::client::{CallContext, Client, Health, ModelEntry};
use crate::error::{ErrorKind, LlmError};
use crate::request::{Request, ResponseFormat};
use crate::response::Response;
use crate::wire::{AnswerContext, draft};

/// The provider's name.
const NAME: &str = "human";
/// The longest answer a person may bring, in bytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Shows a prompt to a person and returns the answer.
pub trait Relay: Send + Sync {
    /// Asks, and waits as long as it takes; dropped when the call is cancelled. `key` is the name of the call, the
    /// same when it is asked again after a restart.
    ///
    /// # Errors
    /// When no person can be asked, or no answer will come.
    fn ask<'a>(&'a self, key: &'a str, prompt: String) -> BoxFuture<'a, Result<String, LlmError>>;
}

/// A client whose answers come from a person.
pub struct HumanRelay {
    relay: Arc<dyn Relay>,
}

impl HumanRelay {
    /// A client that asks through `relay`.
    pub fn new(relay: Arc<dyn Relay>) -> Self {
        Self { relay }
    }

    async fn answer(&self, request: &Request, cx: CallContext<'_>) -> Result<Response, LlmError> {
        let text = self.relay.ask(cx.key, prompt(request)).await?;
        let response = read(&text, request)?;
        if request.stream && cx.listener.wants_deltas() {
            draft::emit(&response, cx.listener);
        }
        Ok(response)
    }
}

/// The prompt as a person carries it: the conversation, the tools, and how to answer.
pub fn prompt(request: &Request) -> String {
    let mut out = String::new();
    for message in request.messages.iter() {
        let who = match message.role {
            Role::System => "Instructions",
            Role::User => "User",
            Role::Assistant => "Assistant (you)",
            Role::Tool => "Tool results",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "## {who}\n");
        for part in &message.content {
            describe(part, &mut out);
        }
        out.push('\n');
    }
    if !request.tools.is_empty() && request.tool_choice != Some(ToolChoice::None) {
        out.push_str("## Tools\n\n");
        for tool in request.tools.iter() {
            let description = tool.description.as_deref().unwrap_or("no description");
            let _ = writeln!(out, "- `{}`: {description}\n  arguments: {}", tool.name, tool.parameters.0);
        }
        out.push_str(match &request.tool_choice {
            Some(ToolChoice::Required | ToolChoice::Tool(_)) => "\nYou must use a tool. ",
            _ => "\nYou may use tools. ",
        });
        if let Some(ToolChoice::Tool(name)) = &request.tool_choice {
            let _ = write!(out, "Use `{name}`. ");
        }
        out.push_str(
            "To use tools, answer with nothing but this JSON:\n\
             {\"tool_calls\": [{\"name\": \"…\", \"arguments\": {…}}]}\n\n",
        );
    }
    match &request.response_format {
        Some(ResponseFormat::JsonSchema { schema, .. }) => {
            let _ = writeln!(out, "Answer with nothing but JSON that fits this schema:\n{schema}\n");
        }
        Some(ResponseFormat::JsonObject) => out.push_str("Answer with nothing but a JSON object.\n\n"),
        Some(ResponseFormat::Text) | None => {}
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn describe(part: &Part, out: &mut String) {
    let _ = match part {
        Part::Text { text, .. } | Part::Refusal { text } => writeln!(out, "{text}"),
        Part::Image(media) => {
            writeln!(out, "[an image: {}]", media.url.as_deref().unwrap_or("inline"))
        }
        Part::Document(media) => {
            writeln!(out, "[a document: {}]", media.url.as_deref().unwrap_or("inline"))
        }
        Part::Audio(_) => writeln!(out, "[a recording]"),
        Part::ToolCall(call) => writeln!(out, "[calls `{}` with {}]", call.name, call.arguments.0),
        Part::ToolResult(result) => {
            let name = result.name.as_deref().unwrap_or(&result.tool_call_id);
            let failed = if result.is_error { " failed" } else { "" };
            writeln!(out, "[`{name}`{failed}] {}", draft::result_text(&result.content))
        }
        Part::Reasoning(_) | Part::Opaque { .. } | Part::ProviderTool(_) => Ok(()),
    };
}

#[derive(Deserialize)]
struct ToolCallAnswer {
    tool_calls: Vec<RequestedCall>,
}

#[derive(Deserialize)]
struct RequestedCall {
    name: String,
    #[serde(default)]
    arguments: Value,
}

/// Reads the answer that the person brought: tool calls if it is the requested JSON, alone or in a fence; text
/// otherwise. Deterministic for the same answer and request.
///
/// # Errors
/// When the answer is empty, too large, or asks for tools in a way that cannot be followed.
pub fn read(answer: &str, request: &Request) -> Result<Response, LlmError> {
    if answer.len() > ANSWER_BYTES_MAX {
        let why = format!("the answer is larger than {ANSWER_BYTES_MAX} bytes");
        return Err(LlmError::new(ErrorKind::TooLarge, NAME, why));
    }
    let text = answer.trim();
    if text.is_empty() {
        return Err(malformed("the answer is empty"));
    }
    let inner = text
        .strip_prefix("```")
        .and_then(|fenced| fenced.strip_suffix("```"))
        .map_or(text, |fenced| fenced.trim_start_matches("json").trim());
    let value = serde_json::from_str::<Value>(inner).ok().filter(|value| value.get("tool_calls").is_some());
    let (content, finish) = match value {
        Some(value) => (tool_calls(value, request)?, FinishReason::ToolCalls),
        None => (vec![Part::text(text)], FinishReason::Stop),
    };
    let cx = AnswerContext::new(NAME, request.n_answers());
    let model = Some(request.model.clone());
    Ok(draft::response(content, (finish, None), Usage::default(), model, None, cx))
}

fn malformed(why: impl Into<String>) -> LlmError {
    LlmError::new(ErrorKind::MalformedResponse, NAME, why.into())
}

fn tool_calls(value: Value, request: &Request) -> Result<Vec<Part>, LlmError> {
    let answer_calls: ToolCallAnswer = serde_json::from_value(value).map_err(|error| {
        malformed(format!(
            "the answer asks for tools, but not in the form \
             {{\"tool_calls\": [{{\"name\": \"…\", \"arguments\": {{…}}}}]}}: {error}"
        ))
    })?;
    if answer_calls.tool_calls.is_empty() {
        return Err(malformed("`tool_calls` is empty: name a tool, or answer with a text"));
    }
    let call = |requested: RequestedCall| {
        if !request.tools.iter().any(|tool| tool.name == requested.name) {
            let offered: Vec<_> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
            let offered = if offered.is_empty() { "none".to_owned() } else { offered.join(", ") };
            return Err(malformed(format!("there is no tool `{}`; offered: {offered}", requested.name)));
        }
        let arguments = match requested.arguments {
            Value::Null => Value::Object(serde_json::Map::new()),
            object @ Value::Object(_) => object,
            _ => return Err(malformed(format!("the arguments of `{}` are not an object", requested.name))),
        };
        Ok(Part::ToolCall(ToolCall {
            id: String::new(),
            name: requested.name,
            arguments: Json::from(arguments),
            arguments_raw: None,
            signature: None,
        }))
    };
    answer_calls.tool_calls.into_iter().map(call).collect()
}

impl Client for HumanRelay {
    fn provider(&self) -> &str {
        NAME
    }

    fn call<'a>(&'a self, request: &'a Request, cx: CallContext<'a>) -> BoxFuture<'a, Result<Response, LlmError>> {
        self.answer(request, cx).boxed()
    }

    fn check(&self) -> BoxFuture<'_, Health> {
        std::future::ready(Health::good(NAME, Duration::ZERO)).boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<ModelEntry>, LlmError>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }
}

#[cfg(test)]
mod tests;
