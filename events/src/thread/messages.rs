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
    before: Vec<Arc<Message>>,
    shared: Option<Shared>,
    after: Vec<Arc<Message>>,
}

/// Entries of which those that are no instructions are messages.
#[derive(Clone)]
struct Shared {
    entries: Arc<Vec<Entry>>,
    n_said: usize,
}

impl Shared {
    fn said(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> + Clone {
        self.entries.iter().filter_map(Entry::said)
    }
}

impl Messages {
    /// The messages of a call that reads the first `n` of a conversation: the instructions in force, then those that are no
    /// instructions. Shares what copies of the conversation share.
    pub(super) fn of(conversation: &Conversation, instructions: Option<Arc<Message>>, n: usize) -> Self {
        let (shared, own) = conversation.entries.parts();
        let before = instructions.into_iter().collect();
        match n.checked_sub(shared.len()) {
            Some(n_own) if !shared.is_empty() => {
                let after = own[..n_own.min(own.len())].iter().filter_map(Entry::said).cloned().collect();
                let shared = Shared { n_said: conversation.n_said(shared.len()), entries: shared.clone() };
                Self { before, shared: Some(shared), after }
            }
            _ => Self { before, shared: None, after: conversation.said(n).cloned().collect() },
        }
    }

    /// The messages, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> + Clone {
        self.before.iter().chain(self.shared.iter().flat_map(Shared::said)).chain(&self.after)
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.before.len() + self.shared.as_ref().map_or(0, |shared| shared.n_said) + self.after.len()
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

    /// These messages after another one.
    pub(super) fn after(mut self, first: Arc<Message>) -> Self {
        self.before.insert(0, first);
        self
    }

    /// These messages without the first `n` of them.
    pub fn without_first(mut self, n: usize) -> Self {
        let n_shared = self.shared.as_ref().map_or(0, |shared| shared.n_said);
        if n <= self.before.len() {
            self.before.drain(..n);
            return self;
        }
        match (n - self.before.len()).checked_sub(n_shared) {
            Some(n) => self.after.into_iter().skip(n).collect(),
            None => self.iter().skip(n).cloned().collect(),
        }
    }

    /// The list of which all entries that are no instructions are messages here. It does not change while somebody holds a
    /// pointer to it, weak ones included.
    pub fn shared(&self) -> Option<&Arc<Vec<Entry>>> {
        self.shared.as_ref().map(|shared| &shared.entries)
    }

    /// The messages that are not in the shared list.
    pub fn not_shared(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.before.iter().chain(&self.after)
    }
}

impl From<Vec<Arc<Message>>> for Messages {
    fn from(messages: Vec<Arc<Message>>) -> Self {
        Self { before: Vec::new(), shared: None, after: messages }
    }
}

/// All entries that are no instructions.
impl From<Arc<Vec<Entry>>> for Messages {
    fn from(entries: Arc<Vec<Entry>>) -> Self {
        let n_said = entries.iter().filter_map(Entry::said).count();
        Self { shared: Some(Shared { entries, n_said }), ..Self::default() }
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
