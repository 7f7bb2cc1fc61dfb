//! The thread that decides what is written: takes waiting entries, checks them, assigns their positions and encodes
//! them. While one group is being made durable, the next one is built on top of it; when the first fails, both are
//! rolled back.

mod change;
mod commit;
mod in_flight;
mod keys;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use rethread_events::ids::{Hash, Position, ThreadId};

pub(crate) use commit::Committer;

use super::frame::Stamp;
use super::journal::{Cursor, FILE_BYTES_MAX, Journal};
use super::queue::{Answer, Op, Queue, Waiting};
use super::read::Reader;
use super::sealer::{Sealer, Task};
use super::tail::Segment;
use crate::error::StoreError;
use crate::head::Head;
use crate::keys::KeyChange;
use crate::plan::Recent;
use crate::record::Record;
use in_flight::{CommitResult, InFlightCommit};
use keys::KnownKeys;

/// How much one group takes at most: bounds how long those at its front wait for those at its end.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// How many heads are remembered of streams that are in sled.
const COLD_HEADS_MAX: usize = 16 << 10;

/// The interval at which an idle writer checks for upkeep.
const IDLE: Duration = Duration::from_millis(500);

pub(crate) struct Writer {
    queue: Arc<Queue>,
    reader: Arc<Reader>,
    sealer: Arc<Sealer>,
    tasks: Sender<Task>,
    flight: InFlightCommit,
    cursor: Cursor,
    /// The position of the next record, after the group in flight.
    next: Position,
    /// The last group that is known to be durable, and so can be read.
    readable_group: u64,
    tail_bytes: usize,
    /// The group that is being built.
    group: Option<Group>,
    heads: HashMap<ThreadId, Known>,
    keys: HashMap<ThreadId, KnownKeys>,
    /// Streams of which an append failed, and the ticket before which all that was queued after it fails too.
    fenced: HashMap<ThreadId, u64>,
    /// Set when a sync failed: what is on the disk is not known any more.
    broken: Option<StoreError>,
    /// Whether the folder of the log was not at its path at the last check.
    is_moved: bool,
    /// A buffer that is not in use.
    spare: Vec<u8>,
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

/// A change that a group makes once it is durable.
enum Change {
    Append { thread: ThreadId, before: Hash, head: Head, n: usize, first: Position, keys: Vec<KeyChange> },
    Blob { owner: Option<ThreadId>, hash: Hash, bytes: Option<Arc<[u8]>> },
    Value { name: String, value: Option<Vec<u8>> },
    Delete { threads: Vec<ThreadId> },
    Release { hashes: Vec<Hash> },
}

/// Entries that become durable together.
struct Group {
    stamp: Stamp,
    /// The frames.
    out: Vec<u8>,
    /// Changes with their answers; of several that belong together only the last has one.
    changes: Vec<(Change, Option<Answer>)>,
    /// The records of all its appends, in order.
    records: Vec<Record>,
    /// The previous heads of changed streams, to be restored if it fails.
    undo: Vec<(ThreadId, Known)>,
    /// The previous keys of changed streams.
    undo_keys: Vec<(ThreadId, Option<KnownKeys>)>,
    next: Position,
    /// Its bytes of the queue's limit.
    bytes: usize,
}

impl Writer {
    pub(crate) fn new(committer: Committer, tasks: Sender<Task>, tail_bytes: usize) -> Self {
        Self {
            queue: Arc::clone(&committer.queue),
            reader: Arc::clone(&committer.reader),
            sealer: Arc::clone(&committer.sealer),
            tasks,
            cursor: committer.journal.cursor(),
            next: committer.next,
            readable_group: committer.journal.written_group(),
            flight: InFlightCommit::new(committer),
            tail_bytes,
            group: None,
            heads: HashMap::new(),
            keys: HashMap::new(),
            fenced: HashMap::new(),
            broken: None,
            is_moved: false,
            spare: Vec::new(),
        }
    }

    /// Runs until the queue is closed and empty. Returns the journal.
    pub(crate) fn run(mut self) -> Result<Journal, StoreError> {
        let mut waiting = VecDeque::new();
        loop {
            let room = GROUP_BYTES_MAX - self.group_bytes().min(GROUP_BYTES_MAX - 1);
            // While a group is in flight, taking appends at once gains nothing, and waking for each costs much.
            let is_open = self.queue.take(&mut waiting, room, self.flight.is_in_flight(), IDLE);
            let is_idle = waiting.is_empty() && !self.flight.is_in_flight();
            for next in waiting.drain(..) {
                self.gather(next);
            }
            self.advance();
            if !is_open && self.group.is_none() && !self.flight.is_in_flight() {
                break;
            }
            if is_idle {
                self.tidy();
            }
        }
        self.flight.end()
    }

    /// Adds one operation to the group.
    fn gather(&mut self, Waiting { op, ticket, answer, bytes }: Waiting) {
        if self.broken.is_none() && self.needs_all_before(&op) {
            self.settle();
        }
        if self.cursor.bytes() > FILE_BYTES_MAX {
            self.make_room();
        }
        if let Some(error) = &self.broken {
            self.queue.release(bytes);
            return self.queue.fail(&op, answer, error.clone());
        }
        let mut group = self.group.take().unwrap_or_else(|| self.begin());
        let thread = thread_of(&op);
        match self.plan(op, ticket, &mut group) {
            Ok(Some(change)) => {
                group.changes.push((change, Some(answer)));
                group.bytes += bytes;
            }
            Ok(None) => {
                self.queue.release(bytes);
                answer.done(None);
            }
            Err(error) => {
                self.queue.release(bytes);
                self.fail(thread, answer, error);
            }
        }
        self.group = Some(group);
    }

    fn begin(&mut self) -> Group {
        let mut out = std::mem::take(&mut self.spare);
        out.clear();
        let stamp = self.cursor.begin_group(self.next, &mut out);
        Group {
            stamp,
            out,
            changes: Vec::new(),
            records: Vec::new(),
            undo: Vec::new(),
            undo_keys: Vec::new(),
            next: self.next,
            bytes: 0,
        }
    }

    fn group_bytes(&self) -> usize {
        self.group.as_ref().map_or(0, |group| group.bytes)
    }

    /// Sends the group off when nothing is on its way; a full one waits for that.
    fn advance(&mut self) {
        if let Some(result) = self.flight.try_result() {
            self.handle_result(result);
        }
        if self.group_bytes() >= GROUP_BYTES_MAX {
            self.wait();
        }
        if self.is_seal_due() {
            self.settle();
            self.begin_seal();
        }
        if !self.flight.is_in_flight() {
            self.submit();
        }
        if !self.flight.is_in_flight() && self.is_seal_due() {
            self.begin_seal();
        }
        if self.sealer.snapshots_due() {
            self.sealer.give(&self.tasks, Task::Snapshots);
        }
        if self.fenced.len() > COLD_HEADS_MAX {
            let next = self.queue.next_ticket();
            self.fenced.retain(|_, until| *until > next);
        }
    }

    /// Has the group written. A small one here and now, which is quicker for those who wait for it.
    fn submit(&mut self) {
        let Some(group) = self.group.take() else { return };
        if group.changes.is_empty() {
            self.recycle(group.out);
            return;
        }
        self.cursor.end_group(group.out.len());
        self.next = group.next;
        if let Some(result) = self.flight.submit(group) {
            self.handle_result(result);
        }
    }

    /// Waits for the group that is on its way.
    fn wait(&mut self) {
        if let Some(result) = self.flight.wait() {
            self.handle_result(result);
        }
    }

    /// Everything that was taken so far is durable and can be read, or has failed, when it returns.
    fn settle(&mut self) {
        self.wait();
        self.submit();
        self.wait();
    }

    fn handle_result(&mut self, result: CommitResult) {
        match result {
            CommitResult::Durable { group, buffer } => {
                self.readable_group = group;
                self.recycle(buffer);
            }
            CommitResult::Failed(group, error) => self.roll_back(*group, &error),
            CommitResult::Lost => self.broken = Some(super::stopped("journal")),
        }
    }

    fn recycle(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        // One large append must not keep its memory for ever.
        buffer.shrink_to(GROUP_BYTES_MAX);
        self.spare = buffer;
    }

    /// Rolls back a group that could not be written, and the group that was built on top of it.
    fn roll_back(&mut self, failed: Group, error: &StoreError) {
        if !error.is_temporary() {
            self.broken = Some(error.clone());
        }
        if let Some(committer) = self.flight.committer() {
            self.cursor.follow(&committer.journal);
            self.next = committer.next;
        }
        let later = self.group.take();
        // The later one first: its remembered heads follow from those of the failed one.
        for group in later.iter().chain([&failed]) {
            for (thread, known) in &group.undo {
                self.heads.insert(*thread, *known);
            }
            self.restore_keys(group);
        }
        for group in [failed].into_iter().chain(later) {
            self.queue.release(group.bytes);
            for (change, answer) in group.changes {
                let thread = match change {
                    Change::Append { thread, .. } => Some(thread),
                    Change::Blob { .. } | Change::Value { .. } | Change::Delete { .. } | Change::Release { .. } => None,
                };
                if let Some(answer) = answer {
                    self.fail(thread, answer, error.clone());
                }
            }
        }
    }

    /// Answers with a failure. What is queued after an append was decided without knowing that, so it
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

    fn is_seal_due(&self) -> bool {
        let state = self.reader.tail.state.read();
        let is_enough = state.active.bytes >= self.tail_bytes
            || state.active.n_entries > 0 && self.sealer.is_wanted(state.active.epoch);
        is_enough && state.sealing.is_none()
    }

    /// Passes the tail to the sealer, if the sealer is idle. No group may be in flight or partly built: later records
    /// go into the other file. Returns false if a full disk does not even accept the end of this file.
    fn begin_seal(&mut self) -> bool {
        let Some(committer) = self.flight.committer() else { return true };
        let task = hand_over(&self.reader, &mut committer.journal);
        self.cursor.follow(&committer.journal);
        let task = match task {
            Ok(Some(task)) => task,
            Ok(None) => return true,
            Err(StoreError::Full { .. }) => return false,
            Err(error) => {
                self.broken = Some(error);
                return true;
            }
        };
        self.sealer.give(&self.tasks, task);
        let sealed = self.sealer.sealed_epoch();
        self.keys.retain(|_, known| known.epoch > sealed);
        if self.heads.len() > COLD_HEADS_MAX {
            self.heads.retain(|_, known| known.epoch > sealed);
        }
        true
    }

    /// Waits for the sealer, because the journal is as large as it may get.
    fn make_room(&mut self) {
        self.settle();
        while self.broken.is_none() && self.cursor.bytes() > FILE_BYTES_MAX {
            // A disk that is so full accepts no group either, and the waiting callers get that error.
            if !self.begin_seal() || self.cursor.bytes() <= FILE_BYTES_MAX {
                return;
            }
            self.sealer.wait_until_idle();
            self.broken = self.sealer.failure();
        }
    }

    /// Truncates what earlier uses left in the journal. No group may be in flight.
    fn scrub(&mut self) -> Result<(), StoreError> {
        self.sealer.wait_until_idle();
        if let Some(failure) = self.sealer.failure() {
            return Err(failure);
        }
        match self.flight.committer() {
            Some(committer) => committer.journal.scrub(),
            None => Err(super::stopped("journal")),
        }
    }

    /// Logs once that the folder was moved, and once that it is back.
    fn watch_folder(&mut self) {
        let found = self.reader.packs.files().check_in_place();
        if self.is_moved != found.is_err() {
            self.is_moved = found.is_err();
            match found {
                Ok(()) => tracing::warn!("the folder of the log is back: writes resume"),
                Err(error) => tracing::error!(%error, "the log refuses writes"),
            }
        }
    }

    /// After a while without anything to write.
    fn tidy(&mut self) {
        self.fenced.clear();
        self.watch_folder();
        let Some(committer) = self.flight.committer() else { return };
        committer.journal.tidy(self.reader.tail.state.read().sealing.is_none());
    }
}

/// Moves the tail from the writer to the sealer; `None` while that is busy, or if there is nothing to move.
pub(crate) fn hand_over(reader: &Reader, journal: &mut Journal) -> Result<Option<Task>, StoreError> {
    let mut state = reader.tail.state.write();
    if state.sealing.is_some() || state.active.n_entries == 0 {
        return Ok(None);
    }
    let next = state.active.next_position();
    journal.switch(next)?;
    state.active.group = journal.written_group();
    let fresh = Segment::new(journal.epoch(), next);
    let full = Arc::new(std::mem::replace(&mut state.active, fresh));
    state.sealing = Some(Arc::clone(&full));
    Ok(Some(Task::Seal(full)))
}

fn thread_of(op: &Op) -> Option<ThreadId> {
    match op {
        Op::Append { addition, .. } => Some(addition.thread),
        Op::Import(_) | Op::Blob { .. } | Op::Value { .. } | Op::Delete { .. } | Op::Release { .. } | Op::Scrub => None,
        #[cfg(feature = "jetstream")]
        Op::Skip { .. } => None,
    }
}
