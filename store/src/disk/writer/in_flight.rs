//! A group that is being written while the next one is built: on its own thread, which starts with the first group that
//! is large enough.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::{Committer, Group};
use crate::disk::answer::OFFLOAD_MIN;
use crate::disk::journal::Journal;
use crate::disk::stopped;
use crate::error::StoreError;

/// The result of a group.
pub(super) enum CommitResult {
    /// It is durable, visible and acknowledged. Its buffer can be used again.
    Durable { group: u64, buffer: Vec<u8> },
    /// It was not written, and no caller was acknowledged.
    Failed(Box<Group>, StoreError),
    /// The thread has panicked, and the journal is lost with it.
    Lost,
}

/// Where the committer is: here, or away with a group. What is away cannot be touched by mistake.
pub(super) struct InFlightCommit {
    idle: Option<Box<Committer>>,
    thread: Option<Thread>,
}

struct Thread {
    groups: SyncSender<(Box<Committer>, Group)>,
    result: Receiver<(Box<Committer>, CommitResult)>,
    handle: JoinHandle<()>,
}

impl InFlightCommit {
    pub(super) fn new(committer: Committer) -> Self {
        Self { idle: Some(Box::new(committer)), thread: None }
    }

    /// Whether a group is on its way.
    pub(super) fn is_in_flight(&self) -> bool {
        self.idle.is_none() && self.thread.is_some()
    }

    /// The committer, when nothing is on its way.
    pub(super) fn committer(&mut self) -> Option<&mut Committer> {
        self.idle.as_deref_mut()
    }

    /// Writes a group: a small one here, whose result is returned; others on the thread. No group may be in flight.
    pub(super) fn submit(&mut self, group: Group) -> Option<CommitResult> {
        let Some(mut committer) = self.idle.take() else { return Some(CommitResult::Lost) };
        let (mut committer, group) = match self.thread(group.changes.len()) {
            Some(thread) => match thread.groups.send((committer, group)) {
                Ok(()) => return None,
                Err(unsent) => unsent.0,
            },
            None => {
                let result = committer.commit(group);
                self.idle = Some(committer);
                return Some(result);
            }
        };
        // The thread has stopped, which it never does by itself.
        self.thread = None;
        let result = committer.commit(group);
        self.idle = Some(committer);
        Some(result)
    }

    fn thread(&mut self, n_changes: usize) -> Option<&Thread> {
        if n_changes < OFFLOAD_MIN {
            return None;
        }
        if self.thread.is_none() {
            let (groups, todo) = sync_channel::<(Box<Committer>, Group)>(1);
            let (done, result) = sync_channel(1);
            let work = move || {
                while let Ok((mut committer, group)) = todo.recv() {
                    let result = committer.commit(group);
                    let queue = std::sync::Arc::clone(&committer.queue);
                    if done.send((committer, result)).is_err() {
                        return;
                    }
                    queue.wake_writer();
                }
            };
            // Without a thread each group is waited for, as ever.
            let handle = std::thread::Builder::new().name("log journal".into()).spawn(work).ok()?;
            self.thread = Some(Thread { groups, result, handle });
        }
        self.thread.as_ref()
    }

    /// Returns the result of the group in flight, if it is known by now.
    pub(super) fn try_result(&mut self) -> Option<CommitResult> {
        let thread = self.thread.as_ref().filter(|_| self.idle.is_none())?;
        match thread.result.try_recv() {
            Ok((committer, result)) => {
                self.idle = Some(committer);
                Some(result)
            }
            Err(std::sync::mpsc::TryRecvError::Empty) => None,
            Err(std::sync::mpsc::TryRecvError::Disconnected) => self.lost(),
        }
    }

    /// Waits for the group in flight; `None` if there is none.
    pub(super) fn wait(&mut self) -> Option<CommitResult> {
        let thread = self.thread.as_ref().filter(|_| self.idle.is_none())?;
        match thread.result.recv() {
            Ok((committer, result)) => {
                self.idle = Some(committer);
                Some(result)
            }
            Err(_) => self.lost(),
        }
    }

    fn lost(&mut self) -> Option<CommitResult> {
        self.thread = None;
        Some(CommitResult::Lost)
    }

    /// Ends the thread. Returns the journal after all callers were answered.
    pub(super) fn end(mut self) -> Result<Journal, StoreError> {
        let committer = self.idle.take().ok_or_else(|| stopped("journal"))?;
        if let Some(Thread { groups, result, handle }) = self.thread.take() {
            drop((groups, result));
            // It only passes on what is given to it.
            let _ = handle.join();
        }
        Ok(committer.finish())
    }
}
