//! What was said, in the form of the GenAI conventions; kept only if it is wanted.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::event::Event;
use crate::ids::{CallId, Seq};
use crate::message::{Message, Part, Role};
use crate::text::head_bytes;

/// The most bytes of one text.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// The most bytes of all texts of a run; later ones are left out.
const RUN_BYTES_MAX: usize = 16 << 20;

/// The texts of a run.
#[derive(Debug)]
pub(super) struct Content {
    is_wanted: bool,
    bytes_left: usize,
    instructions: Option<String>,
    /// Messages that no model was called with yet.
    unsent: Vec<Value>,
    pub(super) calls: BTreeMap<CallId, Said>,
}

/// What was said in a call.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) instructions: Option<String>,
    /// JSON: messages, or arguments of a tool.
    pub(super) input: Option<String>,
    /// JSON: messages; or the text of a tool.
    pub(super) output: Option<String>,
}

impl Content {
    pub(super) fn new(is_wanted: bool) -> Self {
        Self { is_wanted, bytes_left: RUN_BYTES_MAX, instructions: None, unsent: Vec::new(), calls: BTreeMap::new() }
    }

    pub(super) fn apply(&mut self, seq: Seq, event: &Event) {
        if !self.is_wanted {
            return;
        }
        if let Event::LlmExecutionRequest(e) = event {
            self.instructions = e.system_prompt.as_deref().map(cut);
            self.unsent.clear();
            self.push(json!({ "role": "user", "parts": [text_part(&e.prompt)] }));
        } else if let Event::MessageAdded(e) = event {
            let message = said(&e.message);
            self.push(message);
        } else if let Event::AnswerRejected(e) = event {
            self.push(json!({ "role": "user", "parts": [text_part(&e.prompt)] }));
        } else if let Event::LlmCallRequested(e) = event {
            // Several models may be asked the same.
            let unsent = if e.aside.is_some() { self.unsent.clone() } else { std::mem::take(&mut self.unsent) };
            let instructions = self.instructions.clone();
            let said = Said { instructions, input: Some(Value::from(unsent).to_string()), output: None };
            self.keep(seq, said);
        } else if let Event::LlmCallCompleted(e) = event {
            let mut message = said(&e.message);
            if let Value::Object(message) = &mut message {
                message.insert("finish_reason".into(), serde_json::to_value(e.finish_reason).unwrap_or_default());
            }
            self.answer(e.call_id, json!([message]).to_string());
        } else if let Event::ToolExecutionRequest(e) = event {
            let said = Said { input: Some(cut(&e.arguments.0.to_string())), ..Said::default() };
            self.keep(seq, said);
        } else if let Event::ToolExecutionCompleted(e) = event {
            let text: String = e.content.iter().filter_map(Part::as_text).collect();
            self.push(response(e.tool_call_id.as_deref(), &text));
            self.answer(e.call_id, cut(&text));
        } else if let Event::ToolExecutionFailed(e) = event {
            self.push(response(e.tool_call_id.as_deref(), &e.error.message));
            self.answer(e.call_id, cut(&e.error.message));
        }
    }

    fn push(&mut self, message: Value) {
        // More of them than a model is ever sent at once would have to be kept.
        if self.unsent.len() < 1_000 {
            self.unsent.push(message);
        }
    }

    fn keep(&mut self, seq: Seq, said: Said) {
        let bytes = [&said.instructions, &said.input].into_iter().flatten().map(String::len).sum();
        if let Some(left) = self.bytes_left.checked_sub(bytes) {
            self.bytes_left = left;
            self.calls.insert(CallId(seq), said);
        }
    }

    fn answer(&mut self, call: CallId, output: String) {
        let Some(left) = self.bytes_left.checked_sub(output.len()) else { return };
        if let Some(said) = self.calls.get_mut(&call) {
            self.bytes_left = left;
            said.output = Some(output);
        }
    }
}

fn cut(text: &str) -> String {
    let head = head_bytes(text, TEXT_BYTES_MAX);
    if head.len() == text.len() { text.to_owned() } else { format!("{head}…") }
}

fn text_part(text: &str) -> Value {
    json!({ "type": "text", "content": cut(text) })
}

fn response(tool_call: Option<&str>, text: &str) -> Value {
    json!({ "role": "tool", "parts": [{ "type": "tool_call_response", "id": tool_call, "response": cut(text) }] })
}

fn said(message: &Message) -> Value {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let part = |part: &Part| match part {
        Part::Text { text, .. } => text_part(text),
        Part::Image(_) => json!({ "type": "image" }),
        Part::Document(_) => json!({ "type": "document" }),
        Part::Audio(_) => json!({ "type": "audio" }),
        Part::ProviderTool(tool) => json!({ "type": "server_tool_call", "id": tool.id, "name": tool.name }),
        Part::Reasoning(reasoning) => {
            json!({ "type": "reasoning", "content": cut(reasoning.text.as_deref().unwrap_or_default()) })
        }
        Part::ToolCall(call) => {
            let arguments = call.arguments.0.to_string();
            let arguments = match arguments.len() > TEXT_BYTES_MAX {
                true => Value::from(cut(&arguments)),
                false => (*call.arguments.0).clone(),
            };
            json!({ "type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments })
        }
        Part::ToolResult(result) => {
            let text: String = result.content.iter().filter_map(Part::as_text).collect();
            json!({ "type": "tool_call_response", "id": result.tool_call_id, "response": cut(&text) })
        }
        Part::Refusal { text } => json!({ "type": "refusal", "content": cut(text) }),
        Part::Opaque { .. } => json!({ "type": "opaque" }),
    };
    json!({ "role": role, "parts": message.content.iter().map(part).collect::<Vec<_>>() })
}
