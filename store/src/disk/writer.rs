//! The one thread that writes: takes everything that waits, checks it, makes it durable with one write and one
//! sync, shows it to readers and answers.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use parking_lot::Mutex;
use rethread_events::ids::{Hash, Position, Seq, ThreadId};
use tokio::sync::watch;

use super::answer::Answerer;
use super::files::failed;
use super::frame::{Stamp, write_append, write_blob, write_delete, write_value};
use super::journal::{FILE_BYTES_MAX, Journal};
use super::mark::Mark;
use super::queue::{Answer, Op, Queue, Waiting};
use super::read::Reader;
use super::sealer::{Sealer, Task};
use super::tail::Segment;
use crate::contract::{Appended, ForkPoint};
use crate::error::StoreError;
use crate::follow::Progress;
use crate::head::Head;
use crate::plan::{self, Addition, Recent};
use crate::record::Record;

/// How much one group takes at most: bounds how long those at its front wait for those at its end.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// How many heads are remembered of streams that are in sled.
const COLD_HEADS_MAX: usize = 16 << 10;

/// How often an idle writer looks whether there is something to tidy up.
const IDLE: Duration = Duration::from_millis(500);

pub(crate) struct Writer {
    pub(crate) queue: Arc<Queue>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) journal: Journal,
    pub(crate) mark: Arc<Mutex<Mark>>,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) tasks: Sender<Task>,
    pub(crate) progress: Arc<watch::Sender<Progress>>,
    pub(crate) next: Position,
    tail_bytes: usize,
    heads: HashMap<ThreadId, Known>,
    /// Streams of which an append failed, and the ticket before which all that was queued behind it fails too.
    fenced: HashMap<ThreadId, u64>,
    /// Set when a sync failed: what is on the disk is not known any more.
    broken: Option<StoreError>,
    buffer: Vec<u8>,
    answerer: Answerer,
}

/// A head as the writer remembers it; `None` is a stream that is not there.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    head: Option<Head>,
    recent: Recent,
    /// The life of the journal in which it was last changed: until that is in sled, it must be remembered.
    epoch: u64,
    /// The group that last changed it, which holds what it was before.
    group: u64,
}

/// What a group will change once it is durable.
enum Change {
    Append { thread: ThreadId, before: Hash, head: Head, n: usize, first: Position },
    Blob { owner: Option<ThreadId>, hash: Hash, bytes: Option<Arc<[u8]>> },
    Value { name: String, value: Option<Vec<u8>> },
    Delete { thread: ThreadId },
}

/// A group on its way.
#[derive(Default)]
struct Group {
    /// With who waits for them; of several that belong together only the last has somebody.
    changes: Vec<(Change, Option<Answer>)>,
    /// The records of all its appends, in order.
    records: Vec<Record>,
    /// What was remembered of the heads it changes, to be put back when it fails.
    undo: Vec<(ThreadId, Known)>,
    next: Position,
}

impl Writer {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        queue: Arc<Queue>,
        reader: Arc<Reader>,
        journal: Journal,
        mark: Arc<Mutex<Mark>>,
        sealer: Arc<Sealer>,
        tasks: Sender<Task>,
        progress: Arc<watch::Sender<Progress>>,
        next: Position,
        tail_bytes: usize,
    ) -> Self {
        Self {
            queue,
            reader,
            journal,
            mark,
            sealer,
            tasks,
            progress,
            next,
            tail_bytes,
            heads: HashMap::new(),
            fenced: HashMap::new(),
            broken: None,
            buffer: Vec::new(),
            answerer: Answerer::default(),
        }
    }

    /// Works until the queue is closed and empty; gives back the journal.
    pub(crate) fn run(mut self) -> Journal {
        let mut waiting = VecDeque::new();
        while self.queue.take(&mut waiting, GROUP_BYTES_MAX, IDLE) {
            if waiting.is_empty() {
                self.tidy();
                continue;
            }
            let bytes = waiting.iter().map(|waiting| waiting.bytes).sum();
            self.write(waiting.drain(..));
            self.queue.release(bytes);
            self.seal_when_due();
        }
        self.answerer.finish();
        self.journal
    }

    fn write(&mut self, waiting: impl Iterator<Item = Waiting>) {
        self.make_room();
        let mut out = std::mem::take(&mut self.buffer);
        let (mut stamp, mut group) = self.begin(&mut out);
        for Waiting { op, ticket, answer, .. } in waiting {
            if let Some(error) = &self.broken {
                self.queue.fail(&op, answer, error.clone());
                continue;
            }
            // What depends on more than the heads waits until everything before it can be read.
            if needs_all_before(&op) && !group.changes.is_empty() {
                self.commit(std::mem::take(&mut group), &mut out);
                (stamp, group) = self.begin(&mut out);
            }
            let thread = thread_of(&op);
            match self.plan(op, ticket, &stamp, &mut group, &mut out) {
                Ok(change) => group.changes.push((change, Some(answer))),
                Err(error) => {
                    self.fail(thread, answer, error);
                }
            }
        }
        if !group.changes.is_empty() {
            self.commit(group, &mut out);
        }
        out.clear();
        // One large append must not keep its memory for ever.
        out.shrink_to(GROUP_BYTES_MAX);
        self.buffer = out;
        if self.fenced.len() > COLD_HEADS_MAX {
            let next = self.queue.next_ticket();
            self.fenced.retain(|_, until| *until > next);
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) -> (Stamp, Group) {
        out.clear();
        let stamp = self.journal.begin_group(self.next, out);
        (stamp, Group { next: self.next, ..Group::default() })
    }

    /// Answers that something failed. What is queued behind an append was decided without knowing that, so it
    /// fails too; what comes later meets the fence until the failure was seen.
    fn fail(&mut self, thread: Option<ThreadId>, answer: Answer, error: StoreError) {
        // The fence first: between the two nothing can slip through.
        if let Some(thread) = thread {
            let refusal = self.queue.refuse(thread, error);
            self.fenced.insert(thread, self.queue.next_ticket());
            return answer.refused(refusal);
        }
        answer.failed(error);
    }

    fn plan(
        &mut self,
        op: Op,
        ticket: u64,
        stamp: &Stamp,
        group: &mut Group,
        out: &mut Vec<u8>,
    ) -> Result<Change, StoreError> {
        match op {
            Op::Append(addition) => {
                let thread = addition.thread;
                let head = self.head(thread)?;
                if !self.fenced.is_empty()
                    && let Some(until) = self.fenced.get(&thread)
                {
                    if ticket < *until {
                        let actual = head.map_or(Seq(0), |head| head.last_seq.next());
                        let expected = addition.expected;
                        return Err(StoreError::Conflict { thread, expected, actual });
                    }
                    self.fenced.remove(&thread);
                }
                let before = self.before(thread, addition.expected, addition.fork_of, head)?;
                Ok(self.add(&addition, before, head, stamp, group, out))
            }
            Op::Import { fork_of, tag, records } => {
                let Some(thread) = records.first().map(|record| record.thread) else {
                    return Err(plan::nothing());
                };
                let head = self.head(thread)?;
                let expected = fork_of.map_or(Seq(0), |point| point.seq.next());
                let before = self.before(thread, expected, fork_of, head)?;
                let addition = plan::import(fork_of, before, tag, records)?;
                self.import(addition, before, stamp, group, out).ok_or_else(plan::nothing)
            }
            Op::Blob { owner, hash, bytes } => {
                // A delete that is still on its way into sled may take the bytes that are there.
                let is_there = self.has_blob(hash)?;
                let bytes = (!is_there).then_some(bytes);
                write_blob(owner, hash, bytes.as_deref(), &at(stamp, group.next), out);
                Ok(Change::Blob { owner, hash, bytes })
            }
            Op::Value { name, value } => {
                write_value(&name, value.as_deref(), &at(stamp, group.next), out);
                Ok(Change::Value { name, value })
            }
            Op::Delete { thread } => {
                self.head(thread)?.ok_or_else(|| plan::no_thread(thread))?;
                let forks = self.reader.forks(thread)?;
                if !forks.is_empty() {
                    return Err(StoreError::InUse { thread, forks });
                }
                write_delete(thread, &at(stamp, group.next), out);
                let known = self.change(thread, stamp, group);
                (known.head, known.recent) = (None, Recent::default());
                Ok(Change::Delete { thread })
            }
        }
    }

    fn add(
        &mut self,
        addition: &Addition,
        before: Hash,
        head: Option<Head>,
        stamp: &Stamp,
        group: &mut Group,
        out: &mut Vec<u8>,
    ) -> Change {
        let (thread, first, n) = (addition.thread, group.next, addition.items.len());
        let n_before = group.records.len();
        let known = self.change(thread, stamp, group);
        let next = addition.place(head.as_ref(), before, &known.recent, first, |record| group.records.push(record));
        known.head = Some(next);
        known.recent.push(addition.expected, first);
        let cause = group.records[n_before].cause;
        write_append(addition, &Stamp { before, trace: next.trace, cause, ..at(stamp, first) }, out);
        group.next = next.last_position.next();
        Change::Append { thread, before, head: next, n, first }
    }

    /// An import is written in one group and in several frames, because it may be larger than one may be.
    fn import(
        &mut self,
        addition: Addition,
        before: Hash,
        stamp: &Stamp,
        group: &mut Group,
        out: &mut Vec<u8>,
    ) -> Option<Change> {
        let begin = group.next;
        let (mut before, mut head, mut last) = (before, None, None);
        for part in addition.split(begin, GROUP_BYTES_MAX) {
            let change = self.add(&part, before, head, stamp, group, out);
            if let Change::Append { head: next, .. } = &change {
                (before, head) = (next.hash, Some(*next));
            }
            group.changes.extend(last.replace(change).map(|earlier| (earlier, None)));
        }
        if let Some(Change::Append { first, .. }) = &mut last {
            *first = begin;
        }
        last
    }

    fn before(
        &mut self,
        thread: ThreadId,
        expected: Seq,
        fork_of: Option<ForkPoint>,
        head: Option<Head>,
    ) -> Result<Hash, StoreError> {
        plan::check(thread, expected, fork_of, head.as_ref())?;
        match (head, fork_of) {
            (Some(head), _) => Ok(head.hash),
            (None, None) => Ok(Hash::ZERO),
            (None, Some(point)) => {
                let parent = self.head(point.parent)?;
                plan::check_fork(point, parent.as_ref())?;
                match parent {
                    Some(parent) if parent.last_seq == point.seq => Ok(parent.hash),
                    _ => self.reader.hash_at(point),
                }
            }
        }
    }

    fn has_blob(&self, hash: Hash) -> Result<bool, StoreError> {
        let state = self.reader.tail.state.read();
        if state.active.blobs.get(&hash).is_some_and(|blob| blob.bytes.is_some()) {
            return Ok(true);
        }
        if state.has_deletes() {
            return Ok(false);
        }
        drop(state);
        self.reader.has_blob(hash)
    }

    fn head(&mut self, thread: ThreadId) -> Result<Option<Head>, StoreError> {
        if let Some(known) = self.heads.get(&thread) {
            return Ok(known.head);
        }
        let head = self.reader.find_head(thread)?;
        self.heads
            .insert(thread, Known { head, recent: Recent::default(), epoch: self.sealer.sealed_epoch(), group: 0 });
        Ok(head)
    }

    /// What is remembered of a stream, to be changed by a group.
    fn change(&mut self, thread: ThreadId, stamp: &Stamp, group: &mut Group) -> &mut Known {
        let known = self.heads.entry(thread).or_default();
        if known.group != stamp.group {
            group.undo.push((thread, *known));
            (known.group, known.epoch) = (stamp.group, stamp.epoch);
        }
        known
    }

    fn commit(&mut self, group: Group, out: &mut Vec<u8>) {
        match self.journal.commit(out) {
            Ok(()) => self.publish(group),
            Err(source) => self.give_up(group, source),
        }
    }

    fn give_up(&mut self, group: Group, source: std::io::Error) {
        let error = failed(self.journal.path(), source);
        if !matches!(error, StoreError::Full { .. }) {
            self.broken = Some(error.clone());
        }
        for (thread, known) in group.undo {
            self.heads.insert(thread, known);
        }
        for (change, answer) in group.changes {
            let thread = match change {
                Change::Append { thread, .. } => Some(thread),
                Change::Blob { .. } | Change::Value { .. } | Change::Delete { .. } => None,
            };
            if let Some(answer) = answer {
                self.fail(thread, answer, error.clone());
            }
        }
    }

    /// Shows a durable group to readers, then answers.
    fn publish(&mut self, group: Group) {
        let n_records = (group.next.0 - self.next.0) as u32;
        let mut answers = Vec::with_capacity(group.changes.len());
        {
            let mut state = self.reader.tail.state.write();
            let active = &mut state.active;
            let mut records = group.records.into_iter();
            for (change, answer) in group.changes {
                let mut appended = None;
                match change {
                    Change::Append { thread, before, head, n, first } => {
                        appended = Some(Appended {
                            first_position: first,
                            last_position: head.last_position,
                            last_seq: head.last_seq,
                            hash: head.hash,
                            group: n_records,
                        });
                        active.append(thread, before, head, records.by_ref().take(n));
                    }
                    Change::Blob { owner, hash, bytes } => active.blob(owner, hash, bytes),
                    Change::Value { name, value } => active.value(name, value),
                    Change::Delete { thread } => {
                        active.delete(thread);
                        self.sealer.forget_snapshot(thread);
                    }
                }
                answers.extend(answer.map(|answer| (answer, appended)));
            }
        }
        self.next = group.next;
        if n_records > 0 {
            let next = self.next;
            self.progress.send_modify(|progress| progress.next = next);
        }
        self.answerer.answer(answers);
        // The sealer may hold it for the time of a sync: then the next group notes it.
        if let Some(mut mark) = self.mark.try_lock()
            && let Err(error) = mark.note(self.journal.written_group(), self.next)
        {
            tracing::warn!(%error, "the mark was not written");
        }
    }

    fn seal_when_due(&mut self) {
        if self.reader.tail.state.read().active.bytes >= self.tail_bytes {
            self.begin_seal();
        }
    }

    /// Hands the tail to the sealer, when that has nothing to do.
    fn begin_seal(&mut self) {
        let Some(task) = hand_over(&self.reader, &mut self.journal) else { return };
        self.sealer.give(&self.tasks, task);
        if self.heads.len() > COLD_HEADS_MAX {
            let sealed = self.sealer.sealed_epoch();
            self.heads.retain(|_, known| known.epoch > sealed);
        }
    }

    /// Waits for the sealer when the journal is as large as it may get.
    fn make_room(&mut self) {
        while self.broken.is_none() && self.journal.active_bytes() > FILE_BYTES_MAX {
            self.begin_seal();
            if self.journal.active_bytes() <= FILE_BYTES_MAX {
                return;
            }
            self.sealer.wait_until_idle();
            self.broken = self.sealer.failure();
        }
    }

    /// After a while without anything to write.
    fn tidy(&mut self) {
        self.fenced.clear();
        self.journal.tidy(self.reader.tail.state.read().sealing.is_none());
        if self.sealer.snapshots_due() {
            let task = hand_over(&self.reader, &mut self.journal).unwrap_or(Task::Snapshots);
            self.sealer.give(&self.tasks, task);
        }
    }
}

/// Takes what the tail holds away from the writer, for the sealer; `None` while that is busy, or when there is
/// nothing to be moved.
pub(crate) fn hand_over(reader: &Reader, journal: &mut Journal) -> Option<Task> {
    let mut state = reader.tail.state.write();
    if state.sealing.is_some() || state.active.n_entries == 0 {
        return None;
    }
    let next = state.active.next_position();
    state.active.group = journal.written_group();
    journal.switch();
    let fresh = Segment::new(journal.epoch(), next);
    let full = Arc::new(std::mem::replace(&mut state.active, fresh));
    state.sealing = Some(Arc::clone(&full));
    Some(Task::Seal(full))
}

fn at(stamp: &Stamp, position: Position) -> Stamp {
    Stamp { position, ..*stamp }
}

fn thread_of(op: &Op) -> Option<ThreadId> {
    match op {
        Op::Append(addition) => Some(addition.thread),
        Op::Import { .. } | Op::Blob { .. } | Op::Value { .. } | Op::Delete { .. } => None,
    }
}

fn needs_all_before(op: &Op) -> bool {
    match op {
        Op::Append(addition) => addition.fork_of.is_some(),
        Op::Import { .. } | Op::Blob { .. } | Op::Delete { .. } => true,
        Op::Value { .. } => false,
    }
}
