//! One operation, applied to the replica.

use rethread_events::ids::{Position, Seq, ThreadId};
use tokio::sync::oneshot;

use super::{Applier, Pending};
use crate::contract::{Appended, LogReader as _};
use crate::disk::queue::{Answer, Op};
use crate::error::StoreError;
use crate::fence::Refusal;
use crate::jetstream::message::adds;
use crate::jetstream::rules::{Counted, State};
use crate::jetstream::subject::Subject;
use crate::jetstream::summary::{ErasedThread, Erasure, runs};
use crate::plan;

/// How many records are read at a time to learn their positions.
const PAGE: usize = 1000;
/// How many positions are left empty at a time.
const SKIP_MAX: u64 = 64 << 10;
/// How many bytes of appends the replica is given before it has answered.
const PENDING_BYTES_MAX: usize = 8 << 20;

/// The result of an operation: it was applied, or refused by every replica alike.
pub(crate) type Outcome = Result<Option<Appended>, StoreError>;

impl Applier {
    /// Queues an append. Its result comes with [`Applier::drain`].
    pub(super) fn append(&mut self, message: Counted, op: Op, bytes: usize) -> Result<(), StoreError> {
        let Some((thread, first, n)) = adds(&op) else { return Ok(()) };
        if self.past.has_gaps_from(self.state.position)
            || self.is_recovering
            || self.pending_bytes + bytes > PENDING_BYTES_MAX
            || self.pending.iter().any(|pending| pending.thread == thread)
        {
            self.drain()?;
        }
        if let Some(outcome) = self.known_before(thread, first, n, message)? {
            if outcome.is_err() {
                self.state.refuse(message, Some(thread));
            }
            self.result(message, outcome);
            return Ok(());
        }
        let (sender, answer) = oneshot::channel();
        self.replica.submit(op, bytes, Answer::Append(sender));
        self.pending.push(Pending { thread, message, answer });
        self.pending_bytes += bytes;
        Ok(())
    }

    /// The result of an operation that adds records, if nothing is to be done for it.
    fn known_before(
        &mut self,
        thread: ThreadId,
        first: Seq,
        n: u64,
        message: Counted,
    ) -> Result<Option<Outcome>, StoreError> {
        if self.state.is_fenced(thread, message.epoch, message.seen) {
            return Ok(Some(Err(StoreError::Fenced { thread })));
        }
        if self.pending.is_empty() {
            self.fill_gap()?;
        }
        if !self.is_recovering {
            return Ok(None);
        }
        let there = match self.replica.record(thread, first) {
            Ok(there) => there.is_some_and(|record| record.position == self.state.position && record.thread == thread),
            Err(StoreError::NotFound { .. }) => false,
            Err(error) => return Err(error),
        };
        if !there {
            // It was refused: the record at this position is of a later operation.
            return Ok(Some(Err(StoreError::Fenced { thread })));
        }
        self.state.position.0 += n;
        self.end_recovery()?;
        Ok(Some(Ok(None)))
    }

    /// Leaves the positions empty that records of deleted threads had here.
    pub(super) fn fill_gap(&mut self) -> Result<(), StoreError> {
        let free = self.past.free_from(self.state.position);
        if free == self.state.position {
            return Ok(());
        }
        let next = self.replica.next_position();
        for from in (next.0..free.0).step_by(SKIP_MAX as usize) {
            let n = (free.0 - from).min(SKIP_MAX) as u32;
            self.replica.write(Op::Skip { n }, 0)?;
        }
        self.state.position = free;
        self.end_recovery()
    }

    fn end_recovery(&mut self) -> Result<(), StoreError> {
        let next = self.replica.next_position();
        self.is_recovering = self.is_recovering && self.state.position < next;
        if self.state.position > next {
            return Err(self.diverged());
        }
        Ok(())
    }

    /// Waits for the appends that were queued, and takes their results in.
    pub(super) fn drain(&mut self) -> Result<(), StoreError> {
        let mut failure: Option<StoreError> = None;
        self.pending_bytes = 0;
        for Pending { thread, message, answer } in std::mem::take(&mut self.pending) {
            let outcome = match self.runtime.block_on(answer) {
                Ok(outcome) => outcome.map_err(Refusal::into_error),
                Err(_) => Err(StoreError::Closed),
            };
            match outcome {
                Ok(_) if failure.is_some() => return Err(self.diverged()),
                Ok(appended) if appended.first_position != self.state.position => return Err(self.diverged()),
                Ok(appended) => {
                    self.state.position = appended.last_position.next();
                    self.result(message, Ok(Some(appended)));
                }
                Err(error) if is_by_rule(&error) => {
                    self.state.refuse(message, Some(thread));
                    self.result(message, Err(error));
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Applies an operation that is no append. Everything before it was applied.
    pub(super) fn other(&mut self, message: Counted, op: Op) -> Result<Outcome, StoreError> {
        let sequence = message.sequence;
        match op {
            Op::Import(_) => {
                let Some((thread, first, n)) = adds(&op) else { return Ok(Err(plan::no_records())) };
                if let Some(outcome) = self.known_before(thread, first, n, message)? {
                    return Ok(outcome);
                }
                let outcome = self.by_rule(op)?;
                if let Ok(Some(appended)) = &outcome {
                    if appended.first_position != self.state.position {
                        return Err(self.diverged());
                    }
                    self.state.position = appended.last_position.next();
                }
                Ok(outcome)
            }
            Op::Delete { threads } => self.delete(sequence, threads),
            Op::Release { ref hashes, ref values } => {
                let removed = values.iter().filter(|(_, value)| value.is_none());
                let mut subjects: Vec<Subject> = removed.map(|(name, _)| Subject::value(name)).collect();
                subjects.extend(hashes.iter().map(|hash| Subject::Blob(*hash)));
                self.erase(sequence, Vec::new(), subjects)?;
                self.by_rule(op)
            }
            Op::Value { ref name, value: None } => {
                self.erase(sequence, Vec::new(), vec![Subject::value(name)])?;
                self.by_rule(op)
            }
            Op::Append { .. } | Op::Blob { .. } | Op::Value { .. } | Op::Skip { .. } | Op::Scrub => self.by_rule(op),
        }
    }

    fn delete(&mut self, sequence: u64, mut threads: Vec<ThreadId>) -> Result<Outcome, StoreError> {
        let is_past = sequence <= self.past.upto;
        let is_known = self.state.erasures.iter().any(|erasure| erasure.at == sequence);
        let mut erased = Vec::new();
        for thread in &threads {
            let there = match self.replica.stream(*thread) {
                Ok(info) => Some(info),
                Err(StoreError::NotFound { .. }) => None,
                Err(error) => return Err(error),
            };
            let runs = match there {
                // Records that are not here left the stream, and a summary says which positions they had.
                _ if is_past && (there.is_some() || self.leftovers.contains(thread)) => Vec::new(),
                None if is_past || is_known => continue,
                Some(info) => {
                    let first = info.fork_of.map_or(Seq(0), |point| point.seq.next());
                    runs(self.positions(*thread, first)?)
                }
                None => return Ok(Err(plan::no_thread(*thread))),
            };
            erased.push(ErasedThread { thread: *thread, at: sequence, runs });
        }
        if is_past || is_known {
            threads.retain(|thread| self.replica.stream(*thread).is_ok());
        }
        self.erase(sequence, erased, Vec::new())?;
        if threads.is_empty() {
            return Ok(Ok(None));
        }
        let outcome = self.by_rule(Op::Delete { threads })?;
        if outcome.is_err() {
            self.state.erasures.retain(|erasure| erasure.at != sequence);
        }
        Ok(outcome)
    }

    /// Notes what an operation erases, before it is applied: afterwards that cannot be read any more.
    fn erase(&mut self, at: u64, threads: Vec<ErasedThread>, subjects: Vec<Subject>) -> Result<(), StoreError> {
        let is_known = self.state.erasures.iter().any(|erasure| erasure.at == at);
        if is_known || threads.is_empty() && subjects.is_empty() {
            return Ok(());
        }
        let is_summarized = at <= self.past.upto;
        self.state.erasures.push(Erasure { at, threads, subjects, is_summarized });
        self.folder.checkpoint(&State { erasures: self.state.erasures.clone(), ..self.begin.clone() })
    }

    fn positions(&self, thread: ThreadId, first: Seq) -> Result<Vec<Position>, StoreError> {
        let (mut positions, mut next) = (Vec::new(), first);
        loop {
            let page = self.replica.read_stream(thread, next..Seq(u64::MAX), PAGE)?;
            positions.extend(page.iter().map(|record| record.position));
            match page.last() {
                Some(last) if page.len() == PAGE => next = last.seq.next(),
                _ => return Ok(positions),
            }
        }
    }

    /// Applies an operation. An error of every replica is its result, one of this replica ends it.
    fn by_rule(&self, op: Op) -> Result<Outcome, StoreError> {
        match self.replica.write(op, 0) {
            Ok(appended) => Ok(Ok(appended)),
            Err(error) if is_by_rule(&error) => Ok(Err(error)),
            Err(error) => Err(error),
        }
    }

    /// The replica did something else than the stream says: it is filled again when it is opened next.
    pub(super) fn diverged(&self) -> StoreError {
        if let Err(error) = self.folder.discard() {
            tracing::error!(%error, "cannot note that the replica must be filled again");
        }
        let what = "the replica is not at the position that the stream says: it is filled again when it is opened";
        self.damaged(what.into())
    }
}

/// Whether every replica answers with this error, because it follows from the operations before.
fn is_by_rule(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Conflict { .. }
            | StoreError::NotFound { .. }
            | StoreError::Invalid(_)
            | StoreError::TooLarge { .. }
            | StoreError::InUse { .. }
    )
}
