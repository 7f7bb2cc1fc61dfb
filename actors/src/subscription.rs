//! Events as they come: of the whole log, and of one thread.

use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use rethread_events::event::{Event, event_type_named};
use rethread_events::ids::{Position, Seq, ThreadId};
use rethread_store::{
    Copied, Filter, Kind, Options, Record, SledStore, Store, StoreError, Subscription, follow_thread, own_page,
    read_thread,
};

use crate::error::{ReadError, RuntimeError};
use crate::interaction::InteractionContext;
use crate::load;
use crate::recorded::{RecordedEvent, events};
use crate::runtime::Runtime;
use crate::thread_handle::ThreadHandle;
use rethread_events::thread::Status;

/// The names of cursors in the log.
pub(crate) const NAMES: &str = "cursor/";

/// Events as a stream. Ends when the runtime shuts down.
///
/// What has to be read from the disk is read some hundred events at a time, the next ones while these are taken.
pub struct Events {
    records: Records,
    ready: std::vec::IntoIter<Record>,
    of_thread: Option<OneThread>,
    ended: bool,
}

type Records = BoxStream<'static, Result<Vec<Record>, ReadError>>;

/// Which of its records are given, of one thread.
struct OneThread {
    /// Those before it are not wanted.
    from: Seq,
    /// Known when the log was looked at; absent where the records end by themselves.
    end: Arc<OnceLock<ThreadEnd>>,
}

impl Events {
    /// All that a subscription gives.
    pub(crate) fn of_log(mut records: Subscription) -> Self {
        let batches = futures_util::stream::poll_fn(move |cx| records.poll_batch(cx));
        let records = batches.map(|batch| batch.map_err(ReadError::from)).boxed();
        Self { records, ready: Vec::new().into_iter(), of_thread: None, ended: false }
    }

    /// Those of a thread, from a seq on, up to the one that ends it.
    fn of_thread(from: Seq, end: Arc<OnceLock<ThreadEnd>>, records: Records) -> Self {
        let of_thread = Some(OneThread { from, end });
        Self { records, ready: Vec::new().into_iter(), of_thread, ended: false }
    }

    /// The event in a record, unless it is not wanted.
    fn event(&mut self, record: Record) -> Result<Option<RecordedEvent>, ReadError> {
        let event = RecordedEvent::decode(record)?;
        let Some(one) = &mut self.of_thread else { return Ok(Some(event)) };
        // Also those that are not wanted: nothing comes after the end.
        self.ended |= one.end.get().is_some_and(|end| end.is_here(&event));
        Ok(Some(event).filter(|event| event.record.seq >= one.from))
    }
}

impl Stream for Events {
    type Item = Result<RecordedEvent, ReadError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while !self.ended {
            let Some(record) = self.ready.next() else {
                match ready!(self.records.poll_next_unpin(cx)) {
                    Some(Ok(batch)) => self.ready = batch.into_iter(),
                    Some(Err(error)) => {
                        self.ended = true;
                        return Poll::Ready(Some(Err(error)));
                    }
                    None => self.ended = true,
                }
                continue;
            };
            match self.event(record) {
                Ok(Some(event)) => return Poll::Ready(Some(Ok(event))),
                Ok(None) => {}
                Err(error) => {
                    self.ended = self.of_thread.is_some();
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        Poll::Ready(None)
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl InteractionContext {
    /// The events of the thread from now on.
    pub fn events(&self) -> Events {
        let filter = Filter { threads: vec![self.thread], ..Filter::default() };
        Events::of_log(self.store.subscribe(self.store.next_position(), filter))
    }
}

impl Runtime {
    /// Events of the whole log from a position on: those that are there, then those that come. Filtered by
    /// documented names; all when `names` is empty.
    ///
    /// # Errors
    /// `Store(Invalid)` for a name that no event has.
    pub fn events(&self, from: Position, names: &[&str]) -> Result<Events, RuntimeError> {
        let kinds = kinds(names)?;
        Ok(Events::of_log(self.store().subscribe(from, Filter { threads: Vec::new(), kinds })))
    }

    /// A named place in the log that survives restarts: where a subscriber goes on. `None` when it never saved one.
    pub async fn cursor(&self, name: &str) -> Result<Option<Position>, RuntimeError> {
        let (store, name) = (self.store().clone(), cursor_name(name));
        Ok(self.blocking(move || store.value(&name)).await??.and_then(position))
    }

    /// Saves a first place under a name, unless there is one, and returns the place that is there then. So that a subscriber
    /// that is stopped before it deals with an event does not skip any. Durable when it answers. Where several runtimes have
    /// the log, one of those that begin at the same time is first.
    ///
    /// # Errors
    /// When the log cannot be read or written; `Elsewhere` and `Store(InDoubt)` where another runtime was asked and does
    /// not answer.
    pub async fn begin_cursor(&self, name: &str, first: Position) -> Result<Position, RuntimeError> {
        let kept = self.put_once(&cursor_name(name), &first.0.to_be_bytes()).await?;
        Ok(position(kept).unwrap_or(first))
    }

    /// Saves the place after an event that was dealt with; durable when it answers. What was dealt with after the
    /// last save is seen again after a crash: at least once.
    pub async fn save_cursor(&self, name: &str, next: Position) -> Result<(), RuntimeError> {
        let (store, name) = (self.store().clone(), cursor_name(name));
        Ok(self.blocking(move || store.put_value(&name, &next.0.to_be_bytes())).await??)
    }
}

impl ThreadHandle {
    /// Its events from `from` on, inherited ones included: those that are there, then those that come. Ends after
    /// the event that ends the thread, also if `from` is after it. A thread that has ended may be given another run: ask
    /// again then, from the seq after the last one.
    pub fn events(&self, from: Seq) -> Events {
        let (runtime, id) = (self.runtime().clone(), self.id());
        let thread_end = Arc::new(OnceLock::new());
        let found = thread_end.clone();
        let records = futures_util::stream::once(async move {
            let (store, log) = (runtime.store().clone(), runtime.store().clone());
            let records = match runtime.blocking(move || load::stream(&*log, id)).await {
                Ok(Ok(info)) => {
                    let end = info.last_seq.next();
                    let is_ended = Status::from_code(info.tag.0).is_some_and(Status::is_ended);
                    if is_ended {
                        read_thread(store, id, from..end, own_page)
                    } else {
                        // From no later than its end: the event that ends it is seen then, wanted or not.
                        let _ = found.set(ThreadEnd::after(id, info.last_seq));
                        follow_thread(store, id, from.min(end))
                    }
                }
                Ok(Err(error)) => return futures_util::stream::once(async { Err(error) }).boxed(),
                Err(error) => return futures_util::stream::once(async { Err(error.into()) }).boxed(),
            };
            records.map(|batch| batch.map_err(ReadError::from)).boxed()
        });
        Events::of_thread(from, thread_end, records.flatten().boxed())
    }

    /// Its events that are in the log now, from `from` on.
    pub async fn recorded_events(&self, from: Seq) -> Result<Vec<RecordedEvent>, ReadError> {
        let (store, id) = (self.runtime().store().clone(), self.id());
        self.runtime()
            .blocking(move || {
                let end = load::stream(&*store, id)?.last_seq.next();
                events(&*store, id, from..end).collect()
            })
            .await?
    }
}

/// Whether the events of a thread have come to their end, for one who sees each of them in order.
#[derive(Debug, Clone, Copy)]
pub struct ThreadEnd {
    thread: ThreadId,
    /// The end of a run up to here is followed by another run.
    past: Seq,
}

impl ThreadEnd {
    /// Of this thread, which has not ended with the event `last`.
    pub fn after(thread: ThreadId, last: Seq) -> Self {
        Self { thread, past: last }
    }

    /// Whether this event is the last one, until the thread is given another run.
    pub fn is_here(&self, recorded: &RecordedEvent) -> bool {
        ends_thread(&recorded.event) && recorded.record.thread == self.thread && recorded.record.seq > self.past
    }
}

fn ends_thread(event: &Event) -> bool {
    if let Event::ThreadCompleted(e) = event {
        return !e.run_follows;
    }
    if let Event::ThreadFailed(e) = event {
        return !e.run_follows;
    }
    matches!(event, Event::ThreadCancelled(e) if !e.run_follows)
}

pub(crate) fn kinds(names: &[&str]) -> Result<Vec<Kind>, RuntimeError> {
    names
        .iter()
        .map(|name| match event_type_named(name) {
            Some(event_type) => Ok(Kind(event_type.code)),
            None => Err(StoreError::Invalid(format!("unknown event type {name}")).into()),
        })
        .collect()
}

/// Copies the log in a folder into another one, of any backend, with everything but snapshots: ids, seqs, hashes and the order
/// of the log stay, and cursors are at the same event. [`SledStore::copy`] has the conditions and errors. Blocks.
pub fn copy_log(dir: impl AsRef<Path>, options: Options, target: &dyn Store) -> Result<Copied, StoreError> {
    SledStore::copy(dir, options, target, |name, bytes, moved| match <[u8; 8]>::try_from(&*bytes) {
        Ok(position) if name.starts_with(NAMES) => moved(Position(u64::from_be_bytes(position))).0.to_be_bytes().into(),
        _ => bytes,
    })
}

fn position(value: Vec<u8>) -> Option<Position> {
    value.try_into().ok().map(|bytes| Position(u64::from_be_bytes(bytes)))
}

pub(crate) fn cursor_name(name: &str) -> String {
    format!("{NAMES}{name}")
}
