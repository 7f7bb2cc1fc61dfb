//! Subscriptions over anything that can be read by position: what is there already, then what comes.

use std::sync::Arc;

use futures_util::StreamExt as _;
use rethread_events::ids::{Position, ThreadId};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::contract::Filter;
use crate::error::StoreError;
use crate::pages::PageSize;
use crate::record::Record;
use crate::subscription::Subscription;

/// How far the log is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) next: Position,
    pub(crate) closed: bool,
}

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
    /// Of the read from `next` on.
    size: PageSize,
    /// The read from `next` on, where it has begun already.
    ahead: Option<Ahead>,
    ended: bool,
}

struct Ahead {
    /// Where the log ended before it began.
    until: Position,
    records: JoinHandle<Result<Vec<Record>, StoreError>>,
}

/// A subscription to `source` from `from` on.
pub(crate) fn follow<S: Source>(
    source: Arc<S>,
    progress: watch::Receiver<Progress>,
    from: Position,
    filter: Filter,
) -> Subscription {
    let follower = Follower { source, progress, filter, next: from, size: PageSize::FIRST, ahead: None, ended: false };
    Subscription::new(futures_util::stream::unfold(follower, step).boxed())
}

async fn step<S: Source>(mut follower: Follower<S>) -> Option<(Result<Vec<Record>, StoreError>, Follower<S>)> {
    loop {
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
                Ok(records) if records.is_empty() => yield_once().await,
                Ok(records) => return Some((Ok(records), follower)),
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
    /// Reads what comes next, where the log ends before `until`, and gives what the filter wants.
    async fn fetch(&mut self, until: Position) -> Result<Vec<Record>, StoreError> {
        let (until, records) = match self.ahead.take().or_else(|| self.begin(until)) {
            Some(ahead) => {
                // It fails only when the runtime shuts down: there is nobody left to read for.
                (ahead.until, ahead.records.await.unwrap_or(Err(StoreError::Closed)))
            }
            None => (until, self.reading()()),
        };
        let mut records = records?;
        let is_full = records.len() == self.size.records();
        self.size = self.size.after(&records);
        self.next = match records.last() {
            Some(last) if is_full => last.position.next(),
            // Everything up to the end was read, and positions of deleted streams have nothing to show.
            Some(last) => last.position.next().max(until),
            None => until,
        };
        let end = self.progress.borrow().next;
        if self.next < end {
            self.ahead = self.begin(end);
        }
        let Filter { threads, kinds } = &self.filter;
        if !threads.is_empty() || !kinds.is_empty() {
            records.retain(|record| {
                (threads.is_empty() || threads.contains(&record.thread))
                    && (kinds.is_empty() || kinds.contains(&record.kind))
            });
        }
        Ok(records)
    }

    /// Begins to read on a blocking thread, where that waits for the disk and there is a runtime that has such threads.
    fn begin(&self, until: Position) -> Option<Ahead> {
        if self.source.in_memory(self.next) {
            return None;
        }
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(Ahead { until, records: runtime.spawn_blocking(self.reading()) })
    }

    /// The next read.
    fn reading(&self) -> impl FnOnce() -> Result<Vec<Record>, StoreError> + Send + 'static {
        let (source, from, limit) = (Arc::clone(&self.source), self.next, self.size.records());
        let thread = match self.filter.threads[..] {
            [thread] => Some(thread),
            _ => None,
        };
        move || match thread {
            Some(thread) => source.own_records(thread, from, limit),
            None => source.records(from, limit),
        }
    }
}
