//! Counts what other runtimes append to the log, as it arrives.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use rethread_events::ids::{Position, ThreadId};
use rethread_events::label_limits::{LabelCounts, Spent, is_start};
use rethread_events::labels::Labels;
use rethread_events::text::with_sources;
use rethread_store::{LogReader, Record, Store, StoreError};

use super::{LabelLedger, is_ended, kinds, leave_out};
use crate::clock;
use crate::error::{ReadError, RuntimeError};
use crate::labels::labels_of;
use crate::load;
use crate::log_follower::each_record;
use crate::recorded::RecordedEvent;
use crate::summary::branch_of;

/// Of how many threads the labels are remembered.
const LABELS_MAX: usize = 100_000;
/// The pause until the log is read again after an error.
const PAUSE: Duration = Duration::from_secs(1);

/// What is remembered of a thread that is read from the log.
struct Known {
    labels: Labels,
    is_branch: bool,
}

impl LabelLedger {
    /// Counts what other runtimes append from this position on, until [`LabelLedger::stop`]. Does nothing where no others have
    /// the log.
    ///
    /// # Errors
    /// When the system cannot create a thread.
    pub(crate) fn follow(self: &Arc<Self>, store: &Arc<dyn Store>, from: Position) -> io::Result<()> {
        if self.own.is_none() {
            return Ok(());
        }
        let (ledger, store) = (self.clone(), store.clone());
        let follow = move || {
            let (mut next, mut known) = (from, HashMap::new());
            while !ledger.stop.is_cancelled() {
                let from = next;
                let take = |record: Result<Record, StoreError>| match record {
                    Ok(record) => {
                        next = Position(record.position.0 + 1);
                        ledger.take(&*store, &mut known, &record)
                    }
                    Err(error) => {
                        tracing::warn!(
                            error = with_sources(&error),
                            "what others append is not counted for labels now"
                        );
                        ControlFlow::Break(())
                    }
                };
                if let Err(error) = each_record(&*store, from, &ledger.stop, take) {
                    tracing::error!(%error, "what others append is not counted for labels");
                }
                if !ledger.stop.is_cancelled() {
                    std::thread::sleep(PAUSE);
                }
            }
        };
        std::thread::Builder::new().name("rethread-labels".into()).spawn(follow).map(drop)
    }

    /// Reads no more of what others append.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Counts a record, unless it is counted at its append; tried again until it can be read.
    fn take(&self, store: &dyn LogReader, known: &mut HashMap<ThreadId, Known>, record: &Record) -> ControlFlow<()> {
        let is_own = self.is_own(record);
        while !self.stop.is_cancelled() {
            match self.try_take(store, known, record, is_own) {
                Ok(()) => break,
                Err(ReadError::NoThread(thread)) => {
                    known.remove(&thread);
                    self.counts.lock().deleted(thread);
                    break;
                }
                Err(ReadError::Runtime(RuntimeError::Store(error))) if error.is_temporary() => {
                    tracing::warn!(%error, "what others append cannot be counted for labels now");
                    std::thread::sleep(PAUSE);
                }
                Err(error) => {
                    leave_out(record.thread, &error);
                    break;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Whether a record is one that this runtime counts at its append.
    fn is_own(&self, record: &Record) -> bool {
        let Some(own) = &self.own else { return true };
        let mut own = own.lock();
        let last = own.get(&record.thread).copied();
        if last == Some(record.seq) {
            own.remove(&record.thread);
        }
        last.is_some_and(|last| record.seq <= last)
    }

    fn try_take(
        &self,
        store: &dyn LogReader,
        known: &mut HashMap<ThreadId, Known>,
        record: &Record,
        is_own: bool,
    ) -> Result<(), ReadError> {
        let thread = record.thread;
        let info = load::stream(store, thread)?;
        if !known.contains_key(&thread) {
            if known.len() >= LABELS_MAX {
                known.clear();
            }
            let is_branch = branch_of(store, &info)?.is_some();
            known.insert(thread, Known { labels: labels_of(store, thread)?, is_branch });
        }
        let Some(Known { labels, is_branch }) = known.get(&thread) else { return Ok(()) };
        let now = clock::now();
        let mut counts = self.counts.lock();
        if !counts.counts(labels) {
            return Ok(());
        }
        // Also of an own record: while one before it was read, the thread may have changed.
        if !is_branch {
            counts.set_open(thread, labels, !is_ended(&info));
        }
        if !is_own && kinds().contains(&record.kind) {
            let RecordedEvent { record, event } = RecordedEvent::decode(record.clone())?;
            if is_start(&event) {
                counts.began_before(labels, record.recorded_at);
            }
            if record.recorded_at >= LabelCounts::day_began(now) {
                counts.spent_before(labels, &Spent::of([&event]), now);
            }
        }
        Ok(())
    }
}
