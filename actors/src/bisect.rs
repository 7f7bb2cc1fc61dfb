//! The first moment of a thread at which something is so.

use std::ops::Range;

use rethread_events::ids::{RunId, Seq, ThreadId};
use rethread_store::LogReader;

use crate::error::{ReadError, RunError};
use crate::load;
use crate::recorded::{RecordedEvent, events};
use crate::thread_handle::ThreadHandle;

/// Where a condition first held.
#[derive(Debug, Clone)]
pub struct Bisected {
    /// The event after which it held for the first time; absent when it never did.
    pub first: Option<RecordedEvent>,
    /// How many events were looked at.
    pub n_events: u64,
    /// After how many of them it could not be evaluated: a name was not there yet, for example.
    pub n_not_evaluated: u64,
    /// Why, the last time.
    pub why_not: Option<String>,
}

impl ThreadHandle {
    /// The first event after which an expression holds, over the variables of the thread and the names of
    /// [`rethread_events::thread::LOOKING_BACK`]. Each event is looked at, in order: what held once need not hold ever
    /// after, so there is no half to leave out. Inherited events are among them. Where the expression cannot be
    /// evaluated it does not hold.
    ///
    /// # Errors
    /// `Expression` if the expression cannot be parsed.
    pub async fn bisect(&self, expression: &str) -> Result<Bisected, ReadError> {
        let last = self.info().await?.last_seq;
        self.bisect_in(Seq(0)..last.next(), expression).await
    }

    /// The same of one run: the first of its events after which the expression holds, up to the one before the next run.
    ///
    /// # Errors
    /// As [`ThreadHandle::run_summary`]; `Expression` if the expression cannot be parsed.
    pub async fn bisect_run(&self, run: RunId, expression: &str) -> Result<Bisected, RunError> {
        let run = self.run_summary(run).await?;
        Ok(self.bisect_in(run.started..run.last.next(), expression).await?)
    }

    async fn bisect_in(&self, seqs: Range<Seq>, expression: &str) -> Result<Bisected, ReadError> {
        rethread_events::expression::check(expression)
            .map_err(|source| ReadError::Expression { thread: self.id(), source })?;
        let (store, id, expression) = (self.runtime().store().clone(), self.id(), expression.to_owned());
        self.runtime().blocking(move || bisect(&*store, id, seqs, &expression)).await?
    }
}

fn bisect(store: &dyn LogReader, thread: ThreadId, seqs: Range<Seq>, expression: &str) -> Result<Bisected, ReadError> {
    let mut state = load::before(store, thread, seqs.start)?;
    let mut found = Bisected { first: None, n_events: 0, n_not_evaluated: 0, why_not: None };
    for recorded in events(store, thread, seqs) {
        let recorded = recorded?;
        state.apply(recorded.record.recorded_at, &recorded.event)?;
        found.n_events += 1;
        match state.context_looking_back(Some(&recorded.event)).holds(expression) {
            Ok(true) => {
                found.first = Some(recorded);
                return Ok(found);
            }
            Ok(false) => {}
            Err(error) => {
                found.n_not_evaluated += 1;
                found.why_not = Some(error.to_string());
            }
        }
    }
    Ok(found)
}
