//! Reading on from a place: pages of the log, each read while the one before it is taken, then what comes.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, StreamExt as _};
use rethread_events::ids::{Position, Seq, ThreadId};
use tokio::sync::oneshot;

use crate::contract::{Filter, Store};
use crate::error::StoreError;
use crate::pages::Cursor;
use crate::recent::{Listener, Taken};
use crate::record::Record;

/// The next of the records that are followed.
pub struct Batch<T> {
    /// In order; may be none.
    pub records: Records<T>,
    /// Everything up to and with this position was given; absent where nothing is known.
    pub covered: Option<Position>,
}

/// The records of a [`Batch`].
pub enum Records<T> {
    /// Read from the log for this follower alone.
    Read(Vec<Record>),
    /// Shared with other followers of the same [`crate::Recent`].
    Shared(Vec<Arc<T>>),
}

/// A stream of what is made of each batch. Ends when the log is closed, and after an error.
pub type Mapped<U> = BoxStream<'static, Result<U, StoreError>>;

/// The records at these positions that are in the log now. `map` turns each page into what the stream yields, on the
/// blocking thread that read it; `Break` ends the stream.
pub fn read_log<T, U, M>(store: Arc<dyn Store>, positions: Range<Position>, map: M) -> Mapped<U>
where
    T: Send + Sync + 'static,
    U: Send + 'static,
    M: FnMut(Batch<T>) -> ControlFlow<U, U> + Send + 'static,
{
    let end = Some(positions.end);
    Follower::new(store, Cursor::of_log(positions), end, map).stream()
}

/// The same of a thread, inherited records included.
pub fn read_thread<T, U, M>(store: Arc<dyn Store>, thread: ThreadId, seqs: Range<Seq>, map: M) -> Mapped<U>
where
    T: Send + Sync + 'static,
    U: Send + 'static,
    M: FnMut(Batch<T>) -> ControlFlow<U, U> + Send + 'static,
{
    Follower::new(store, Cursor::of_thread(thread, seqs), None, map).stream()
}

/// The records of a thread from a seq on, inherited ones included: those that are there, then those that come, each once.
pub fn follow_thread(store: Arc<dyn Store>, thread: ThreadId, from: Seq) -> Mapped<Vec<Record>> {
    let log = store.clone();
    let start = blocking(move || log.next_position());
    let records = start.map(move |start| {
        let start = match start {
            Ok(start) => start,
            Err(error) => return stream::once(async { Err(error) }).boxed(),
        };
        let mut coming = store.subscribe(start, Filter { threads: vec![thread], kinds: Vec::new() });
        let coming = stream::poll_fn(move |cx| coming.poll_batch(cx));
        read_thread(store, thread, from..Seq(u64::MAX), own_page).chain(coming).boxed()
    });
    let mut next = from;
    let records = records.flatten_stream().map(move |batch| {
        // What was written while the first part was read is in both.
        let mut batch = batch?;
        batch.retain(|record| record.seq >= next);
        next = batch.last().map_or(next, |last| last.seq.next());
        Ok(batch)
    });
    records.boxed()
}

/// A page as it is.
pub fn own_page(batch: Batch<()>) -> ControlFlow<Vec<Record>, Vec<Record>> {
    ControlFlow::Continue(match batch.records {
        Records::Read(records) => records,
        Records::Shared(_) => Vec::new(),
    })
}

/// Begins work that waits for the disk: on a blocking thread of the runtime, or on a thread of its own where there is no
/// runtime. Dropping the future lets the work go to its end.
fn blocking<V: Send + 'static>(work: impl FnOnce() -> V + Send + 'static) -> BoxFuture<'static, Result<V, StoreError>> {
    match tokio::runtime::Handle::try_current() {
        // It fails only when the runtime shuts down.
        Ok(runtime) => runtime.spawn_blocking(work).map(|done| done.map_err(|_| StoreError::Closed)).boxed(),
        Err(_) => {
            let (sender, receiver) = oneshot::channel();
            let thread = std::thread::Builder::new().name("rethread-read".into());
            // Where there is no thread, the sender is dropped with the work.
            drop(thread.spawn(move || sender.send(work())));
            receiver.map(|done| done.map_err(|_| StoreError::Closed)).boxed()
        }
    }
}

/// A page that is being read; it has the follower's `map` meanwhile.
struct Page<M, U> {
    cursor: Cursor,
    map: M,
    covered: Option<Position>,
    next_seq: Option<Seq>,
    mapped: ControlFlow<U, U>,
}

/// Reads on from a cursor; with a listener, goes on with what comes.
pub(crate) struct Follower<T, U, M> {
    store: Arc<dyn Store>,
    cursor: Cursor,
    /// Everything before this position is in what the cursor reads to its end.
    end: Option<Position>,
    /// Absent while a page is read.
    map: Option<M>,
    ahead: Option<BoxFuture<'static, Result<Page<M, U>, StoreError>>>,
    live: Option<Live<T>>,
    ended: bool,
}

/// The other half of a follower: records in memory.
struct Live<T> {
    listener: Listener<T>,
    /// The thread that is followed, and the first seq that was not given; absent for the whole log.
    of: Option<(ThreadId, Seq)>,
    /// Everything before it was given; absent while the log is read.
    next: Option<Position>,
}

impl<T, U, M> Follower<T, U, M>
where
    T: Send + Sync + 'static,
    U: Send + 'static,
    M: FnMut(Batch<T>) -> ControlFlow<U, U> + Send + 'static,
{
    fn new(store: Arc<dyn Store>, cursor: Cursor, end: Option<Position>, map: M) -> Self {
        Self { store, cursor, end, map: Some(map), ahead: None, live: None, ended: false }
    }

    /// Of the whole log, with this listener.
    pub(crate) fn of_log(store: Arc<dyn Store>, listener: Listener<T>, from: Position, map: M) -> Self {
        let live = Live { listener, of: None, next: None };
        Self { live: Some(live), ..Self::new(store, Cursor::of_log(from..Position(u64::MAX)), None, map) }
    }

    /// Of one thread, with this listener.
    pub(crate) fn of_thread(store: Arc<dyn Store>, listener: Listener<T>, thread: ThreadId, from: Seq, map: M) -> Self {
        let live = Live { listener, of: Some((thread, from)), next: None };
        Self { live: Some(live), ..Self::new(store, Cursor::of_thread(thread, from..Seq(u64::MAX)), None, map) }
    }

    pub(crate) fn stream(self) -> Mapped<U> {
        stream::unfold(self, |mut follower| async move { follower.step().await.map(|next| (next, follower)) }).boxed()
    }

    async fn step(&mut self) -> Option<Result<U, StoreError>> {
        while !self.ended {
            let Some((live, next)) = self.live.as_mut().and_then(|live| live.next.map(|next| (live, next))) else {
                return match self.page().await {
                    Ok(given) => Some(Ok(given)),
                    Err(error) => {
                        self.ended = true;
                        (!matches!(error, StoreError::Closed)).then_some(Err(error))
                    }
                };
            };
            let (taken, seen) = live.listener.recent().from(next, live.of.map(|(thread, _)| thread));
            let records = match taken {
                Taken::Records(mut records) => {
                    if let Some((_, next_seq)) = &mut live.of {
                        records.retain(|kept| kept.seq >= *next_seq);
                        *next_seq = records.last().map_or(*next_seq, |last| last.seq.next());
                    }
                    records.into_iter().map(|kept| kept.made).collect()
                }
                Taken::NotYet if seen > next => Vec::new(),
                Taken::NotYet => {
                    live.listener.woken().await;
                    continue;
                }
                Taken::Gone => {
                    live.next = None;
                    self.cursor = match live.of {
                        Some((thread, next_seq)) => Cursor::of_thread(thread, next_seq..Seq(u64::MAX)),
                        None => Cursor::of_log(next..Position(u64::MAX)),
                    };
                    continue;
                }
                Taken::Closed => break,
                Taken::Failed(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            };
            live.next = Some(seen);
            let batch = Batch { records: Records::Shared(records), covered: before(seen) };
            let mapped = self.map.as_mut()?(batch);
            return Some(Ok(self.given(mapped)));
        }
        None
    }

    /// The next page of the log.
    async fn page(&mut self) -> Result<U, StoreError> {
        let page = match self.ahead.take() {
            Some(ahead) => ahead.await?,
            None => self.begin().ok_or(StoreError::Closed)?.await?,
        };
        self.cursor = page.cursor;
        self.map = Some(page.map);
        let given = self.given(page.mapped);
        let is_done = self.cursor.is_done();
        match &mut self.live {
            None => self.ended |= is_done,
            Some(live) => {
                if let (Some((_, next_seq)), Some(next)) = (&mut live.of, page.next_seq) {
                    *next_seq = next;
                }
                let next = page.covered.map_or(Position(0), Position::next);
                // What a thread inherits is not among its own records in memory: its stream is read to the end.
                let is_kept = live.of.is_none() && next >= live.listener.recent().range().0;
                live.next = (is_done || is_kept).then_some(next);
            }
        }
        if !self.ended && self.live.as_ref().is_none_or(|live| live.next.is_none()) {
            self.ahead = self.begin();
        }
        Ok(given)
    }

    /// Begins to read a page.
    fn begin(&mut self) -> Option<BoxFuture<'static, Result<Page<M, U>, StoreError>>> {
        let mut map = self.map.take()?;
        let (store, mut cursor) = (self.store.clone(), self.cursor.clone());
        // Before the page is read: what is in memory later may be in the page too.
        let end = self.live.as_ref().map(|live| live.listener.recent().range().1).or(self.end);
        let read = blocking(move || {
            let records = cursor.read(&*store)?;
            let last = records.last().map(|last| (last.position, last.seq.next()));
            let end = end.filter(|_| cursor.is_done()).and_then(before);
            let covered = last.map(|(position, _)| position).max(end);
            let mapped = map(Batch { records: Records::Read(records), covered });
            Ok(Page { cursor, map, covered, next_seq: last.map(|(_, next)| next), mapped })
        });
        Some(read.map(|page| page?).boxed())
    }

    /// What is yielded of this.
    fn given(&mut self, mapped: ControlFlow<U, U>) -> U {
        match mapped {
            ControlFlow::Continue(given) => given,
            ControlFlow::Break(given) => {
                self.ended = true;
                given
            }
        }
    }
}

/// The position before this one.
fn before(next: Position) -> Option<Position> {
    next.0.checked_sub(1).map(Position)
}
