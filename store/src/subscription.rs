//! Following the log.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _};

use crate::error::StoreError;
use crate::record::Record;

/// Records as they become durable. Each subscriber reads the log at its own pace: a slow one does not slow down others
/// or the writer. Ends when the store is closed; an error ends it too, and a new one can begin after the last position
/// that was seen.
///
/// Holds some hundred records at most: those of one read, and of the next one, which begins while they are taken where
/// it has to wait for the disk. Dropping it lets a read that is under way go to its end and drops what it gave.
pub struct Subscription {
    batches: BoxStream<'static, Result<Vec<Record>, StoreError>>,
    ready: std::vec::IntoIter<Record>,
}

impl Subscription {
    /// A subscription that yields what these batches hold, in their order.
    pub fn new(batches: BoxStream<'static, Result<Vec<Record>, StoreError>>) -> Self {
        Self { batches, ready: Vec::new().into_iter() }
    }

    /// What was read and not yet taken, else what the next read gives; at least one record. As [`Stream::poll_next`],
    /// for one who takes many at a time.
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
