//! The one thread that writes: takes everything that waits, checks it, makes it durable with one write and one
//! sync, shows it to readers and answers.

mod change;
mod commit;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use parking_lot::Mutex;
use rethread_events::ids::{Hash, Position, ThreadId};
use tokio::sync::watch;

use super::answer::Answerer;
use super::frame::Stamp;
use super::journal::{FILE_BYTES_MAX, Journal};
use super::mark::Mark;
use super::queue::{Answer, Op, Queue, Waiting};
use super::read::Reader;
use super::sealer::{Sealer, Task};
use super::tail::Segment;
use crate::error::StoreError;
use crate::follow::Progress;
use crate::head::Head;
use crate::plan::Recent;
use crate::record::Record;
use change::needs_all_before;

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

fn thread_of(op: &Op) -> Option<ThreadId> {
    match op {
        Op::Append(addition) => Some(addition.thread),
        Op::Import { .. } | Op::Blob { .. } | Op::Value { .. } | Op::Delete { .. } => None,
    }
}
