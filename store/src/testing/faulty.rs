//! A store that fails on purpose.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use parking_lot::Mutex;
use rethread_events::ids::{Hash, Position, Seq, ThreadId};
use tokio::sync::{Notify, Semaphore, oneshot};

use crate::{
    Append, Appended, Backup, Compacted, Filter, Import, KeyRange, LogReader, Record, Snapshot, Store, StoreError,
    StreamInfo, Subscription, Tag, Verification,
};

/// The effect of the fault on the chosen append.
#[derive(Debug, Clone)]
pub enum Fault {
    /// It fails with this error, nothing is written; later ones work.
    Fails(StoreError),
    /// It waits until it is released, and then fails with this error, or is written. Later appends of its thread wait
    /// for it, as in every store.
    Waits {
        /// One permit lets it go.
        until: Arc<Semaphore>,
        /// How it fails, if it is to.
        then: Option<StoreError>,
    },
    /// It fails as in doubt, and is written by [`FaultyStore::write_late`].
    InDoubt,
    /// The process dies before it is written: it and everything later is never answered and never written.
    DiesBefore,
    /// The process dies when it is written and before it is acknowledged: it and everything later is never
    /// answered, and nothing later is written.
    DiesAfter,
}

/// Passes everything on to another store, until the chosen append.
///
/// After a death, what is not an append answers `Closed`; the inner store can be opened or used again as after
/// a restart.
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    count: AtomicU64,
    /// At which append, counted from 0, what happens.
    plan: Mutex<Option<(u64, Fault)>>,
    dead: Mutex<bool>,
    death: Notify,
    stream_reads: AtomicU64,
    hidden: Mutex<Option<ThreadId>>,
    held: Mutex<Option<BlobGate>>,
    /// What was answered as in doubt.
    late: Mutex<Vec<Append>>,
    /// The thread whose append waits, and the appends after it.
    queued_after: Arc<Mutex<Option<QueuedAppends>>>,
}

type Answer = BoxFuture<'static, Result<Appended, StoreError>>;

/// The later appends of a thread whose append waits, in the order they came.
struct QueuedAppends {
    thread: ThreadId,
    appends: Vec<(Append, oneshot::Sender<Answer>)>,
}

/// A gate for blobs.
#[derive(Clone)]
struct BlobGate {
    part: &'static [u8],
    waits: mpsc::Sender<()>,
    go: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl std::fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultyStore").field("count", &self.count).finish_non_exhaustive()
    }
}

impl FaultyStore {
    /// A store that delegates to `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            count: AtomicU64::new(0),
            plan: Mutex::new(None),
            dead: Mutex::new(false),
            death: Notify::new(),
            stream_reads: AtomicU64::new(0),
            hidden: Mutex::new(None),
            held: Mutex::new(None),
            late: Mutex::default(),
            queued_after: Arc::default(),
        }
    }

    /// Plans `fault` for the append number `nth`, counted from 0 since the store was made.
    #[must_use]
    pub fn with(self, nth: u64, fault: Fault) -> Self {
        *self.plan.lock() = Some((nth, fault));
        self
    }

    /// Plans `fault` for the next append.
    pub fn plan(&self, fault: Fault) {
        self.plan_after(0, fault);
    }

    /// Plans `fault` for the append that comes after the next `n`.
    pub fn plan_after(&self, n: u64, fault: Fault) {
        *self.plan.lock() = Some((self.n_appends() + n, fault));
    }

    /// Writes what was answered as in doubt.
    pub fn write_late(&self) {
        for append in self.late.lock().drain(..) {
            // The answer was given.
            drop(self.inner.append(append));
        }
    }

    /// How many appends there were, failed ones included.
    pub fn n_appends(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// How often it was asked what is known of a stream.
    pub fn n_stream_reads(&self) -> u64 {
        self.stream_reads.load(Ordering::SeqCst)
    }

    /// The records of this stream cannot be read, until it is another one or none.
    pub fn hide(&self, thread: Option<ThreadId>) {
        *self.hidden.lock() = thread;
    }

    /// Blocks every `put_blob` of bytes that contain `part` until the sender of `go` sends or is dropped; sends to `waits`
    /// before.
    pub fn hold_blobs(&self, part: &'static [u8], waits: mpsc::Sender<()>, go: mpsc::Receiver<()>) {
        *self.held.lock() = Some(BlobGate { part, waits, go: Arc::new(Mutex::new(go)) });
    }

    /// Whether the planned death has come.
    pub fn is_dead(&self) -> bool {
        *self.dead.lock()
    }

    /// Waits for the planned death.
    pub async fn died(&self) {
        loop {
            let death = self.death.notified();
            if self.is_dead() {
                return;
            }
            death.await;
        }
    }

    fn alive(&self) -> Result<&dyn Store, StoreError> {
        if self.is_dead() { Err(StoreError::Closed) } else { Ok(&*self.inner) }
    }
}

impl LogReader for FaultyStore {
    fn read_stream(&self, thread: ThreadId, range: Range<Seq>, limit: usize) -> Result<Vec<Record>, StoreError> {
        if *self.hidden.lock() == Some(thread) {
            return Err(StoreError::Invalid("it cannot be read".into()));
        }
        self.alive()?.read_stream(thread, range, limit)
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.alive()?.read_all(from, limit)
    }

    fn stream(&self, thread: ThreadId) -> Result<StreamInfo, StoreError> {
        self.stream_reads.fetch_add(1, Ordering::SeqCst);
        self.alive()?.stream(thread)
    }

    fn streams(&self, after: Option<ThreadId>, tags: &[Tag], limit: usize) -> Result<Vec<StreamInfo>, StoreError> {
        self.alive()?.streams(after, tags, limit)
    }

    fn forks(&self, thread: ThreadId, after: Option<ThreadId>, limit: usize) -> Result<Vec<ThreadId>, StoreError> {
        self.alive()?.forks(thread, after, limit)
    }

    fn next_position(&self) -> Position {
        self.inner.next_position()
    }

    fn subscribe(&self, from: Position, filter: Filter) -> Subscription {
        self.inner.subscribe(from, filter)
    }

    fn blob(&self, hash: Hash) -> Result<Vec<u8>, StoreError> {
        self.alive()?.blob(hash)
    }

    fn owners(&self, hash: Hash, after: Option<ThreadId>, limit: usize) -> Result<Vec<ThreadId>, StoreError> {
        self.alive()?.owners(hash, after, limit)
    }

    fn keys(
        &self,
        range: &KeyRange,
        after: Option<(&[u8], ThreadId)>,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, ThreadId)>, StoreError> {
        self.alive()?.keys(range, after, limit)
    }

    fn keys_of(&self, thread: ThreadId) -> Result<Vec<Vec<u8>>, StoreError> {
        self.alive()?.keys_of(thread)
    }

    fn snapshots(&self, thread: ThreadId) -> Result<Vec<Seq>, StoreError> {
        self.alive()?.snapshots(thread)
    }

    fn snapshot(&self, thread: ThreadId, seq: Seq) -> Result<Option<Snapshot>, StoreError> {
        self.alive()?.snapshot(thread, seq)
    }

    fn value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.alive()?.value(name)
    }

    fn values(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.alive()?.values(prefix)
    }

    fn verify(&self) -> Result<Verification, StoreError> {
        self.alive()?.verify()
    }

    fn check_writable(&self) -> Result<(), StoreError> {
        self.inner.check_writable()
    }
}

impl Store for FaultyStore {
    fn append(&self, append: Append) -> Answer {
        // Locked while the append is passed on, so that no append slips through after the crash.
        let mut dead = self.dead.lock();
        if *dead {
            return futures_util::future::pending().boxed();
        }
        let nth = self.count.fetch_add(1, Ordering::SeqCst);
        let fault = match &*self.plan.lock() {
            Some((at, fault)) if *at == nth => Some(fault.clone()),
            _ => None,
        };
        match fault {
            None => {
                let mut queued_after = self.queued_after.lock();
                let Some(queued_after) =
                    queued_after.as_mut().filter(|queued_after| queued_after.thread == append.thread)
                else {
                    return self.inner.append(append);
                };
                let (sender, passed_on) = oneshot::channel();
                queued_after.appends.push((append, sender));
                // The one before it is not waited for any more: nothing is known of either.
                passed_on.then(|answer| answer.unwrap_or_else(|_| futures_util::future::pending().boxed())).boxed()
            }
            Some(Fault::Fails(error)) => ready(Err(error)).boxed(),
            Some(Fault::Waits { until, then }) => {
                let (inner, queued_after) = (self.inner.clone(), self.queued_after.clone());
                *queued_after.lock() = Some(QueuedAppends { thread: append.thread, appends: Vec::new() });
                async move {
                    if let Ok(permit) = until.acquire().await {
                        permit.forget();
                    }
                    let answer = {
                        // Locked until all are passed on, so that none overtakes them.
                        let mut queued_after = queued_after.lock();
                        let answer = match then {
                            Some(error) => ready(Err(error)).boxed(),
                            None => inner.append(append),
                        };
                        for (append, sender) in
                            queued_after.take().into_iter().flat_map(|queued_after| queued_after.appends)
                        {
                            // A caller that stopped waiting does not undo its append.
                            drop(sender.send(inner.append(append)));
                        }
                        answer
                    };
                    answer.await
                }
                .boxed()
            }
            Some(Fault::InDoubt) => {
                self.late.lock().push(append);
                ready(Err(StoreError::InDoubt { log: "x".into(), waited_ms: 0 })).boxed()
            }
            Some(Fault::DiesBefore) => {
                *dead = true;
                self.death.notify_waiters();
                futures_util::future::pending().boxed()
            }
            Some(Fault::DiesAfter) => {
                *dead = true;
                // Written even if its answer is not awaited; the answer is dropped.
                drop(self.inner.append(append));
                self.death.notify_waiters();
                futures_util::future::pending().boxed()
            }
        }
    }

    fn hurry(&self) {
        self.inner.hurry();
    }

    fn put_blob(&self, owner: Option<ThreadId>, bytes: &[u8]) -> Result<Hash, StoreError> {
        let held = self.held.lock().clone();
        if let Some(held) = held.filter(|held| bytes.windows(held.part.len()).any(|bytes| bytes == held.part)) {
            // A receiver or sender that was dropped opens the gate.
            let _ = held.waits.send(());
            let _ = held.go.lock().recv();
        }
        self.alive()?.put_blob(owner, bytes)
    }

    fn release_blobs(&self, hashes: &[Hash], values: &[(String, Option<Vec<u8>>)]) -> Result<(), StoreError> {
        self.alive()?.release_blobs(hashes, values)
    }

    fn put_snapshot(&self, thread: ThreadId, snapshot: Snapshot) -> Result<(), StoreError> {
        self.alive()?.put_snapshot(thread, snapshot)
    }

    fn keep_snapshots(&self, thread: ThreadId, seqs: &[Seq]) -> Result<(), StoreError> {
        self.alive()?.keep_snapshots(thread, seqs)
    }

    fn put_value(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        self.alive()?.put_value(name, value)
    }

    fn remove_value(&self, name: &str) -> Result<(), StoreError> {
        self.alive()?.remove_value(name)
    }

    fn delete_all(&self, threads: &[ThreadId]) -> Result<(), StoreError> {
        self.alive()?.delete_all(threads)
    }

    fn import_with(&self, import: Import) -> Result<Appended, StoreError> {
        self.alive()?.import_with(import)
    }

    fn compact(&self) -> Result<Compacted, StoreError> {
        self.alive()?.compact()
    }

    fn backup(&self) -> Result<Backup, StoreError> {
        self.alive()?.backup()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.alive()?.close()
    }
}
