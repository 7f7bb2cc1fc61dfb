//! Subscriptions over anything that can be read by position: what is there already, then what comes.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::future::{BoxFuture, ready};
use futures::{FutureExt as _, StreamExt as _};
use rethread_events::ids::{Position, ThreadId};
use tokio::sync::watch;

use crate::contract::Filter;
use crate::error::StoreError;
use crate::record::Record;
use crate::subscription::Subscription;

/// How far the log is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) next: Position,
    pub(crate) closed: bool,
}

/// Up to how many records a subscriber takes at a time: bounds what one holds in memory.
const BATCH_RECORDS: usize = 256;

/// What a subscription reads from.
pub(crate) trait Source: Send + Sync + 'static {
    /// As [`crate::Store::read_all`].
    fn records(&self, from: Position, limit: usize) -> Result<Vec<Record>, StoreError>;

    /// The stream's own records at or after position `from`, without inherited ones, in order; none when there is
    /// no such stream.
    fn own_records(&self, thread: ThreadId, from: Position, limit: usize) -> Result<Vec<Record>, StoreError>;

    /// Whether all records from `from` on are in memory, so that reading them does not wait for the disk.
    fn in_memory(&self, from: Position) -> bool;
}

struct Follower<S> {
    source: Arc<S>,
    progress: watch::Receiver<Progress>,
    filter: Filter,
    next: Position,
    ready: VecDeque<Record>,
    ended: bool,
}

/// A subscription to `source` from `from` on.
pub(crate) fn follow<S: Source>(
    source: Arc<S>,
    progress: watch::Receiver<Progress>,
    from: Position,
    filter: Filter,
) -> Subscription {
    let follower = Follower { source, progress, filter, next: from, ready: VecDeque::new(), ended: false };
    Subscription::new(futures::stream::unfold(follower, step).boxed())
}

async fn step<S: Source>(mut follower: Follower<S>) -> Option<(Result<Record, StoreError>, Follower<S>)> {
    loop {
        if let Some(record) = follower.ready.pop_front() {
            return Some((Ok(record), follower));
        }
        if follower.ended {
            return None;
        }
        let Progress { next, closed } = *follower.progress.borrow_and_update();
        if closed {
            return None;
        }
        if follower.next < next {
            match follower.fetch(next).await {
                // A long stretch without a match must not keep the other tasks of this runtime waiting.
                Ok(()) if follower.ready.is_empty() => yield_once().await,
                Ok(()) => {}
                Err(StoreError::Closed) => return None,
                Err(error) => {
                    follower.ended = true;
                    return Some((Err(error), follower));
                }
            }
        } else if follower.progress.changed().await.is_err() {
            return None;
        }
    }
}

async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

impl<S: Source> Follower<S> {
    /// Reads what comes next, up to before `until`, and keeps what the filter wants.
    async fn fetch(&mut self, until: Position) -> Result<(), StoreError> {
        let from = self.next;
        let records = match self.filter.threads[..] {
            [thread] => self.read(move |source| source.own_records(thread, from, BATCH_RECORDS)),
            _ => self.read(move |source| source.records(from, BATCH_RECORDS)),
        }
        .await?;
        self.next = match records.last() {
            Some(last) if records.len() == BATCH_RECORDS => last.position.next(),
            // Everything up to the end was read, and positions of deleted streams have nothing to show.
            Some(last) => last.position.next().max(until),
            None => until,
        };
        self.keep(records);
        Ok(())
    }

    fn keep(&mut self, records: impl IntoIterator<Item = Record>) {
        let Filter { threads, kinds } = &self.filter;
        self.ready.extend(records.into_iter().filter(|record| {
            (threads.is_empty() || threads.contains(&record.thread))
                && (kinds.is_empty() || kinds.contains(&record.kind))
        }));
    }

    /// Reads inline what is in memory, else on a blocking thread, where there is a runtime that has some.
    fn read(
        &self,
        read: impl FnOnce(&S) -> Result<Vec<Record>, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<Vec<Record>, StoreError>> {
        let source = Arc::clone(&self.source);
        let runtime = tokio::runtime::Handle::try_current();
        let (false, Ok(runtime)) = (source.in_memory(self.next), runtime) else {
            return ready(read(&source)).boxed();
        };
        runtime
            .spawn_blocking(move || read(&source))
            // It fails only when the runtime shuts down: there is nobody left to read for.
            .map(|joined| joined.unwrap_or(Err(StoreError::Closed)))
            .boxed()
    }
}
