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
    /// Where several runtimes have the log: others set and remove marks, so that each look reads them. Of the set above, only
    /// what is live here is true then.
    log: Option<Arc<dyn Store>>,
}

impl ImportedThreads {
    pub(crate) fn new(store: &Arc<dyn Store>, is_shared: bool) -> Self {
        Self { threads: RwLock::default(), log: is_shared.then(|| store.clone()) }
    }

    /// Reads them from the log. Blocks.
    pub(crate) fn read(&self, store: &dyn LogReader) -> Result<(), StoreError> {
        for (name, _) in store.values(NAMES)? {
            if let Some(thread) = name.strip_prefix(NAMES).and_then(|id| id.parse().ok()) {
                self.threads.write().insert(thread);
            }
        }
        Ok(())
    }

    /// Whether the thread was imported, and not resumed since. Costs a look-up in the log where several runtimes have it.
    pub(crate) fn has(&self, thread: ThreadId) -> bool {
        let Some(log) = &self.log else { return self.threads.read().contains(&thread) };
        log.value(&format!("{NAMES}{thread}")).map(|mark| mark.is_some()).unwrap_or_else(|error| {
            tracing::warn!(%thread, %error, "a thread does not resume: it may be imported");
            true
        })
    }

    /// Called when a thread is loaded: others may have set its mark, or removed it.
    pub(crate) fn loaded(&self, thread: ThreadId) {
        if self.log.is_none() {
            return;
        }
        if self.has(thread) {
            self.threads.write().insert(thread);
        } else {
            self.threads.write().remove(&thread);
        }
    }

    /// Removes the mark of a thread that resumes here: from now on it resumes by itself. Returns whether it had the mark when
    /// it was loaded.
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
