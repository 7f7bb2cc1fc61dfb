//! Which events a follower wants, and the texts of those in the log.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use rethread::errors::ReadError;
use rethread::operate::{Labels, LogAccess as _, ThreadEnd, labels_of};
use rethread::store::{Batch, Mapped, Recent, Records, read_log, read_thread};
use rethread::{Event, Position, RecordedEvent, Runtime, Seq, ThreadHandle, ThreadId};

use super::written::{Entry, Form, Written};
use crate::events::ends_run;

/// Texts of events for one who follows.
pub(crate) type EventTextStream = BoxStream<'static, Result<Written, ReadError>>;

/// The newest events, shared by all who follow.
pub(crate) type Hub = Arc<Recent<Entry>>;

/// The events that a subscriber wants.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventFilter {
    /// Documented names; all when empty.
    pub(crate) types: Vec<&'static str>,
    /// All when empty.
    pub(crate) threads: HashSet<ThreadId>,
    /// The threads of a family, as far as they are known; all threads when empty.
    pub(crate) family: HashSet<ThreadId>,
    /// The threads with some labels; all threads when absent.
    pub(crate) labelled: Option<Labelled>,
}

/// The most threads whose labels are remembered.
const LABELLED_MAX: usize = 100_000;

/// The threads with some labels, as far as they were asked about.
#[derive(Debug, Clone)]
pub(crate) struct Labelled {
    runtime: Runtime,
    labels: Labels,
    known: HashMap<ThreadId, bool>,
}

impl Labelled {
    /// `None` for no labels, which all threads have.
    pub(crate) fn new(runtime: &Runtime, labels: Labels) -> Option<Self> {
        (!labels.is_empty()).then(|| Self { runtime: runtime.clone(), labels, known: HashMap::new() })
    }

    /// Whether the thread has the labels; not if they cannot be read. Reads an event of a thread that it does not know.
    pub(crate) fn has(&mut self, thread: ThreadId) -> bool {
        if let Some(has) = self.known.get(&thread) {
            return *has;
        }
        if self.known.len() >= LABELLED_MAX {
            self.known.clear();
        }
        let has = labels_of(&*self.runtime.store(), thread).is_ok_and(|labels| labels.include(&self.labels));
        self.known.insert(thread, has);
        has
    }
}

impl EventFilter {
    /// Whether the event is wanted. Events are to be shown in the order of the log: a branch is known from its first.
    pub(crate) fn matches(&mut self, event: &RecordedEvent) -> bool {
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
            && self.labelled.as_mut().is_none_or(|labelled| labelled.has(thread))
    }
}

/// With which end a stream of a thread ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The end of the thread: no run follows.
    Thread,
    /// The end of the run in progress, or of the thread.
    Run,
}

type FormattedEvents = Vec<Result<Written, ReadError>>;

/// Writes what is wanted of the batches of a follower.
struct Writer {
    form: Form,
    filter: EventFilter,
    of_thread: Option<OneThread>,
    /// The last event that was examined.
    at: Option<Position>,
    /// After the event that ends the thread, and after one that cannot be read.
    is_over: bool,
}

/// The wanted events of one thread.
struct OneThread {
    /// The first seq that is wanted.
    from: Seq,
    /// The last one there was.
    last: Seq,
    end: ThreadEnd,
    until: End,
}

impl OneThread {
    fn is_over(&self, event: &RecordedEvent) -> bool {
        let ends_this_run = self.until == End::Run && event.record.seq > self.last && ends_run(&event.event);
        ends_this_run || self.end.is_here(event)
    }
}

impl Writer {
    fn new(form: Form, filter: EventFilter) -> Self {
        Self { form, filter, of_thread: None, at: None, is_over: false }
    }

    /// Of a thread that has not ended with its event `last`, up to the event that ends it, or its run.
    fn of_thread(form: Form, filter: EventFilter, thread: OneThread) -> Self {
        Self { of_thread: Some(thread), ..Self::new(form, filter) }
    }

    fn write(&mut self, batch: Batch<Entry>) -> ControlFlow<FormattedEvents, FormattedEvents> {
        let mut failed = None;
        let mut written = match batch.records {
            Records::Read(records) => {
                let mut events = Vec::with_capacity(records.len());
                for record in records {
                    match RecordedEvent::decode(record) {
                        Ok(event) if self.matches(&event) => events.push(event),
                        Ok(_) => {}
                        Err(error) => failed = Some(error),
                    }
                    if self.is_over || failed.is_some() {
                        break;
                    }
                }
                self.form.pieces(&events)
            }
            Records::Shared(entries) => {
                let mut written = Vec::with_capacity(entries.len());
                for entry in entries {
                    match &entry.event {
                        Ok(event) if self.matches(event) => written.push(entry.written(event, self.form)),
                        Ok(_) => {}
                        Err(error) => failed = Some(error.clone()),
                    }
                    if self.is_over || failed.is_some() {
                        break;
                    }
                }
                written
            }
        };
        self.is_over |= failed.is_some();
        // The position up to which was read, if it is after the last written event.
        let covered = if self.is_over { self.at } else { batch.covered };
        if let Some(position) = covered.filter(|position| written.last().is_none_or(|last| last.last < *position)) {
            written.push(Written::nothing_to(position));
        }
        let sent = written.into_iter().map(Ok).chain(failed.map(Err)).collect();
        if self.is_over { ControlFlow::Break(sent) } else { ControlFlow::Continue(sent) }
    }

    fn matches(&mut self, event: &RecordedEvent) -> bool {
        self.at = Some(event.record.position);
        if let Some(thread) = &self.of_thread {
            self.is_over = thread.is_over(event);
            if event.record.seq < thread.from {
                return false;
            }
        }
        self.filter.matches(event)
    }

    fn stream(batches: Mapped<FormattedEvents>) -> EventTextStream {
        let sent = batches.map(|sent| sent.unwrap_or_else(|error| vec![Err(error.into())]));
        sent.map(futures::stream::iter).flatten().boxed()
    }
}

/// Returns the events of the log up to before `end`.
pub(crate) fn past(
    runtime: &Runtime,
    form: Form,
    filter: EventFilter,
    from: Position,
    end: Position,
) -> EventTextStream {
    let mut writer = Writer::new(form, filter);
    Writer::stream(read_log(runtime.store(), from..end, move |batch| writer.write(batch)))
}

/// Returns the events of a thread up to and with `last`.
pub(crate) fn past_of(thread: &ThreadHandle, form: Form, filter: EventFilter, from: Seq, last: Seq) -> EventTextStream {
    let mut writer = Writer::new(form, filter);
    let (store, id) = (thread.runtime().store(), thread.id());
    Writer::stream(read_thread(store, id, from..last.next(), move |batch| writer.write(batch)))
}

/// Follows the log from a position on.
pub(crate) fn following(
    runtime: &Runtime,
    hub: &Hub,
    form: Form,
    filter: EventFilter,
    from: Position,
) -> EventTextStream {
    let mut writer = Writer::new(form, filter);
    Writer::stream(hub.follow(runtime.store(), from, move |batch| writer.write(batch)))
}

/// Follows a thread from a seq on, up to the event that ends it, or its run; `last` is its last event now.
pub(crate) fn following_thread(
    thread: &ThreadHandle,
    hub: &Hub,
    form: Form,
    filter: EventFilter,
    from: Seq,
    last: Seq,
    until: End,
) -> EventTextStream {
    let (store, id) = (thread.runtime().store(), thread.id());
    let one = OneThread { from, last, end: ThreadEnd::after(id, last), until };
    let mut writer = Writer::of_thread(form, filter, one);
    // From no later than its end: the event that ends it is seen then, wanted or not.
    Writer::stream(hub.follow_thread(store, id, from.min(last.next()), move |batch| writer.write(batch)))
}
