//! The durable backend: a write-ahead journal in front of sled.
//!
//! ```text
//! caller ─▶ queue ─▶ writer ─▶ journal (one write, one sync) ─▶ tail ─▶ readers, subscribers, the answer
//!                                                                │
//!                                                  sealer ◀──────┘  sorts by stream, packs into chunks, writes
//!                                                                   those to the packs and their places to sled;
//!                                                                   then the journal file is used again
//! ```

mod answer;
mod backup;
mod cache;
mod chunk;
mod copy;
mod damage_policy;
pub(crate) mod files;
pub(crate) mod frame;
mod index;
mod journal;
mod limits;
pub(crate) mod lock;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod look;
mod mark;
mod options;
mod packs;
mod pieces;
pub(crate) mod queue;
mod read;
mod rebuild;
mod recover;
mod reserve;
mod scratch;
mod seal;
mod sealer;
mod store;
mod tail;
mod verify;
mod waiting;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use tokio::sync::watch;

pub use backup::{Backup, BackupFile};
pub use copy::Copied;
pub use files::Watcher;
pub use options::Options;
pub use rebuild::TAG_LOST;

use answer::Answerer;
use cache::Cache;
use damage_policy::DamagePolicy;
use files::{Files, Root};
use journal::Journal;
use lock::Lock;
use mark::{LogEnd, SharedMark};
#[cfg(feature = "jetstream")]
use queue::Answer;
use queue::{Op, Queue};
use read::Reader;
use recover::Found;
use sealer::{Sealer, Task};
use writer::{Committer, Writer};

use crate::contract::{Appended, Store};
use crate::error::{Damage, StoreError};
use crate::subscription::Progress;

/// The log in a folder. Every acknowledged append is on the disk; several are made durable together when they
/// arrive together. Dropping it closes it.
///
/// ```
/// # use rethread_store::*;
/// # use rethread_events::ids::{Seq, ThreadId, Time};
/// # let dir = std::env::temp_dir().join(format!("rethread-doc-{}", std::process::id()));
/// let store = SledStore::open(&dir, Options::default())?;
/// let thread = ThreadId::new(1_000, [7; 10]);
/// let record = NewRecord {
///     kind: Kind(1),
///     version: 1,
///     recorded_at: Time::from_unix_us(1_000_000),
///     cause: None,
///     run: None,
///     payload: b"hello".to_vec(),
/// };
/// let append = Append {
///     thread,
///     expected: Seq(0),
///     fork_of: None,
///     trace: None,
///     tag: Tag(0),
///     records: vec![record],
///     blobs: Vec::new(),
///     keys: Vec::new(),
///     is_awaited: true,
/// };
/// let appended = futures::executor::block_on(store.append(append))?;
/// assert_eq!(appended.last_seq, Seq(0));
/// assert_eq!(&*store.read_stream(thread, Seq(0)..Seq(1), 1)?[0].payload, b"hello");
/// # store.close()?;
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok::<(), StoreError>(())
/// ```
pub struct SledStore {
    dir: PathBuf,
    reader: Arc<Reader>,
    queue: Arc<Queue>,
    sealer: Arc<Sealer>,
    mark: Arc<SharedMark>,
    progress: Arc<watch::Sender<Progress>>,
    threads: Mutex<Option<Threads>>,
    /// Used by a salvage, which has no threads.
    lock: Mutex<Option<Lock>>,
    /// The faults that were found and repaired when it was opened.
    mended: Vec<Damage>,
    /// Whether the file of [`Store::side_file`] was handed out.
    side_file_is_out: AtomicBool,
}

struct Threads {
    writer: JoinHandle<Result<Journal, StoreError>>,
    sealer: JoinHandle<()>,
    tasks: std::sync::mpsc::Sender<Task>,
    _lock: Lock,
}

impl std::fmt::Debug for SledStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SledStore").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// The file of a folder that holds a replica, which is not opened as a log.
pub(crate) const REPLICA: &str = "replica";

impl SledStore {
    /// Opens the log in `dir`, or makes a new one there. Takes as long as reading the journal, some milliseconds.
    ///
    /// Errors: `Locked`, `Format`, `Damaged` when something acknowledged is missing, `Full` when there is no room
    /// even to open it, `Io`.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        let mut root = Root::create(dir.as_ref())?;
        let lock = root.lock(&options.label)?;
        let files = Files::new(options.watcher.clone(), root);
        let files = if options.sync { files } else { files.without_sync() };
        let dir = files.folder();
        if dir.join(REPLICA).exists() {
            let why = "it is the replica of a log in a stream of NATS JetStream: name that log (`--store`), or another folder";
            return Err(StoreError::Unsuitable { log: dir.display().to_string(), why: why.into() });
        }
        remove_drafts(dir, &files);
        if options.spend_reserve {
            reserve::release(&files);
        } else {
            reserve::allocate(&files);
        }
        let found = recover::recover(dir, options.index_cache_bytes, &files, &mut DamagePolicy::Strict)?;
        let reader = Arc::new(Reader {
            tail: found.tail,
            index: found.index,
            packs: found.packs,
            cache: Cache::new(options.read_cache_bytes),
            is_salvage: false,
        });
        let queue = Arc::new(Queue::new(options.queue_bytes_max, options.patience));
        let sealer = Arc::new(Sealer::new(found.watermark.epoch));
        let mark = Arc::new(SharedMark::new(found.mark));
        let (progress, _) = watch::channel(Progress { next: found.next, closed: false });
        let progress = Arc::new(progress);
        let (tasks, todo) = std::sync::mpsc::channel();
        let mut journal = found.journal;
        // The records of a leftover file may be half in sled. So the file is sealed unchanged and accepts nothing more:
        // when repeated, every step writes what it wrote before.
        let sealing = reader.tail.state.read().sealing.clone().map(Task::Seal);
        let task = match sealing {
            Some(sealing) => Some(sealing),
            None => writer::hand_over(&reader, &mut journal)?,
        };
        if let Some(task) = task {
            sealer.give(&tasks, task);
        }
        let sealer_thread = {
            let (sealer, reader, mark) = (Arc::clone(&sealer), Arc::clone(&reader), Arc::clone(&mark));
            spawn("log sealer", dir, move || sealer.run(&reader, &mark, &todo))?
        };
        let committer = Committer {
            queue: Arc::clone(&queue),
            reader: Arc::clone(&reader),
            journal,
            mark: Arc::clone(&mark),
            sealer: Arc::clone(&sealer),
            progress: Arc::clone(&progress),
            next: found.next,
            answerer: Answerer::default(),
        };
        let writer = Writer::new(committer, tasks.clone(), options.tail_bytes);
        let writer = spawn("log writer", dir, move || writer.run())?;
        let threads = Threads { writer, sealer: sealer_thread, tasks, _lock: lock };
        Ok(Self {
            dir: dir.into(),
            reader,
            queue,
            sealer,
            mark,
            progress,
            threads: Mutex::new(Some(threads)),
            lock: Mutex::new(None),
            mended: found.mended,
            side_file_is_out: AtomicBool::new(false),
        })
    }

    /// Opens a damaged log to read what can still be had: streams, records, values and blobs that are not damaged.
    /// Everything that would write is refused with the damage that was found, and [`LogReader::verify`](crate::LogReader::verify) lists it.
    /// Nothing in the folder is changed but the lock: the index is copied to the folder for temporary files. When sled lost
    /// its end or does not open at all, records are found again in the packs and in the journal, with [`TAG_LOST`] as the
    /// tag of streams of which sled knows nothing any more; payloads over 16 KiB, blobs and values are there as far as
    /// sled still has them.
    ///
    /// Errors: `Locked`, `Format`, `Full` when there is no room for the copy, `Io`, `NotFound` when there is no log.
    pub fn salvage(dir: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        let dir = dir.as_ref();
        check_is_log(dir)?;
        let mut root = Root::open(dir)?;
        let lock = lock_to_read(&mut root, &options.label)?;
        let mut care = DamagePolicy::Salvage(Vec::new());
        let files = Files::new(options.watcher.clone(), root).only_read();
        let found = recover::recover(files.folder(), options.index_cache_bytes, &files, &mut care)?;
        let mut mended = found.mended;
        if let DamagePolicy::Salvage(damages) = care {
            mended.extend(damages);
        }
        let why = mended.first().cloned().unwrap_or_else(|| Damage {
            what: "it was opened for salvage, which only reads".into(),
            ..Damage::default()
        });
        let found = Found { mended, ..found };
        Ok(Self::reading(&files, options, found, lock, StoreError::Damaged(why)))
    }

    /// Whether there is a log in `dir`, or what is left of one.
    pub fn is_in(dir: impl AsRef<Path>) -> bool {
        [mark::NAME, recover::INDEX].iter().any(|name| dir.as_ref().join(name).exists())
    }

    /// Opens a log to read it. Where its folder or files cannot be written (a read-only file system, a full disk, files of
    /// another user), nothing in the folder is changed, and everything that would write is refused with
    /// [`StoreError::ReadOnly`]; otherwise as [`SledStore::open`]. A log that only reads has a copy of the index in the
    /// folder for temporary files.
    ///
    /// Errors: as those of [`SledStore::open`]; `NotFound` when nothing can be written and there is no log.
    pub fn open_to_read(dir: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        let dir = dir.as_ref();
        let why = match Self::open(dir, options.clone()) {
            Err(StoreError::Full { .. }) => "the disk is full".to_owned(),
            Err(StoreError::Io { path, source }) if is_denied(&source) => format!("{}: {source}", path.display()),
            opened => return opened,
        };
        check_is_log(dir)?;
        let mut root = Root::open(dir)?;
        let lock = lock_to_read(&mut root, &options.label)?;
        let files = Files::new(options.watcher.clone(), root).only_read();
        let found = recover::recover(files.folder(), options.index_cache_bytes, &files, &mut DamagePolicy::Strict)?;
        let refusal = StoreError::ReadOnly { path: dir.into(), why };
        Ok(Self::reading(&files, options, found, lock, refusal))
    }

    /// A store that refuses everything that would write.
    fn reading(files: &Files, options: Options, found: Found, lock: Option<Lock>, refusal: StoreError) -> Self {
        let is_salvage = matches!(refusal, StoreError::Damaged(_));
        let queue = Arc::new(Queue::new(options.queue_bytes_max, options.patience));
        queue.refuse_all(refusal);
        let (progress, _) = watch::channel(Progress { next: found.next, closed: false });
        Self {
            dir: files.folder().into(),
            reader: Arc::new(Reader {
                tail: found.tail,
                index: found.index,
                packs: found.packs,
                cache: Cache::new(options.read_cache_bytes),
                is_salvage,
            }),
            queue,
            sealer: Arc::new(Sealer::new(found.watermark.epoch)),
            mark: Arc::new(SharedMark::new(found.mark)),
            progress: Arc::new(progress),
            threads: Mutex::new(None),
            lock: Mutex::new(lock),
            mended: found.mended,
            side_file_is_out: AtomicBool::new(false),
        }
    }

    fn open_reader(&self) -> Result<&Reader, StoreError> {
        if self.queue.is_closed() { Err(StoreError::Closed) } else { Ok(&self.reader) }
    }

    /// Queues something to be written.
    #[cfg(feature = "jetstream")]
    pub(crate) fn submit(&self, op: Op, bytes: usize, answer: Answer) {
        self.queue.push(op, bytes, answer);
    }

    /// Whether this owner names the blob.
    #[cfg(feature = "jetstream")]
    pub(crate) fn has_owner(
        &self,
        hash: rethread_events::ids::Hash,
        owner: Option<rethread_events::ids::ThreadId>,
    ) -> Result<bool, StoreError> {
        self.open_reader()?.has_owner(hash, owner)
    }

    /// Has something written and waits for it.
    pub(crate) fn write(&self, op: Op, bytes: usize) -> Result<Option<Appended>, StoreError> {
        self.queue.write(op, bytes)
    }

    /// Everything that was acknowledged so far is in sled and in the packs when it returns.
    fn seal_all(&self) -> Result<(), StoreError> {
        self.queue.check_open()?;
        let epoch = {
            let state = self.reader.tail.state.read();
            state.active.epoch - u64::from(state.active.n_entries == 0)
        };
        self.sealer.wait_for(epoch, || self.queue.wake_writer())
    }

    /// Gives the sealer a task and waits for its result.
    fn run_task<T>(&self, task: impl FnOnce(SyncSender<Result<T, StoreError>>) -> Task) -> Result<T, StoreError> {
        let tasks = self.threads.lock().as_ref().map(|threads| threads.tasks.clone()).ok_or(StoreError::Closed)?;
        let (sender, receiver) = sync_channel(1);
        self.sealer.give(&tasks, task(sender));
        drop(tasks);
        receiver.recv().unwrap_or(Err(StoreError::Closed))
    }

    fn finish(&self, threads: Threads) -> Result<(), StoreError> {
        let Threads { writer, sealer, tasks, _lock } = threads;
        // Before the writer is waited for, which may itself be waiting for the sealer.
        self.sealer.close();
        let journal = writer.join().map_err(|_| stopped("writer")).flatten();
        self.progress.send_modify(|progress| progress.closed = true);
        let sealed = journal.and_then(|journal| self.seal_rest(journal, &tasks));
        drop(tasks);
        let joined = sealer.join().map_err(|_| stopped("sealer"));
        let closed = self.reader.index.close();
        let mut journal = sealed?;
        joined?;
        closed?;
        if let Some(failure) = self.sealer.failure() {
            return Err(failure);
        }
        let log_end = LogEnd {
            group: journal.written_group(),
            next: self.progress.borrow().next,
            sealed_epoch: self.sealer.sealed_epoch(),
            journal_end: journal.end(),
        };
        self.mark.renew(log_end)?;
        journal.trim()
    }

    /// Moves the whole tail into sled.
    fn seal_rest(&self, mut journal: Journal, tasks: &std::sync::mpsc::Sender<Task>) -> Result<Journal, StoreError> {
        loop {
            self.sealer.wait_until_idle();
            if let Some(failure) = self.sealer.failure() {
                return Err(failure);
            }
            match writer::hand_over(&self.reader, &mut journal)? {
                Some(task) => self.sealer.give(tasks, task),
                None if self.sealer.has_snapshots() => self.sealer.give(tasks, Task::Snapshots),
                None => return Ok(journal),
            }
        }
    }
}

/// Checks that the folder contains a log, or the remains of one.
fn check_is_log(dir: &Path) -> Result<(), StoreError> {
    if SledStore::is_in(dir) {
        return Ok(());
    }
    Err(StoreError::NotFound { what: "log", name: dir.display().to_string() })
}

/// The lock, or a share of it where its file cannot be written.
fn lock_to_read(root: &mut Root, label: &str) -> Result<Option<Lock>, StoreError> {
    match root.lock(label) {
        Err(StoreError::Io { source, .. }) if is_denied(&source) => Lock::share(root),
        taken => taken.map(Some),
    }
}

fn is_denied(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied)
}

/// Removes the copies of an index that an ended process left.
fn remove_drafts(dir: &Path, files: &Files) {
    let names = files.names(dir).unwrap_or_default();
    let drafts = names.iter().filter(|name| name.starts_with(backup::PREFIX) || *name == index::FRESH);
    for name in drafts {
        if let Err(error) = files.remove_folder(&dir.join(name)) {
            tracing::warn!(%error, name, "cannot remove an unused copy of the index");
        }
    }
}

fn stopped(which: &str) -> StoreError {
    StoreError::Damaged(Damage { what: format!("the thread of the {which} has stopped"), ..Damage::default() })
}

fn spawn<T: Send + 'static>(
    name: &str,
    dir: &Path,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, StoreError> {
    std::thread::Builder::new().name(name.into()).spawn(run).map_err(|source| files::failed(dir, source))
}

impl Drop for SledStore {
    fn drop(&mut self) {
        match self.close() {
            Ok(()) | Err(StoreError::Closed) => {}
            Err(error) => tracing::error!(%error, "the log was not closed cleanly"),
        }
    }
}
