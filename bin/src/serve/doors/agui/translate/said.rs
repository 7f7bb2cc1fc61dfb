//! The text and the reasoning of model calls as messages.

use rethread::{CallId, Message, ThreadId};

use super::super::event::Event as AguiEvent;
use crate::serve::doors::streamed_text::{StreamedText, reasoning_of};

/// What the model says in the present agent loop.
#[derive(Debug, Default)]
pub(super) struct Said {
    call: Option<Call>,
    /// The text of the last answer that was emitted.
    last: String,
}

/// A model call whose answer is sent to the client.
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
    fn say(&mut self, (text, begins): (String, bool), emitted: &mut Vec<AguiEvent>) {
        self.end_thought(emitted);
        if begins {
            self.end_message(emitted);
        }
        let message_id = match &self.message {
            Some(id) => id.clone(),
            None => {
                self.n_messages += 1;
                let id = numbered(&self.key, self.n_messages);
                self.message = Some(id.clone());
                emitted.push(AguiEvent::TextMessageStart { message_id: id.clone(), role: "assistant" });
                id
            }
        };
        emitted.push(AguiEvent::TextMessageContent { message_id, delta: text });
    }

    fn end_message(&mut self, emitted: &mut Vec<AguiEvent>) {
        emitted.extend(self.message.take().map(|message_id| AguiEvent::TextMessageEnd { message_id }));
    }

    /// Tells the next piece of reasoning.
    fn think(&mut self, (delta, begins): (String, bool), emitted: &mut Vec<AguiEvent>) {
        if begins {
            self.end_thought(emitted);
        }
        let message_id = match &self.thought {
            Some(id) => id.clone(),
            None => {
                self.n_thoughts += 1;
                let id = numbered(&format!("{}-reasoning", self.key), self.n_thoughts);
                self.thought = Some(id.clone());
                emitted.push(AguiEvent::ReasoningStart { message_id: id.clone() });
                emitted.push(AguiEvent::ReasoningMessageStart { message_id: id.clone(), role: "reasoning" });
                id
            }
        };
        emitted.push(AguiEvent::ReasoningMessageContent { message_id, delta });
    }

    fn end_thought(&mut self, emitted: &mut Vec<AguiEvent>) {
        if let Some(message_id) = self.thought.take() {
            emitted.push(AguiEvent::ReasoningMessageEnd { message_id: message_id.clone() });
            emitted.push(AguiEvent::ReasoningEnd { message_id });
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

    /// A model call begins. With no id, nothing of it is sent.
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
    pub(super) fn pieces(&mut self, id: CallId, reasoning: &str, text: &str) -> Vec<AguiEvent> {
        let mut emitted = Vec::new();
        if let Some(call) = self.call(id) {
            if let Some(piece) = call.reasoning.take(reasoning) {
                call.think(piece, &mut emitted);
            }
            if let Some(piece) = call.text.take(text) {
                call.say(piece, &mut emitted);
            }
        }
        emitted
    }

    /// The call has no answer.
    pub(super) fn fail(&mut self, id: CallId) -> Vec<AguiEvent> {
        let mut emitted = Vec::new();
        if let Some(mut call) = self.call.take_if(|call| call.id == id) {
            call.end_thought(&mut emitted);
            call.end_message(&mut emitted);
        }
        emitted
    }

    /// Returns what is missing once the whole answer is known, and the message that it is. `None` if nothing is sent of the
    /// call.
    pub(super) fn complete(&mut self, id: CallId, message: &Message, all: bool) -> Option<(Vec<AguiEvent>, String)> {
        let mut call = self.call.take_if(|call| call.id == id)?;
        let mut emitted = Vec::new();
        if all {
            if let Some(piece) = call.reasoning.complete(&reasoning_of(message)) {
                call.think(piece, &mut emitted);
            }
            let text = message.joined_text();
            if let Some(piece) = call.text.complete(&text) {
                call.say(piece, &mut emitted);
            }
            self.last = text;
        }
        call.end_thought(&mut emitted);
        call.end_message(&mut emitted);
        Some((emitted, numbered(&call.key, call.n_messages.max(1))))
    }

    /// Returns an answer that no model call is known for, as a message with this id.
    pub(super) fn chosen(&mut self, answer: &Message, id: &str, all: bool) -> Vec<AguiEvent> {
        if all { self.answer(&answer.joined_text(), id.to_owned()) } else { Vec::new() }
    }

    /// Returns the answer of the loop as a message, unless it was emitted.
    pub(super) fn answer(&mut self, content: &str, id: String) -> Vec<AguiEvent> {
        if content.is_empty() || content == self.last {
            return Vec::new();
        }
        content.clone_into(&mut self.last);
        whole(id, content)
    }
}

/// The events of a message that is known as a whole.
pub(in super::super) fn whole(message_id: String, text: &str) -> Vec<AguiEvent> {
    vec![
        AguiEvent::TextMessageStart { message_id: message_id.clone(), role: "assistant" },
        AguiEvent::TextMessageContent { message_id: message_id.clone(), delta: text.to_owned() },
        AguiEvent::TextMessageEnd { message_id },
    ]
}
