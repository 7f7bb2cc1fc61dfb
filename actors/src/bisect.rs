//! Finds the first moment of a thread at which a condition is true.

use std::ops::Range;

use rethread_events::ids::{RunId, Seq, ThreadId};
use rethread_store::LogReader;
use tokio_util::sync::CancellationToken;

use crate::error::{ReadError, RunError};
use crate::load;
use crate::recorded::{RecordedEvent, events};
use crate::thread_handle::ThreadHandle;

#[cfg(test)]
mod tests;

/// The result of a search for the first event after which a condition is true.
#[derive(Debug, Clone)]
pub struct Bisected {
    /// The first event after which the condition was true; absent if it never was.
    pub first: Option<RecordedEvent>,
    /// The number of events after which the condition was evaluated.
    pub n_events: u64,
    /// The number of those events after which the evaluation failed, because a name did not exist yet, for example.
    pub n_not_evaluated: u64,
    /// The error of the last failed evaluation.
    pub why_not: Option<String>,
}

impl ThreadHandle {
    /// Returns the first event after which an expression is true, over the variables of the thread and the names of
    /// [`rethread_events::thread::LOOKING_BACK`]. The expression is evaluated after each event, in order: it can become
    /// false again, so a binary search is not possible. Inherited events are included. An expression that cannot be
    /// evaluated counts as false. Dropping the future ends the search.
    ///
    /// # Errors
    /// `Expression` if the expression cannot be parsed.
    pub async fn bisect(&self, expression: &str) -> Result<Bisected, ReadError> {
        let last = self.info().await?.last_seq;
        self.bisect_in(Seq(0)..last.next(), expression).await
    }

    /// As `bisect`, for one run: its events up to the one before the next run.
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
        let stopped = CancellationToken::new();
        let _stops = stopped.clone().drop_guard();
        self.runtime().blocking(move || bisect(&*store, id, seqs, &expression, &stopped)).await?
    }
}

/// Searches until nobody waits for the result.
fn bisect(
    store: &dyn LogReader,
    thread: ThreadId,
    seqs: Range<Seq>,
    expression: &str,
    stopped: &CancellationToken,
) -> Result<Bisected, ReadError> {
    let mut state = load::before(store, thread, seqs.start)?;
    let mut found = Bisected { first: None, n_events: 0, n_not_evaluated: 0, why_not: None };
    for recorded in events(store, thread, seqs).take_while(|_| !stopped.is_cancelled()) {
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
