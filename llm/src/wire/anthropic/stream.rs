//! A Messages answer in pieces.

use std::collections::BTreeMap;

use rethread_events::message::Usage;
use serde::Deserialize;
use serde_json::Value;

use super::read::{self, Envelope};
use crate::client::{Delta, Listener};
use crate::error::LlmError;
use crate::response::Response;
use crate::sse::Event;
use crate::wire::plain::Text;
use crate::wire::{AnswerContext, Assembler, Progress, fault, json};

/// The event that nearly every event is, read faster than as a tree.
#[derive(Debug, Deserialize)]
struct TextPiece<'a> {
    #[serde(rename = "type")]
    _kind: PieceKind,
    index: u64,
    #[serde(borrow)]
    delta: TextDelta<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TextDelta<'a> {
    #[serde(rename = "type")]
    _kind: DeltaKind,
    #[serde(borrow)]
    text: Text<'a>,
}

#[derive(Debug, Deserialize)]
enum PieceKind {
    #[serde(rename = "content_block_delta")]
    ContentBlockDelta,
}

#[derive(Debug, Deserialize)]
enum DeltaKind {
    #[serde(rename = "text_delta")]
    Text,
}

/// A block, as far as it is known.
struct Block {
    /// The block as it began.
    start: Value,
    text: String,
    signature: String,
    input: String,
    citations: Vec<Value>,
    /// Which call of the answer it is.
    call: Option<usize>,
}

/// The pieces so far.
pub(super) struct MessageStream {
    cx: AnswerContext,
    envelope: Envelope,
    /// The usage that the envelope has.
    usage: Usage,
    blocks: BTreeMap<u64, Block>,
    n_calls: usize,
    ended: bool,
}

impl MessageStream {
    pub(super) fn new(cx: AnswerContext) -> Self {
        Self {
            cx,
            envelope: Envelope::default(),
            usage: Usage::default(),
            blocks: BTreeMap::new(),
            n_calls: 0,
            ended: false,
        }
    }

    fn start_block(&mut self, value: &Value, listener: &mut dyn Listener) {
        let index = json::count(value, "index").unwrap_or(self.blocks.len() as u64);
        let start = json::object(value, "content_block").clone();
        let call = (json::text(&start, "type") == Some("tool_use")).then_some(self.n_calls);
        if let Some(index) = call {
            self.n_calls += 1;
            if listener.wants_deltas() {
                listener.delta(Delta::ToolCall {
                    index,
                    id: json::filled(&start, "id").map(str::to_owned),
                    name: json::filled(&start, "name").map(str::to_owned),
                    arguments_fragment: String::new(),
                });
            }
        }
        let text = json::text(&start, "text").or_else(|| json::text(&start, "thinking"));
        let block = Block {
            text: text.unwrap_or_default().to_owned(),
            signature: json::owned(&start, "signature").unwrap_or_default(),
            input: String::new(),
            citations: Vec::new(),
            call,
            start,
        };
        self.blocks.insert(index, block);
    }

    fn continue_text(&mut self, piece: TextPiece<'_>, listener: &mut dyn Listener) {
        let Some(block) = self.blocks.get_mut(&piece.index) else { return };
        let Text(text) = piece.delta.text;
        block.text.push_str(&text);
        if !text.is_empty() && listener.wants_deltas() {
            listener.delta(Delta::Text(text.into_owned()));
        }
    }

    fn continue_block(&mut self, value: &Value, listener: &mut dyn Listener) {
        let place = json::count(value, "index").unwrap_or(0);
        let Some(block) = self.blocks.get_mut(&place) else { return };
        let delta = json::object(value, "delta");
        let wanted = listener.wants_deltas();
        if let Some(text) = json::filled(delta, "text") {
            block.text.push_str(text);
            if wanted {
                listener.delta(Delta::Text(text.to_owned()));
            }
        } else if let Some(text) = json::filled(delta, "thinking") {
            block.text.push_str(text);
            if wanted {
                listener.delta(Delta::Reasoning(text.to_owned()));
            }
        } else if let Some(piece) = json::filled(delta, "partial_json") {
            block.input.push_str(piece);
            if let Some(index) = block.call.filter(|_| wanted) {
                listener.delta(Delta::ToolCall { index, id: None, name: None, arguments_fragment: piece.to_owned() });
            }
        } else if let Some(signature) = json::filled(delta, "signature") {
            // It comes whole; a second one would be a better one, not a continuation.
            block.signature.clear();
            block.signature.push_str(signature);
        } else if let Some(citation) = delta.get("citation") {
            block.citations.push(citation.clone());
        } else if json::text(delta, "type") == Some("compaction_delta")
            && let (Some(block), Some(more)) = (block.start.as_object_mut(), delta.as_object())
        {
            // It comes whole.
            block
                .extend(more.iter().filter(|(key, _)| *key != "type").map(|(key, value)| (key.clone(), value.clone())));
        }
    }
}

impl Assembler for MessageStream {
    fn event(&mut self, event: &Event, listener: &mut dyn Listener) -> Result<Progress, LlmError> {
        let data = event.data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(if self.ended { Progress::Done } else { Progress::More });
        }
        if let Ok(piece) = serde_json::from_str(data) {
            self.continue_text(piece, listener);
            return Ok(Progress::More);
        }
        let value: Value = serde_json::from_str(data).map_err(|e| {
            let begin = crate::error::excerpt(data, 200);
            self.cx.malformed(format!("an event is not JSON ({e}): {begin}"))
        })?;
        match json::text(&value, "type").unwrap_or(&event.name) {
            "message_start" => {
                self.envelope.add(json::object(&value, "message"));
                self.usage = self.envelope.usage();
            }
            "content_block_start" => self.start_block(&value, listener),
            "content_block_delta" => self.continue_block(&value, listener),
            "message_delta" => {
                self.envelope.add(&value);
                self.envelope.add(json::object(&value, "delta"));
                self.usage = self.envelope.usage();
            }
            "message_stop" => {
                self.ended = true;
                return Ok(Progress::Done);
            }
            "error" => return Err(fault::from_value(self.cx.provider, None, &value)),
            _ if fault::is_error(&value) => {
                return Err(fault::from_value(self.cx.provider, None, &value));
            }
            // `ping`, the end of a block, and unknown events.
            _ => {}
        }
        Ok(Progress::More)
    }

    fn usage(&self) -> Usage {
        self.usage
    }

    fn finish(self: Box<Self>) -> Result<Response, LlmError> {
        if !self.ended {
            return Err(self.cx.interrupted());
        }
        let parts = self.blocks.into_values().map(|block| {
            let mut start = block.start;
            if let Some(fields) = start.as_object_mut() {
                for (key, text) in [("text", &block.text), ("thinking", &block.text), ("signature", &block.signature)] {
                    if let Some(place) = fields.get_mut(key).filter(|place| place.is_string()) {
                        *place = text.as_str().into();
                    } else if key == "signature" && !text.is_empty() {
                        fields.insert(key.into(), text.as_str().into());
                    }
                }
                if !block.citations.is_empty() {
                    fields.insert("citations".into(), block.citations.into());
                }
            }
            read::part(&start, Some(&block.input))
        });
        let content = parts.collect();
        Ok(self.envelope.respond(content, self.cx))
    }
}
