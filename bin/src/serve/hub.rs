//! The newest events in memory, read from the log once for all who follow it.
//!
//! A follower who keeps up takes events from here, and is woken only for those it wants; the text that is sent is made
//! once for all. One who falls behind, or begins in the past, reads the log until it has caught up. So one who never
//! reads costs the others nothing, and the log is read once, however many follow.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::RwLock;
use rethread::store::Filter;
use rethread::{Position, RecordedEvent, Runtime, RuntimeError, ThreadId};
use tokio::sync::Notify;

use super::written::{Form, Written};

/// How many events are kept at most.
const EVENTS_MAX: usize = 16_384;
/// How many bytes of stored events are kept at most.
const BYTES_MAX: usize = 32 << 20;
/// How many events are taken at a time.
const BATCH: usize = 256;

/// An event, and the texts that are made of it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) event: RecordedEvent,
    sse: OnceLock<Bytes>,
    line: OnceLock<Bytes>,
}

impl Entry {
    pub(crate) fn new(event: RecordedEvent) -> Arc<Self> {
        Arc::new(Self { event, sse: OnceLock::new(), line: OnceLock::new() })
    }

    /// As it is sent.
    pub(crate) fn text(&self, form: Form) -> &Bytes {
        let kept = match form {
            Form::Sse => &self.sse,
            Form::Lines => &self.line,
        };
        kept.get_or_init(|| {
            let mut text = Vec::with_capacity(1 << 10);
            form.write(&self.event, &mut text);
            // Kept for as long as the event is, so without room to spare.
            text.into_boxed_slice().into()
        })
    }

    /// Its text by itself.
    pub(crate) fn written(&self, form: Form) -> Written {
        Written { text: self.text(form).clone(), last: self.position() }
    }

    fn position(&self) -> Position {
        self.event.record.position
    }
}

#[derive(Debug, Default)]
struct Ring {
    entries: VecDeque<Arc<Entry>>,
    bytes: usize,
    /// All events from here on are in `entries`, up to the last that was read.
    first: Position,
    /// Why the log could not be read on.
    failed: Option<RuntimeError>,
    closed: bool,
}

/// Who is woken by events of one thread, or of any.
#[derive(Debug, Default)]
struct Listeners {
    of_all: Vec<Arc<Notify>>,
    of_thread: HashMap<ThreadId, Vec<Arc<Notify>>>,
}

/// The newest events in memory.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    ring: RwLock<Ring>,
    listeners: RwLock<Listeners>,
}

impl Hub {
    /// One that keeps what is appended from now on; [`Hub::run`] fills it.
    pub(crate) fn beginning_at(first: Position) -> Arc<Self> {
        let hub = Self::default();
        hub.ring.write().first = first;
        Arc::new(hub)
    }

    /// Reads the log until it is closed.
    pub(crate) async fn run(&self, runtime: Runtime) {
        let from = self.ring.read().first;
        let mut records = runtime.store().subscribe(from, Filter::default());
        while let Some(batch) = records.next_batch().await {
            let mut events = match batch {
                Ok(batch) => batch.into_iter().map(RecordedEvent::decode).collect(),
                Err(error) => vec![Err(error.into())],
            };
            if !self.take(&mut events) {
                break;
            }
        }
        self.ring.write().closed = true;
        self.wake_all();
    }

    /// Keeps what was read and wakes who wants it. False when the log cannot be read on.
    fn take(&self, batch: &mut Vec<Result<RecordedEvent, RuntimeError>>) -> bool {
        let mut threads = Vec::new();
        let mut ring = self.ring.write();
        for event in batch.drain(..) {
            match event {
                Ok(event) => {
                    threads.push(event.record.thread);
                    ring.bytes += event.record.payload.len();
                    ring.entries.push_back(Entry::new(event));
                }
                Err(error) => {
                    ring.failed = Some(error);
                    break;
                }
            }
        }
        while ring.entries.len() > EVENTS_MAX || ring.bytes > BYTES_MAX {
            let Some(oldest) = ring.entries.pop_front() else { break };
            ring.bytes -= oldest.event.record.payload.len();
            ring.first = oldest.position().next();
        }
        let goes_on = ring.failed.is_none();
        drop(ring);
        threads.sort_unstable();
        threads.dedup();
        let listeners = self.listeners.read();
        listeners.of_all.iter().for_each(|listener| listener.notify_one());
        for listener in threads.iter().filter_map(|thread| listeners.of_thread.get(thread)).flatten() {
            listener.notify_one();
        }
        goes_on
    }

    fn wake_all(&self) {
        let listeners = self.listeners.read();
        listeners
            .of_all
            .iter()
            .chain(listeners.of_thread.values().flatten())
            .for_each(|listener| listener.notify_one());
    }

    /// The first position that is here.
    pub(crate) fn first(&self) -> Position {
        self.ring.read().first
    }

    /// What is here from a position on.
    pub(crate) fn from(&self, next: Position) -> Taken {
        let ring = self.ring.read();
        if next < ring.first {
            return Taken::Gone;
        }
        let start = ring.entries.partition_point(|entry| entry.position() < next);
        let entries: Vec<_> = ring.entries.range(start..).take(BATCH).cloned().collect();
        match (entries.is_empty(), &ring.failed) {
            (false, _) => Taken::Entries(entries),
            (true, Some(error)) => Taken::Failed(error.clone()),
            (true, None) if ring.closed => Taken::Closed,
            (true, None) => Taken::NotYet,
        }
    }

    /// As [`Hub::from`], only of one thread, and where to go on.
    pub(crate) fn of_thread_from(&self, thread: ThreadId, next: Position) -> (Taken, Position) {
        let ring = self.ring.read();
        if next < ring.first {
            return (Taken::Gone, next);
        }
        let start = ring.entries.partition_point(|entry| entry.position() < next);
        let (mut entries, mut seen) = (Vec::new(), next);
        for entry in ring.entries.range(start..) {
            seen = entry.position().next();
            if entry.event.record.thread == thread {
                entries.push(entry.clone());
                if entries.len() == BATCH {
                    break;
                }
            }
        }
        let taken = match (entries.is_empty(), &ring.failed) {
            (false, _) => Taken::Entries(entries),
            (true, Some(error)) => Taken::Failed(error.clone()),
            (true, None) if ring.closed => Taken::Closed,
            (true, None) => Taken::NotYet,
        };
        (taken, seen)
    }

    /// Woken by events of this thread, or of any.
    pub(crate) fn listen(self: &Arc<Self>, thread: Option<ThreadId>) -> Listener {
        let notify = Arc::new(Notify::new());
        let mut listeners = self.listeners.write();
        match thread {
            None => listeners.of_all.push(notify.clone()),
            Some(thread) => listeners.of_thread.entry(thread).or_default().push(notify.clone()),
        }
        Listener { hub: self.clone(), thread, notify }
    }
}

/// What is in memory from a position on.
#[derive(Debug)]
pub(crate) enum Taken {
    /// Events, in order.
    Entries(Vec<Arc<Entry>>),
    /// What was there was dropped: the log has it.
    Gone,
    /// Nothing yet: wait.
    NotYet,
    /// Nothing will come any more.
    Closed,
    /// The log cannot be read on.
    Failed(RuntimeError),
}

/// One who is woken.
#[derive(Debug)]
pub(crate) struct Listener {
    hub: Arc<Hub>,
    thread: Option<ThreadId>,
    notify: Arc<Notify>,
}

impl Listener {
    /// Waits until something has come since the last wait, or has come before the first.
    pub(crate) async fn woken(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut listeners = self.hub.listeners.write();
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
