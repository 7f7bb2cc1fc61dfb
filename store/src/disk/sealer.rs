//! The thread that moves segments into sled, and the snapshots that wait to go with the next one.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rethread_events::ids::{Seq, ThreadId};

use super::backup::copy_index;
use super::index::Watermark;
use super::mark::SharedMark;
use super::read::Reader;
use super::reserve;
use super::seal::{seal, write_snapshots};
use super::tail::Segment;
use super::waiting::Waiting;
use crate::contract::{Compacted, Snapshot};
use crate::error::StoreError;

/// How much snapshots may hold in memory before they are written without waiting for records.
const SNAPSHOT_BYTES_DUE: usize = 4 << 20;

/// How much less the sealer counts than the other threads when there are more of them than processors.
const NICE: i32 = 10;

/// How long to wait before a full disk, or a folder that was moved, is tried again.
const RETRY: Duration = Duration::from_millis(250);

/// How long the writer, which polls twice a second, may take to hand over what a caller waits for.
const HAND_OVER_MAX: Duration = Duration::from_secs(5);

/// A task of the sealer.
pub(crate) enum Task {
    /// Move a segment into sled, and the snapshots that wait.
    Seal(Arc<Segment>),
    /// The snapshots alone.
    Snapshots,
    /// Rewrite the index, without removed entries.
    Compact(SyncSender<Result<Compacted, StoreError>>),
    /// Copy the index to this folder.
    CopyIndex { to: PathBuf, answer: SyncSender<Result<Watermark, StoreError>> },
}

#[derive(Default)]
struct State {
    snapshots: HashMap<ThreadId, Waiting>,
    /// Snapshots that are being written.
    leaving: HashMap<ThreadId, Waiting>,
    /// The size of `snapshots` in bytes.
    snapshot_bytes: usize,
    sealed_epoch: u64,
    failure: Option<StoreError>,
    /// The error of the present task, while it is retried.
    obstacle: Option<StoreError>,
    /// Tasks that are not done yet.
    n_tasks: usize,
    closing: bool,
}

/// The state that the sealer shares with the writer and with readers.
#[derive(Default)]
pub(crate) struct Sealer {
    state: Mutex<State>,
    /// The life of the journal up to which a caller waits for it to be in sled.
    wanted_epoch: AtomicU64,
    changed: Condvar,
}

impl Sealer {
    pub(crate) fn new(sealed_epoch: u64) -> Self {
        let state = State { sealed_epoch, ..State::default() };
        Self { state: Mutex::new(state), ..Self::default() }
    }

    /// The last life of the journal that is in sled.
    pub(crate) fn sealed_epoch(&self) -> u64 {
        self.state.lock().sealed_epoch
    }

    /// Why sealing has stopped, if it has.
    pub(crate) fn failure(&self) -> Option<StoreError> {
        self.state.lock().failure.clone()
    }

    /// Waits until all tasks are done or have failed.
    pub(crate) fn wait_until_idle(&self) {
        let mut state = self.state.lock();
        while state.n_tasks > 0 {
            self.changed.wait(&mut state);
        }
    }

    /// Waits until that life of the journal is in sled. The writer has to be nudged, so that it hands over what it has.
    ///
    /// Errors: why it gets no further; `Io` when the writer, which may have failed, hands nothing over for some seconds.
    pub(crate) fn wait_for(&self, epoch: u64, wake_writer: impl Fn()) -> Result<(), StoreError> {
        self.wanted_epoch.fetch_max(epoch, Ordering::AcqRel);
        let mut state = self.state.lock();
        let mut idle_since = Instant::now();
        while state.sealed_epoch < epoch {
            if state.n_tasks > 0 {
                idle_since = Instant::now();
            } else if idle_since.elapsed() > HAND_OVER_MAX {
                let what = "the journal was not sealed: check whether the disk is full or failed";
                let source = Arc::new(std::io::Error::new(std::io::ErrorKind::TimedOut, what));
                return Err(StoreError::Io { path: "journal".into(), source });
            }
            if let Some(error) = state.failure.as_ref().or(state.obstacle.as_ref()) {
                return Err(error.clone());
            }
            if state.closing {
                return Err(StoreError::Closed);
            }
            drop(state);
            wake_writer();
            state = self.state.lock();
            if state.sealed_epoch < epoch {
                self.changed.wait_for(&mut state, RETRY);
            }
        }
        Ok(())
    }

    /// Whether a caller waits for that life of the journal.
    pub(crate) fn is_wanted(&self, epoch: u64) -> bool {
        self.wanted_epoch.load(Ordering::Acquire) >= epoch
    }

    /// Asks for something to be done.
    pub(crate) fn give(&self, tasks: &Sender<Task>, task: Task) {
        self.state.lock().n_tasks += 1;
        if tasks.send(task).is_err() {
            // Its thread ends only after the last sender is dropped.
            tracing::error!("the sealer has stopped");
            self.state.lock().n_tasks -= 1;
        }
    }

    /// No more patience with a full disk.
    pub(crate) fn close(&self) {
        self.state.lock().closing = true;
        self.changed.notify_all();
    }

    pub(crate) fn put_snapshot(&self, thread: ThreadId, snapshot: Snapshot) {
        self.change_snapshots(thread, |waiting| waiting.put(snapshot));
    }

    pub(crate) fn keep_snapshots(&self, thread: ThreadId, seqs: &[Seq]) {
        self.change_snapshots(thread, |waiting| waiting.retain(&seqs.iter().copied().collect()));
    }

    fn change_snapshots(&self, thread: ThreadId, change: impl FnOnce(&mut Waiting)) {
        let mut state = self.state.lock();
        let waiting = state.snapshots.entry(thread).or_default();
        let before = waiting.bytes();
        change(waiting);
        let after = waiting.bytes();
        state.snapshot_bytes = state.snapshot_bytes.saturating_sub(before) + after;
    }

    /// Pending changes to a stream's snapshots.
    pub(crate) fn snapshots(&self, thread: ThreadId) -> Waiting {
        let state = self.state.lock();
        let mut all = state.leaving.get(&thread).cloned().unwrap_or_default();
        if let Some(later) = state.snapshots.get(&thread) {
            all.merge(later.clone());
        }
        all
    }

    pub(crate) fn forget_snapshots(&self, thread: ThreadId) {
        let mut state = self.state.lock();
        if let Some(old) = state.snapshots.remove(&thread) {
            state.snapshot_bytes = state.snapshot_bytes.saturating_sub(old.bytes());
        }
        state.leaving.remove(&thread);
    }

    /// Returns whether snapshots alone are a reason to start the sealer. Never while it runs: it takes those along that
    /// are there when it begins, and this is checked again when it is done.
    pub(crate) fn snapshots_due(&self) -> bool {
        let state = self.state.lock();
        state.n_tasks == 0 && state.snapshot_bytes >= SNAPSHOT_BYTES_DUE
    }

    /// Whether any snapshot waits to be written.
    pub(crate) fn has_snapshots(&self) -> bool {
        !self.state.lock().snapshots.is_empty()
    }

    fn take_snapshots(&self) -> Vec<(ThreadId, Waiting)> {
        let mut state = self.state.lock();
        state.snapshot_bytes = 0;
        for (thread, later) in std::mem::take(&mut state.snapshots) {
            state.leaving.entry(thread).or_default().merge(later);
        }
        state.leaving.iter().map(|(thread, waiting)| (*thread, waiting.clone())).collect()
    }

    /// The loop of the sealer's thread.
    pub(crate) fn run(&self, reader: &Reader, mark: &SharedMark, tasks: &Receiver<Task>) {
        // Appends have priority; moving records can wait until the journal gets too large.
        if let Err(error) = rustix::process::nice(NICE) {
            tracing::debug!(%error, "cannot lower the priority of the sealer");
        }
        while let Ok(task) = tasks.recv() {
            let done = match &task {
                Task::Seal(segment) => {
                    let snapshots = self.take_snapshots();
                    self.write(reader, segment.has_deletes, || {
                        seal(reader, segment, &snapshots)?;
                        mark.record_sealed(segment.epoch)
                    })
                }
                Task::Snapshots => {
                    let snapshots = self.take_snapshots();
                    self.write(reader, false, || {
                        write_snapshots(reader, &snapshots)?;
                        reader.index.sync()
                    })
                }
                Task::Compact(_) | Task::CopyIndex { .. } => reader.packs.files().check_in_place(),
            };
            match (done, task) {
                (Ok(()), Task::Seal(segment)) => {
                    let mut state = self.state.lock();
                    state.sealed_epoch = segment.epoch;
                    state.leaving.clear();
                    drop(state);
                    reader.tail.state.write().sealing = None;
                }
                (Ok(()), Task::Snapshots) => self.state.lock().leaving.clear(),
                // The receivers of the results may be dropped.
                (Ok(()), Task::Compact(answer)) => drop(answer.send(reader.index.compact())),
                (Ok(()), Task::CopyIndex { to, answer }) => {
                    drop(answer.send(copy_index(reader.packs.files(), &reader.index, &to)));
                }
                (Err(error), Task::Compact(answer)) => drop(answer.send(Err(error))),
                (Err(error), Task::CopyIndex { answer, .. }) => drop(answer.send(Err(error))),
                (Err(error), Task::Seal(_)) => {
                    tracing::error!(%error, "cannot seal the journal");
                    self.state.lock().failure = Some(error);
                }
                // They are a cache: the next seal takes them along.
                (Err(error), Task::Snapshots) => {
                    tracing::warn!(%error, "cannot write snapshots");
                }
            }
            self.state.lock().n_tasks -= 1;
            self.changed.notify_all();
        }
    }

    /// Writes to sled. Deletes on a full disk spend the reserve. Tries again while the disk is full or the folder of the
    /// log is not at its path; once more, and no more, when the log is closing.
    fn write(
        &self,
        reader: &Reader,
        has_deletes: bool,
        write: impl Fn() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut is_last = false;
        loop {
            let files = reader.packs.files();
            let done = files.check_in_place().and_then(|()| write());
            // A folder that is moved or removed while it is written may show itself as another error first.
            let error = match done.or_else(|error| files.check_in_place().and(Err(error))) {
                Err(error) if error.is_temporary() && !is_last => error,
                done => {
                    self.state.lock().obstacle = None;
                    return done;
                }
            };
            tracing::warn!(%error, "cannot seal the journal now: trying again");
            let is_full = matches!(error, StoreError::Full { .. });
            if !(is_full && has_deletes && reserve::release(reader.packs.files())) {
                let mut state = self.state.lock();
                state.obstacle = Some(error.clone());
                self.changed.notify_all();
                if !state.closing {
                    self.changed.wait_for(&mut state, RETRY);
                }
                is_last = state.closing;
            }
            if let StoreError::Full { .. } = error
                && let Err(error) = reader.index.reopen()
            {
                // sled's handle is of no use from here on; it opens again when there is room.
                tracing::warn!(%error, "cannot open the index");
            }
        }
    }
}

#[cfg(test)]
mod tests;
