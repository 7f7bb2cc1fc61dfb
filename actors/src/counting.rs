//! Counts the tokens of conversations with the tokenizers of the models that receive them.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rethread_events::thread::Messages;
use rethread_llm::tokens::Counter;
use rethread_tools::Catalogue;

/// The most models that have a counter; more than any configuration names.
const MODELS_MAX: usize = 256;
/// An upper bound for the tokens that a provider adds around tools.
const AROUND_TOOLS: u64 = 800;

/// The counters of the models, which know what they have counted.
#[derive(Default)]
pub(crate) struct Counting {
    counters: Mutex<HashMap<String, Arc<Counter>>>,
}

impl Counting {
    /// Returns the tokens of the messages and tools for a model.
    pub(crate) fn count(&self, model: &str, messages: &Messages, tools: Option<&Catalogue>) -> u64 {
        let counter = self.counter(model);
        let tools = tools.map_or(0, |tools| counter.tools(&tools.specs));
        // Every answer is primed with three tokens.
        counter.messages(messages) + tools + 3
    }

    /// Returns whether they have more tokens than `tokens`. They are counted only if that is possible: loading a tokenizer
    /// takes 100 ms, and most conversations never need it.
    pub(crate) fn is_longer(&self, model: &str, messages: &Messages, tools: Option<&Catalogue>, tokens: u64) -> bool {
        self.at_most(model, messages, tools) > tokens && self.count(model, messages, tools) > tokens
    }

    /// An upper bound for the count: a token has at least one byte.
    fn at_most(&self, model: &str, messages: &Messages, tools: Option<&Catalogue>) -> u64 {
        let tools = tools.map_or(0, |tools| tools.json_bytes as u64 + AROUND_TOOLS);
        self.counter(model).messages_at_most(messages) + tools
    }

    /// Returns the counter of a model.
    pub(crate) fn counter(&self, model: &str) -> Arc<Counter> {
        let mut counters = self.counters.lock();
        if let Some(known) = counters.get(model) {
            return known.clone();
        }
        if counters.len() >= MODELS_MAX {
            counters.clear();
        }
        let made = Arc::new(Counter::for_model(model));
        counters.insert(model.to_owned(), made.clone());
        made
    }
}
