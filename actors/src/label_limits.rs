//! The limits of labels in a runtime: counts the log when it is opened, then each append.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rethread_events::event::{Event, event_type_named};
use rethread_events::ids::{Seq, ThreadId, Time};
use rethread_events::label_limits::{EVENTS, LabelCounts, LabelLimitReached, LabelSeries, Spent, is_start};
use rethread_events::labels::Labels;
use rethread_events::thread::{State, Status};
use rethread_store::{Kind, LogReader, StoreError, StreamInfo};

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
    pub(crate) fn new(counts: LabelCounts) -> Self {
        Self { is_on: !counts.is_off(), limits_tokens: counts.limits_tokens(), counts: Mutex::new(counts) }
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
    /// counted.
    pub(crate) fn change(&self, state: &State, events: &[Event]) -> Option<Change> {
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
    /// event of each that has not ended, and the last day's events of those that have any. Blocks.
    ///
    /// # Errors
    /// When the log cannot be read. A damaged thread is left out.
    pub(crate) fn read(&self, store: &dyn LogReader) -> Result<(), ReadError> {
        if self.is_on {
            for info in store.all_streams(None, &[]) {
                self.read_thread(store, &info?)?;
            }
        }
        Ok(())
    }

    /// Counts threads that were imported.
    pub(crate) fn read_imported(&self, store: &dyn LogReader, threads: &[ThreadId]) -> Result<(), ReadError> {
        if self.is_on {
            for thread in threads {
                match store.stream(*thread) {
                    Ok(info) => self.read_thread(store, &info)?,
                    Err(StoreError::NotFound { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn read_thread(&self, store: &dyn LogReader, info: &StreamInfo) -> Result<(), ReadError> {
        match self.try_read_thread(store, info) {
            Err(ReadError::Runtime(RuntimeError::Store(StoreError::Damaged(damage)))) => {
                tracing::warn!(thread = %info.thread, %damage, "a damaged thread is not counted for its labels");
                Ok(())
            }
            read => read,
        }
    }

    fn try_read_thread(&self, store: &dyn LogReader, info: &StreamInfo) -> Result<(), ReadError> {
        let now = clock::now();
        let (day, minute) = (LabelCounts::day_began(now), LabelCounts::minute_began(now));
        let since = if self.limits_tokens { day.min(minute) } else { minute };
        let is_open = !Status::from_code(info.tag.0).is_some_and(Status::is_ended);
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
        let kinds: Vec<_> = EVENTS.iter().filter_map(|name| event_type_named(name)).map(|of| Kind(of.code)).collect();
        let mut spent = Spent::default();
        for record in store.records(info.thread, first_since(store, info, since)?..info.last_seq.next()) {
            let record = record?;
            if !kinds.contains(&record.kind) {
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
