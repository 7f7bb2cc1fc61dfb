//! Reading and removing memories from outside of threads.

use rethread_events::labels::Labels;
use rethread_events::memory::{FoundMemory, Memory, MemoryId, MemoryQuery, Namespace, search};

use crate::error::RuntimeError;
use crate::memories::{self, MemoryNamespace};
use crate::runtime::Runtime;

impl Runtime {
    /// Returns the namespaces that have memories, by their labels. Costs a read of one value for each.
    ///
    /// # Errors
    /// `Store` if the log cannot be read.
    pub async fn memory_namespaces(&self) -> Result<Vec<MemoryNamespace>, RuntimeError> {
        let store = self.store().clone();
        Ok(self.blocking(move || memories::namespaces(&*store)).await??)
    }

    /// Returns the memories of the namespace with exactly these labels, the newest first. Costs a read of each.
    ///
    /// # Errors
    /// `Store` if the log cannot be read.
    pub async fn memories(&self, labels: &Labels) -> Result<Vec<Memory>, RuntimeError> {
        let query = MemoryQuery { words: String::new(), tags: Vec::new(), limit: usize::MAX, near: None };
        let found = self.search_memories(labels, query).await?;
        Ok(found.into_iter().map(|found| found.memory).collect())
    }

    /// Searches the namespace with exactly these labels as the tool `search_memory` does: by words, and by meaning if
    /// `embeddings` is set for this runtime, which costs a request to the provider. Costs a read of all memories of the
    /// namespace.
    ///
    /// # Errors
    /// `Store` if the log cannot be read, `Embedding` if the provider does not answer.
    pub async fn search_memories(&self, labels: &Labels, query: MemoryQuery) -> Result<Vec<FoundMemory>, RuntimeError> {
        let near = match &query.near {
            None if query.has_words() => {
                self.services().embedding(&query.words).await.map_err(RuntimeError::Embedding)?
            }
            near => near.clone(),
        };
        let query = MemoryQuery { near, ..query };
        let (store, namespace) = (self.store().clone(), Namespace::of_labels(labels.clone()));
        let found = move || memories::all(&*store, &namespace).map(|memories| search(memories, &query));
        Ok(self.blocking(found).await??)
    }

    /// Removes a memory of the namespace with exactly these labels. Returns whether there was one. It is durable when this
    /// returns; [`Runtime::compact`] erases its bytes from the files. Events of threads that used it still contain its
    /// text.
    ///
    /// # Errors
    /// `Store` if the log cannot be written.
    pub async fn forget_memory(&self, labels: &Labels, id: MemoryId) -> Result<bool, RuntimeError> {
        let (memories, namespace) = (self.services().memories.clone(), Namespace::of_labels(labels.clone()));
        Ok(self.blocking(move || memories.forget(&namespace, id)).await??)
    }
}
