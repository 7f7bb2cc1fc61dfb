//! The thread that applies the messages of the stream to the replica, in their order.

mod apply;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rethread_events::ids::{Position, Seq, ThreadId};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};

use super::connection::Connection;
use super::events::{Event, Outbox};
use super::message::{Change, ChangeKind, Message, Section, decode};
use super::replica::Folder;
use super::restored;
use super::rules::{Counted, Member, Past, State, Verdict};
use super::subject::Subject;
use super::summary::{Erasure, Summary};
use crate::contract::{Appended, LogReader as _};
use crate::disk::SledStore;
use crate::disk::queue::Op;
use crate::error::{Damage, StoreError};
use crate::fence::Refusal;
use crate::slots::Share;
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

/// What a message of the log says.
enum Content {
    Change(Change),
    Summary(Summary),
    Operation(Subject, Message),
}

impl Content {
    /// Reads a message. `None` for one that no process of a log has published: another program may publish on the subjects of
    /// the stream. Messages of another version are in a stream of another format, which is not opened.
    fn read(subject: &str, stream: &str, payload: &[u8]) -> Option<Self> {
        match Subject::parse(subject, stream)? {
            Subject::TakeOver => Change::decode(payload).ok().map(Self::Change),
            Subject::Summary => Summary::decode(payload).ok().map(Self::Summary),
            subject => Some(Self::Operation(subject, Message::decode(payload).ok()?)),
        }
    }
}

/// How far the replica is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) sequence: u64,
    /// The sequence of the last change of the members.
    pub(super) changed: u64,
    /// The epoch of this process; 0 as long as it is no member.
    pub(super) epoch: u64,
    /// Its last message that counted.
    pub(super) number: u64,
    /// Whether nothing more will be applied.
    pub(super) is_stopped: bool,
}

impl Progress {
    pub(super) fn of(state: &State, opening: &[u8; 16]) -> Self {
        let (sequence, changed) = (state.sequence, state.changed);
        let epoch = state.epoch_of(opening).unwrap_or_default();
        let number = state.members.get(&epoch).map_or(0, |member| member.number);
        Self { sequence, changed, epoch, number, is_stopped: false }
    }
}

/// The processes that write the log, as of a change.
#[derive(Debug, Clone, Default)]
pub(super) struct Members {
    /// The sequence of the change.
    pub(super) changed: u64,
    pub(super) members: BTreeMap<u64, Member>,
    /// The epoch of the member that each slot belongs to.
    pub(super) slots: Vec<u64>,
}

impl Members {
    pub(super) fn of(state: &State) -> Self {
        Self { changed: state.changed, members: state.members.clone(), slots: state.slots.clone() }
    }
}

/// The parts of an operation that is not whole yet.
#[derive(Default)]
struct Parts {
    sections: Vec<(Section, Vec<u8>)>,
    bytes: usize,
    own: Option<Seq>,
    /// The number of the next part, while parts are read again.
    next: u64,
}

impl Parts {
    fn push(&mut self, own: Option<Seq>, section: Section, body: Vec<u8>) {
        if self.sections.is_empty() {
            self.own = own;
        }
        self.bytes += body.len();
        self.sections.push((section, body));
    }
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
    /// The opening of the log by this process.
    opening: [u8; 16],
    /// Who writes the log.
    members: watch::Sender<Members>,
    /// What belongs to this process.
    share: watch::Sender<Share>,
    /// The operations of members that are not whole yet.
    parts: BTreeMap<u64, Parts>,
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
    message: Counted,
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
        opening: [u8; 16],
        members: watch::Sender<Members>,
        share: watch::Sender<Share>,
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
            opening,
            members,
            share,
            parts: BTreeMap::new(),
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
            let (log, why) = (self.connection.address.clone(), Box::new(error));
            let stopped = StoreError::Stopped { log, why };
            // Before those who wait for progress look at it.
            self.outbox.queue.refuse_all(stopped.clone());
            self.outbox.send(Event::Failed(stopped));
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
        if self.state.is_to_summarize() {
            let (at, threads, subjects) = (self.state.sequence, Vec::new(), Vec::new());
            self.state.erasures.push(Erasure { at, threads, subjects, is_summarized: false });
            self.show_erasures();
        }
        let progress = Progress::of(&self.state, &self.opening);
        // Refusals are known before the results of appends that the replica was given earlier.
        let mut results = std::mem::take(&mut self.results);
        results.sort_by_key(|(number, _)| *number);
        // Before the answers: whoever has one, and asks another process, says how far this replica was.
        self.progress.send_replace(progress);
        self.outbox.send(Event::Applied { progress, results });
        Ok(())
    }

    fn take(&mut self, message: Incoming) -> Result<(), StoreError> {
        let Incoming { sequence, subject, payload } = message;
        if sequence <= self.state.sequence {
            self.read_again(sequence, &subject, &payload);
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
        match Content::read(&subject, &self.connection.name, &payload) {
            Some(Content::Change(change)) => self.change(sequence, &change)?,
            Some(Content::Summary(summary)) => {
                self.state.summarized(sequence, &summary);
                self.show_erasures();
            }
            Some(Content::Operation(subject, message)) => self.operation(sequence, subject, message)?,
            None => {
                tracing::error!(sequence, subject, "a message of the stream was published by another program: skipped");
                self.state.ignore(sequence);
            }
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

    /// The members change: what was published for an epoch that is over is not applied any more.
    fn change(&mut self, sequence: u64, change: &Change) -> Result<(), StoreError> {
        self.settle()?;
        if self.is_recovering && self.past.upto == 0 {
            // What a replica has is noted at each change, so none follows before all it has was in the stream again.
            return Err(restored(&self.connection, self.folder.path(), "has more than the stream"));
        }
        self.state.change(sequence, change);
        self.parts.retain(|epoch, _| self.state.members.contains_key(epoch));
        self.checkpoint()?;
        let holder = match &change.kind {
            ChangeKind::TakeOver { holder } | ChangeKind::Join { holder, .. } => holder.clone(),
            ChangeKind::Leave { .. } | ChangeKind::Give { .. } => "a process that took its threads over".into(),
        };
        let own = self.state.epoch_of(&self.opening);
        self.outbox.send(Event::Changed { own, holder });
        let members = Members::of(&self.state);
        let share = Share::of(&members, own);
        self.members.send_replace(members);
        self.share.send_if_modified(|before| std::mem::replace(before, share) != share);
        Ok(())
    }

    /// A message that was taken in before the replica was opened: its operation may not have been whole then.
    fn read_again(&mut self, sequence: u64, subject: &str, payload: &[u8]) {
        let Some(subject) = Subject::parse(subject, &self.connection.name) else { return };
        if matches!(subject, Subject::TakeOver | Subject::Summary) {
            return;
        }
        let Ok(Message { epoch, number, own, section, body, .. }) = Message::decode(payload) else { return };
        let Some(member) = self.state.members.get(&epoch) else { return };
        let Some((_, begun)) = member.begun.filter(|(begun, _)| *begun <= sequence) else { return };
        let parts = self.parts.entry(epoch).or_insert_with(|| Parts { next: begun, ..Parts::default() });
        // It may be there twice: the first one counted.
        if number != parts.next || number > member.number {
            return;
        }
        parts.next += 1;
        match subject {
            Subject::Thread(thread) if self.past.is_erased(thread, sequence) => drop(self.leftovers.insert(thread)),
            _ => parts.push(own, section, body),
        }
    }

    fn operation(&mut self, sequence: u64, subject: Subject, message: Message) -> Result<(), StoreError> {
        let thread = match subject {
            Subject::Thread(thread) => Some(thread),
            _ => None,
        };
        let Message { epoch, number, seen, own, more, section, body } = message;
        let counted = Counted { sequence, epoch, number, seen };
        let verdict = self.state.verdict(&self.past, sequence, thread, epoch, number);
        if verdict == Verdict::Ignored {
            self.state.ignore(sequence);
            let is_gap = self.state.members.get(&epoch).is_some_and(|member| number > member.number);
            if is_gap {
                self.outbox.send(Event::Lost { epoch });
            }
            return Ok(());
        }
        if verdict == Verdict::Refused {
            self.parts.remove(&epoch);
            self.state.count(counted, false);
            self.state.refuse(counted, thread);
            return Ok(());
        }
        let parts = self.parts.entry(epoch).or_default();
        if verdict == Verdict::Erased {
            self.leftovers.extend(thread);
        } else {
            parts.push(own, section, body);
        }
        let bytes = parts.bytes;
        if more {
            self.state.count(counted, true);
            return match bytes <= OPERATION_BYTES_MAX {
                true => Ok(()),
                false => Err(self.damaged(format!("the operation that ends after message {sequence} is too large"))),
            };
        }
        let Parts { sections, own, .. } = self.parts.remove(&epoch).unwrap_or_default();
        if sections.is_empty() {
            // All of it is erased.
            self.state.count(counted, false);
            return Ok(());
        }
        let cause = self.cause(thread, own)?;
        let op = decode(&sections, cause)
            .map_err(|_| self.damaged(format!("message {sequence} of the stream cannot be read by this version")))?;
        if matches!(op, Op::Append { .. }) {
            self.state.count(counted, false);
            return self.append(counted, op, bytes);
        }
        // After a crash, this operation and nothing else may be applied again, which changes nothing.
        self.begin()?;
        if self.is_recovering && self.past.upto == 0 && !matches!(op, Op::Import(_)) {
            return Err(self.diverged());
        }
        self.state.count(counted, false);
        let result = self.other(counted, op)?;
        if result.is_err() {
            self.state.refuse(counted, thread);
        }
        self.result(counted, result);
        self.settle()?;
        if !self.state.erasures.is_empty() {
            self.show_erasures();
        }
        self.checkpoint()
    }

    /// Notes a result for the publisher, if this process sent the operation.
    fn result(&mut self, counted: Counted, outcome: Outcome) {
        let sender = self.state.members.get(&counted.epoch);
        if sender.is_some_and(|member| member.opening == self.opening) {
            self.results.push((counted.number, outcome));
        }
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
        self.pending.is_empty() && !self.is_recovering && !self.is_past_over()
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
