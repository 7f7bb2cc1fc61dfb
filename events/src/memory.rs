//! Memories: texts that agents store for later threads, in namespaces that follow from the labels of a thread. The rules
//! are here: which namespace a thread has, what a memory may hold, what a repeated call does, and the search by
//! words and by meaning.

mod embedding;
mod id;
mod rules;
mod search;
mod words;

pub use embedding::{EMBEDDING_DIMENSIONS_MAX, Embedding};
pub use id::MemoryId;
pub use rules::{
    MEMORIES_MAX, MEMORY_BYTES_MAX, MEMORY_NAME_BYTES_MAX, MEMORY_TAG_BYTES_MAX, MEMORY_TAGS_MAX, Memory, MemoryError,
    MemoryOptions, Namespace, NewMemory,
};
pub use search::{FoundMemory, MemoryQuery, search};

#[cfg(test)]
mod tests;
