//! Which events somebody wants, and reading them out of the log.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use rethread::store::Record;
use rethread::{Event, Position, RecordedEvent, Runtime, RuntimeError, Seq, ThreadEnd, ThreadHandle, ThreadId};

use super::hub::{Entry, Hub, Listener, Taken};
use super::written::{Form, Written};

/// How many records are read at a time. One who follows holds the texts of twice as many at most: those that are being
/// sent, and the next ones, which are read and written meanwhile.
pub(crate) const BATCH: usize = 256;

/// Texts of events for one who follows.
pub(crate) type EventTextStream = BoxStream<'static, Result<Written, RuntimeError>>;

/// Which events somebody wants.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// Documented names; all when empty.
    pub(crate) types: Vec<&'static str>,
    /// All when empty.
    pub(crate) threads: HashSet<ThreadId>,
    /// The threads of a family, as far as they are known; all threads when empty.
    pub(crate) family: HashSet<ThreadId>,
}

impl Wanted {
    /// Whether the event is wanted. Events are to be shown in the order of the log: a branch is known from its first.
    pub(crate) fn wants(&mut self, event: &RecordedEvent) -> bool {
        let thread = event.record.thread;
        if !self.family.is_empty()
            && let Event::ThreadForked(forked) = &event.event
            && forked.branch.as_ref().is_some_and(|branch| self.family.contains(&branch.owner))
        {
            self.family.insert(thread);
        }
        (self.family.is_empty() || self.family.contains(&thread))
            && (self.threads.is_empty() || self.threads.contains(&thread))
            && (self.types.is_empty() || self.types.contains(&event.name()))
    }

    /// The wanted ones of these.
    fn decoded(&mut self, records: Vec<Record>) -> Result<Vec<RecordedEvent>, RuntimeError> {
        let mut events = Vec::with_capacity(records.len());
        for record in records {
            let event = RecordedEvent::decode(record)?;
            if self.wants(&event) {
                events.push(event);
            }
        }
        Ok(events)
    }
}

/// Some of the past, and how to go on.
struct Page<T> {
    what: T,
    wanted: Wanted,
    /// Where to read on; `None` at the end.
    next: Option<Position>,
}

/// What was begun and is not done.
type Pending<T> = BoxFuture<'static, Result<T, RuntimeError>>;

/// Runs something that waits for the disk where it holds up nobody. It begins at once.
fn begin<T: Send + 'static>(work: impl FnOnce() -> Result<T, RuntimeError> + Send + 'static) -> Pending<T> {
    let begun = tokio::task::spawn_blocking(work);
    begun.map(|done| done.unwrap_or(Err(RuntimeError::ShuttingDown))).boxed()
}

/// What is `made` of the wanted ones of the next events of the log, before `end`.
fn begin_page<T: Send + 'static>(
    runtime: &Runtime,
    mut wanted: Wanted,
    from: Position,
    end: Position,
    made: impl FnOnce(Vec<RecordedEvent>) -> T + Send + 'static,
) -> Pending<Page<T>> {
    let store = runtime.store().clone();
    begin(move || {
        let mut records = store.read_all(from, BATCH)?;
        let is_last = records.len() < BATCH || records.last().is_some_and(|last| last.position.next() >= end);
        records.retain(|record| record.position < end);
        let next = records.last().map(|last| last.position.next()).filter(|_| !is_last);
        let events = wanted.decoded(records)?;
        Ok(Page { what: made(events), wanted, next })
    })
}

/// The wanted ones of the next events of the log, and where to read on; `None` at the end, which is before `end`.
pub(crate) async fn batch(
    runtime: &Runtime,
    wanted: Wanted,
    from: Position,
    end: Position,
) -> Result<(Vec<RecordedEvent>, Wanted, Option<Position>), RuntimeError> {
    let page = begin_page(runtime, wanted, from, end, |events| events).await?;
    Ok((page.what, page.wanted, page.next))
}

/// With how far was looked behind the last piece.
fn up_to(looked_to: Option<Position>, mut pieces: Vec<Written>) -> Vec<Written> {
    let is_behind = |position: &Position| pieces.last().is_none_or(|last| last.last < *position);
    if let Some(position) = looked_to.filter(is_behind) {
        pieces.push(Written::nothing_to(position));
    }
    pieces
}

/// Pieces, each of which was begun before the one before it was taken.
fn pieces<S: Send + 'static>(
    first: S,
    begin: impl Fn(S) -> Pending<(Vec<Written>, Option<S>)> + Clone + Send + 'static,
) -> EventTextStream {
    let pages = futures::stream::unfold(Some(begin(first)), move |page| {
        let begin = begin.clone();
        async move {
            Some(match page?.await {
                Ok((pieces, next)) => (sent(pieces), next.map(begin)),
                Err(error) => (vec![Err(error)], None),
            })
        }
    });
    pages.map(futures::stream::iter).flatten().boxed()
}

/// The position before this one.
fn before(next: Position) -> Option<Position> {
    next.0.checked_sub(1).map(Position)
}

type Sent = Vec<Result<Written, RuntimeError>>;

fn sent(pieces: Vec<Written>) -> Sent {
    pieces.into_iter().map(Ok).collect()
}

/// What is there of the log, up to before `end`.
pub(crate) fn past(runtime: Runtime, form: Form, wanted: Wanted, from: Position, end: Position) -> EventTextStream {
    pieces((wanted, from), move |(wanted, from)| {
        let page = begin_page(&runtime, wanted, from, end, move |events| form.pieces(&events));
        let up_to = move |page: Page<Vec<Written>>| {
            (up_to(before(page.next.unwrap_or(end)), page.what), page.next.map(|next| (page.wanted, next)))
        };
        page.map(move |page| page.map(up_to)).boxed()
    })
}

/// What is there of a thread, up to and with `last`.
pub(crate) fn past_of(thread: ThreadHandle, form: Form, wanted: Wanted, from: Seq, last: Seq) -> EventTextStream {
    pieces((wanted, from), move |(mut wanted, from)| {
        let (store, id) = (thread.runtime().store().clone(), thread.id());
        begin(move || {
            let records = store.read_stream(id, from..last.next(), BATCH)?;
            let next = records.last().map(|record| record.seq.next()).filter(|next| *next <= last);
            let looked_to = records.last().map(|record| record.position);
            let events = wanted.decoded(records)?;
            Ok((up_to(looked_to, form.pieces(&events)), next.map(|next| (wanted, next))))
        })
    })
}

/// What is there of the log from a position on, and then what comes.
pub(crate) fn following(
    runtime: Runtime,
    hub: &Arc<Hub>,
    form: Form,
    wanted: Wanted,
    from: Position,
) -> EventTextStream {
    let listener = hub.listen(None);
    let follower = Follower { runtime, listener, hub: hub.clone(), form, wanted, next: from, ahead: None };
    futures::stream::unfold(Some(follower), |follower| async move {
        let mut follower = follower?;
        let (sent, goes_on) = follower.step().await;
        Some((sent, goes_on.then_some(follower)))
    })
    .map(futures::stream::iter)
    .flatten()
    .boxed()
}

struct Follower {
    runtime: Runtime,
    hub: Arc<Hub>,
    listener: Listener,
    form: Form,
    wanted: Wanted,
    next: Position,
    /// What is being read of the past, from `next` on; it has `wanted` meanwhile.
    ahead: Option<Pending<Page<Vec<Written>>>>,
}

impl Follower {
    /// What comes next, and whether anything can come after it.
    async fn step(&mut self) -> (Sent, bool) {
        if let Some(ahead) = self.ahead.take() {
            return self.read(ahead).await;
        }
        match self.hub.from(self.next) {
            Taken::Entries(taken) => {
                self.next = taken.last().map_or(self.next, |last| last.event.record.position.next());
                let wanted = taken.iter().filter(|entry| self.wanted.wants(&entry.event));
                let written = wanted.map(|entry| entry.written(self.form)).collect();
                (sent(up_to(before(self.next), written)), true)
            }
            Taken::Gone => {
                let ahead = self.begin();
                self.read(ahead).await
            }
            Taken::NotYet => {
                self.listener.woken().await;
                (Vec::new(), true)
            }
            Taken::Closed => (Vec::new(), false),
            Taken::Failed(error) => (vec![Err(error)], false),
        }
    }

    /// Begins to read a page of the past, up to what is in memory.
    fn begin(&mut self) -> Pending<Page<Vec<Written>>> {
        let (form, end) = (self.form, self.hub.first());
        let wanted = std::mem::take(&mut self.wanted);
        let page = begin_page(&self.runtime, wanted, self.next, end, move |events| form.pieces(&events));
        page.map(move |page| page.map(|page| Page { next: Some(page.next.unwrap_or(end)), ..page })).boxed()
    }

    async fn read(&mut self, page: Pending<Page<Vec<Written>>>) -> (Sent, bool) {
        match page.await {
            Ok(page) => {
                self.wanted = page.wanted;
                self.next = page.next.unwrap_or(self.next);
                // The next one is read and written while this one is sent.
                self.ahead = (self.next < self.hub.first()).then(|| self.begin());
                (sent(up_to(before(self.next), page.what)), true)
            }
            Err(error) => (vec![Err(error)], false),
        }
    }
}

/// What is there of a thread from a seq on, and then what comes, up to the event that ends it.
pub(crate) fn following_thread(
    thread: ThreadHandle,
    hub: &Arc<Hub>,
    form: Form,
    wanted: Wanted,
    from: Seq,
) -> EventTextStream {
    let id = thread.id();
    let follower = ThreadFollower {
        listener: hub.listen(Some(id)),
        hub: hub.clone(),
        end: ThreadEnd::of(id),
        thread,
        form,
        wanted,
        next_seq: from,
        // Nothing of the thread is known yet: its stream is read first.
        next: None,
    };
    futures::stream::unfold(Some(follower), |follower| async move {
        let mut follower = follower?;
        let (sent, goes_on) = follower.step().await;
        Some((sent, goes_on.then_some(follower)))
    })
    .map(futures::stream::iter)
    .flatten()
    .boxed()
}

struct ThreadFollower {
    thread: ThreadHandle,
    hub: Arc<Hub>,
    listener: Listener,
    form: Form,
    wanted: Wanted,
    end: ThreadEnd,
    next_seq: Seq,
    /// Everything of the thread before this position was given.
    next: Option<Position>,
}

impl ThreadFollower {
    async fn step(&mut self) -> (Sent, bool) {
        let Some(next) = self.next else { return self.read().await };
        let (taken, next) = self.hub.of_thread_from(self.thread.id(), next);
        match taken {
            Taken::Entries(taken) => {
                self.next = Some(next);
                self.give(taken)
            }
            Taken::Gone => {
                self.next = None;
                (Vec::new(), true)
            }
            Taken::NotYet => {
                let has_moved = self.next.replace(next) != Some(next);
                if !has_moved {
                    self.listener.woken().await;
                }
                (sent(up_to(before(next), Vec::new())), true)
            }
            Taken::Closed => (Vec::new(), false),
            Taken::Failed(error) => (vec![Err(error)], false),
        }
    }

    /// A page of the thread's own stream.
    async fn read(&mut self) -> (Sent, bool) {
        // Before the page is read, so that what comes meanwhile is found in memory; what both have is given once.
        let position = self.thread.runtime().store().next_position();
        match self.thread.events_page(self.next_seq, BATCH).await {
            Ok(events) => {
                if events.len() < BATCH {
                    self.next = Some(position);
                }
                self.give(events.into_iter().map(Entry::new).collect())
            }
            Err(error) => (vec![Err(error)], false),
        }
    }

    fn give(&mut self, entries: Vec<Arc<Entry>>) -> (Sent, bool) {
        let mut given = Vec::with_capacity(entries.len());
        for entry in entries {
            if entry.event.record.seq < self.next_seq {
                continue;
            }
            self.next_seq = entry.event.record.seq.next();
            let is_wanted = self.wanted.wants(&entry.event);
            let position = entry.event.record.position;
            given.push(Ok(if is_wanted { entry.written(self.form) } else { Written::nothing_to(position) }));
            if self.end.is_here(&entry.event) {
                return (given, false);
            }
        }
        (given, true)
    }
}
