//! The subscription of a store: existing records, then new ones.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _};
use rethread_events::ids::{Position, ThreadId};
use tokio::sync::watch;

use crate::contract::Filter;
use crate::error::StoreError;
use crate::follower::{Batch, Follower, Records};
use crate::pages::{Pages, Rest};
use crate::record::Record;

/// How far the log is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) next: Position,
    pub(crate) closed: bool,
}

/// The source of the subscriptions of a backend.
pub(crate) trait Source: Send + Sync + 'static {
    /// As [`crate::LogReader::read_all`].
    fn records(&self, from: Position, limit: usize) -> Result<Vec<Record>, StoreError>;

    /// The stream's own records at or after position `from`, without inherited ones, in order; none if there is no such
    /// stream.
    fn own_records(&self, thread: ThreadId, from: Position, limit: usize) -> Result<Vec<Record>, StoreError>;

    /// Whether all records from `from` on are in memory, so that reading them does not wait for the disk.
    fn in_memory(&self, from: Position) -> bool;
}

/// The pages of a subscription: of the whole log, or of one stream's own records.
struct Subscribed<S> {
    source: Arc<S>,
    thread: Option<ThreadId>,
}

impl<S: Source> Pages for Subscribed<S> {
    fn page(&self, rest: &Rest, limit: usize) -> Result<Vec<Record>, StoreError> {
        match (rest, self.thread) {
            (Rest::OfLog(positions), Some(thread)) => self.source.own_records(thread, positions.start, limit),
            (Rest::OfLog(positions), None) => self.source.records(positions.start, limit),
            (Rest::OfThread(..), _) => Err(StoreError::Invalid("a subscription reads by position".into())),
        }
    }

    fn in_memory(&self, rest: &Rest) -> bool {
        matches!(rest, Rest::OfLog(positions) if self.source.in_memory(positions.start))
    }
}

/// A subscription to `source` from `from` on.
pub(crate) fn follow<S: Source>(
    source: Arc<S>,
    progress: watch::Receiver<Progress>,
    from: Position,
    filter: Filter,
) -> Subscription {
    let thread = match filter.threads[..] {
        [thread] => Some(thread),
        _ => None,
    };
    let wanted = move |record: &Record| {
        (filter.threads.is_empty() || filter.threads.contains(&record.thread))
            && (filter.kinds.is_empty() || filter.kinds.contains(&record.kind))
    };
    let map = move |batch: Batch<()>| {
        let mut records = match batch.records {
            Records::Read(records) => records,
            Records::Shared(_) => Vec::new(),
        };
        records.retain(&wanted);
        ControlFlow::Continue(records)
    };
    let batches = Follower::of_source(Arc::new(Subscribed { source, thread }), progress, from, map).stream();
    Subscription::new(
        batches
            .then(|batch| async {
                // Many pages without a match must not block the other tasks of this runtime.
                if matches!(&batch, Ok(records) if records.is_empty()) {
                    tokio::task::yield_now().await;
                }
                batch
            })
            .boxed(),
    )
}

/// Records as they become durable. Each subscriber reads the log at its own pace: a slow one does not slow down others
/// or the writer. Ends when the store is closed; an error ends it too, and a new one can begin after the last position
/// that was seen.
///
/// Buffers at most some hundred records: those of one read, and of the next one, which begins while the first are
/// consumed if it has to wait for the disk. Dropping it drops the result of a read that is running.
pub struct Subscription {
    batches: BoxStream<'static, Result<Vec<Record>, StoreError>>,
    ready: std::vec::IntoIter<Record>,
}

impl Subscription {
    /// A subscription that yields what these batches hold, in their order.
    pub fn new(batches: BoxStream<'static, Result<Vec<Record>, StoreError>>) -> Self {
        Self { batches, ready: Vec::new().into_iter() }
    }

    /// Returns the buffered records, or those of the next read; at least one. As [`Stream::poll_next`], for batches.
    pub fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Vec<Record>, StoreError>>> {
        if self.ready.len() > 0 {
            return Poll::Ready(Some(Ok(self.ready.by_ref().collect())));
        }
        loop {
            match ready!(self.batches.poll_next_unpin(cx)) {
                Some(Ok(batch)) if batch.is_empty() => {}
                batch => return Poll::Ready(batch),
            }
        }
    }

    /// As [`Subscription::poll_batch`]. May be dropped at any time without losing a record.
    pub async fn next_batch(&mut self) -> Option<Result<Vec<Record>, StoreError>> {
        std::future::poll_fn(|cx| self.poll_batch(cx)).await
    }
}

impl Stream for Subscription {
    type Item = Result<Record, StoreError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(record) = self.ready.next() {
                return Poll::Ready(Some(Ok(record)));
            }
            match ready!(self.poll_batch(cx)) {
                Some(Ok(batch)) => self.ready = batch.into_iter(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}
