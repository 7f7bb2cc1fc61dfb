//! Who waits for a thread to come to rest.

use dashmap::DashMap;
use rethread_events::ids::{Position, ThreadId};
use rethread_events::thread::State;
use tokio::sync::oneshot;

use crate::error::RuntimeError;

/// What a thread has come to.
#[derive(Debug, Clone)]
pub(crate) struct Rest {
    pub(crate) state: State,
    pub(crate) last_position: Position,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// The end.
    Ended,
    /// The end, a question to a person, or a pause.
    AtRest,
}

type Waiter = (Until, oneshot::Sender<Result<Rest, RuntimeError>>);

/// One who waits. Dropping it is giving up, and leaves nothing behind.
pub(crate) struct Waiting<'a> {
    activity: &'a Activity,
    thread: ThreadId,
    receiver: oneshot::Receiver<Result<Rest, RuntimeError>>,
}

impl Waiting<'_> {
    /// What the thread has come to; `None` when that must be looked for again.
    pub(crate) async fn rest(mut self) -> Option<Result<Rest, RuntimeError>> {
        (&mut self.receiver).await.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.receiver.close();
        self.activity.prune(self.thread);
    }
}

/// Waiters by thread; they outlive the thread's actor.
#[derive(Default)]
pub(crate) struct Activity {
    waiters: DashMap<ThreadId, Vec<Waiter>>,
}

impl Activity {
    pub(crate) fn wait(&self, thread: ThreadId, until: Until) -> Waiting<'_> {
        let (sender, receiver) = oneshot::channel();
        self.waiters.entry(thread).or_default().push((until, sender));
        Waiting { activity: self, thread, receiver }
    }

    /// Lets go of those who gave up waiting.
    fn prune(&self, thread: ThreadId) {
        self.waiters.remove_if_mut(&thread, |_, waiters| {
            waiters.retain(|(_, sender)| !sender.is_closed());
            waiters.is_empty()
        });
    }

    /// Whether somebody waits until the thread is at rest.
    pub(crate) fn is_waited_for(&self, thread: ThreadId) -> bool {
        self.waiters.get(&thread).is_some_and(|waiters| waiters.iter().any(|(until, _)| *until == Until::AtRest))
    }

    /// The thread is at rest, durably.
    pub(crate) fn at_rest(&self, thread: ThreadId, rest: impl FnOnce() -> Rest, ended: bool) {
        let Some(mut waiters) = self.waiters.get_mut(&thread) else {
            return;
        };
        let mut rest = Some(rest);
        let mut made = None;
        for (_, sender) in waiters.extract_if(.., |(until, _)| ended || *until == Until::AtRest) {
            let rest = made.get_or_insert_with(|| rest.take().map(|rest| rest()));
            if let Some(rest) = rest {
                let _ = sender.send(Ok(rest.clone()));
            }
        }
        let empty = waiters.is_empty();
        drop(waiters);
        if empty {
            self.waiters.remove_if(&thread, |_, waiters| waiters.is_empty());
        }
    }

    /// The thread's actor has left. Whoever asked after it last said where it stands looks into the log; who waits for
    /// the end of a thread that has not ended waits on.
    pub(crate) fn left(&self, thread: ThreadId, ended: bool) {
        self.waiters.remove_if_mut(&thread, |_, waiters| {
            waiters.retain(|(until, _)| !ended && *until == Until::Ended);
            waiters.is_empty()
        });
    }

    /// The thread cannot go on for now.
    pub(crate) fn failed(&self, thread: ThreadId, error: &RuntimeError) {
        if let Some((_, waiters)) = self.waiters.remove(&thread) {
            for (_, sender) in waiters {
                let _ = sender.send(Err(error.clone()));
            }
        }
    }

    /// Nothing will go on any more.
    pub(crate) fn close(&self) {
        let threads: Vec<_> = self.waiters.iter().map(|entry| *entry.key()).collect();
        for thread in threads {
            self.failed(thread, &RuntimeError::ShuttingDown);
        }
    }
}

#[cfg(test)]
mod tests;
