//! The views of memories and their namespaces.

use rethread::operate::memory::{FoundMemory, MemoryId};
use rethread::operate::{Labels, MemoryNamespace};
use rethread::{ThreadId, Time};
use serde::Serialize;

/// A namespace that has memories.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "server", schema(as = MemoryNamespace))]
pub(crate) struct NamespaceView {
    /// The labels of the namespace; none if all threads share it.
    #[cfg_attr(feature = "server", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub(crate) labels: Labels,
    /// The number of its memories.
    pub(crate) n_memories: u64,
}

impl From<MemoryNamespace> for NamespaceView {
    fn from(MemoryNamespace { labels, n }: MemoryNamespace) -> Self {
        Self { labels, n_memories: n }
    }
}

/// A memory.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "server", schema(as = Memory))]
pub(crate) struct MemoryView {
    /// The id, unique in the namespace.
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub(crate) id: MemoryId,
    /// The text.
    pub(crate) text: String,
    /// The name, if the memory has one.
    pub(crate) name: Option<String>,
    /// The tags.
    pub(crate) tags: Vec<String>,
    /// When it was stored.
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub(crate) at: Time,
    /// The thread that stored it.
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub(crate) thread_id: ThreadId,
    /// How well it fits, to be compared within one search; 0 in a list.
    pub(crate) score: f64,
}

impl From<FoundMemory> for MemoryView {
    fn from(FoundMemory { memory, score }: FoundMemory) -> Self {
        Self {
            id: memory.id,
            text: memory.text,
            name: memory.name,
            tags: memory.tags,
            at: memory.at,
            thread_id: memory.thread,
            score,
        }
    }
}
