//! One of several runtimes on one log: which threads it runs.
//!
//! A thread belongs to the runtime that has its slot ([`rethread_store::SharedLog`]). That one runs it, and inputs go through
//! it from everywhere (`ask`, `serve`). What a thread has come to can be read at every runtime, from its own copy of the log.

pub(crate) mod ask;
pub(crate) mod divide;
pub(crate) mod request;
pub(crate) mod serve;

use std::sync::Arc;

use parking_lot::Mutex;
use rethread_events::ids::ThreadId;
use rethread_store::{Share, SharedLog, Slot, Slots, Store};
use tokio::sync::watch;

/// The log as one of several runtimes has it.
pub(crate) struct Shared {
    pub(crate) log: Arc<dyn SharedLog>,
    share: watch::Receiver<Share>,
    /// The slots that are being given away: no thread of them begins here any more.
    giving: Mutex<Slots>,
}

impl Shared {
    /// `None` if this runtime has the log alone.
    pub(crate) fn of(store: &dyn Store) -> Option<Self> {
        let log = store.shared()?;
        Some(Self { share: log.share(), log, giving: Mutex::default() })
    }

    /// Whether this runtime runs the thread.
    pub(crate) fn has(&self, thread: ThreadId) -> bool {
        let slot = Slot::of(thread);
        self.share.borrow().slots.has(slot) && !self.giving.lock().has(slot)
    }

    /// The same id, or one of a thread that this runtime can run.
    pub(crate) fn place(&self, thread: ThreadId) -> ThreadId {
        self.share.borrow().place(thread)
    }
}
