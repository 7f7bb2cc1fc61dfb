//! Moments of a thread, found by time or by place in the log.

use rethread_events::ids::{Position, RunId, Seq, ThreadId, Time};
use rethread_store::{LogReader, Record};

use crate::error::{ReadError, RunError};
use crate::family;
use crate::load;
use crate::thread_handle::ThreadHandle;

impl ThreadHandle {
    /// Returns the last event at or before a time, by the clock of the runtime that recorded it; `None` if all are
    /// later. Reads the thread backwards from its end up to there.
    pub async fn seq_at_time(&self, time: Time) -> Result<Option<Seq>, ReadError> {
        let (store, id) = (self.runtime().store().clone(), self.id());
        self.runtime().blocking(move || seq_at_time(&*store, id, time)).await?
    }

    /// Returns the event with which a run ended.
    ///
    /// # Errors
    /// As [`ThreadHandle::run_summary`]; `NotEnded` while it is in progress.
    pub async fn seq_of_run(&self, run: RunId) -> Result<Seq, RunError> {
        self.run_summary(run).await?.ended.ok_or(RunError::NotEnded { thread: self.id(), run })
    }

    /// Returns the seq of the first event after a position of the log, inherited ones included; one past the last if
    /// there is none. Costs a number of reads that grows with the logarithm of the thread's length.
    pub async fn seq_behind(&self, position: Position) -> Result<Seq, ReadError> {
        let (store, id) = (self.runtime().store().clone(), self.id());
        self.runtime().blocking(move || seq_behind(&*store, id, position)).await?
    }

    /// Returns the thread and all branches that it and they ever had, including those of a fork that replaced them.
    /// Costs a read of each of them.
    pub async fn family(&self) -> Result<Vec<ThreadId>, ReadError> {
        let (store, id) = (self.runtime().store().clone(), self.id());
        self.runtime().blocking(move || family::whole(&*store, id)).await?
    }

    /// Returns the position of its first own event, from which a subscriber of the thread and its branches starts.
    pub async fn first_position(&self) -> Result<Position, ReadError> {
        let (store, id) = (self.runtime().store().clone(), self.id());
        let read = move || {
            let info = load::stream(&*store, id)?;
            let first = info.fork_of.map_or(Seq(0), |point| point.seq.next());
            Ok(record(&*store, id, first, info.last_seq)?.position)
        };
        self.runtime().blocking(read).await?
    }
}

fn record(store: &dyn LogReader, thread: ThreadId, seq: Seq, last: Seq) -> Result<Record, ReadError> {
    store.record(thread, seq)?.ok_or(ReadError::NoSeq { thread, seq, last })
}

fn seq_behind(store: &dyn LogReader, thread: ThreadId, position: Position) -> Result<Seq, ReadError> {
    let last = load::stream(store, thread)?.last_seq;
    // Positions grow along a stream, also across the moment at which a fork begins.
    let (mut below, mut known) = (0, last.0 + 1);
    while below < known {
        let middle = below + (known - below) / 2;
        if record(store, thread, Seq(middle), last)?.position <= position { below = middle + 1 } else { known = middle }
    }
    Ok(Seq(known))
}

fn seq_at_time(store: &dyn LogReader, thread: ThreadId, time: Time) -> Result<Option<Seq>, ReadError> {
    // Clocks are sometimes set back, so the times are not sorted.
    let end = load::stream(store, thread)?.last_seq.next();
    for record in store.records_back(thread, Seq(0)..end) {
        let record = record?;
        if record.recorded_at <= time {
            return Ok(Some(record.seq));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
