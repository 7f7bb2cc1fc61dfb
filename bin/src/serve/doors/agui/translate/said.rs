//! The text and the reasoning of model calls as messages.

use rethread::{CallId, Message, Part, ThreadId};

use super::super::event::Event as Told;
use crate::serve::doors::streamed_text::StreamedText;

/// What the model says in the present agent loop.
#[derive(Debug, Default)]
pub(super) struct Said {
    call: Option<Call>,
    /// The text of the last answer that was told.
    last: String,
}

/// A model call whose answer is told.
#[derive(Debug)]
struct Call {
    id: CallId,
    key: String,
    text: StreamedText,
    reasoning: StreamedText,
    /// The message that is open, and how many there were.
    message: Option<String>,
    n_messages: u32,
    thought: Option<String>,
    n_thoughts: u32,
}

impl Call {
    /// Tells the next text.
    fn say(&mut self, (text, begins): (String, bool), told: &mut Vec<Told>) {
        self.end_thought(told);
        if begins {
            self.end_message(told);
        }
        let message_id = match &self.message {
            Some(id) => id.clone(),
            None => {
                self.n_messages += 1;
                let id = numbered(&self.key, self.n_messages);
                self.message = Some(id.clone());
                told.push(Told::TextMessageStart { message_id: id.clone(), role: "assistant" });
                id
            }
        };
        told.push(Told::TextMessageContent { message_id, delta: text });
    }

    fn end_message(&mut self, told: &mut Vec<Told>) {
        told.extend(self.message.take().map(|message_id| Told::TextMessageEnd { message_id }));
    }

    /// Tells the next piece of reasoning.
    fn think(&mut self, (delta, begins): (String, bool), told: &mut Vec<Told>) {
        if begins {
            self.end_thought(told);
        }
        let message_id = match &self.thought {
            Some(id) => id.clone(),
            None => {
                self.n_thoughts += 1;
                let id = numbered(&format!("{}-reasoning", self.key), self.n_thoughts);
                self.thought = Some(id.clone());
                told.push(Told::ReasoningStart { message_id: id.clone() });
                told.push(Told::ReasoningMessageStart { message_id: id.clone(), role: "reasoning" });
                id
            }
        };
        told.push(Told::ReasoningMessageContent { message_id, delta });
    }

    fn end_thought(&mut self, told: &mut Vec<Told>) {
        if let Some(message_id) = self.thought.take() {
            told.push(Told::ReasoningMessageEnd { message_id: message_id.clone() });
            told.push(Told::ReasoningEnd { message_id });
        }
    }
}

/// The id of the nth message of a call.
fn numbered(key: &str, n: u32) -> String {
    if n == 1 { key.to_owned() } else { format!("{key}-{n}") }
}

impl Said {
    /// An agent loop begins.
    pub(super) fn begin_loop(&mut self) {
        *self = Self::default();
    }

    /// A model call begins. With no id, nothing of it is told.
    pub(super) fn begin(&mut self, id: Option<CallId>, thread: ThreadId) {
        self.call = id.map(|id| Call {
            id,
            key: id.key(thread),
            text: StreamedText::default(),
            reasoning: StreamedText::default(),
            message: None,
            n_messages: 0,
            thought: None,
            n_thoughts: 0,
        });
    }

    fn call(&mut self, id: CallId) -> Option<&mut Call> {
        self.call.as_mut().filter(|call| call.id == id)
    }

    /// The call is made again.
    pub(super) fn restart(&mut self, id: CallId) {
        if let Some(call) = self.call(id) {
            call.text.restart();
            call.reasoning.restart();
        }
    }

    /// Returns what is new in pieces of the answer.
    pub(super) fn pieces(&mut self, id: CallId, reasoning: &str, text: &str) -> Vec<Told> {
        let mut told = Vec::new();
        if let Some(call) = self.call(id) {
            if let Some(piece) = call.reasoning.take(reasoning) {
                call.think(piece, &mut told);
            }
            if let Some(piece) = call.text.take(text) {
                call.say(piece, &mut told);
            }
        }
        told
    }

    /// The call has no answer.
    pub(super) fn fail(&mut self, id: CallId) -> Vec<Told> {
        let mut told = Vec::new();
        if let Some(mut call) = self.call.take_if(|call| call.id == id) {
            call.end_thought(&mut told);
            call.end_message(&mut told);
        }
        told
    }

    /// Returns what is missing once the whole answer is known, and the message that it is. `None` if nothing is told of the
    /// call.
    pub(super) fn complete(&mut self, id: CallId, message: &Message, all: bool) -> Option<(Vec<Told>, String)> {
        let mut call = self.call.take_if(|call| call.id == id)?;
        let mut told = Vec::new();
        if all {
            let reasoning: String = message.content.iter().filter_map(reasoning_of).collect();
            if let Some(piece) = call.reasoning.complete(&reasoning) {
                call.think(piece, &mut told);
            }
            let text = message.joined_text();
            if let Some(piece) = call.text.complete(&text) {
                call.say(piece, &mut told);
            }
            self.last = text;
        }
        call.end_thought(&mut told);
        call.end_message(&mut told);
        Some((told, numbered(&call.key, call.n_messages.max(1))))
    }

    /// Returns the answer of the loop as a message, unless it was told.
    pub(super) fn answer(&mut self, content: &str, id: String) -> Vec<Told> {
        if content.is_empty() || content == self.last {
            return Vec::new();
        }
        content.clone_into(&mut self.last);
        whole(id, content)
    }
}

/// The events of a message that is known as a whole.
pub(in super::super) fn whole(message_id: String, text: &str) -> Vec<Told> {
    vec![
        Told::TextMessageStart { message_id: message_id.clone(), role: "assistant" },
        Told::TextMessageContent { message_id: message_id.clone(), delta: text.to_owned() },
        Told::TextMessageEnd { message_id },
    ]
}

fn reasoning_of(part: &Part) -> Option<&str> {
    match part {
        Part::Reasoning(reasoning) => reasoning.text.as_deref(),
        Part::Text { .. }
        | Part::Image(_)
        | Part::Document(_)
        | Part::ToolCall(_)
        | Part::ToolResult(_)
        | Part::Refusal { .. }
        | Part::Opaque { .. } => None,
    }
}
