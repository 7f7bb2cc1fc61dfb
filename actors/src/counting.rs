//! Counts the tokens of a conversation with the tokenizer of the model that receives it. Each message is counted once.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rethread_events::ids::Hash;
use rethread_events::message::{Message, Part, Role};
use rethread_llm::tokens::Counter;
use rethread_tools::Catalogue;

/// The most messages whose counts are cached: those of some hundred long threads.
const MESSAGES_MAX: usize = 100_000;
/// The most models that have a counter; more than any configuration names.
const MODELS_MAX: usize = 256;
/// An upper bound for the tokens that a provider adds around a part of a message, and that it bills for a picture of
/// usual size.
const AROUND_PART: u64 = 800;

/// Counts the tokens of conversations. Counts are cached by the address of the message in memory, so that only new
/// messages cost anything.
#[derive(Default)]
pub(crate) struct Counting {
    counters: Mutex<HashMap<String, Arc<ModelCounts>>>,
}

struct ModelCounts {
    counter: Counter,
    known: Mutex<Known>,
    catalogues: Mutex<HashMap<Hash, u64>>,
}

/// The cached counts, by address. Each entry refers to its message, so no other message can get its address.
#[derive(Default)]
struct Known {
    messages: HashMap<usize, (Weak<Message>, u64)>,
    /// Conversations by the address of their first message. All of their messages are in `messages`.
    conversations: HashMap<usize, Counted>,
    /// The number of messages in all conversations.
    n_in_conversations: usize,
    /// How often the cache was cleared.
    n_forgotten: u64,
}

/// The messages of a conversation in order: the address of each, and the tokens up to it.
type Counted = Vec<(usize, u64)>;

impl Counting {
    /// The tokens of these messages and tools for a model.
    pub(crate) fn count(&self, model: &str, messages: &[&Arc<Message>], tools: Option<&Catalogue>) -> u64 {
        let counts = self.counts(model);
        let tools = tools.map_or(0, |tools| counts.tools(tools));
        // Every answer is primed with three tokens.
        counts.messages(messages) + tools + 3
    }

    /// Returns whether they have more tokens than `n`. A conversation that was never counted is counted only if that is
    /// possible.
    pub(crate) fn is_longer(
        &self,
        model: &str,
        messages: &[&Arc<Message>],
        tools: Option<&Catalogue>,
        tokens: u64,
    ) -> bool {
        let is_known = || self.counts(model).knows(messages);
        (is_known() || at_most(messages, tools) > tokens) && self.count(model, messages, tools) > tokens
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
            known: Mutex::default(),
            catalogues: Mutex::default(),
        });
        counters.insert(model.to_owned(), made.clone());
        made
    }
}

impl ModelCounts {
    fn knows(&self, messages: &[&Arc<Message>]) -> bool {
        let first = messages.iter().find(|message| message.role != Role::System);
        first.is_some_and(|first| self.known.lock().conversations.contains_key(&place(first)))
    }

    fn messages(&self, messages: &[&Arc<Message>]) -> u64 {
        // Instructions are created for each call; the counter caches by their text.
        let n_instructions = messages.iter().take_while(|message| message.role == Role::System).count();
        let (instructions, said) = messages.split_at(n_instructions);
        let instructions: u64 = instructions.iter().map(|message| self.counter.message(message)).sum();
        let Some(first) = said.first().map(|first| place(first)) else { return instructions };
        let (mut counted, n_forgotten) = {
            let mut known = self.known.lock();
            let counted = known.conversations.remove(&first).unwrap_or_default();
            known.n_in_conversations -= counted.len();
            (counted, known.n_forgotten)
        };
        let n_same = counted.iter().zip(said).take_while(|((known, _), message)| *known == place(message)).count();
        counted.truncate(n_same);
        let mut sum = counted.last().map_or(0, |(_, sum)| *sum);
        let mut is_stable = true;
        for message in &said[n_same..] {
            sum += self.message(message);
            is_stable &= message.role != Role::System;
            if is_stable {
                counted.push((place(message), sum));
            }
        }
        let mut known = self.known.lock();
        if known.n_forgotten == n_forgotten {
            if known.n_in_conversations + counted.len() > MESSAGES_MAX {
                known.forget_conversations();
            }
            known.n_in_conversations += counted.len();
            let before = known.conversations.insert(first, counted);
            known.n_in_conversations -= before.map_or(0, |before| before.len());
        }
        instructions + sum
    }

    fn message(&self, message: &Arc<Message>) -> u64 {
        if message.role == Role::System {
            return self.counter.message(message);
        }
        if let Some((_, tokens)) = self.known.lock().messages.get(&place(message)) {
            return *tokens;
        }
        let tokens = self.counter.message(message);
        let mut known = self.known.lock();
        if known.messages.len() >= MESSAGES_MAX {
            known.forget_conversations();
            known.n_forgotten += 1;
            known.messages.retain(|_, (counted, _)| counted.strong_count() > 0);
            if known.messages.len() >= MESSAGES_MAX {
                known.messages.clear();
            }
        }
        known.messages.insert(place(message), (Arc::downgrade(message), tokens));
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

impl Known {
    fn forget_conversations(&mut self) {
        self.conversations.clear();
        self.n_in_conversations = 0;
    }
}

fn place(message: &Arc<Message>) -> usize {
    Arc::as_ptr(message).addr()
}

/// An upper bound for the tokens of these messages: a token has at least one byte. Loading a tokenizer takes 100 ms,
/// and most conversations never need it.
fn at_most(messages: &[&Arc<Message>], tools: Option<&Catalogue>) -> u64 {
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
