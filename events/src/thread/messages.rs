//! The messages of a model call.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::conversation::{Conversation, Entry};
use crate::message::Message;

/// The messages of a model call, oldest first. Those that copies of a conversation share are referred to as a list, so that
/// the messages of a long conversation cost as much to collect, to copy and to drop as those of a short one.
#[derive(Clone, Default)]
pub struct Messages {
    shared: Option<Arc<Vec<Entry>>>,
    after: Vec<Arc<Message>>,
}

impl Messages {
    /// The messages of a call that reads the first `n` of a conversation, instructions in their places. Shares what copies
    /// of the conversation share.
    pub(super) fn of(conversation: &Conversation, n: usize) -> Self {
        if let Some(first) = conversation.late_instructions().filter(|first| *first < n) {
            let entries = || conversation.entries.iter().take(n).map(|entry| &entry.message);
            let others = entries().enumerate().filter(|(i, _)| *i != first).map(|(_, message)| message);
            return entries().nth(first).into_iter().chain(others).cloned().collect();
        }
        let (shared, own) = conversation.entries.parts();
        match n.checked_sub(shared.len()) {
            Some(n_own) if !shared.is_empty() => {
                let after = own[..n_own.min(own.len())].iter().map(|entry| entry.message.clone()).collect();
                Self { shared: Some(shared.clone()), after }
            }
            _ => conversation.entries.iter().take(n).map(|entry| entry.message.clone()).collect(),
        }
    }

    /// The messages, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> + Clone {
        self.shared.iter().flat_map(|entries| entries.iter()).map(|entry| &entry.message).chain(&self.after)
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.shared.as_ref().map_or(0, |shared| shared.len()) + self.after.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The last message.
    pub fn last(&self) -> Option<&Arc<Message>> {
        self.iter().next_back()
    }

    /// Adds a message at the end.
    pub fn push(&mut self, message: Arc<Message>) {
        self.after.push(message);
    }

    /// These messages without the first `n` of them.
    pub fn without_first(self, n: usize) -> Self {
        let n_shared = self.shared.as_ref().map_or(0, |shared| shared.len());
        match n.checked_sub(n_shared) {
            _ if n == 0 => self,
            Some(n) => self.after.into_iter().skip(n).collect(),
            None => self.iter().skip(n).cloned().collect(),
        }
    }

    /// The list of which all entries are messages here. It does not change while somebody holds a pointer to it, weak ones
    /// included.
    pub fn shared(&self) -> Option<&Arc<Vec<Entry>>> {
        self.shared.as_ref()
    }

    /// The messages that are not in the shared list.
    pub fn not_shared(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.after.iter()
    }
}

impl From<Vec<Arc<Message>>> for Messages {
    fn from(messages: Vec<Arc<Message>>) -> Self {
        Self { shared: None, after: messages }
    }
}

impl From<Arc<Vec<Entry>>> for Messages {
    fn from(entries: Arc<Vec<Entry>>) -> Self {
        Self { shared: Some(entries), after: Vec::new() }
    }
}

impl FromIterator<Arc<Message>> for Messages {
    fn from_iter<I: IntoIterator<Item = Arc<Message>>>(messages: I) -> Self {
        Vec::from_iter(messages).into()
    }
}

impl PartialEq for Messages {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for Messages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Messages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests;
