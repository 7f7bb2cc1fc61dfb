//! A Responses answer in pieces. Each piece is passed on as it arrives; the answer itself is read from the last event,
//! which repeats all of it.

use std::collections::BTreeMap;

use rethread_events::message::Usage;
use serde::Deserialize;
use serde_json::Value;

use super::read;
use crate::client::{Delta, Listener};
use crate::error::LlmError;
use crate::response::Response;
use crate::sse::Event;
use crate::wire::plain::Text;
use crate::wire::{AnswerContext, Assembler, Progress, fault, json};

/// The event that nearly every event is, read faster than as a tree. Whatever else it holds comes again in the last event.
#[derive(Debug, Deserialize)]
struct TextPiece<'a> {
    #[serde(rename = "type")]
    _kind: TextKind,
    #[serde(borrow)]
    delta: Text<'a>,
}

#[derive(Debug, Deserialize)]
enum TextKind {
    #[serde(rename = "response.output_text.delta")]
    OutputText,
}

/// The pieces so far.
pub(super) struct ResponsesStream {
    cx: AnswerContext,
    /// Items that are complete, by their place in the output.
    items: BTreeMap<u64, Value>,
    /// The index in the output of each call of the answer.
    calls: Vec<u64>,
    last: Option<Value>,
    /// The usage that the last response object with figures has.
    usage: Usage,
}

impl ResponsesStream {
    pub(super) fn new(cx: AnswerContext) -> Self {
        Self { cx, items: BTreeMap::new(), calls: Vec::new(), last: None, usage: Usage::default() }
    }

    fn call_index(&mut self, place: u64) -> usize {
        self.calls.iter().position(|known| *known == place).unwrap_or_else(|| {
            self.calls.push(place);
            self.calls.len() - 1
        })
    }

    fn emit(&mut self, kind: &str, value: &Value, listener: &mut dyn Listener) {
        let place = json::count(value, "output_index").unwrap_or(0);
        let piece = || json::filled(value, "delta").map(str::to_owned);
        match kind {
            "response.output_text.delta" => {
                if let Some(text) = piece() {
                    listener.delta(Delta::Text(text));
                }
            }
            "response.refusal.delta" => {
                if let Some(text) = piece() {
                    listener.delta(Delta::Refusal(text));
                }
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                if let Some(text) = piece() {
                    listener.delta(Delta::Reasoning(text));
                }
            }
            "response.function_call_arguments.delta" => {
                if let Some(arguments_fragment) = piece() {
                    let index = self.call_index(place);
                    listener.delta(Delta::ToolCall { index, id: None, name: None, arguments_fragment });
                }
            }
            "response.output_item.added" => {
                let item = json::object(value, "item");
                if json::text(item, "type") == Some("function_call") {
                    listener.delta(Delta::ToolCall {
                        index: self.call_index(place),
                        id: json::filled(item, "call_id").map(str::to_owned),
                        name: json::filled(item, "name").map(str::to_owned),
                        arguments_fragment: json::owned(item, "arguments").unwrap_or_default(),
                    });
                }
            }
            _ => {}
        }
    }
}

impl Assembler for ResponsesStream {
    fn event(&mut self, event: &Event, listener: &mut dyn Listener) -> Result<Progress, LlmError> {
        let data = event.data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(if self.last.is_some() { Progress::Done } else { Progress::More });
        }
        if let Ok(TextPiece { delta: Text(text), .. }) = serde_json::from_str(data) {
            if !text.is_empty() && listener.wants_deltas() {
                listener.delta(Delta::Text(text.into_owned()));
            }
            return Ok(Progress::More);
        }
        let mut value: Value = serde_json::from_str(data).map_err(|e| {
            let begin = crate::error::excerpt(data, 200);
            self.cx.malformed(format!("an event is not JSON ({e}): {begin}"))
        })?;
        let response = json::object(&value, "response");
        if json::object(response, "usage").is_object() {
            self.usage = read::usage(response, json::list(response, "output"));
        }
        let kind = json::text(&value, "type").unwrap_or(&event.name).to_owned();
        match kind.as_str() {
            "error" => return Err(fault::from_value(self.cx.provider, None, &value)),
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                self.last = value.get_mut("response").map(Value::take);
                if self.last.is_none() {
                    return Err(self.cx.malformed("the last event holds no response"));
                }
                return Ok(Progress::Done);
            }
            "response.output_item.done" => {
                if let (Some(place), Some(item)) = (json::count(&value, "output_index"), value.get_mut("item")) {
                    self.items.insert(place, item.take());
                }
                return Ok(Progress::More);
            }
            "" if fault::is_error(&value) => {
                return Err(fault::from_value(self.cx.provider, None, &value));
            }
            _ => {}
        }
        if listener.wants_deltas() {
            self.emit(&kind, &value, listener);
        }
        Ok(Progress::More)
    }

    fn usage(&self) -> Usage {
        self.usage
    }

    fn finish(self: Box<Self>) -> Result<Response, LlmError> {
        let Some(last) = self.last else { return Err(self.cx.interrupted()) };
        let items: Vec<Value> = self.items.into_values().collect();
        read::answer(&last, &items, self.cx)
    }
}
