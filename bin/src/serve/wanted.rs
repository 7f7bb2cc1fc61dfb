//! Which events somebody wants, and reading them out of the log.

use std::collections::HashSet;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use rethread::{Event, Position, RecordedEvent, Runtime, RuntimeError, Seq, ThreadEnd, ThreadHandle, ThreadId};

use super::hub::{Entry, Hub, Listener, Taken};
use super::idempotency::blocking;

/// How many records are read at a time.
pub(crate) const BATCH: usize = 512;

/// Events for one who follows.
pub(crate) type Stretch = BoxStream<'static, Result<Arc<Entry>, RuntimeError>>;

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
}

/// The wanted ones of the next events of the log, and where to read on; `None` at the end, which is before `end`.
pub(crate) async fn batch(
    runtime: &Runtime,
    mut wanted: Wanted,
    from: Position,
    end: Position,
) -> Result<(Vec<RecordedEvent>, Wanted, Option<Position>), RuntimeError> {
    let store = runtime.store().clone();
    let read = move || {
        let mut records = store.read_all(from, BATCH)?;
        let is_last = records.len() < BATCH || records.last().is_some_and(|last| last.position.next() >= end);
        records.retain(|record| record.position < end);
        let next = records.last().map(|last| last.position.next()).filter(|_| !is_last);
        let events = records.into_iter().map(RecordedEvent::decode).collect::<Result<Vec<_>, _>>()?;
        let events = events.into_iter().filter(|event| wanted.wants(event)).collect();
        Ok((events, wanted, next))
    };
    blocking(read).await.unwrap_or(Err(RuntimeError::ShuttingDown))
}

/// What is there of the log, up to before `end`.
pub(crate) fn past(runtime: Runtime, wanted: Wanted, from: Position, end: Position) -> Stretch {
    futures::stream::unfold(Some((wanted, from)), move |at| {
        let runtime = runtime.clone();
        async move {
            let (wanted, from) = at?;
            Some(match batch(&runtime, wanted, from, end).await {
                Ok((events, wanted, next)) => (entries(events), next.map(|next| (wanted, next))),
                Err(error) => (vec![Err(error)], None),
            })
        }
    })
    .map(futures::stream::iter)
    .flatten()
    .boxed()
}

type Entries = Vec<Result<Arc<Entry>, RuntimeError>>;

fn entries(events: Vec<RecordedEvent>) -> Entries {
    events.into_iter().map(|event| Ok(Entry::new(event))).collect()
}

/// What is there of the log from a position on, and then what comes.
pub(crate) fn following(runtime: Runtime, hub: &Arc<Hub>, wanted: Wanted, from: Position) -> Stretch {
    let follower = Follower { runtime, listener: hub.listen(None), hub: hub.clone(), wanted, next: from };
    futures::stream::unfold(Some(follower), |follower| async move {
        let mut follower = follower?;
        let (entries, goes_on) = follower.step().await;
        Some((entries, goes_on.then_some(follower)))
    })
    .map(futures::stream::iter)
    .flatten()
    .boxed()
}

struct Follower {
    runtime: Runtime,
    hub: Arc<Hub>,
    listener: Listener,
    wanted: Wanted,
    next: Position,
}

impl Follower {
    /// What comes next, and whether anything can come after it.
    async fn step(&mut self) -> (Entries, bool) {
        match self.hub.from(self.next) {
            Taken::Entries(taken) => {
                self.next = taken.last().map_or(self.next, |last| last.event.record.position.next());
                (taken.into_iter().filter(|entry| self.wanted.wants(&entry.event)).map(Ok).collect(), true)
            }
            Taken::Gone => {
                let end = self.hub.first();
                match batch(&self.runtime, std::mem::take(&mut self.wanted), self.next, end).await {
                    Ok((events, wanted, next)) => {
                        self.wanted = wanted;
                        self.next = next.unwrap_or(end);
                        (entries(events), true)
                    }
                    Err(error) => (vec![Err(error)], false),
                }
            }
            Taken::NotYet => {
                self.listener.woken().await;
                (Vec::new(), true)
            }
            Taken::Closed => (Vec::new(), false),
            Taken::Failed(error) => (vec![Err(error)], false),
        }
    }
}

/// What is there of a thread from a seq on, and then what comes, up to the event that ends it.
pub(crate) fn following_thread(thread: ThreadHandle, hub: &Arc<Hub>, from: Seq) -> Stretch {
    let id = thread.id();
    let follower = ThreadFollower {
        listener: hub.listen(Some(id)),
        hub: hub.clone(),
        end: ThreadEnd::of(id),
        thread,
        next_seq: from,
        // Nothing of the thread is known yet: its stream is read first.
        next: None,
    };
    futures::stream::unfold(Some(follower), |follower| async move {
        let mut follower = follower?;
        let (entries, goes_on) = follower.step().await;
        Some((entries, goes_on.then_some(follower)))
    })
    .map(futures::stream::iter)
    .flatten()
    .boxed()
}

struct ThreadFollower {
    thread: ThreadHandle,
    hub: Arc<Hub>,
    listener: Listener,
    end: ThreadEnd,
    next_seq: Seq,
    /// Everything of the thread before this position was given.
    next: Option<Position>,
}

impl ThreadFollower {
    async fn step(&mut self) -> (Entries, bool) {
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
                self.next = Some(next);
                self.listener.woken().await;
                (Vec::new(), true)
            }
            Taken::Closed => (Vec::new(), false),
            Taken::Failed(error) => (vec![Err(error)], false),
        }
    }

    /// A page of the thread's own stream.
    async fn read(&mut self) -> (Entries, bool) {
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

    fn give(&mut self, entries: Vec<Arc<Entry>>) -> (Entries, bool) {
        let mut given = Vec::with_capacity(entries.len());
        for entry in entries {
            if entry.event.record.seq < self.next_seq {
                continue;
            }
            self.next_seq = entry.event.record.seq.next();
            let is_last = self.end.is_here(&entry.event);
            given.push(Ok(entry));
            if is_last {
                return (given, false);
            }
        }
        (given, true)
    }
}

/// What is there of a thread, up to and with `last`.
pub(crate) fn past_of(thread: ThreadHandle, from: Seq, last: Seq) -> Stretch {
    futures::stream::unfold(Some(from), move |from| {
        let thread = thread.clone();
        async move {
            let from = from?;
            Some(match thread.events_page(from, BATCH).await {
                Ok(mut events) => {
                    let next = events.last().map(|event| event.record.seq.next()).filter(|next| *next <= last);
                    events.retain(|event| event.record.seq <= last);
                    (entries(events), next)
                }
                Err(error) => (vec![Err(error)], None),
            })
        }
    })
    .map(futures::stream::iter)
    .flatten()
    .boxed()
}
