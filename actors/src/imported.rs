//! Threads that were imported before they had ended. They are copies: the original may continue elsewhere. So they do
//! not resume by themselves when a runtime starts, until they were resumed on request.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::RwLock;
use rethread_events::ids::ThreadId;
use rethread_store::{LogReader, Store, StoreError};

/// The prefix of the values that mark a thread as imported and not resumed since.
pub(crate) const NAMES: &str = "imported/";

/// The value that marks a thread as imported.
pub(crate) fn noted(thread: ThreadId) -> (String, Vec<u8>) {
    (format!("{NAMES}{thread}"), Vec::new())
}

/// The imported threads of a log that were not resumed.
#[derive(Default)]
pub(crate) struct ImportedThreads {
    threads: RwLock<HashSet<ThreadId>>,
}

impl ImportedThreads {
    /// Reads them from the log. Blocks.
    pub(crate) fn read(&self, store: &dyn LogReader) -> Result<(), StoreError> {
        for (name, _) in store.values(NAMES)? {
            if let Some(thread) = name.strip_prefix(NAMES).and_then(|id| id.parse().ok()) {
                self.threads.write().insert(thread);
            }
        }
        Ok(())
    }

    pub(crate) fn has(&self, thread: ThreadId) -> bool {
        self.threads.read().contains(&thread)
    }

    /// Removes the mark of a thread that resumes here: from now on it resumes by itself. Returns whether it had the mark.
    pub(crate) fn goes_on(&self, thread: ThreadId, store: &Arc<dyn Store>) -> bool {
        if !self.threads.write().remove(&thread) {
            return false;
        }
        let store = store.clone();
        drop(actix_rt::task::spawn_blocking(move || {
            // If the value stays in the log, the thread has to be resumed on request after the next start again.
            if let Err(error) = store.remove_value(&format!("{NAMES}{thread}")) {
                tracing::warn!(%thread, %error, "cannot remove the mark of an imported thread that resumes");
            }
        }));
        true
    }
}
