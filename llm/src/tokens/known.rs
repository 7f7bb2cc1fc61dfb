//! Counts of messages and tools seen before, by their addresses in memory: of the list of messages that copies of a
//! conversation share, of each message, and of the tools that requests share. So only new messages cost anything, and the
//! others one look-up together.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use rethread_events::message::{Message, Part, ProviderTool, ToolSpec};
use rethread_events::thread::{Entry, Messages};

use super::Counter;

/// The most messages whose counts are cached: those of some hundred long threads.
const MESSAGES_MAX: usize = 100_000;
/// The most lists of messages whose counts are cached, more than threads are live at once on a usual server.
const LISTS_MAX: usize = 20_000;
/// The most sets of tools whose counts are cached, more than nodes of any usual workflow.
const TOOLS_MAX: usize = 256;
/// How many bytes that were not counted before are counted at once, in about 200 µs.
const QUICK_BYTES: u64 = 1 << 10;
/// An upper bound for the tokens that a provider adds around a part of a message, and that it bills for a picture of
/// usual size.
const AROUND_PART: u64 = 800;

/// The cached counts, by address. Each entry has a weak pointer, so that nothing else can get its address, and a list does
/// not change in its place.
#[derive(Default)]
pub(super) struct Known {
    messages: HashMap<usize, (Weak<Message>, Counts)>,
    lists: HashMap<usize, (Weak<Vec<Entry>>, Counts)>,
    tools: HashMap<usize, (Weak<[ToolSpec]>, u64)>,
}

/// What is known of a message, or of a list of messages.
#[derive(Debug, Clone, Copy)]
struct Counts {
    at_most: u64,
    /// Absent until they are counted.
    tokens: Option<u64>,
}

impl Counts {
    /// How many bytes have to be read to count them.
    fn unknown(self) -> u64 {
        self.tokens.map_or(self.at_most, |_| 0)
    }
}

impl Counter {
    /// The tokens of messages, with what the provider adds around each.
    pub fn messages(&self, messages: &Messages) -> u64 {
        let shared = messages.shared().map_or(0, |list| self.list(list));
        shared + messages.not_shared().map(|message| self.message(message)).sum::<u64>()
    }

    /// An upper bound for the tokens of messages, with what a provider adds to a prompt: a token has at least one byte.
    /// Loads no encoding.
    pub fn messages_at_most(&self, messages: &Messages) -> u64 {
        self.sum(messages, |counts| counts.at_most) + AROUND_PART
    }

    /// The tokens of a message, with what the provider adds around it.
    pub fn message(&self, message: &Arc<Message>) -> u64 {
        let counts = self.counts_of(message);
        counts.tokens.unwrap_or_else(|| {
            let tokens = self.count_message(message);
            keep(&mut self.known.lock().messages, message, Counts { tokens: Some(tokens), ..counts }, MESSAGES_MAX);
            tokens
        })
    }

    /// The tokens of tool definitions, by the formula that OpenAI publishes beside the one for messages.
    pub fn tools(&self, tools: &Arc<[ToolSpec]>) -> u64 {
        if let Some((_, tokens)) = self.known.lock().tools.get(&address(tools)) {
            return *tokens;
        }
        let tokens = self.count_tools(tools);
        keep(&mut self.known.lock().tools, tools, tokens, TOOLS_MAX);
        tokens
    }

    /// Whether a prompt and an answer to it can be counted in a moment: nearly all of it was counted before.
    pub(super) fn is_quick(&self, messages: &Messages, tools: &Arc<[ToolSpec]>, answer: &[Part]) -> bool {
        let tools_are_known = tools.is_empty() || self.known.lock().tools.contains_key(&address(tools));
        let answer: u64 = answer.iter().map(bytes_of).sum();
        self.encoding.is_loaded() && tools_are_known && self.sum(messages, Counts::unknown) + answer <= QUICK_BYTES
    }

    fn sum(&self, messages: &Messages, of: impl Fn(Counts) -> u64) -> u64 {
        let shared = messages.shared().map_or(0, |list| of(self.counts_of_list(list)));
        shared + messages.not_shared().map(|message| of(self.counts_of(message))).sum::<u64>()
    }

    fn counts_of(&self, message: &Arc<Message>) -> Counts {
        if let Some((_, counts)) = self.known.lock().messages.get(&address(message)) {
            return *counts;
        }
        let counts = Counts { at_most: message.content.iter().map(bytes_of).sum(), tokens: None };
        keep(&mut self.known.lock().messages, message, counts, MESSAGES_MAX);
        counts
    }

    fn list(&self, list: &Arc<Vec<Entry>>) -> u64 {
        let counts = self.counts_of_list(list);
        counts.tokens.unwrap_or_else(|| {
            let tokens = list.iter().map(|entry| self.message(&entry.message)).sum();
            keep(&mut self.known.lock().lists, list, Counts { tokens: Some(tokens), ..counts }, LISTS_MAX);
            tokens
        })
    }

    fn counts_of_list(&self, list: &Arc<Vec<Entry>>) -> Counts {
        if let Some((_, counts)) = self.known.lock().lists.get(&address(list)) {
            return *counts;
        }
        let at_most = list.iter().map(|entry| self.counts_of(&entry.message).at_most).sum();
        let counts = Counts { at_most, tokens: None };
        keep(&mut self.known.lock().lists, list, counts, LISTS_MAX);
        counts
    }
}

/// Caches what was counted. If the map is full, what nobody holds any more is removed, or everything.
fn keep<T: ?Sized, V>(known: &mut HashMap<usize, (Weak<T>, V)>, counted: &Arc<T>, value: V, n_max: usize) {
    if known.len() >= n_max {
        known.retain(|_, (counted, _)| counted.strong_count() > 0);
        if known.len() >= n_max {
            known.clear();
        }
    }
    known.insert(address(counted), (Arc::downgrade(counted), value));
}

fn address<T: ?Sized>(counted: &Arc<T>) -> usize {
    Arc::as_ptr(counted).addr()
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
