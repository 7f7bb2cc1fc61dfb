//! Writes and removes snapshots, one after the other, in the order of the requests, so that removed snapshots stay
//! removed. No caller waits for it, and encoding a state blocks no arbiter.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use rethread_events::codec;
use rethread_events::ids::{Hash, Seq, ThreadId};
use rethread_events::thread::{STATE_VERSION, State};
use rethread_store::{Snapshot, Store, StoreError};

use crate::crashes::{Class, Crashes, Entered, Step};
use crate::snapshots;

pub(crate) struct SnapshotWriter {
    store: Arc<dyn Store>,
    crashes: Arc<Crashes>,
    /// Not bounded: the states belong to threads that are live, or were recently, and share their messages with them.
    waiting: Mutex<VecDeque<Task>>,
    /// The holder of the lock works through the queue.
    turn: Mutex<()>,
}

enum Task {
    Keep { state: Box<State>, seq: Seq, hash: Hash, last: Seq },
    RemoveUnneeded { thread: ThreadId, from: Seq, end: Seq },
}

impl SnapshotWriter {
    pub(crate) fn new(store: Arc<dyn Store>, crashes: Arc<Crashes>) -> Self {
        Self { store, crashes, waiting: Mutex::default(), turn: Mutex::default() }
    }

    /// Writes the state after event `seq`. The last useful snapshot of the thread itself is at `last`. If that is its
    /// beginning, it has none, and existing ones of another version are removed. A snapshot is a cache: if this fails,
    /// the next start folds more events.
    pub(crate) fn keep(self: &Arc<Self>, state: State, seq: Seq, hash: Hash, last: Seq) {
        self.ask(Task::Keep { state: Box::new(state), seq, hash, last });
    }

    /// Removes the snapshots of a thread that has ended with the event `end`, except those that historical reads need:
    /// it needs no quick reload.
    pub(crate) fn remove_unneeded(self: &Arc<Self>, state: &State, end: Seq) {
        self.ask(Task::RemoveUnneeded { thread: state.thread(), from: snapshots::begins(state), end });
    }

    /// Works through the queue until the deadline; the rest of it is lost. Blocks.
    pub(crate) fn finish(&self, deadline: Instant) {
        let Some(_turn) = self.turn.try_lock_until(deadline) else { return };
        while Instant::now() < deadline
            && let Some(task) = self.next()
        {
            self.perform(task);
        }
    }

    fn ask(self: &Arc<Self>, task: Task) {
        self.waiting.lock().push_back(task);
        let writer = self.clone();
        drop(actix_rt::task::spawn_blocking(move || writer.work()));
    }

    fn work(&self) {
        // Checked again after each turn: a caller that found the turn taken has left its task to the holder.
        while !self.waiting.lock().is_empty() {
            let Some(_turn) = self.turn.try_lock() else { return };
            while let Some(task) = self.next() {
                self.perform(task);
            }
        }
    }

    fn next(&self) -> Option<Task> {
        self.waiting.lock().pop_front()
    }

    fn perform(&self, task: Task) {
        match task {
            Task::Keep { state, seq, hash, last } => {
                let thread = state.thread();
                if let Some(count) = self.crashes.at_limit(thread, Class::Snapshot) {
                    tracing::debug!(%thread, error = %count.error(), "skipping a snapshot");
                    return;
                }
                let under_way = self.crashes.enter(|| Step::snapshot(thread, seq));
                let put = self.put(&state, seq, hash, last);
                self.crashes.completed(under_way.and_then(Entered::over));
                if let Err(error) = put {
                    tracing::warn!(thread = %state.thread(), %error, "cannot store a snapshot");
                }
            }
            Task::RemoveUnneeded { thread, from, end } => {
                if let Err(error) = self.thin_out(thread, |seqs| snapshots::needed(seqs, from, end)) {
                    tracing::debug!(%thread, %error, "cannot remove snapshots of an ended thread");
                }
            }
        }
    }

    fn put(&self, state: &State, seq: Seq, hash: Hash, last: Seq) -> Result<(), StoreError> {
        let (thread, from) = (state.thread(), snapshots::begins(state));
        let state = codec::encode(state).map_err(|error| StoreError::Invalid(error.to_string()))?;
        self.store.put_snapshot(thread, Snapshot { seq, hash, version: STATE_VERSION, state })?;
        let is_first = last <= from;
        self.thin_out(thread, |seqs| if is_first { vec![seq] } else { snapshots::thinned_out(seqs, from) })
    }

    fn thin_out(&self, thread: ThreadId, which: impl Fn(&[Seq]) -> Vec<Seq>) -> Result<(), StoreError> {
        let seqs = self.store.snapshots(thread)?;
        let kept = which(&seqs);
        if kept == seqs { Ok(()) } else { self.store.keep_snapshots(thread, &kept) }
    }
}

#[cfg(test)]
mod tests;
