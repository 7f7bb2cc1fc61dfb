//! How long a conversation is, in tokens: counted with the tokenizer of the model that would be sent it, each message
//! once.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rethread_events::ids::Hash;
use rethread_events::message::{Message, Part, Role};
use rethread_llm::tokens::Counter;
use rethread_tools::Catalogue;

/// How many messages are known at most; those of some hundred long threads.
const MESSAGES_MAX: usize = 100_000;
/// How many models have a counter at most; more than any configuration names.
const MODELS_MAX: usize = 256;
/// More tokens than a provider adds around a part of a message, and than it bills for a picture of the size that is
/// usual.
const AROUND_PART: u64 = 800;

/// Counts conversations. What was counted is known again by its place in memory, so that only new messages cost
/// anything.
#[derive(Default)]
pub(crate) struct Counting {
    counters: Mutex<HashMap<String, Arc<ModelCounts>>>,
}

struct ModelCounts {
    counter: Counter,
    messages: Mutex<HashMap<usize, (Weak<Message>, u64)>>,
    catalogues: Mutex<HashMap<Hash, u64>>,
}

impl Counting {
    /// The tokens of these messages and tools for a model.
    pub(crate) fn count(&self, model: &str, messages: &[Arc<Message>], tools: Option<&Catalogue>) -> u64 {
        let counts = self.counts(model);
        let tools = tools.map_or(0, |tools| counts.tools(tools));
        let said: u64 = messages.iter().map(|message| counts.message(message)).sum();
        // Every answer is primed with three tokens.
        said + tools + 3
    }

    fn counts(&self, model: &str) -> Arc<ModelCounts> {
        let mut counters = self.counters.lock();
        if let Some(known) = counters.get(model) {
            return known.clone();
        }
        if counters.len() >= MODELS_MAX {
            counters.clear();
        }
        let made = Arc::new(ModelCounts {
            counter: Counter::for_model(model),
            messages: Mutex::default(),
            catalogues: Mutex::default(),
        });
        counters.insert(model.to_owned(), made.clone());
        made
    }
}

impl ModelCounts {
    fn message(&self, message: &Arc<Message>) -> u64 {
        // Instructions are made anew for each call; their text is known to the counter.
        if message.role == Role::System {
            return self.counter.message(message);
        }
        let place = Arc::as_ptr(message).addr();
        let known = self.messages.lock().get(&place).cloned();
        // The place may be another message's by now: then the one that was counted is gone.
        if let Some((counted, tokens)) = known
            && counted.upgrade().is_some_and(|counted| Arc::ptr_eq(&counted, message))
        {
            return tokens;
        }
        let tokens = self.counter.message(message);
        let mut messages = self.messages.lock();
        if messages.len() >= MESSAGES_MAX {
            messages.retain(|_, (counted, _)| counted.strong_count() > 0);
            if messages.len() >= MESSAGES_MAX {
                messages.clear();
            }
        }
        messages.insert(place, (Arc::downgrade(message), tokens));
        tokens
    }

    fn tools(&self, tools: &Catalogue) -> u64 {
        if let Some(known) = self.catalogues.lock().get(&tools.hash) {
            return *known;
        }
        let tokens = self.counter.tools(&tools.specs);
        let mut catalogues = self.catalogues.lock();
        if catalogues.len() >= MODELS_MAX {
            catalogues.clear();
        }
        catalogues.insert(tools.hash, tokens);
        tokens
    }
}

/// More tokens than these messages can be: a token has a byte at least. Loading a tokenizer takes 100 ms, and most
/// conversations never need it.
pub(crate) fn at_most(messages: &[Arc<Message>], tools: Option<&Catalogue>) -> u64 {
    let tools = tools.map_or(0, |tools| tools.json().len() as u64 + AROUND_PART);
    messages.iter().flat_map(|message| &message.content).map(bytes_of).sum::<u64>() + tools + AROUND_PART
}

fn bytes_of(part: &Part) -> u64 {
    let bytes = match part {
        Part::Text { text, .. } | Part::Refusal { text } => text.len(),
        Part::ToolResult(result) => return result.content.iter().map(bytes_of).sum::<u64>() + 8,
        Part::ToolCall(call) => {
            let raw = call.arguments_raw.as_ref().map(String::len);
            call.name.len() + raw.unwrap_or_else(|| call.arguments.0.to_string().len())
        }
        Part::Reasoning(thought) => thought.text.as_ref().map_or(0, String::len),
        Part::Document(media) => media.data.as_ref().map_or(0, |data| data.len()),
        Part::Image(_) => return AROUND_PART,
        Part::Opaque { data, .. } => data.0.to_string().len(),
    };
    // The frame of a message of one part.
    bytes as u64 + 8
}
