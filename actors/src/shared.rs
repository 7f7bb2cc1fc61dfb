//! One of several runtimes on one log: which threads it runs.
//!
//! A thread belongs to the runtime that has its slot ([`rethread_store::SharedLog`]), and branches go with their thread. That one runs it, and inputs go through
//! it from everywhere (`ask`, `serve`). What a thread has come to can be read at every runtime, from its own copy of the log.

pub(crate) mod ask;
pub(crate) mod divide;
pub(crate) mod request;
pub(crate) mod serve;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rethread_events::ids::{Hash, ThreadId};
use rethread_store::{Share, SharedLog, Slot, Slots, Store};
use tokio::sync::watch;

use crate::error::ReadError;
use crate::summary::branch_of;

/// How many threads are remembered with their roots.
const ROOTS_MAX: usize = 100_000;

/// The log as one of several runtimes has it.
pub(crate) struct Shared {
    pub(crate) log: Arc<dyn SharedLog>,
    share: watch::Receiver<Share>,
    /// The slots that are being given away: no thread of them begins here any more.
    giving: Mutex<Slots>,
    /// How much work that keeps its slot here goes on, by slot.
    held: Arc<Mutex<HashMap<Slot, usize>>>,
    store: Arc<dyn Store>,
    /// The threads whose branches branches are, and threads that are none, with themselves.
    roots: RwLock<HashMap<ThreadId, ThreadId>>,
}

impl Shared {
    /// `None` if this runtime has the log alone.
    pub(crate) fn of(store: &Arc<dyn Store>) -> Option<Self> {
        let log = store.shared()?;
        let store = store.clone();
        Some(Self {
            share: log.share(),
            log,
            giving: Mutex::default(),
            held: Arc::default(),
            store,
            roots: RwLock::default(),
        })
    }

    /// The thread that a branch goes with: the one whose branch it is, or whose branch that one is, and so on. Another thread
    /// itself. Reads the log when it is asked for the first time.
    pub(crate) fn root(&self, thread: ThreadId) -> ThreadId {
        if let Some(root) = self.roots.read().get(&thread) {
            return *root;
        }
        let mut root = thread;
        loop {
            let owner =
                self.store.stream(root).map_err(ReadError::from).and_then(|info| branch_of(&*self.store, &info));
            match owner {
                Ok(Some((owner, _))) => root = owner,
                Ok(None) => break,
                // It has not begun, or cannot be read: it is asked for again.
                Err(_) => return root,
            }
        }
        self.note(thread, root);
        root
    }

    /// A branch of a thread begins.
    pub(crate) fn branch_begins(&self, branch: ThreadId, owner: ThreadId) {
        self.note(branch, self.root(owner));
    }

    fn note(&self, thread: ThreadId, root: ThreadId) {
        let mut roots = self.roots.write();
        if roots.len() >= ROOTS_MAX {
            roots.clear();
        }
        roots.insert(thread, root);
    }

    /// Whether this runtime runs the thread.
    pub(crate) fn has(&self, thread: ThreadId) -> bool {
        let slot = Slot::of(self.root(thread));
        self.share.borrow().slots.has(slot) && !self.giving.lock().has(slot)
    }

    /// Keeps the slot of a thread here until the result is dropped; `None` if this runtime does not have it. It can still lose
    /// the slot with all others, to processes that take it for dead: what it writes then does not count.
    pub(crate) fn hold(&self, thread: ThreadId) -> Option<Held> {
        let slot = Slot::of(self.root(thread));
        // Before the look: slots are given away after a look at what is held.
        *self.held.lock().entry(slot).or_default() += 1;
        let held = Held { slot, all: self.held.clone() };
        self.has(thread).then_some(held)
    }

    /// The slots that are held.
    fn held(&self) -> Vec<Slot> {
        self.held.lock().keys().copied().collect()
    }

    /// The same id, or one of a thread that this runtime can run, for a thread that is not in the log and no branch.
    pub(crate) fn place_new(&self, thread: ThreadId) -> ThreadId {
        let thread = self.share.borrow().place(thread);
        self.note(thread, thread);
        thread
    }
}

/// The place of a name among the slots of threads.
pub(crate) fn place_of(name: &str) -> ThreadId {
    let mut place = [0; 16];
    place.copy_from_slice(&Hash::of(name.as_bytes()).as_bytes()[..16]);
    ThreadId::from_bytes(place)
}

/// Keeps a slot with this runtime.
pub(crate) struct Held {
    slot: Slot,
    all: Arc<Mutex<HashMap<Slot, usize>>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(n) = all.get_mut(&self.slot) {
            *n -= 1;
            if *n == 0 {
                all.remove(&self.slot);
            }
        }
    }
}
