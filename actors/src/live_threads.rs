//! The threads that are live in this process, each with at most one actor, and the delivery of messages to actors that
//! may stop at any time.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use rethread_events::ids::{Seq, ThreadId};
use rethread_store::StoreError;

use crate::error::RuntimeError;

/// How often a message is sent to the successor of an actor that stopped before it took the message.
const TRIES: usize = 5;

/// The address of a thread's actor.
pub(crate) trait Address: Clone + PartialEq {
    /// Returns false once the actor has stopped, which may be before it was removed.
    fn is_connected(&self) -> bool;
}

/// The addresses of the live threads' actors.
pub(crate) struct LiveThreads<A> {
    actors: RwLock<HashMap<ThreadId, A>>,
    n_max: usize,
    is_closed: AtomicBool,
}

impl<A: Address> LiveThreads<A> {
    pub(crate) fn new(n_max: usize) -> Self {
        Self { actors: RwLock::default(), n_max, is_closed: AtomicBool::new(false) }
    }

    /// Starts the actor of a new thread.
    ///
    /// # Errors
    /// `Busy` if it needs a free place and there is none, `Store(Conflict)` if the thread is live, `ShuttingDown` after
    /// [`LiveThreads::close`].
    pub(crate) fn begin(
        &self,
        id: ThreadId,
        needs_room: bool,
        start: impl FnOnce() -> Result<A, RuntimeError>,
    ) -> Result<(), RuntimeError> {
        let n = self.len();
        if needs_room && n >= self.n_max {
            return Err(RuntimeError::Busy { what: "live threads", n, n_max: self.n_max });
        }
        // Locked while the actor is created: one that ends at once then finds itself here and removes itself.
        match self.actors.write().entry(id) {
            Entry::Occupied(_) => Err(StoreError::Conflict { thread: id, expected: Seq(0), actual: Seq(1) })?,
            Entry::Vacant(vacant) => {
                self.check_open()?;
                vacant.insert(start()?);
                Ok(())
            }
        }
    }

    /// Returns the actor of a thread, which `start` starts when the thread is not live.
    ///
    /// # Errors
    /// `ShuttingDown` when it is not live, after [`LiveThreads::close`].
    pub(crate) fn activate(
        &self,
        id: ThreadId,
        start: impl FnOnce() -> Result<A, RuntimeError>,
    ) -> Result<A, RuntimeError> {
        // Locked while the actor is created, so that a thread never has two.
        match self.actors.write().entry(id) {
            Entry::Occupied(live) if live.get().is_connected() => Ok(live.get().clone()),
            entry => {
                // Checked under the lock: a shutdown that closes and then lists the actors misses none.
                self.check_open()?;
                Ok(entry.insert_entry(start()?).get().clone())
            }
        }
    }

    /// Sends a message to the actor of a thread, which `start` starts if the thread is not live. An actor that is started
    /// does not leave by itself while the second value of `start` exists; `give` drops it when the actor has the message.
    /// Without it, an actor that has nothing to do could leave before each message, as long as the sender does not run.
    /// `give` returns the actor if it stopped before it took the message; the message is then sent to its successor.
    ///
    /// # Errors
    /// `ShuttingDown`; `ActorStopped` when the actor stops each time.
    pub(crate) async fn hand_over<T, F, P>(
        &self,
        id: ThreadId,
        start: impl Fn() -> Result<(A, P), RuntimeError>,
        mut give: impl FnMut(A, Option<P>) -> F,
    ) -> Result<T, RuntimeError>
    where
        F: Future<Output = Result<T, A>>,
    {
        for _ in 0..TRIES {
            let mut place = None;
            let begin = || {
                let (actor, taken) = start()?;
                place = Some(taken);
                Ok(actor)
            };
            let actor = self.activate(id, begin)?;
            match give(actor, place).await {
                Ok(answer) => return Ok(answer),
                Err(gone) => self.forget(id, |live| *live == gone),
            }
        }
        Err(RuntimeError::ActorStopped(id))
    }

    /// Removes the actor of a thread, if it is this one.
    pub(crate) fn forget(&self, id: ThreadId, actor: impl Fn(&A) -> bool) {
        if let Entry::Occupied(live) = self.actors.write().entry(id)
            && actor(live.get())
        {
            live.remove();
        }
    }

    /// Returns the actor of a thread, if it is live.
    pub(crate) fn get(&self, id: ThreadId) -> Option<A> {
        self.actors.read().get(&id).cloned()
    }

    /// Returns whether the thread is live.
    pub(crate) fn has(&self, id: ThreadId) -> bool {
        self.actors.read().contains_key(&id)
    }

    /// All actors.
    pub(crate) fn all(&self) -> Vec<A> {
        self.actors.read().values().cloned().collect()
    }

    /// Returns the ids of all live threads.
    pub(crate) fn ids(&self) -> Vec<ThreadId> {
        self.actors.read().keys().copied().collect()
    }

    /// Returns how many threads are live.
    pub(crate) fn len(&self) -> usize {
        self.actors.read().len()
    }

    /// Returns whether only the places that are reserved for needed threads are free.
    pub(crate) fn is_crowded(&self) -> bool {
        self.room() == 0
    }

    /// Returns the number of free places, without those reserved for needed threads.
    pub(crate) fn room(&self) -> usize {
        // Where only one may be live, it is that one which is needed.
        self.n_max.saturating_sub(1).max(1).saturating_sub(self.len())
    }

    /// Prevents further starts of actors. Returns true for the first caller.
    pub(crate) fn close(&self) -> bool {
        !self.is_closed.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn check_open(&self) -> Result<(), RuntimeError> {
        if self.is_closed() { Err(RuntimeError::ShuttingDown) } else { Ok(()) }
    }
}
