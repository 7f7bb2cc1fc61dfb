//! The memories that a tool call reaches: those of the namespace of its thread.

use std::sync::Arc;

use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::memory::{
    FoundMemory, MemoryError, MemoryId, MemoryOptions, MemoryQuery, Namespace, NewMemory, search,
};
use rethread_store::StoreError;
use rethread_tools::{MemoryAccess, ToolContext};

use crate::memories::{Memories, RememberError};

/// The memories of a runtime, for its tools.
pub(crate) struct ThreadMemories {
    memories: Arc<Memories>,
    options: MemoryOptions,
}

impl ThreadMemories {
    pub(crate) fn shared(memories: Arc<Memories>, options: MemoryOptions) -> Arc<dyn MemoryAccess> {
        Arc::new(Self { memories, options })
    }

    fn namespace(&self, cx: &ToolContext) -> Result<Namespace, ExecutionError> {
        Namespace::of_thread(&self.options, &cx.labels).map_err(|error| refused(&error))
    }
}

impl MemoryAccess for ThreadMemories {
    fn remember(&self, cx: &ToolContext, new: NewMemory) -> Result<MemoryId, ExecutionError> {
        let namespace = self.namespace(cx)?;
        let Some(thread) = cx.thread else { return Err(no_thread()) };
        let stored = self.memories.remember(&namespace, &self.options, new, &cx.key, thread);
        stored.map_err(|error| match error {
            RememberError::Refused(error) => refused(&error),
            RememberError::Store(error) => failed(&error),
        })
    }

    fn search(&self, cx: &ToolContext, query: &MemoryQuery) -> Result<Vec<FoundMemory>, ExecutionError> {
        let memories = self.memories.all(&self.namespace(cx)?).map_err(|error| failed(&error))?;
        cx.check()?;
        Ok(search(memories, query))
    }

    fn forget(&self, cx: &ToolContext, id: MemoryId) -> Result<bool, ExecutionError> {
        self.memories.forget(&self.namespace(cx)?, id).map_err(|error| failed(&error))
    }
}

fn no_thread() -> ExecutionError {
    ExecutionError::new(ErrorKind::Denied, "only a thread can remember: call this tool from a workflow")
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
