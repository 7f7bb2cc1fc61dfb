//! The newest records of a log in memory, read once for all followers.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::RwLock;
use rethread_events::ids::{Position, Seq, ThreadId};
use tokio::sync::Notify;

use crate::contract::{Filter, LogReader};
use crate::error::StoreError;
use crate::follower::{Batch, Follower, Mapped};
use crate::pages::PAGE_RECORDS;
use crate::record::Record;

/// How many records are kept at most.
const RECORDS_MAX: usize = 16_384;
/// How many bytes of payloads are kept at most.
const BYTES_MAX: usize = 32 << 20;

/// The newest records of a log, each as a `T` that is created from it once and shared by all followers.
///
/// A follower that does not lag takes records from here, and is woken only for those of its thread. One that lags, or
/// starts in the past, reads the log until it has caught up: a follower that never reads does not slow down others.
pub struct Recent<T> {
    make: Box<dyn Fn(Record) -> T + Send + Sync>,
    ring: RwLock<Ring<T>>,
    listeners: RwLock<Listeners>,
}

struct Ring<T> {
    cached: VecDeque<CachedRecord<T>>,
    bytes: usize,
    /// All records from here on are kept, up to the last that was read.
    first: Position,
    /// The position after the last that was read.
    next: Position,
    /// Why the log could not be read on.
    failed: Option<StoreError>,
    closed: bool,
}

pub(crate) struct CachedRecord<T> {
    pub(crate) position: Position,
    pub(crate) thread: ThreadId,
    pub(crate) seq: Seq,
    n_bytes: usize,
    pub(crate) made: Arc<T>,
}

impl<T> Clone for CachedRecord<T> {
    fn clone(&self) -> Self {
        Self { made: Arc::clone(&self.made), ..*self }
    }
}

/// Who is woken by records of one thread, or of any.
#[derive(Debug, Default)]
struct Listeners {
    of_all: Vec<Arc<Notify>>,
    of_thread: HashMap<ThreadId, Vec<Arc<Notify>>>,
}

impl<T: Send + Sync + 'static> Recent<T> {
    /// Holds what is appended from position `first` on, once [`Recent::run`] reads it.
    pub fn beginning_at(first: Position, make: impl Fn(Record) -> T + Send + Sync + 'static) -> Arc<Self> {
        let ring = Ring { cached: VecDeque::new(), bytes: 0, first, next: first, failed: None, closed: false };
        Arc::new(Self { make: Box::new(make), ring: RwLock::new(ring), listeners: RwLock::default() })
    }

    /// Reads the log until it is closed, or cannot be read on.
    pub async fn run(&self, store: Arc<dyn LogReader>) {
        let from = self.ring.read().next;
        let mut records = store.subscribe(from, Filter::default());
        while let Some(batch) = records.next_batch().await {
            match batch {
                Ok(batch) => self.take(batch),
                Err(error) => self.ring.write().failed = Some(error),
            }
        }
        self.ring.write().closed = true;
        let listeners = self.listeners.read();
        let all = listeners.of_all.iter().chain(listeners.of_thread.values().flatten());
        all.for_each(|listener| listener.notify_one());
    }

    /// Stores what was read, drops what is over the limits, wakes the listeners.
    fn take(&self, batch: Vec<Record>) {
        let mut threads: Vec<_> = batch.iter().map(|record| record.thread).collect();
        threads.sort_unstable();
        threads.dedup();
        // Made before the lock is taken, which every follower waits for.
        let made: Vec<_> = batch
            .into_iter()
            .map(|record| {
                let (position, thread, seq, n_bytes) =
                    (record.position, record.thread, record.seq, record.payload.len());
                CachedRecord { position, thread, seq, n_bytes, made: Arc::new((self.make)(record)) }
            })
            .collect();
        let mut dropped = Vec::new();
        let mut ring = self.ring.write();
        for cached in made {
            ring.next = cached.position.next();
            ring.bytes += cached.n_bytes;
            ring.cached.push_back(cached);
        }
        while ring.cached.len() > RECORDS_MAX || ring.bytes > BYTES_MAX {
            let Some(oldest) = ring.cached.pop_front() else { break };
            ring.bytes -= oldest.n_bytes;
            ring.first = oldest.position.next();
            dropped.push(oldest);
        }
        drop(ring);
        let listeners = self.listeners.read();
        listeners.of_all.iter().for_each(|listener| listener.notify_one());
        for listener in threads.iter().filter_map(|thread| listeners.of_thread.get(thread)).flatten() {
            listener.notify_one();
        }
    }

    /// The first position that is in memory, and the one after the last.
    pub(crate) fn range(&self) -> (Position, Position) {
        let ring = self.ring.read();
        (ring.first, ring.next)
    }

    /// Returns the cached records from a position on, of one thread or of all, and where to continue.
    pub(crate) fn from(&self, next: Position, of: Option<ThreadId>) -> (CacheRead<T>, Position) {
        let ring = self.ring.read();
        if next < ring.first {
            return (CacheRead::Gone, next);
        }
        let start = ring.cached.partition_point(|cached| cached.position < next);
        let (mut taken, mut seen) = (Vec::new(), next);
        for cached in ring.cached.range(start..) {
            seen = cached.position.next();
            if of.is_none_or(|thread| cached.thread == thread) {
                taken.push(cached.clone());
                if taken.len() == PAGE_RECORDS {
                    break;
                }
            }
        }
        let taken = match (taken.is_empty(), &ring.failed) {
            (false, _) => CacheRead::Records(taken),
            (true, Some(error)) => CacheRead::Failed(error.clone()),
            (true, None) if ring.closed => CacheRead::Closed,
            (true, None) => CacheRead::NotYet,
        };
        (taken, seen)
    }

    /// Is woken by records of this thread, or of any.
    pub fn listen(self: &Arc<Self>, thread: Option<ThreadId>) -> Listener<T> {
        let notify = Arc::new(Notify::new());
        let mut listeners = self.listeners.write();
        match thread {
            None => listeners.of_all.push(notify.clone()),
            Some(thread) => listeners.of_thread.entry(thread).or_default().push(notify.clone()),
        }
        Listener { recent: self.clone(), thread, notify }
    }

    /// Follows the whole log from a position on: what is there, then what comes. `map` turns each batch into what the
    /// stream yields, and ends it with `Break`. Batches that are read from the log are mapped on the blocking thread that
    /// read them.
    pub fn follow<U, M>(self: &Arc<Self>, store: Arc<dyn LogReader>, from: Position, map: M) -> Mapped<U>
    where
        U: Send + 'static,
        M: FnMut(Batch<T>) -> ControlFlow<U, U> + Send + 'static,
    {
        Follower::of_log(store, self.listen(None), from, map).stream()
    }

    /// As `follow`, for one thread from a seq on, inherited records included, each once. Continues after the record
    /// that ends the thread unless `map` breaks there: the store does not know the meaning of records.
    pub fn follow_thread<U, M>(
        self: &Arc<Self>,
        store: Arc<dyn LogReader>,
        thread: ThreadId,
        from: Seq,
        map: M,
    ) -> Mapped<U>
    where
        U: Send + 'static,
        M: FnMut(Batch<T>) -> ControlFlow<U, U> + Send + 'static,
    {
        Follower::of_thread(store, self.listen(Some(thread)), thread, from, map).stream()
    }
}

/// The cached records from a position on.
pub(crate) enum CacheRead<T> {
    /// Records, in order.
    Records(Vec<CachedRecord<T>>),
    /// They were dropped from memory: read the log.
    Gone,
    /// None yet: wait.
    NotYet,
    /// The log is closed.
    Closed,
    /// The log cannot be read on.
    Failed(StoreError),
}

/// Is woken by new records. See [`Recent::listen`].
pub struct Listener<T> {
    recent: Arc<Recent<T>>,
    thread: Option<ThreadId>,
    notify: Arc<Notify>,
}

impl<T> Listener<T> {
    pub(crate) fn recent(&self) -> &Recent<T> {
        &self.recent
    }

    /// Waits until a record has come since the last wait, or since it was made.
    pub async fn woken(&self) {
        self.notify.notified().await;
    }
}

impl<T> Drop for Listener<T> {
    fn drop(&mut self) {
        let mut listeners = self.recent.listeners.write();
        match self.thread {
            None => listeners.of_all.retain(|known| !Arc::ptr_eq(known, &self.notify)),
            Some(thread) => {
                if let Some(of_thread) = listeners.of_thread.get_mut(&thread) {
                    of_thread.retain(|known| !Arc::ptr_eq(known, &self.notify));
                    if of_thread.is_empty() {
                        listeners.of_thread.remove(&thread);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
