//! The memories that a tool call reaches: those of the namespace of its thread.

use std::future::ready;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::memory::{
    Embedding, FoundMemory, MemoryError, MemoryId, MemoryOptions, MemoryQuery, Namespace, NewMemory, search,
};
use rethread_store::StoreError;
use rethread_tools::{MemoryAccess, ToolContext};
use tokio::runtime::Handle;

use crate::error::{NextMove, RuntimeError};
use crate::memories::{Memories, MemoryChange, MemoryChanged, RememberChange, RememberError};
use crate::models::Models;

/// The memories of a runtime, for its tools.
pub(crate) struct ThreadMemories {
    memories: Arc<Memories>,
    models: Arc<Models>,
    options: MemoryOptions,
}

impl ThreadMemories {
    pub(crate) fn shared(
        memories: Arc<Memories>,
        models: Arc<Models>,
        options: MemoryOptions,
    ) -> Arc<dyn MemoryAccess> {
        Arc::new(Self { memories, models, options })
    }

    /// Called on a thread that may block.
    fn change(&self, namespace: Namespace, change: MemoryChange) -> Result<MemoryChanged, ExecutionError> {
        Handle::current().block_on(self.memories.change(namespace, change)).map_err(not_stored)
    }

    fn namespace(&self, cx: &ToolContext) -> Result<Namespace, ExecutionError> {
        Namespace::of_thread(&self.options, &cx.labels).map_err(|error| refused(&error))
    }
}

impl MemoryAccess for ThreadMemories {
    fn remembered(&self, cx: &ToolContext, new: &NewMemory) -> Result<Option<MemoryId>, ExecutionError> {
        let namespace = self.namespace(cx)?;
        let Some(thread) = cx.thread else { return Err(no_thread()) };
        self.memories.remembered(&namespace, &self.options, new, &cx.key, thread).map_err(not_stored)
    }

    fn remember(
        &self,
        cx: &ToolContext,
        new: NewMemory,
        embedding: Option<Embedding>,
    ) -> Result<MemoryId, ExecutionError> {
        let namespace = self.namespace(cx)?;
        let Some(thread) = cx.thread else { return Err(no_thread()) };
        let (options, call) = (self.options.clone(), cx.key.to_string());
        let change = RememberChange { options, new, embedding, call, thread };
        match self.change(namespace, MemoryChange::Remember(Box::new(change)))? {
            MemoryChanged::Remembered { id } => Ok(id),
            MemoryChanged::Removed { .. } => Err(unexpected()),
        }
    }

    fn embedding<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Option<Embedding>, ExecutionError>> {
        match self.options.embeddings.as_deref() {
            Some(profile) => async move { self.models.embed(profile, text).await.map(Some) }.boxed(),
            None => ready(Ok(None)).boxed(),
        }
    }

    fn search(&self, cx: &ToolContext, query: &MemoryQuery) -> Result<Vec<FoundMemory>, ExecutionError> {
        let memories = self.memories.all(&self.namespace(cx)?).map_err(|error| failed(&error))?;
        cx.check()?;
        Ok(search(memories, query))
    }

    fn finds_meaning(&self) -> bool {
        self.options.embeddings.is_some()
    }

    fn forget(&self, cx: &ToolContext, id: MemoryId) -> Result<bool, ExecutionError> {
        match self.change(self.namespace(cx)?, MemoryChange::Forget { id })? {
            MemoryChanged::Removed { n } => Ok(n > 0),
            MemoryChanged::Remembered { .. } => Err(unexpected()),
        }
    }
}

fn no_thread() -> ExecutionError {
    ExecutionError::new(ErrorKind::Denied, "only a thread can remember: call this tool from a workflow")
}

fn not_stored(error: RememberError) -> ExecutionError {
    match error {
        RememberError::Refused(error) => refused(&error),
        RememberError::Store(error) => failed(&error),
        RememberError::Runtime(RuntimeError::Store(error)) => failed(&error),
        RememberError::Runtime(error) => {
            let message = format!("the memory is not available: {error}");
            match error.next_move() {
                NextMove::Retry => ExecutionError::retryable(ErrorKind::Failed, message),
                _ => ExecutionError::new(ErrorKind::Failed, message),
            }
        }
    }
}

/// Another runtime answered something else.
fn unexpected() -> ExecutionError {
    ExecutionError::new(ErrorKind::Internal, "another change of memories was answered")
}

fn refused(error: &MemoryError) -> ExecutionError {
    let kind = match error {
        MemoryError::NoLabel { .. } => ErrorKind::Denied,
        MemoryError::Options(_) => ErrorKind::Configuration,
        MemoryError::Text { .. } => ErrorKind::TooLarge,
        MemoryError::Name { .. } | MemoryError::Tags => ErrorKind::InvalidArguments,
        MemoryError::Full { .. } => ErrorKind::Limit,
    };
    ExecutionError::new(kind, error.to_string())
}

fn failed(error: &StoreError) -> ExecutionError {
    let message = format!("the memory is not available: {error}");
    match error.is_temporary() {
        true => ExecutionError::retryable(ErrorKind::Failed, message),
        false => ExecutionError::new(ErrorKind::Failed, message),
    }
}
