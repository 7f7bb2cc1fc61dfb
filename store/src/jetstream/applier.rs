//! The thread that applies the messages of the stream to the replica, in their order.

mod apply;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rethread_events::ids::{Position, Seq, ThreadId};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};

use super::connection::Connection;
use super::events::{Event, Outbox};
use super::message::{Message, Section, TakeOver, decode};
use super::replica::Folder;
use super::rules::{Past, State, Verdict};
use super::subject::Subject;
use super::summary::{Erasure, Summary};
use crate::contract::{Appended, LogReader as _};
use crate::disk::SledStore;
use crate::disk::queue::Op;
use crate::error::{Damage, StoreError};
use crate::fence::Refusal;
pub(super) use apply::Outcome;

/// How many messages are applied before their senders are answered together.
const BATCH_MAX: usize = 256;
/// After this many messages the replica notes how far it is.
const CHECKPOINT_MESSAGES: u64 = 2048;
/// The most bytes of an operation that are collected from its messages: the largest import and what describes it.
const OPERATION_BYTES_MAX: usize = 768 << 20;

/// How often summaries are asked for before the replica stops, and the pause in between.
const READ_TRIES: u32 = 20;
const READ_PAUSE: std::time::Duration = std::time::Duration::from_millis(500);

/// A message of the stream.
#[derive(Debug, Clone)]
pub(super) struct Incoming {
    pub(super) sequence: u64,
    pub(super) subject: String,
    pub(super) payload: Bytes,
}

/// How far the replica is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) sequence: u64,
    pub(super) epoch: u64,
    /// The last message of that epoch that counted.
    pub(super) number: u64,
    /// Whether nothing more will be applied.
    pub(super) is_stopped: bool,
}

/// What there is to erase.
#[derive(Debug, Clone, Default)]
pub(super) struct Erasures {
    pub(super) erasures: Vec<Erasure>,
    pub(super) ignored: Vec<u64>,
    pub(super) refusals: Vec<u64>,
}

/// Applies messages.
pub(super) struct Applier {
    pub(super) replica: Arc<SledStore>,
    pub(super) folder: Folder,
    pub(super) state: State,
    pub(super) connection: Connection,
    pub(super) runtime: Handle,
    pub(super) outbox: Outbox,
    pub(super) progress: watch::Sender<Progress>,
    pub(super) erasures: watch::Sender<Erasures>,
    /// Up to this sequence everything that was to leave the stream has left it.
    pub(super) purged: Arc<AtomicU64>,
    pub(super) past: Past,
    /// The parts of an operation that is not whole yet.
    parts: Vec<(Section, Vec<u8>)>,
    own: Option<Seq>,
    is_partial: bool,
    /// Appends that the replica has not answered.
    pending: Vec<Pending>,
    /// The bytes of those.
    pending_bytes: usize,
    results: Vec<(u64, Outcome)>,
    /// The state before the operation that is being applied.
    begin: State,
    /// Whether the replica may be ahead of the state, after its process was killed.
    is_recovering: bool,
    /// The sequence of the last checkpoint.
    noted: u64,
    /// Deleted threads of which messages are still in the stream.
    leftovers: std::collections::HashSet<ThreadId>,
}

struct Pending {
    thread: ThreadId,
    sequence: u64,
    number: u64,
    answer: oneshot::Receiver<Result<Appended, Refusal>>,
}

impl Applier {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn new(
        replica: Arc<SledStore>,
        folder: Folder,
        state: State,
        connection: Connection,
        runtime: Handle,
        outbox: Outbox,
        progress: watch::Sender<Progress>,
        erasures: watch::Sender<Erasures>,
        purged: Arc<AtomicU64>,
    ) -> Self {
        let is_recovering = replica.next_position() > state.position;
        let noted = state.sequence;
        Self {
            replica,
            folder,
            state,
            connection,
            runtime,
            outbox,
            progress,
            erasures,
            purged,
            past: Past::default(),
            parts: Vec::new(),
            own: None,
            is_partial: false,
            pending: Vec::new(),
            pending_bytes: 0,
            results: Vec::new(),
            begin: State::default(),
            is_recovering,
            noted,
            leftovers: std::collections::HashSet::new(),
        }
    }

    /// Runs until the sender of messages is gone, or the replica fails. Returns the folder and how far it is, if the log is
    /// at exactly that.
    pub(super) fn run(mut self, mut incoming: mpsc::Receiver<Incoming>) -> (Folder, Option<State>) {
        let ended = self.apply_all(&mut incoming);
        let is_exact = ended.is_ok() && self.is_exact();
        if let Err(error) = ended {
            tracing::error!(%error, "the replica stopped");
            self.outbox.send(Event::Failed(error));
        }
        self.progress.send_modify(|progress| progress.is_stopped = true);
        (self.folder, is_exact.then_some(self.state))
    }

    fn apply_all(&mut self, incoming: &mut mpsc::Receiver<Incoming>) -> Result<(), StoreError> {
        self.load_past()?;
        self.show_erasures();
        while let Some(first) = incoming.blocking_recv() {
            self.take(first)?;
            for _ in 1..BATCH_MAX {
                let Ok(next) = incoming.try_recv() else { break };
                self.take(next)?;
            }
            self.settle()?;
            if self.state.sequence >= self.noted + CHECKPOINT_MESSAGES {
                self.checkpoint()?;
            }
        }
        self.settle()?;
        self.checkpoint()
    }

    /// Everything that was taken is applied, its senders are answered, and those who wait are notified.
    fn settle(&mut self) -> Result<(), StoreError> {
        self.drain()?;
        let purged = self.purged.load(Ordering::Acquire);
        self.state.erasures.retain(|erasure| erasure.at > purged);
        if self.state.is_to_summarize() && !self.is_partial {
            let (at, threads, subjects) = (self.state.sequence, Vec::new(), Vec::new());
            self.state.erasures.push(Erasure { at, threads, subjects, is_summarized: false });
            self.show_erasures();
        }
        let progress = Progress {
            sequence: self.state.sequence,
            epoch: self.state.epoch,
            number: self.state.number,
            is_stopped: false,
        };
        // Refusals are known before the results of appends that the replica was given earlier.
        let mut results = std::mem::take(&mut self.results);
        results.sort_by_key(|(number, _)| *number);
        self.outbox.send(Event::Applied { progress, results });
        self.progress.send_replace(progress);
        Ok(())
    }

    fn take(&mut self, message: Incoming) -> Result<(), StoreError> {
        let Incoming { sequence, subject, payload } = message;
        if sequence <= self.state.sequence {
            return Ok(());
        }
        if sequence - 1 > self.state.sequence && sequence - 1 > self.past.upto {
            // What is missing may have left the stream since the last summary that is known.
            self.load_past()?;
            if sequence - 1 > self.past.upto {
                let what = format!(
                    "messages {} to {} are missing in the stream {}",
                    self.state.sequence + 1,
                    sequence - 1,
                    self.connection.address
                );
                return Err(self.damaged(what));
            }
        }
        let malformed = |_| format!("message {sequence} of the stream cannot be read by this version");
        match Subject::parse(&subject, &self.connection.name) {
            Some(Subject::TakeOver) => {
                let take_over = TakeOver::decode(&payload).map_err(malformed).map_err(|what| self.damaged(what))?;
                self.settle()?;
                self.drop_parts();
                self.state.take_over(sequence, take_over.opening);
                self.checkpoint()?;
                self.outbox.send(Event::TakenOver { epoch: sequence, take_over });
            }
            Some(Subject::Summary) => {
                let summary = Summary::decode(&payload).map_err(malformed).map_err(|what| self.damaged(what))?;
                self.state.summarized(sequence, &summary);
                self.show_erasures();
            }
            Some(subject) => {
                let message = Message::decode(&payload).map_err(malformed).map_err(|what| self.damaged(what))?;
                self.operation(sequence, subject, message)?;
            }
            None => return Err(self.damaged(format!("message {sequence} of the stream is on the subject {subject}"))),
        }
        if self.is_past_over() {
            self.settle()?;
            self.fill_gap()?;
            if self.is_recovering {
                return Err(self.diverged());
            }
            self.past = Past::default();
            self.leftovers.clear();
            self.checkpoint()?;
        }
        Ok(())
    }

    fn operation(&mut self, sequence: u64, subject: Subject, message: Message) -> Result<(), StoreError> {
        let thread = match subject {
            Subject::Thread(thread) => Some(thread),
            _ => None,
        };
        let Message { epoch, number, seen, own, more, section, body } = message;
        let verdict = self.state.verdict(&self.past, sequence, thread, epoch, number);
        if verdict == Verdict::Ignored {
            self.state.ignore(sequence);
            let is_gap = epoch == self.state.epoch && number > self.state.number;
            if is_gap {
                self.outbox.send(Event::Lost { epoch });
            }
            return Ok(());
        }
        if verdict == Verdict::Refused {
            self.drop_parts();
            self.state.count(sequence, number, seen);
            self.state.refuse(sequence, thread, number);
            return Ok(());
        }
        if more && !self.is_partial {
            // After a crash, the operation is read again from its first message.
            self.begin()?;
            self.is_partial = true;
        }
        if verdict == Verdict::Erased {
            self.leftovers.extend(thread);
        } else {
            if self.parts.is_empty() {
                self.own = own;
            }
            self.parts.push((section, body));
        }
        let bytes: usize = self.parts.iter().map(|(_, body)| body.len()).sum();
        if more {
            self.state.count(sequence, number, seen);
            return match bytes <= OPERATION_BYTES_MAX {
                true => Ok(()),
                false => Err(self.damaged(format!("the operation that ends after message {sequence} is too large"))),
            };
        }
        let (parts, own) = (std::mem::take(&mut self.parts), self.own.take());
        let was_partial = std::mem::take(&mut self.is_partial);
        if parts.is_empty() {
            // All of it is erased.
            self.state.count(sequence, number, seen);
            return Ok(());
        }
        let cause = self.cause(thread, own)?;
        let op = decode(&parts, cause)
            .map_err(|_| self.damaged(format!("message {sequence} of the stream cannot be read by this version")))?;
        if matches!(op, Op::Append { .. }) {
            self.state.count(sequence, number, seen);
            return self.append((sequence, number, seen), op, bytes);
        }
        if !was_partial {
            // After a crash, this operation and nothing else may be applied again, which changes nothing.
            self.begin()?;
        }
        if self.is_recovering && self.past.upto == 0 && !matches!(op, Op::Import(_)) {
            return Err(self.diverged());
        }
        self.state.count(sequence, number, seen);
        let result = self.other((sequence, number, seen), op)?;
        if result.is_err() {
            self.state.refuse(sequence, thread, number);
        }
        self.results.push((number, result));
        self.settle()?;
        if !self.state.erasures.is_empty() {
            self.show_erasures();
        }
        self.checkpoint()
    }

    /// The position of the record of a thread that an append names as its cause.
    fn cause(&mut self, thread: Option<ThreadId>, own: Option<Seq>) -> Result<Option<Position>, StoreError> {
        let (Some(thread), Some(own)) = (thread, own) else { return Ok(None) };
        if self.pending.iter().any(|pending| pending.thread == thread) {
            self.drain()?;
        }
        match self.replica.record(thread, own) {
            Ok(record) => Ok(record.map(|record| record.position)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads what left the stream and is not applied yet.
    fn load_past(&mut self) -> Result<(), StoreError> {
        let mut n_tries = 0;
        let summaries = loop {
            match self.runtime.block_on(self.connection.summaries(self.state.sequence + 1)) {
                Ok(summaries) => break summaries,
                Err(error) if error.is_temporary() && n_tries < READ_TRIES => {
                    n_tries += 1;
                    std::thread::sleep(READ_PAUSE);
                }
                Err(error) => return Err(error),
            }
        };
        let mut past = Past::default();
        summaries.into_iter().for_each(|summary| past.add(summary));
        if past.upto > self.state.sequence {
            self.past = past;
        }
        Ok(())
    }

    fn drop_parts(&mut self) {
        self.parts.clear();
        (self.own, self.is_partial) = (None, false);
    }

    /// Notes how far the replica is.
    fn checkpoint(&mut self) -> Result<(), StoreError> {
        if !self.is_exact() || self.noted == self.state.sequence {
            return Ok(());
        }
        self.noted = self.state.sequence;
        self.folder.checkpoint(&self.state)
    }

    /// An operation begins that is not applied together with others.
    fn begin(&mut self) -> Result<(), StoreError> {
        self.settle()?;
        self.checkpoint()?;
        self.begin = self.state.clone();
        Ok(())
    }

    /// Whether the log contains what the state says and nothing more, so that the replica may begin here again.
    fn is_exact(&self) -> bool {
        !self.is_partial && self.pending.is_empty() && !self.is_recovering && !self.is_past_over()
    }

    /// Whether everything was applied of which some left the stream, and only the positions after it are to be filled.
    fn is_past_over(&self) -> bool {
        self.past.upto > 0 && self.state.sequence >= self.past.upto
    }

    fn show_erasures(&self) {
        let State { sequence, erasures, ignored, refusals, .. } = &self.state;
        // One that comes after that is noted and not applied.
        let erasures = erasures.iter().filter(|erasure| erasure.at <= *sequence).cloned().collect();
        self.erasures.send_replace(Erasures { erasures, ignored: ignored.clone(), refusals: refusals.clone() });
    }

    fn damaged(&self, what: String) -> StoreError {
        StoreError::Damaged(Damage { position: Some(self.state.position), what, ..Damage::default() })
    }
}
