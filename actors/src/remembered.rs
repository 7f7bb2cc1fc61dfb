//! Reading and removing memories from outside of threads.

use rethread_events::labels::Labels;
use rethread_events::memory::{FoundMemory, Memory, MemoryId, MemoryQuery, Namespace, search};

use crate::error::RuntimeError;
use crate::memories::{self, MemoryChange, MemoryChanged, MemoryNamespace, NAMES, RememberError};
use crate::runtime::Runtime;
use crate::shared::ask::{ask_for, retry_elsewhere};
use crate::shared::place_of;
use crate::shared::request::{MemoryFailure, Request};

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
    /// Where several runtimes have the log, the one that has the namespace removes it. If its answer is lost, the request is sent
    /// again, and the result is false although this call removed the memory.
    ///
    /// # Errors
    /// `Store` if the log cannot be written; `Elsewhere` if no runtime has the namespace for 30 seconds.
    pub async fn forget_memory(&self, labels: &Labels, id: MemoryId) -> Result<bool, RuntimeError> {
        let namespace = Namespace::of_labels(labels.clone());
        Ok(self.remove_memories(namespace, MemoryChange::Forget { id }).await? > 0)
    }

    /// Removes all memories of the namespaces that have all of these labels, or only counts them. Returns how many there were.
    pub(crate) async fn erase_memories(&self, labels: Labels, dry_run: bool) -> Result<u64, RuntimeError> {
        let memories = self.services().memories.clone();
        let mut n = 0;
        for namespace in self.blocking(move || memories.namespaces_with(&labels)).await?? {
            n += self.remove_memories(namespace, MemoryChange::Erase { dry_run }).await?;
        }
        Ok(n)
    }

    async fn remove_memories(&self, namespace: Namespace, change: MemoryChange) -> Result<u64, RuntimeError> {
        match self.change_memories(namespace, change).await {
            Ok(MemoryChanged::Removed { n }) => Ok(n),
            Ok(MemoryChanged::Remembered { .. }) | Err(RememberError::Refused(_)) => Ok(0),
            Err(RememberError::Store(error)) => Err(error.into()),
            Err(RememberError::Runtime(error)) => Err(error),
        }
    }

    /// Changes memories at the runtime that has the namespace.
    pub(crate) async fn change_memories(
        &self,
        namespace: Namespace,
        change: MemoryChange,
    ) -> Result<MemoryChanged, RememberError> {
        let (registry, place) = (self.registry(), place_of(&format!("{NAMES}{}", namespace.hash())));
        let attempt = || async {
            let (namespace, change) = (namespace.clone(), change.clone());
            if let Some(_held) = registry.hold(place) {
                return self.change_memories_here(namespace, change).await;
            }
            let request = Request::Memory { place, namespace: namespace.labels().clone(), change };
            match ask_for::<Result<_, MemoryFailure>>(registry, place, &request).await {
                Ok(changed) => changed.map_err(|failure| failure.into_error(place)),
                Err(error) => Err(RuntimeError::of_repeatable(place, &error).into()),
            }
        };
        retry_elsewhere(registry, attempt).await
    }

    pub(crate) async fn change_memories_here(
        &self,
        namespace: Namespace,
        change: MemoryChange,
    ) -> Result<MemoryChanged, RememberError> {
        let memories = self.services().memories.clone();
        self.blocking(move || memories.change_here(&namespace, change)).await?
    }
}
