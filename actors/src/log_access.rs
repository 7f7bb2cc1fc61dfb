//! Access to the log behind a runtime.

use std::sync::Arc;

use rethread_store::Store;

use crate::runtime::Runtime;
use crate::thread_handle::ThreadHandle;

/// Access to the log itself, for programs that operate it: pages of records, blobs, values of their own.
///
/// A runtime owns its log. Do not append to a thread, delete one or close the log through this: use
/// [`ThreadHandle`] and [`Runtime::shutdown`].
pub trait LogAccess {
    /// Returns the log.
    fn store(&self) -> &Arc<dyn Store>;
}

impl LogAccess for Runtime {
    fn store(&self) -> &Arc<dyn Store> {
        self.store()
    }
}

impl LogAccess for ThreadHandle {
    fn store(&self) -> &Arc<dyn Store> {
        self.store()
    }
}
