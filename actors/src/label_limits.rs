//! The limits of labels in a runtime: counts the log when it is opened, then each append, and where several runtimes have the
//! log, what the others append (`follow`).

mod follow;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rethread_events::event::{Event, event_type_named};
use rethread_events::ids::{Position, Seq, ThreadId, Time};
use rethread_events::label_limits::{EVENTS, LabelCounts, LabelLimitReached, LabelSeries, Spent, is_start};
use rethread_events::labels::Labels;
use rethread_events::text::with_sources;
use rethread_events::thread::{State, Status};
use rethread_store::{Kind, LogReader, StoreError, StreamInfo};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::error::{ReadError, RuntimeError};
use crate::labels::labels_of;
use crate::recorded::RecordedEvent;
use crate::summary::branch_of;

/// The counts of labels. Nothing is counted unless limits or metrics name a key.
pub(crate) struct LabelLedger {
    counts: Mutex<LabelCounts>,
    is_on: bool,
    limits_tokens: bool,
    /// Where several runtimes have the log: the last event of each thread that this one appends and counts at the append. An
    /// entry is removed when the event is read from the log.
    own: Option<Mutex<HashMap<ThreadId, Seq>>>,
    /// Ends the reading of what others append.
    stop: CancellationToken,
}

/// What an append changes in the counts of its thread's labels, once it is durable.
pub(crate) struct Change {
    labels: Labels,
    /// Whether the thread is open after it; absent for a branch, which counts with its parent.
    is_open: Option<bool>,
    spent: Spent,
}

/// The right to begin a thread, a fork or a run. Until it is dropped, the thread counts as one that has not ended.
pub(crate) struct StartPermit {
    ledger: Arc<LabelLedger>,
    thread: ThreadId,
    labels: Labels,
    asked: Time,
    is_accepted: AtomicBool,
}

impl StartPermit {
    /// Records that the start is durable.
    pub(crate) fn accept(&self) {
        self.is_accepted.store(true, Ordering::Relaxed);
    }
}

impl Drop for StartPermit {
    fn drop(&mut self) {
        let is_accepted = self.is_accepted.load(Ordering::Relaxed);
        self.ledger.counts.lock().begun(self.thread, &self.labels, self.asked, is_accepted);
    }
}

impl LabelLedger {
    pub(crate) fn new(counts: LabelCounts, is_shared: bool) -> Self {
        let is_on = !counts.is_off();
        Self {
            is_on,
            limits_tokens: counts.limits_tokens(),
            counts: Mutex::new(counts),
            own: (is_on && is_shared).then(Mutex::default),
            stop: CancellationToken::new(),
        }
    }

    /// Permits a start of this thread, if no limit of its labels is reached.
    pub(crate) fn begin(
        self: &Arc<Self>,
        thread: ThreadId,
        labels: &Labels,
    ) -> Result<Option<Arc<StartPermit>>, LabelLimitReached> {
        if !self.is_on || labels.is_empty() {
            return Ok(None);
        }
        let asked = clock::now();
        self.counts.lock().begin(thread, labels, asked)?;
        let (ledger, labels) = (self.clone(), labels.clone());
        Ok(Some(Arc::new(StartPermit { ledger, thread, labels, asked, is_accepted: AtomicBool::new(false) })))
    }

    /// Returns the limit of tokens that a thread with these labels has reached.
    pub(crate) fn tokens_reached(&self, labels: &Labels) -> Option<LabelLimitReached> {
        if !self.limits_tokens || labels.is_empty() {
            return None;
        }
        self.counts.lock().tokens_reached(labels, clock::now())
    }

    /// Returns whether the tokens of threads with these labels are limited.
    pub(crate) fn limits_tokens_of(&self, labels: &Labels) -> bool {
        self.limits_tokens && self.counts.lock().limits_tokens_of(labels)
    }

    /// Returns whether tokens are limited for some label.
    pub(crate) fn limits_tokens(&self) -> bool {
        self.limits_tokens
    }

    /// Returns what an append of these events changes, if the thread has this state after it; `None` if nothing is
    /// counted. [`LabelLedger::appended`] or [`LabelLedger::refused`] receives the result.
    pub(crate) fn appends(&self, state: &State, events: &[Event]) -> Option<Change> {
        let change = self.change(state, events)?;
        if let (Some(own), Some(last)) = (&self.own, state.next_seq().0.checked_sub(1)) {
            own.lock().insert(state.thread(), Seq(last));
        }
        Some(change)
    }

    fn change(&self, state: &State, events: &[Event]) -> Option<Change> {
        let labels = state.labels();
        if !self.is_on || labels.is_empty() {
            return None;
        }
        let is_branch = state.branch().is_some_and(|branch| branch.owner.is_some());
        let is_open = (!is_branch).then(|| !state.is_ended());
        Some(Change { labels: labels.clone(), is_open, spent: Spent::of(events) })
    }

    /// Records that an append is durable. `is_last`: no later append of the thread is durable.
    pub(crate) fn appended(&self, thread: ThreadId, change: Option<Change>, is_last: bool) {
        let Some(Change { labels, is_open, spent }) = change else { return };
        let mut counts = self.counts.lock();
        if let Some(is_open) = is_open.filter(|_| is_last) {
            counts.set_open(thread, &labels, is_open);
        }
        if spent != Spent::default() {
            counts.spend(&labels, &spent, clock::now());
        }
    }

    /// Records that an append of the thread, and all later ones, are not in the log: another runtime may write these events.
    pub(crate) fn refused(&self, thread: ThreadId) {
        if let Some(own) = &self.own {
            own.lock().remove(&thread);
        }
    }

    /// Records that a thread was folded from the log.
    pub(crate) fn loaded(&self, state: &State) {
        if let Some(Change { labels, is_open: Some(is_open), .. }) = self.change(state, &[]) {
            self.counts.lock().set_open(state.thread(), &labels, is_open);
        }
    }

    pub(crate) fn metrics(&self) -> Vec<LabelSeries> {
        self.counts.lock().metrics()
    }

    /// Counts the log: the threads that have not ended, and recent starts and usage. Reads the list of all threads, one
    /// event of each that has not ended, and the last day's events of those that have any. Blocks. Returns the position of the
    /// first record that is not counted.
    ///
    /// # Errors
    /// When the log cannot be read. A thread that is damaged, or of a newer version, is left out.
    pub(crate) fn read(&self, store: &dyn LogReader) -> Result<Position, ReadError> {
        let end = store.next_position();
        if self.is_on {
            for info in store.all_streams(None, &[]) {
                self.read_thread(store, &info?, end)?;
            }
        }
        Ok(end)
    }

    /// Counts threads that were imported.
    pub(crate) fn read_imported(&self, store: &dyn LogReader, threads: &[ThreadId]) -> Result<(), ReadError> {
        if self.is_on {
            for thread in threads {
                match store.stream(*thread) {
                    Ok(info) => self.read_thread(store, &info, Position(u64::MAX))?,
                    Err(StoreError::NotFound { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn read_thread(&self, store: &dyn LogReader, info: &StreamInfo, end: Position) -> Result<(), ReadError> {
        match self.try_read_thread(store, info, end) {
            Err(
                error @ ReadError::Runtime(RuntimeError::Event { .. } | RuntimeError::Store(StoreError::Damaged(_))),
            ) => {
                leave_out(info.thread, &error);
                Ok(())
            }
            read => read,
        }
    }

    fn try_read_thread(&self, store: &dyn LogReader, info: &StreamInfo, end: Position) -> Result<(), ReadError> {
        let now = clock::now();
        let (day, minute) = (LabelCounts::day_began(now), LabelCounts::minute_began(now));
        let since = if self.limits_tokens { day.min(minute) } else { minute };
        let is_open = !is_ended(info);
        if !is_open && info.last_at < since {
            return Ok(());
        }
        let labels = labels_of(store, info.thread)?;
        if !self.counts.lock().counts(&labels) {
            return Ok(());
        }
        if is_open && branch_of(store, info)?.is_none() {
            self.counts.lock().set_open(info.thread, &labels, true);
        }
        if info.last_at < since {
            return Ok(());
        }
        let kinds = kinds();
        let mut spent = Spent::default();
        for record in store.records(info.thread, first_since(store, info, since)?..info.last_seq.next()) {
            let record = record?;
            if !kinds.contains(&record.kind) || record.position >= end {
                continue;
            }
            let RecordedEvent { record, event } = RecordedEvent::decode(record)?;
            if record.recorded_at > minute && is_start(&event) {
                self.counts.lock().began_before(&labels, record.recorded_at);
            }
            if record.recorded_at >= day {
                spent.add(&event);
            }
        }
        self.counts.lock().spent_before(&labels, &spent, now);
        Ok(())
    }
}

/// A thread is damaged, or of a newer version.
fn leave_out(thread: ThreadId, error: &ReadError) {
    tracing::warn!(%thread, error = with_sources(error), "a thread that cannot be read is not counted for its labels");
}

/// The kinds of records that say what was used, or that work began.
fn kinds() -> Vec<Kind> {
    EVENTS.iter().filter_map(|name| event_type_named(name)).map(|of| Kind(of.code)).collect()
}

fn is_ended(info: &StreamInfo) -> bool {
    Status::from_code(info.tag.0).is_some_and(Status::is_ended)
}

/// Returns the first event of the thread itself that was recorded at this time or later. Times of a thread never
/// decrease.
fn first_since(store: &dyn LogReader, info: &StreamInfo, since: Time) -> Result<Seq, ReadError> {
    let own = info.fork_of.map_or(Seq(0), |point| point.seq.next());
    let (mut from, mut end) = (own.0, info.last_seq.0);
    while from < end {
        let middle = from + (end - from) / 2;
        let is_before = store.record(info.thread, Seq(middle))?.is_some_and(|record| record.recorded_at < since);
        if is_before {
            from = middle + 1;
        } else {
            end = middle;
        }
    }
    Ok(Seq(from))
}
