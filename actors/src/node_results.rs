//! The results of a thread, node by node.

use rethread_events::event::Event;
use rethread_events::ids::{RunId, Seq, ThreadId};
use rethread_events::steps::Steps;
use rethread_store::LogReader;

use crate::error::{ReadError, RunError};
use crate::load;
use crate::recorded::{event, events};
use crate::thread_handle::ThreadHandle;

impl ThreadHandle {
    /// Returns the results of its nodes, with the calls inside each and their durations. Inherited ones are included,
    /// except for a branch, whose results begin with it. Reads its events, and keeps only what [`Steps`] describes in
    /// memory.
    pub async fn steps(&self) -> Result<Steps, ReadError> {
        self.steps_to(Seq(0), None).await
    }

    /// As `steps`, after event `seq`.
    ///
    /// # Errors
    /// `NoSeq` when the thread has no such event.
    pub async fn steps_at(&self, seq: Seq) -> Result<Steps, ReadError> {
        self.steps_to(Seq(0), Some(seq)).await
    }

    /// As `steps`, for one run: the nodes that were entered in it, numbered from its first one, up to its end or, while
    /// it is in progress, up to now. What its branches spent may be counted after its end, before the next run begins. Reads the
    /// events of the run.
    ///
    /// # Errors
    /// As [`ThreadHandle::run_summary`].
    pub async fn run_steps(&self, run: RunId) -> Result<Steps, RunError> {
        let run = self.run_summary(run).await?;
        Ok(self.steps_to(run.started, Some(run.last)).await?)
    }

    async fn steps_to(&self, from: Seq, last: Option<Seq>) -> Result<Steps, ReadError> {
        let (store, id) = (self.runtime().store().clone(), self.id());
        self.runtime().blocking(move || steps(&*store, id, from, last)).await?
    }
}

fn steps(store: &dyn LogReader, thread: ThreadId, from: Seq, seq: Option<Seq>) -> Result<Steps, ReadError> {
    let info = load::stream(store, thread)?;
    let last = seq.unwrap_or(info.last_seq);
    if last > info.last_seq {
        return Err(ReadError::NoSeq { thread, seq: last, last: info.last_seq });
    }
    // Inherited events of a branch are not among its results, and thousands of branches may inherit the same.
    let own = info.fork_of.map(|point| point.seq.next()).filter(|own| *own <= last);
    let first = match own {
        Some(own) if begins_a_branch(store, thread, own)? => own,
        _ => from,
    };
    let mut steps = Steps::default();
    for recorded in events(store, thread, first..last.next()) {
        let recorded = recorded?;
        steps.apply(recorded.record.seq, recorded.record.recorded_at, &recorded.event);
    }
    if steps.last_seq < last {
        return Err(ReadError::NoSeq { thread, seq: last, last: steps.last_seq });
    }
    Ok(steps)
}

fn begins_a_branch(store: &dyn LogReader, thread: ThreadId, own: Seq) -> Result<bool, ReadError> {
    let first = event(store, thread, own)?.map(|first| first.event);
    let Some(Event::ThreadForked(forked)) = first else { return Ok(false) };
    Ok(forked.branch.is_some_and(|of| of.owner == forked.parent))
}
