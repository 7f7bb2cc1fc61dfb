//! Events as they come: of the whole log, and of one thread.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use rethread_events::event::{Event, event_type_named};
use rethread_events::ids::{Position, Seq, ThreadId};
use rethread_store::{Filter, Kind, StoreError};

use crate::error::RuntimeError;
use crate::load;
use crate::recorded::RecordedEvent;
use crate::runtime::Runtime;
use crate::thread_handle::ThreadHandle;

/// How many records are read at a time.
const PAGE: usize = 512;

/// Events as a stream. Ends when the runtime shuts down.
pub struct Events {
    inner: BoxStream<'static, Result<RecordedEvent, RuntimeError>>,
}

impl Events {
    pub(crate) fn new(inner: BoxStream<'static, Result<RecordedEvent, RuntimeError>>) -> Self {
        Self { inner }
    }
}

impl Stream for Events {
    type Item = Result<RecordedEvent, RuntimeError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.inner.as_mut().poll_next(cx)
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
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
        let records = self.store().subscribe(from, Filter { threads: Vec::new(), kinds });
        Ok(Events::new(records.map(|record| RecordedEvent::decode(record?)).boxed()))
    }

    /// A named place in the log that survives restarts: where a subscriber goes on. `None` when it never saved one.
    pub async fn cursor(&self, name: &str) -> Result<Option<Position>, RuntimeError> {
        let (store, name) = (self.store().clone(), cursor_name(name));
        let value = self.blocking(move || store.value(&name)).await??;
        Ok(value.and_then(|bytes| bytes.try_into().ok()).map(|bytes| Position(u64::from_be_bytes(bytes))))
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
    /// the event that ends the thread.
    pub fn events(&self, from: Seq) -> Events {
        let (runtime, id) = (self.runtime().clone(), self.id());
        let records = futures::stream::once(async move {
            let store = runtime.store().clone();
            let start = store.next_position();
            let past = {
                let store = store.clone();
                runtime.blocking(move || load::stream(&*store, id)).await
            };
            match past {
                Ok(Ok(_)) => past_and_future(&runtime, id, from, start),
                Ok(Err(error)) | Err(error) => futures::stream::once(async { Err(error) }).boxed(),
            }
        });
        let events =
            futures::stream::unfold(Some((records.flatten().boxed(), ThreadEnd::of(id))), |records| async move {
                let (mut records, mut end) = records?;
                let event = records.next().await?;
                let goes_on = event.as_ref().is_ok_and(|event| !end.is_here(event));
                Some((event, goes_on.then_some((records, end))))
            });
        Events::new(events.boxed())
    }

    /// Its events that are in the log now, from `from` on.
    pub async fn recorded_events(&self, from: Seq) -> Result<Vec<RecordedEvent>, RuntimeError> {
        let (store, id) = (self.runtime().store().clone(), self.id());
        self.runtime()
            .blocking(move || {
                let end = load::stream(&*store, id)?.last_seq.next();
                let (mut events, mut next) = (Vec::new(), from);
                while next < end {
                    let page = store.read_stream(id, next..end, PAGE)?;
                    let Some(last) = page.last() else { break };
                    next = last.seq.next();
                    for record in page {
                        events.push(RecordedEvent::decode(record)?);
                    }
                }
                Ok(events)
            })
            .await?
    }
}

/// What the stream of a thread holds from `from` on, then what follows in the log from `start` on. A record that
/// both have is given once.
fn past_and_future(
    runtime: &Runtime,
    id: ThreadId,
    from: Seq,
    start: Position,
) -> BoxStream<'static, Result<RecordedEvent, RuntimeError>> {
    let past = {
        let runtime = runtime.clone();
        futures::stream::unfold(Some(from), move |next| {
            let runtime = runtime.clone();
            async move {
                let next = next?;
                let store = runtime.store().clone();
                let page = runtime.blocking(move || store.read_stream(id, next..Seq(u64::MAX), PAGE)).await;
                match page {
                    Ok(Ok(page)) => {
                        let next = (page.len() == PAGE).then(|| page.last().map(|last| last.seq.next())).flatten();
                        Some((page.into_iter().map(Ok).collect(), next))
                    }
                    Ok(Err(error)) => Some((vec![Err(RuntimeError::from(error))], None)),
                    Err(error) => Some((vec![Err(error)], None)),
                }
            }
        })
        .map(futures::stream::iter)
        .flatten()
    };
    let future = runtime.store().subscribe(start, Filter { threads: vec![id], kinds: Vec::new() });
    let mut next = from;
    past.chain(future.map(|record| record.map_err(RuntimeError::from)))
        .filter_map(move |record| {
            let event = match record {
                Ok(record) if record.seq < next => None,
                Ok(record) => {
                    next = record.seq.next();
                    Some(RecordedEvent::decode(record))
                }
                Err(error) => Some(Err(error)),
            };
            futures::future::ready(event)
        })
        .boxed()
}

/// Whether the events of a thread have come to their end, for one who sees each of them in order.
#[derive(Debug, Clone, Copy)]
pub struct ThreadEnd {
    thread: ThreadId,
    /// The part that a fork inherits has ended the thread; what says that it was forked comes behind it.
    inherited: bool,
}

impl ThreadEnd {
    /// Of this thread, before its first event.
    pub fn of(thread: ThreadId) -> Self {
        Self { thread, inherited: false }
    }

    /// Whether this event is the last one.
    pub fn is_here(&mut self, recorded: &RecordedEvent) -> bool {
        let ends =
            matches!(recorded.event, Event::ThreadCompleted(_) | Event::ThreadFailed(_) | Event::ThreadCancelled(_));
        let is_own = recorded.record.thread == self.thread;
        self.inherited |= ends && !is_own;
        is_own && (ends || self.inherited)
    }
}

fn kinds(names: &[&str]) -> Result<Vec<Kind>, RuntimeError> {
    names
        .iter()
        .map(|name| match event_type_named(name) {
            Some(event_type) => Ok(Kind(event_type.code)),
            None => Err(StoreError::Invalid(format!("no event is called {name}")).into()),
        })
        .collect()
}

fn cursor_name(name: &str) -> String {
    format!("cursor/{name}")
}
