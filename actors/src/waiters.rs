//! The callers that wait until a thread is at rest.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rethread_events::ids::{Position, ThreadId};
use rethread_events::thread::State;
use tokio::sync::oneshot;

use crate::error::{ReadError, RuntimeError};

/// The state of a thread at rest.
#[derive(Debug, Clone)]
pub(crate) struct Rest {
    pub(crate) state: State,
    pub(crate) last_position: Position,
}

/// What a caller waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// The end.
    Ended,
    /// The end, a question to a person, or a pause.
    AtRest,
}

type Waiter = (Until, oneshot::Sender<Result<Rest, ReadError>>);

/// A waiting caller. Dropping it removes it from the list.
pub(crate) struct Waiting<'a> {
    waiters: &'a Waiters,
    thread: ThreadId,
    receiver: oneshot::Receiver<Result<Rest, ReadError>>,
}

impl Waiting<'_> {
    /// Waits for the state of the thread at rest; `None` if the caller must read it again.
    pub(crate) async fn rest(mut self) -> Option<Result<Rest, ReadError>> {
        (&mut self.receiver).await.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.receiver.close();
        self.waiters.prune(self.thread);
    }
}

/// Waiters by thread; they outlive the thread's actor.
#[derive(Default)]
pub(crate) struct Waiters {
    waiters: Mutex<HashMap<ThreadId, Vec<Waiter>>>,
    /// Set at the end of the shutdown, under the lock of the waiters.
    closed: AtomicBool,
}

impl Waiters {
    /// `ShuttingDown` after [`Waiters::close`].
    pub(crate) fn wait(&self, thread: ThreadId, until: Until) -> Result<Waiting<'_>, RuntimeError> {
        let (sender, receiver) = oneshot::channel();
        let mut waiters = self.waiters.lock();
        if self.closed.load(Ordering::Relaxed) {
            return Err(RuntimeError::ShuttingDown);
        }
        waiters.entry(thread).or_default().push((until, sender));
        Ok(Waiting { waiters: self, thread, receiver })
    }

    /// Removes the waiters of a thread for which this holds, and returns them: they are dropped and notified without the
    /// lock.
    fn take(&self, thread: ThreadId, is_done: impl Fn(&Waiter) -> bool) -> Vec<Waiter> {
        let mut waiters = self.waiters.lock();
        let Entry::Occupied(mut entry) = waiters.entry(thread) else { return Vec::new() };
        let taken = entry.get_mut().extract_if(.., |waiter| is_done(waiter)).collect();
        if entry.get().is_empty() {
            entry.remove();
        }
        taken
    }

    /// Removes the callers that stopped waiting.
    fn prune(&self, thread: ThreadId) {
        drop(self.take(thread, |(_, sender)| sender.is_closed()));
    }

    /// Returns whether a caller waits until the thread is at rest.
    pub(crate) fn is_waited_for(&self, thread: ThreadId) -> bool {
        self.waiters.lock().get(&thread).is_some_and(|waiters| waiters.iter().any(|(until, _)| *until == Until::AtRest))
    }

    /// Notifies the waiters of a thread that is durably at rest.
    pub(crate) fn at_rest(&self, thread: ThreadId, rest: impl FnOnce() -> Rest, ended: bool) {
        let waiters = self.take(thread, |(until, _)| ended || *until == Until::AtRest);
        if waiters.is_empty() {
            return;
        }
        let rest = rest();
        for (_, sender) in waiters {
            let _ = sender.send(Ok(rest.clone()));
        }
    }

    /// Handles the stop of the thread's actor. Callers that asked after its last report read the log; callers that wait
    /// for the end of a thread that has not ended continue to wait.
    pub(crate) fn left(&self, thread: ThreadId, ended: bool) {
        drop(self.take(thread, |(until, _)| ended || *until != Until::Ended));
    }

    /// Notifies the waiters of a thread that cannot continue for now.
    pub(crate) fn failed(&self, thread: ThreadId, error: &ReadError) {
        for (_, sender) in self.take(thread, |_| true) {
            let _ = sender.send(Err(error.clone()));
        }
    }

    /// Notifies all waiters at the end of the shutdown.
    pub(crate) fn close(&self) {
        let threads: Vec<_> = {
            let waiters = self.waiters.lock();
            self.closed.store(true, Ordering::Relaxed);
            waiters.keys().copied().collect()
        };
        for thread in threads {
            self.failed(thread, &RuntimeError::ShuttingDown.into());
        }
    }
}

#[cfg(test)]
mod tests;
