//! Threads in a list.

use std::sync::Arc;

use rethread_events::event::Event;
use rethread_events::ids::{Position, Seq, ThreadId, Time};
use rethread_events::labels::Labels;
use rethread_events::text::with_sources;
use rethread_events::thread::Status;
use rethread_events::workflow::WorkflowRef;
use rethread_store::{ForkPoint, LogReader, StoreError, StreamInfo};

use crate::crashes::Crashes;
use crate::error::{ReadError, RuntimeError};
use crate::family;
use crate::recorded::event;

/// A thread in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadSummary {
    /// The thread.
    pub thread_id: ThreadId,
    /// Its status. A thread that only waits for branches that all wait for people is waiting, too, although its own
    /// state says running. One that no process works on is pending or interrupted.
    pub status: Status,
    /// The workflow it began on.
    pub workflow: Option<WorkflowRef>,
    /// Its labels.
    pub labels: Labels,
    /// When it began; for a fork, when it was forked.
    pub started_at: Time,
    /// When its last event happened.
    pub last_at: Time,
    /// Its last event.
    pub last_seq: Seq,
    /// The position of that event in the whole log.
    pub last_position: Position,
    /// The thread it was forked from, and the last seq it inherits.
    pub forked_from: Option<(ThreadId, Seq)>,
    /// The thread whose branch it is, and its number there.
    pub branch_of: Option<(ThreadId, u32)>,
    /// Whether the workflow, the labels or the branch are unknown because the log is damaged there, or a newer version
    /// of the program wrote it.
    pub is_damaged: bool,
}

/// Returns the parent of a branch, and the number of the branch there. Blocks.
pub(crate) fn branch_of(store: &dyn LogReader, info: &StreamInfo) -> Result<Option<(ThreadId, u32)>, ReadError> {
    let Some(ForkPoint { seq, .. }) = info.fork_of else { return Ok(None) };
    let own = event(store, info.thread, seq.next())?.map(|own| own.event);
    let Some(Event::ThreadForked(forked)) = own else { return Ok(None) };
    Ok(forked.branch.map(|branch| (branch.owner, branch.index)))
}

/// Returns the summary of a thread. `works_on` says whether a process works on a thread that has something to do.
/// Blocks.
pub(crate) fn summary(
    store: &dyn LogReader,
    crashes: &Arc<Crashes>,
    info: &StreamInfo,
    works_on: &dyn Fn(ThreadId) -> bool,
) -> Result<ThreadSummary, ReadError> {
    let mut is_damaged = false;
    // A damaged thread is in the list with its readable parts: it exists, and must not hide others.
    let mut event_at = |seq: Seq| match event(store, info.thread, seq) {
        Ok(recorded) => Ok(recorded.map(|recorded| recorded.event)),
        Err(ReadError::Runtime(error @ (RuntimeError::Store(StoreError::Damaged(_)) | RuntimeError::Event { .. }))) => {
            tracing::warn!(thread = %info.thread, error = with_sources(&error), "a thread cannot be read");
            is_damaged = true;
            Ok(None)
        }
        Err(error) => Err(error),
    };
    let first = event_at(Seq(0))?;
    let (workflow, labels) = if let Some(Event::ThreadStarted(started)) = first {
        (Some(started.workflow), started.labels)
    } else {
        (None, Labels::new())
    };
    let own = info.fork_of.map(|point| event_at(point.seq.next())).transpose()?.flatten();
    let branch = if let Some(Event::ThreadForked(forked)) = own { forked.branch } else { None };
    let branch_of = branch.map(|branch| (branch.owner, branch.index));
    let status = match family::status(store, crashes, info)? {
        Status::Running if !works_on(info.thread) => {
            let first_own = info.fork_of.map_or(Seq(0), |point| point.seq.next());
            if info.last_seq == first_own { Status::Pending } else { Status::Interrupted }
        }
        status => status,
    };
    Ok(ThreadSummary {
        thread_id: info.thread,
        status,
        workflow,
        labels,
        started_at: info.first_at,
        last_at: info.last_at,
        last_seq: info.last_seq,
        last_position: info.last_position,
        forked_from: info.fork_of.map(|ForkPoint { parent, seq }| (parent, seq)),
        branch_of,
        is_damaged,
    })
}
