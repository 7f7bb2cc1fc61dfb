//! The durable backend: a write-ahead journal in front of sled.
//!
//! ```text
//! caller ─▶ queue ─▶ writer ─▶ journal (one write, one sync) ─▶ tail ─▶ readers, subscribers, the answer
//!                                                                │
//!                                                  sealer ◀──────┘  sorts by stream, packs, writes to sled;
//!                                                                   then the journal file is used again
//! ```

mod answer;
mod cache;
mod care;
mod chunk;
mod files;
mod frame;
mod index;
mod journal;
mod limits;
mod lock;
mod mark;
mod pieces;
mod queue;
mod read;
mod recover;
mod seal;
mod sealer;
mod tail;
mod verify;
mod writer;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rethread_events::ids::{Hash, Position, Seq, ThreadId};
use tokio::sync::{oneshot, watch};

pub use files::Watcher;

use cache::Cache;
use care::Care;
use files::Files;
use journal::Journal;
use lock::Lock;
use mark::{Mark, Reached};
use queue::{Answer, Op, Queue};
use read::Reader;
use sealer::{Sealer, Task};
use writer::Writer;

use crate::contract::{Append, Appended, Filter, ForkPoint, Snapshot, Store, StreamInfo, Tag, Verification};
use crate::error::{Damage, StoreError};
use crate::fence::Refusal;
use crate::follow::{Progress, follow};
use crate::plan::{self, Addition};
use crate::record::Record;
use crate::subscription::Subscription;

/// How a log is opened.
#[derive(Clone)]
pub struct Options {
    /// What is said to another process that finds the log locked, with the process id added; for example
    /// `rethread serve`.
    pub label: String,
    /// How many bytes of unpacked records are kept in memory for readers.
    pub read_cache_bytes: usize,
    /// How many bytes sled may keep in memory.
    pub index_cache_bytes: u64,
    /// How many bytes of appends may wait to be written before more are refused as `Busy`. One append larger than
    /// this is taken when nothing else waits.
    pub queue_bytes_max: usize,
    /// How many bytes of new records are held in memory and in the journal before they are moved into sled. More
    /// brings records of one stream closer together, less makes opening after a crash faster.
    pub tail_bytes: usize,
    /// Sees writes and syncs, for tests.
    pub watcher: Option<Arc<dyn Watcher>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            label: "rethread".into(),
            read_cache_bytes: 32 << 20,
            index_cache_bytes: 64 << 20,
            queue_bytes_max: 128 << 20,
            tail_bytes: 1 << 20,
            watcher: None,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("label", &self.label).finish_non_exhaustive()
    }
}

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
///     payload: b"hello".to_vec(),
/// };
/// let append = Append {
///     thread,
///     expected: Seq(0),
///     fork_of: None,
///     trace: None,
///     tag: Tag(0),
///     records: vec![record],
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
    mark: Arc<Mutex<Mark>>,
    progress: Arc<watch::Sender<Progress>>,
    threads: Mutex<Option<Threads>>,
    /// Held by a salvage, which has no threads.
    lock: Mutex<Option<Lock>>,
    /// What was wrong when it was opened and could be put right.
    mended: Vec<Damage>,
}

struct Threads {
    writer: JoinHandle<Journal>,
    sealer: JoinHandle<()>,
    tasks: std::sync::mpsc::Sender<Task>,
    _lock: Lock,
}

impl std::fmt::Debug for SledStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SledStore").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl SledStore {
    /// Opens the log in `dir`, or makes a new one there. Takes as long as reading the journal, some milliseconds.
    ///
    /// Errors: `Locked`, `Format`, `Damaged` when something acknowledged is missing, `Full` when there is no room
    /// even to open it, `Io`.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        let dir = dir.as_ref();
        std::fs::create_dir_all(dir).map_err(|source| files::failed(dir, source))?;
        let lock = Lock::take(dir, &options.label)?;
        let files = Files::new(options.watcher.clone());
        let found = recover::recover(dir, options.index_cache_bytes, &files, &mut Care::Strict)?;
        let reader = Arc::new(Reader {
            tail: found.tail,
            index: found.index,
            cache: Cache::new(options.read_cache_bytes),
            is_salvage: false,
        });
        let queue = Arc::new(Queue::new(options.queue_bytes_max));
        let sealer = Arc::new(Sealer::new(found.watermark.epoch));
        let mark = Arc::new(Mutex::new(found.mark));
        let (progress, _) = watch::channel(Progress { next: found.next, closed: false });
        let progress = Arc::new(progress);
        let (tasks, todo) = std::sync::mpsc::channel();
        if let Some(sealing) = reader.tail.state.read().sealing.clone() {
            sealer.give(&tasks, Task::Seal(sealing));
        }
        let sealer_thread = {
            let (sealer, reader, mark) = (Arc::clone(&sealer), Arc::clone(&reader), Arc::clone(&mark));
            spawn("log sealer", dir, move || sealer.run(&reader, &mark, &todo))?
        };
        let writer = Writer::new(
            Arc::clone(&queue),
            Arc::clone(&reader),
            found.journal,
            Arc::clone(&mark),
            Arc::clone(&sealer),
            tasks.clone(),
            Arc::clone(&progress),
            found.next,
            options.tail_bytes,
        );
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
        })
    }

    /// Opens a damaged log to read what can still be had: streams, records, values and blobs that are not damaged.
    /// Everything that would write is refused with the damage that was found, and [`Store::verify`] lists it.
    /// Nothing in the folder is changed by this program; sled may tidy its own file, so work on a copy when every
    /// byte counts. When sled does not open at all, what is left is what the journal holds: the newest records.
    ///
    /// Errors: `Locked`, `Format`, `Full`, `Io`, `NotFound` when there is no log.
    pub fn salvage(dir: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        let dir = dir.as_ref();
        if !dir.join(mark::NAME).exists() && !dir.join(recover::INDEX).exists() {
            return Err(StoreError::NotFound { what: "log", name: dir.display().to_string() });
        }
        let lock = Lock::take(dir, &options.label)?;
        let files = Files::new(options.watcher.clone());
        let mut care = Care::Salvage(Vec::new());
        let found = recover::recover(dir, options.index_cache_bytes, &files, &mut care)?;
        let mut mended = found.mended;
        if let Care::Salvage(damages) = care {
            mended.extend(damages);
        }
        let queue = Arc::new(Queue::new(options.queue_bytes_max));
        let why = mended.first().cloned().unwrap_or_else(|| Damage {
            what: "it was opened for salvage, which only reads".into(),
            ..Damage::default()
        });
        queue.refuse_all(StoreError::Damaged(why));
        let (progress, _) = watch::channel(Progress { next: found.next, closed: false });
        Ok(Self {
            dir: dir.into(),
            reader: Arc::new(Reader {
                tail: found.tail,
                index: found.index,
                cache: Cache::new(options.read_cache_bytes),
                is_salvage: true,
            }),
            queue,
            sealer: Arc::new(Sealer::new(found.watermark.epoch)),
            mark: Arc::new(Mutex::new(found.mark)),
            progress: Arc::new(progress),
            threads: Mutex::new(None),
            lock: Mutex::new(Some(lock)),
            mended,
        })
    }

    fn open_reader(&self) -> Result<&Reader, StoreError> {
        if self.queue.is_closed() { Err(StoreError::Closed) } else { Ok(&self.reader) }
    }

    /// Has something written and waits for it.
    fn write(&self, op: Op, bytes: usize) -> Result<Option<Appended>, StoreError> {
        let (sender, receiver) = sync_channel(1);
        self.queue.push(op, bytes, Answer::Blocking(sender));
        receiver.recv().unwrap_or(Err(StoreError::Closed))
    }

    fn finish(&self, threads: Threads) -> Result<(), StoreError> {
        let Threads { writer, sealer, tasks, _lock } = threads;
        // Before the writer is waited for, which may itself be waiting for the sealer.
        self.sealer.close();
        let journal = writer.join().map_err(|_| stopped("writer"));
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
        let reached = Reached {
            group: journal.written_group(),
            next: self.progress.borrow().next,
            sealed_epoch: self.sealer.sealed_epoch(),
        };
        self.mark.lock().renew(reached)?;
        journal.trim()
    }

    /// Moves the whole tail into sled.
    fn seal_rest(&self, mut journal: Journal, tasks: &std::sync::mpsc::Sender<Task>) -> Result<Journal, StoreError> {
        loop {
            self.sealer.wait_until_idle();
            if let Some(failure) = self.sealer.failure() {
                return Err(failure);
            }
            match writer::hand_over(&self.reader, &mut journal) {
                Some(task) => self.sealer.give(tasks, task),
                None if self.sealer.has_snapshots() => self.sealer.give(tasks, Task::Snapshots),
                None => return Ok(journal),
            }
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
            Err(error) => tracing::error!(%error, "the log was not closed in order"),
        }
    }
}

impl Store for SledStore {
    fn append(&self, append: Append) -> BoxFuture<'static, Result<Appended, StoreError>> {
        let bytes = match plan::measure(&append.records) {
            Ok(bytes) => bytes,
            Err(error) => {
                let refusal = self.queue.refuse(append.thread, error);
                return async move { Err(refusal.into_error()) }.boxed();
            }
        };
        let addition = Addition::from(append);
        let (sender, receiver) = oneshot::channel();
        self.queue.push(Op::Append(addition), bytes, Answer::Append(sender));
        receiver
            .map(|answer| match answer {
                Ok(answer) => answer.map_err(Refusal::into_error),
                Err(_) => Err(StoreError::Closed),
            })
            .boxed()
    }

    fn read_stream(&self, thread: ThreadId, range: Range<Seq>, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.open_reader()?.range(thread, range, limit)
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.open_reader()?.all(from, limit)
    }

    fn stream(&self, thread: ThreadId) -> Result<StreamInfo, StoreError> {
        Ok(self.open_reader()?.head(thread)?.info(thread))
    }

    fn streams(&self, after: Option<ThreadId>, tags: &[Tag], limit: usize) -> Result<Vec<StreamInfo>, StoreError> {
        self.open_reader()?.streams(after, tags, limit)
    }

    fn next_position(&self) -> Position {
        self.progress.borrow().next
    }

    fn subscribe(&self, from: Position, filter: Filter) -> Subscription {
        follow(Arc::clone(&self.reader), self.progress.subscribe(), from, filter)
    }

    fn put_blob(&self, owner: Option<ThreadId>, bytes: &[u8]) -> Result<Hash, StoreError> {
        plan::payload_fits(bytes.len())?;
        let hash = Hash::of(bytes);
        if !self.open_reader()?.has_owner(hash, owner)? {
            self.write(Op::Blob { owner, hash, bytes: bytes.into() }, bytes.len() + 128)?;
        }
        Ok(hash)
    }

    fn blob(&self, hash: Hash) -> Result<Vec<u8>, StoreError> {
        self.open_reader()?.blob(hash)
    }

    fn put_snapshot(&self, thread: ThreadId, snapshot: Snapshot) -> Result<(), StoreError> {
        plan::payload_fits(snapshot.state.len())?;
        self.open_reader()?.head(thread)?;
        self.sealer.put_snapshot(thread, snapshot);
        Ok(())
    }

    fn snapshot(&self, thread: ThreadId) -> Result<Option<Snapshot>, StoreError> {
        let reader = self.open_reader()?;
        if let Some(snapshot) = self.sealer.snapshot(thread) {
            return Ok(Some(Snapshot::clone(&snapshot)));
        }
        if reader.find_head(thread)?.is_none() {
            return Ok(None);
        }
        match reader.index.pieces(|trees| &trees.snapshots, thread.as_bytes()) {
            Ok(bytes) => Ok(bytes.and_then(|bytes| seal::decode_snapshot(&bytes))),
            Err(StoreError::Damaged(damage)) => {
                tracing::warn!(%thread, %damage, "a snapshot cannot be read");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn put_value(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        plan::value_fits(name, value)?;
        let bytes = name.len() + value.len() + 128;
        self.write(Op::Value { name: name.into(), value: Some(value.into()) }, bytes).map(|_| ())
    }

    fn value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.open_reader()?.value(name)
    }

    fn values(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.open_reader()?.values(prefix)
    }

    fn remove_value(&self, name: &str) -> Result<(), StoreError> {
        plan::value_fits(name, &[])?;
        self.write(Op::Value { name: name.into(), value: None }, name.len() + 128).map(|_| ())
    }

    fn delete(&self, thread: ThreadId) -> Result<(), StoreError> {
        self.write(Op::Delete { thread }, 128).map(|_| ())
    }

    fn import(&self, fork_of: Option<ForkPoint>, tag: Tag, records: Vec<Record>) -> Result<Appended, StoreError> {
        let bytes = records.iter().map(|record| record.payload.len() + 32).sum();
        plan::import_fits(bytes)?;
        let appended = self.write(Op::Import { fork_of, tag, records }, bytes)?;
        appended.ok_or(StoreError::Closed)
    }

    fn verify(&self) -> Result<Verification, StoreError> {
        let mut found = verify::verify(self.open_reader()?)?;
        found.faults.extend(self.mended.iter().cloned());
        Ok(found)
    }

    fn close(&self) -> Result<(), StoreError> {
        if !self.queue.close() {
            return Err(StoreError::Closed);
        }
        match self.threads.lock().take() {
            Some(threads) => self.finish(threads),
            None => {
                self.progress.send_modify(|progress| progress.closed = true);
                let closed = self.reader.index.close();
                drop(self.lock.lock().take());
                closed
            }
        }
    }
}
