//! Publishes the events of a log in a stream of NATS JetStream, for consumers in any language.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rethread_events::ids::{Position, Seq, ThreadId};
use rethread_store::{EventMessage, EventStream, EventStreamOptions, Filter, Kind, Record, StoreError};
use serde::Deserialize;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::cloud_event::CloudEvent;
use crate::error::{NextMove, ReadError, RuntimeError};
use crate::recorded::RecordedEvent;
use crate::runtime::Runtime;
use crate::subscription::{cursor_name, kinds};

/// How many events are published before the first of them is acknowledged, and how many bytes of them.
const EVENTS_MAX: usize = 256;
const BYTES_MAX: usize = 4 << 20;
/// The pause after a failure: the first, and the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How often the position is stored.
const SAVE_AFTER: Duration = Duration::from_secs(1);

/// Publishes events until it is dropped, or the runtime shuts down.
#[derive(Debug)]
pub struct EventPublisher {
    stats: Arc<EventPublisherStats>,
    stopping: CancellationToken,
    /// Until it has ended.
    task: Option<JoinHandle<Result<(), ReadError>>>,
}

/// What a publisher of events has done since it began.
#[derive(Debug, Default)]
pub struct EventPublisherStats {
    published: AtomicU64,
    failed: AtomicU64,
    next: AtomicU64,
    is_here: AtomicBool,
}

impl EventPublisherStats {
    /// How many events the servers have acknowledged.
    pub fn published(&self) -> u64 {
        self.published.load(Ordering::Relaxed)
    }

    /// How often publishing failed. It is tried again.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// The next position of the log to publish.
    pub fn next(&self) -> Position {
        Position(self.next.load(Ordering::Relaxed))
    }

    /// Whether this runtime publishes. Where several runtimes have the log, one of them does.
    pub fn is_here(&self) -> bool {
        self.is_here.load(Ordering::Relaxed)
    }
}

impl EventPublisher {
    /// What it has done.
    pub fn stats(&self) -> Arc<EventPublisherStats> {
        self.stats.clone()
    }

    /// Waits until it ends: when the runtime shuts down, or after an error that another try does not mend, which is returned
    /// once. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// `Store(Unsuitable)` if the stream is not one for the events of this log, or its servers are too old; when the log cannot be
    /// read.
    pub async fn ended(&mut self) -> Result<(), ReadError> {
        let Some(task) = &mut self.task else { return Ok(()) };
        let ended = task.await.unwrap_or(Err(RuntimeError::ShuttingDown.into()));
        self.task = None;
        ended
    }

    /// Ends it once what was sent is acknowledged, and the position is stored.
    pub async fn stop(mut self) {
        self.stopping.cancel();
        if let Err(error) = self.ended().await {
            tracing::warn!(%error, "events were published up to an earlier position than this runtime has");
        }
    }
}

impl Drop for EventPublisher {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

impl Runtime {
    /// Publishes each event of the log once, in order, in a stream of NATS JetStream, as a CloudEvent 1.0 in JSON on the
    /// subject `STREAM.THREAD.TYPE`. Filtered by documented names; all when `names` is empty. Begins with the next event, or with
    /// the first one of the log, where none was published yet, and otherwise goes on after the last one, also after a crash.
    /// Where several runtimes have the log, each calls this, and one of them publishes.
    ///
    /// An event that does not fit a message has `dataref` in place of `data`: the path of the event at a server.
    /// While the servers of NATS are away, events wait in the log.
    ///
    /// If the thread of the last event that was published has been deleted meanwhile, events of a second before a crash may be
    /// published twice. A thread that is deleted stays in the stream until that drops its messages.
    ///
    /// Runs on the tokio runtime of the caller.
    ///
    /// # Errors
    /// `Store(Invalid)` for a name that no event has, and for options that cannot be used; when the log cannot be read or
    /// written.
    pub async fn publish_events(
        &self,
        options: EventStreamOptions,
        names: &[&str],
        from_the_beginning: bool,
    ) -> Result<EventPublisher, RuntimeError> {
        options.check().map_err(|why| StoreError::Invalid(why.into()))?;
        let kinds = kinds(names)?;
        let cursor = format!("event-stream/{}", options.stream);
        let first = if from_the_beginning { Position(0) } else { self.next_position() };
        // Stored at once, so that a restart before the first event does not skip events.
        let begun = self.begin_cursor(&cursor, first).await?;
        let id = clock::new_thread_id().to_string();
        let source = self.put_once(&cursor_name(&format!("{cursor}/log")), id.as_bytes()).await?;
        let source = String::from_utf8_lossy(&source).into_owned();
        let (stats, stopping) = (Arc::<EventPublisherStats>::default(), CancellationToken::new());
        stats.next.store(begun.0, Ordering::Relaxed);
        let runtime = self.clone();
        let publishing = Publishing { runtime, options, source, kinds, cursor, begun, stats: stats.clone() };
        let stop = stopping.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                held = publishing.runtime.hold_name(&publishing.cursor) => {
                    let Ok(_held) = held else { return Ok(()) };
                    publishing.stats.is_here.store(true, Ordering::Relaxed);
                    publishing.run(&stop).await
                }
                () = stop.cancelled() => Ok(()),
            }
        });
        Ok(EventPublisher { stats, stopping, task: Some(task) })
    }
}

/// The part of a CloudEvent by which the event is found in the log.
#[derive(Deserialize)]
struct Published {
    threadid: ThreadId,
    sequence: String,
    position: String,
}

struct Publishing {
    runtime: Runtime,
    options: EventStreamOptions,
    /// The name of the log, for the stream.
    source: String,
    /// All when empty.
    kinds: Vec<Kind>,
    cursor: String,
    begun: Position,
    stats: Arc<EventPublisherStats>,
}

impl Publishing {
    /// Publishes until it is stopped; after a failure that another try may mend, it tries again.
    async fn run(&self, stopping: &CancellationToken) -> Result<(), ReadError> {
        let (mut stream, mut pause) = (None, PAUSE_FIRST);
        loop {
            let published = self.stats.published();
            let error = match self.publish(&mut stream, stopping).await {
                Err(error) if self.may_try_again(&error) => error,
                ended => return ended,
            };
            self.stats.failed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%error, "events are not published: trying again");
            if self.stats.published() > published {
                pause = PAUSE_FIRST;
            }
            tokio::select! {
                () = stopping.cancelled() => return Ok(()),
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn may_try_again(&self, error: &ReadError) -> bool {
        let may_mend = matches!(error.next_move(), NextMove::Retry | NextMove::ReadAgain);
        may_mend && !self.runtime.registry().is_shutting_down()
    }

    async fn publish(&self, stream: &mut Option<EventStream>, stopping: &CancellationToken) -> Result<(), ReadError> {
        let stream = match stream {
            Some(stream) => stream,
            None => stream.insert(EventStream::open(&self.options, &self.source).await?),
        };
        let mut next = self.next(stream).await?;
        let followed = self.follow(stream, &mut next, stopping).await;
        self.runtime.save_cursor(&self.cursor, next).await?;
        followed
    }

    /// Where to go on: after the last event of the stream, or at the position that is stored.
    async fn next(&self, stream: &mut EventStream) -> Result<Position, ReadError> {
        let saved = self.runtime.cursor(&self.cursor).await?.unwrap_or(self.begun);
        let last = stream.last().await?.and_then(|body| serde_json::from_slice::<Published>(&body).ok());
        let last = last.and_then(|last| {
            Some((last.threadid, Seq(last.sequence.parse().ok()?), Position(last.position.parse().ok()?)))
        });
        let Some((thread, seq, position)) = last else { return Ok(saved) };
        let store = self.runtime.store().clone();
        let read = move || match store.record(thread, seq) {
            Ok(record) => Ok((record, store.next_position())),
            Err(StoreError::NotFound { .. }) => Ok((None, store.next_position())),
            Err(error) => Err(error),
        };
        match self.runtime.blocking(read).await?? {
            (Some(record), _) => Ok(record.position.next().max(saved)),
            (None, end) if self.runtime.services().shared.is_some() && end <= position => {
                let why = format!("this copy of the log has not come to position {position} yet");
                Err(RuntimeError::from(StoreError::Unavailable { log: self.options.address(), why }).into())
            }
            // The thread was deleted.
            (None, _) => Ok(saved),
        }
    }

    /// Publishes the events from a position on, and those that come.
    async fn follow(
        &self,
        stream: &mut EventStream,
        next: &mut Position,
        stopping: &CancellationToken,
    ) -> Result<(), ReadError> {
        // Without a filter: a publisher of few events must still advance its position.
        let mut records = self.runtime.store().subscribe(*next, Filter::default());
        let (mut saved, mut saved_at) = (*next, Instant::now());
        self.stats.next.store(next.0, Ordering::Relaxed);
        loop {
            let batch = tokio::select! {
                biased;
                () = stopping.cancelled() => return Ok(()),
                batch = records.next_batch() => batch,
                // Idle: a good time to store the position.
                () = tokio::time::sleep(SAVE_AFTER), if saved < *next => {
                    self.runtime.save_cursor(&self.cursor, *next).await?;
                    (saved, saved_at) = (*next, Instant::now());
                    continue;
                }
            };
            let Some(batch) = batch else { return Ok(()) };
            let mut batch = batch?.into_iter().peekable();
            while batch.peek().is_some() {
                let (mut messages, mut bytes, mut upto) = (Vec::new(), 0, *next);
                while messages.len() < EVENTS_MAX
                    && bytes < BYTES_MAX
                    && let Some(record) = batch.next()
                {
                    upto = record.position.next();
                    if self.kinds.is_empty() || self.kinds.contains(&record.kind) {
                        let message = message(record, stream.bytes_max())?;
                        bytes += message.body.len();
                        messages.push(message);
                    }
                }
                let n = messages.len() as u64;
                if n > 0 {
                    stream.publish(messages).await?;
                }
                *next = upto;
                self.stats.published.fetch_add(n, Ordering::Relaxed);
                self.stats.next.store(next.0, Ordering::Relaxed);
                if saved_at.elapsed() >= SAVE_AFTER {
                    self.runtime.save_cursor(&self.cursor, *next).await?;
                    (saved, saved_at) = (*next, Instant::now());
                }
            }
        }
    }
}

fn message(record: Record, bytes_max: usize) -> Result<EventMessage, ReadError> {
    let event = RecordedEvent::decode(record)?;
    let write = |event| serde_json::to_vec(&event).unwrap_or_default();
    let mut body = write(CloudEvent::new(&event));
    if body.len() > bytes_max {
        body = write(CloudEvent::by_reference(&event));
    }
    Ok(EventMessage { subject: format!("{}.{}", event.record.thread, event.name()), body })
}
