//! Following the log.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use futures::stream::BoxStream;

use crate::error::StoreError;
use crate::record::Record;

/// Records as they become durable. Each subscriber reads the log at its own pace, so a slow one costs nobody else
/// anything. Ends when the store is closed; an error ends it too, and a new one can begin after the last position
/// that was seen.
pub struct Subscription {
    inner: BoxStream<'static, Result<Record, StoreError>>,
}

impl Subscription {
    /// A subscription that yields what this stream yields.
    pub fn new(inner: BoxStream<'static, Result<Record, StoreError>>) -> Self {
        Self { inner }
    }
}

impl Stream for Subscription {
    type Item = Result<Record, StoreError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.inner.as_mut().poll_next(cx)
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}
