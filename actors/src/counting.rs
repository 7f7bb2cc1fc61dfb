//! Counts the tokens of a conversation with the tokenizer of the model that receives it. Each message is counted once.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rethread_events::ids::Hash;
use rethread_events::message::{Message, Part, ProviderTool};
use rethread_events::thread::{Entry, Messages};
use rethread_llm::tokens::Counter;
use rethread_tools::Catalogue;

/// The most messages whose counts are cached: those of some hundred long threads.
const MESSAGES_MAX: usize = 100_000;
/// The most lists of messages whose counts are cached, more than threads are live at once on a usual server.
const LISTS_MAX: usize = 20_000;
/// The most models that have a counter; more than any configuration names.
const MODELS_MAX: usize = 256;
/// An upper bound for the tokens that a provider adds around a part of a message, and that it bills for a picture of
/// usual size.
const AROUND_PART: u64 = 800;

/// Counts the tokens of conversations. Counts are cached by addresses in memory: of the list of messages that copies of a
/// conversation share, and of each message. So only new messages cost anything, and the others one look-up together.
#[derive(Default)]
pub(crate) struct Counting {
    counters: Mutex<HashMap<String, Arc<ModelCounts>>>,
}

struct ModelCounts {
    counter: Counter,
    known: Mutex<Known>,
    catalogues: Mutex<HashMap<Hash, u64>>,
}

/// The cached counts, by address. Each entry has a weak pointer, so that nothing else can get its address, and a list does
/// not change in its place.
#[derive(Default)]
struct Known {
    messages: HashMap<usize, (Weak<Message>, u64)>,
    lists: HashMap<usize, (Weak<Vec<Entry>>, ListCounts)>,
}

/// What is known of a list of messages.
#[derive(Debug, Clone, Copy)]
struct ListCounts {
    at_most: u64,
    /// Absent until it is counted.
    tokens: Option<u64>,
}

impl Counting {
    /// Returns the tokens of the messages and tools for a model.
    pub(crate) fn count(&self, model: &str, messages: &Messages, tools: Option<&Catalogue>) -> u64 {
        let counts = self.counts(model);
        let tools = tools.map_or(0, |tools| counts.tools(tools));
        let shared = messages.shared().map_or(0, |list| counts.list(list));
        let others: u64 = messages.not_shared().map(|message| counts.message(message)).sum();
        // Every answer is primed with three tokens.
        shared + others + tools + 3
    }

    /// Returns whether they have more tokens than `tokens`. They are counted only if that is possible: loading a tokenizer
    /// takes 100 ms, and most conversations never need it.
    pub(crate) fn is_longer(&self, model: &str, messages: &Messages, tools: Option<&Catalogue>, tokens: u64) -> bool {
        self.at_most(model, messages, tools) > tokens && self.count(model, messages, tools) > tokens
    }

    /// An upper bound for the count: a token has at least one byte.
    fn at_most(&self, model: &str, messages: &Messages, tools: Option<&Catalogue>) -> u64 {
        let tools = tools.map_or(0, |tools| tools.json().len() as u64 + AROUND_PART);
        let shared = messages.shared().map_or(0, |list| self.counts(model).list_at_most(list));
        shared + messages.not_shared().map(|message| bytes_of_message(message)).sum::<u64>() + tools + AROUND_PART
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
    fn list(&self, list: &Arc<Vec<Entry>>) -> u64 {
        let known = self.known_of(list);
        known.and_then(|known| known.tokens).unwrap_or_else(|| {
            let tokens = list.iter().map(|entry| self.message(&entry.message)).sum();
            let at_most = known.map_or_else(|| bytes_of_list(list), |known| known.at_most);
            self.keep(list, ListCounts { at_most, tokens: Some(tokens) });
            tokens
        })
    }

    fn list_at_most(&self, list: &Arc<Vec<Entry>>) -> u64 {
        self.known_of(list).map_or_else(
            || {
                let at_most = bytes_of_list(list);
                self.keep(list, ListCounts { at_most, tokens: None });
                at_most
            },
            |known| known.at_most,
        )
    }

    fn known_of(&self, list: &Arc<Vec<Entry>>) -> Option<ListCounts> {
        self.known.lock().lists.get(&address(list)).map(|(_, counts)| *counts)
    }

    fn keep(&self, list: &Arc<Vec<Entry>>, counts: ListCounts) {
        let lists = &mut self.known.lock().lists;
        make_room(lists, LISTS_MAX);
        lists.insert(address(list), (Arc::downgrade(list), counts));
    }

    fn message(&self, message: &Arc<Message>) -> u64 {
        if let Some((_, tokens)) = self.known.lock().messages.get(&address(message)) {
            return *tokens;
        }
        let tokens = self.counter.message(message);
        let messages = &mut self.known.lock().messages;
        make_room(messages, MESSAGES_MAX);
        messages.insert(address(message), (Arc::downgrade(message), tokens));
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

/// Removes what nobody holds any more, or everything, if the map is full.
fn make_room<T, V>(known: &mut HashMap<usize, (Weak<T>, V)>, n_max: usize) {
    if known.len() >= n_max {
        known.retain(|_, (counted, _)| counted.strong_count() > 0);
        if known.len() >= n_max {
            known.clear();
        }
    }
}

fn address<T>(counted: &Arc<T>) -> usize {
    Arc::as_ptr(counted).addr()
}

fn bytes_of_list(list: &[Entry]) -> u64 {
    list.iter().map(|entry| bytes_of_message(&entry.message)).sum()
}

fn bytes_of_message(message: &Message) -> u64 {
    message.content.iter().map(bytes_of).sum()
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
        Part::Document(media) | Part::Audio(media) => media.data.as_ref().map_or(0, |data| data.len()),
        Part::Image(_) => return AROUND_PART,
        Part::Opaque { data, .. } | Part::ProviderTool(ProviderTool { data, .. }) => data.0.to_string().len(),
    };
    // The frame of a message of one part.
    bytes as u64 + 8
}
