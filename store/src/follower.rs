//! The one loop of catch-up and follow: pages of the log, each read while the one before it is processed, then new
//! records.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, StreamExt as _};
use rethread_events::ids::{Position, Seq, ThreadId};
use tokio::sync::{oneshot, watch};

use crate::contract::{Filter, LogReader};
use crate::error::StoreError;
use crate::pages::{Cursor, Pages, Rest};
use crate::recent::{CacheRead, Listener};
use crate::record::Record;
use crate::subscription::Progress;

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

/// Returns a stream of the results of `map` for each batch. Ends when the log is closed, and after an error.
pub type Mapped<U> = BoxStream<'static, Result<U, StoreError>>;

/// The records at these positions that are in the log now. `map` turns each page into what the stream yields, on the
/// blocking thread that read it; `Break` ends the stream.
pub fn read_log<T, U, M>(store: Arc<dyn LogReader>, positions: Range<Position>, map: M) -> Mapped<U>
where
    T: Send + Sync + 'static,
    U: Send + 'static,
    M: FnMut(Batch<T>) -> ControlFlow<U, U> + Send + 'static,
{
    let end = Some(positions.end);
    Follower { end, ..Follower::new(Arc::new(store), Cursor::of_log(positions), None, map) }.stream()
}

/// As `read`, for one thread, inherited records included.
pub fn read_thread<T, U, M>(store: Arc<dyn LogReader>, thread: ThreadId, seqs: Range<Seq>, map: M) -> Mapped<U>
where
    T: Send + Sync + 'static,
    U: Send + 'static,
    M: FnMut(Batch<T>) -> ControlFlow<U, U> + Send + 'static,
{
    Follower::new(Arc::new(store), Cursor::of_thread(thread, seqs), None, map).stream()
}

/// The records of a thread from a seq on, inherited ones included: those that are there, then those that come, each once.
pub fn follow_thread(store: Arc<dyn LogReader>, thread: ThreadId, from: Seq) -> Mapped<Vec<Record>> {
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
        // Records that were written while the first part was read are in both.
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

/// Reads on from a cursor, then follows what comes.
pub(crate) struct Follower<T, U, M> {
    pages: Arc<dyn Pages>,
    cursor: Cursor,
    /// Everything before this position is in what the cursor reads to its end.
    end: Option<Position>,
    /// Absent while a page is read.
    map: Option<M>,
    ahead: Option<BoxFuture<'static, Result<Page<M, U>, StoreError>>>,
    live: Option<Live<T>>,
    /// Everything before it was given; absent while a cursor is read.
    live_from: Option<Position>,
    ended: bool,
}

/// The source of records after those that a cursor reads.
enum Live<T> {
    /// Records in memory, shared with other followers; of one thread from a seq on that was not given, or of the log.
    Shared(Listener<T>, Option<(ThreadId, Seq)>),
    /// The log of a backend itself, read again whenever it has grown.
    Log(watch::Receiver<Progress>),
}

impl<T: Send + Sync + 'static> Live<T> {
    /// The position that the next record gets.
    fn end(&self) -> Position {
        match self {
            Self::Shared(listener, _) => listener.recent().range().1,
            Self::Log(progress) => progress.borrow().next,
        }
    }

    /// Whether the log was closed, so that the rest of it is not read.
    fn is_closed(&self) -> bool {
        match self {
            Self::Shared(..) => false,
            Self::Log(progress) => progress.borrow().closed,
        }
    }

    /// Whether everything from a position on is in memory.
    fn has(&self, next: Position) -> bool {
        match self {
            // Inherited records are not among the thread's own in memory: its stream is read to the end.
            Self::Shared(listener, of) => of.is_none() && next >= listener.recent().range().0,
            Self::Log(_) => false,
        }
    }

    fn take(&mut self, next: Position) -> (CacheRead<T>, Position) {
        match self {
            Self::Shared(listener, of) => listener.recent().from(next, of.map(|(thread, _)| thread)),
            Self::Log(progress) => match *progress.borrow_and_update() {
                Progress { closed: true, .. } => (CacheRead::Closed, next),
                Progress { next: end, .. } if next < end => (CacheRead::Gone, next),
                Progress { .. } => (CacheRead::NotYet, next),
            },
        }
    }

    /// Waits for new records; false if none will come.
    async fn wait(&mut self) -> bool {
        match self {
            Self::Shared(listener, _) => {
                listener.woken().await;
                true
            }
            Self::Log(progress) => progress.changed().await.is_ok(),
        }
    }

    /// The records that were not given, if those before `next` were.
    fn rest(&self, next: Position) -> Rest {
        match self {
            Self::Shared(_, Some((thread, next_seq))) => Rest::OfThread(*thread, *next_seq..Seq(u64::MAX)),
            Self::Shared(_, None) | Self::Log(_) => Rest::OfLog(next..Position(u64::MAX)),
        }
    }

    /// The first seq of the thread that was not given.
    fn next_seq(&mut self) -> Option<&mut Seq> {
        match self {
            Self::Shared(_, Some((_, next_seq))) => Some(next_seq),
            Self::Shared(_, None) | Self::Log(_) => None,
        }
    }
}

impl<T, U, M> Follower<T, U, M>
where
    T: Send + Sync + 'static,
    U: Send + 'static,
    M: FnMut(Batch<T>) -> ControlFlow<U, U> + Send + 'static,
{
    fn new(pages: Arc<dyn Pages>, cursor: Cursor, live: Option<Live<T>>, map: M) -> Self {
        Self { pages, cursor, end: None, map: Some(map), ahead: None, live, live_from: None, ended: false }
    }

    /// Of the whole log, with this listener.
    pub(crate) fn of_log(store: Arc<dyn LogReader>, listener: Listener<T>, from: Position, map: M) -> Self {
        let cursor = Cursor::of_log(from..Position(u64::MAX));
        Self::new(Arc::new(store), cursor, Some(Live::Shared(listener, None)), map)
    }

    /// Of one thread, with this listener.
    pub(crate) fn of_thread(
        store: Arc<dyn LogReader>,
        listener: Listener<T>,
        thread: ThreadId,
        from: Seq,
        map: M,
    ) -> Self {
        let cursor = Cursor::of_thread(thread, from..Seq(u64::MAX));
        Self::new(Arc::new(store), cursor, Some(Live::Shared(listener, Some((thread, from)))), map)
    }

    /// Of the log of a backend, which is read again whenever it has grown.
    pub(crate) fn of_source(
        pages: Arc<dyn Pages>,
        progress: watch::Receiver<Progress>,
        from: Position,
        map: M,
    ) -> Self {
        let follower = Self::new(pages, Cursor::of_log(from..Position(u64::MAX)), Some(Live::Log(progress)), map);
        Self { live_from: Some(from), ..follower }
    }

    pub(crate) fn stream(self) -> Mapped<U> {
        stream::unfold(self, |mut follower| async move { follower.step().await.map(|next| (next, follower)) }).boxed()
    }

    async fn step(&mut self) -> Option<Result<U, StoreError>> {
        while !self.ended {
            if self.live.as_ref().is_some_and(Live::is_closed) {
                break;
            }
            let Some((live, next)) = self.live.as_mut().zip(self.live_from) else {
                return match self.page().await {
                    Ok(item) => Some(Ok(item)),
                    Err(error) => {
                        self.ended = true;
                        (!matches!(error, StoreError::Closed)).then_some(Err(error))
                    }
                };
            };
            let (taken, seen) = live.take(next);
            let records = match taken {
                CacheRead::Records(mut records) => {
                    if let Some(next_seq) = live.next_seq() {
                        records.retain(|cached| cached.seq >= *next_seq);
                        *next_seq = records.last().map_or(*next_seq, |last| last.seq.next());
                    }
                    records.into_iter().map(|cached| cached.made).collect()
                }
                CacheRead::NotYet if seen > next => Vec::new(),
                CacheRead::NotYet => {
                    if live.wait().await {
                        continue;
                    }
                    break;
                }
                CacheRead::Gone => {
                    self.cursor.continue_with(live.rest(next));
                    self.live_from = None;
                    continue;
                }
                CacheRead::Closed => break,
                CacheRead::Failed(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            };
            self.live_from = Some(seen);
            let batch = Batch { records: Records::Shared(records), covered: before(seen) };
            let mapped = self.map.as_mut()?(batch);
            return Some(Ok(self.item_of(mapped)));
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
        let item = self.item_of(page.mapped);
        let is_done = self.cursor.is_done();
        match &mut self.live {
            None => self.ended |= is_done,
            Some(live) => {
                if let (Some(next_seq), Some(next)) = (live.next_seq(), page.next_seq) {
                    *next_seq = next;
                }
                let next = page.covered.map_or(Position(0), Position::next);
                self.live_from = (is_done || live.has(next)).then_some(next);
            }
        }
        if !self.ended && self.live_from.is_none() {
            self.ahead = self.begin();
        }
        Ok(item)
    }

    /// Begins to read a page: on a blocking thread if the read waits for the disk, and otherwise when the page is awaited.
    fn begin(&mut self) -> Option<BoxFuture<'static, Result<Page<M, U>, StoreError>>> {
        let mut map = self.map.take()?;
        let (pages, mut cursor) = (self.pages.clone(), self.cursor.clone());
        let in_memory = pages.in_memory(cursor.rest());
        // Before the page is read: what is in memory later may be in the page too.
        let end = self.live.as_ref().map(Live::end).or(self.end);
        let read = move || {
            let records = cursor.read_from(&*pages)?;
            let last = records.last().map(|last| (last.position, last.seq.next()));
            let end = end.filter(|_| cursor.is_done()).and_then(before);
            let covered = last.map(|(position, _)| position).max(end);
            let mapped = map(Batch { records: Records::Read(records), covered });
            Ok(Page { cursor, map, covered, next_seq: last.map(|(_, next)| next), mapped })
        };
        Some(if in_memory { async move { read() }.boxed() } else { blocking(read).map(|page| page?).boxed() })
    }

    /// Returns the item to yield for this result.
    fn item_of(&mut self, mapped: ControlFlow<U, U>) -> U {
        match mapped {
            ControlFlow::Continue(item) => item,
            ControlFlow::Break(item) => {
                self.ended = true;
                item
            }
        }
    }
}

/// The position before this one.
fn before(next: Position) -> Option<Position> {
    next.0.checked_sub(1).map(Position)
}
