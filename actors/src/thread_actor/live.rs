//! The data of the actor of a thread.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use actix::{Context, SpawnHandle};
use futures_util::future::{BoxFuture, Shared};
use rethread_events::ids::{CallId, Hash, Position, Seq, Time};
use rethread_events::thread::{Input, Thread, Totals};

use super::ThreadActor;
use super::messages::{Begin, Tell};
use super::pending_inputs::{RetainedWork, WorkReport};
use crate::branch_states::Watch;
use crate::clock;
use crate::error::ReadError;
use crate::inputs::bytes_of;
use crate::permit_waits::RunningCalls;
use crate::port::Reply;
use crate::short_steps::ShortSteps;
use crate::snapshot_writer::SnapshotWriter;
use crate::snapshots;
use crate::stream_keys;
use crate::tool_asks::Asking;

/// The phase of the actor of a thread.
pub(super) enum Phase {
    /// Begins when the actor starts.
    Beginning(Box<Begin>),
    /// Is folded from the log: when the actor starts, or when the log has room again. Messages wait meanwhile.
    Unloaded(Box<RetainedWork>),
    Live(Box<Live>),
    /// Its machine takes a step on a blocking thread. The actor handles nothing meanwhile.
    Elsewhere(Box<Elsewhere>),
    /// Stopping: messages go to its successor.
    Stopping,
}

pub(super) struct Live {
    pub(super) thread: Thread,
    /// The seq after the last durable event.
    pub(super) durable: Seq,
    pub(super) last_position: Position,
    pub(super) last_hash: Hash,
    /// Positions of the open calls' requests, as causes of the events that they lead to.
    pub(super) positions: HashMap<CallId, Position>,
    /// Pending appends, in order.
    pub(super) under_way: VecDeque<PendingAppend>,
    /// The first append that was refused, until the results of earlier ones have arrived.
    pub(super) refused: Option<(Seq, ReadError)>,
    /// Running work; dropping an entry cancels it.
    pub(super) running: RunningCalls,
    /// Running tools that wait for answers of people.
    pub(super) asking: Asking,
    /// Its branches that run; they continue without this actor.
    pub(super) branches: Option<Watch>,
    /// Completes when branches have recorded what durable events mean for them.
    pub(super) follow: Option<BranchesFollow>,
    /// When the next deadline or timer is due.
    pub(super) next_due: Option<Time>,
    /// The timer for that; fires at that time or earlier.
    pub(super) alarm: Option<(Time, SpawnHandle)>,
    /// Its keys in the log, after the pending appends.
    pub(super) keys: Vec<Vec<u8>>,
    /// The seq of its own last snapshot; without one, that at which it forked off, or began.
    pub(super) snapshot: Seq,
    pub(super) idle: Option<SpawnHandle>,
    /// Until when its end waits for what its branches spent.
    pub(super) sums_until: Option<Instant>,
    pub(super) progress: Progress,
    /// Whether a [`NextStep`](super::messages::NextStep) is in the mailbox.
    pub(super) step_is_asked_for: bool,
    /// Whether the message to pause it at a limit of tokens is in the mailbox.
    pub(super) pause_is_asked_for: bool,
    /// What this branch has reported to its parent since its actor started.
    pub(super) reported: Totals,
    /// Whether its budget is spent, as far as its branches have been notified.
    pub(super) budget_is_spent: bool,
    /// The bytes of all that was read and appended for its state, an upper bound for what a step reads of it.
    pub(super) bytes: usize,
    /// How long its last steps took.
    pub(super) short_steps: ShortSteps,
}

/// What a live thread has appended since its actor started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Its first events, which are not durable yet: the log does not have the thread.
    New,
    /// Nothing. If it was loaded and has nothing to do, it is passivated.
    Reloaded,
    /// Events, after those that the log had.
    Continues,
}

/// Completes when branches have recorded what events of their parent mean for them.
pub(super) type BranchesFollow = Shared<BoxFuture<'static, ()>>;

/// A thread whose machine is on a blocking thread.
pub(super) struct Elsewhere {
    /// The data, with an empty machine in place of its own.
    pub(super) live: Box<Live>,
    /// The inputs of the next steps.
    pub(super) next: VecDeque<Tell>,
    /// Work that arrived meanwhile, see [`ThreadActor::with_machine_here`].
    pub(super) postponed: Vec<Postponed>,
}

/// What runs when the machine is back.
pub(super) type Postponed = Box<dyn FnOnce(&mut ThreadActor, &mut Context<ThreadActor>) + Send>;

/// The most bytes that a step on the event loop may read.
pub(super) const STEP_READS_MAX: usize = 64 << 10;
/// The same for a thread whose last steps were short, such as a long conversation, of which most steps read the end only.
const STEP_READS_MAX_AFTER_SHORT: usize = 16 << 20;

/// A pending append.
pub(super) struct PendingAppend {
    /// The seq of its first event.
    pub(super) first: Seq,
    /// The seq after its last event.
    pub(super) end: Seq,
    /// Replies to the callers whose inputs it records.
    pub(super) replies: Vec<Reply>,
    /// Replies to later callers whose inputs changed nothing: they wait until what they rely on is durable.
    pub(super) later: Vec<Reply>,
    /// The report that led to it, if it came from the thread's own work.
    pub(super) report: Option<WorkReport>,
}

impl Live {
    pub(super) fn new(
        thread: Thread,
        durable: Seq,
        last_position: Position,
        last_hash: Hash,
        snapshot: Option<Seq>,
    ) -> Self {
        let begins = snapshots::begins(thread.state());
        let keys = stream_keys::keys_of(thread.state(), &thread.workflow().spec().search);
        Self {
            thread,
            durable,
            last_position,
            last_hash,
            positions: HashMap::new(),
            under_way: VecDeque::new(),
            refused: None,
            running: RunningCalls::default(),
            asking: Asking::new(),
            branches: None,
            follow: None,
            keys,
            next_due: None,
            alarm: None,
            snapshot: snapshot.map_or(begins, |seq| seq.max(begins)),
            idle: None,
            sums_until: None,
            progress: Progress::Reloaded,
            step_is_asked_for: false,
            pause_is_asked_for: false,
            reported: Totals::default(),
            budget_is_spent: false,
            bytes: 0,
            short_steps: ShortSteps::default(),
        }
    }

    /// Returns whether the log has the request of a call. An inherited call belongs to the fork only after the fork's
    /// first append, even if the parent's log has it.
    pub(super) fn has_in_log(&self, call: CallId) -> bool {
        self.progress != Progress::New && call.0 < self.durable
    }

    /// Returns the time for this thread: never before that of its last event.
    pub(super) fn now(&self) -> Time {
        self.thread.state().time_at(clock::now())
    }

    /// Returns whether a step may take long: it evaluates expressions that are not cheap, or reads much.
    pub(super) fn takes_long(&self) -> bool {
        self.takes_long_reading(0)
    }

    /// As [`Live::takes_long`], for the step that this input leads to.
    pub(super) fn takes_long_with(&self, input: &Input) -> bool {
        self.takes_long_reading(bytes_of(input))
    }

    fn takes_long_reading(&self, new: usize) -> bool {
        let replaced = &self.thread.state().changes().prompts;
        let known_max = if self.short_steps.are_many() { STEP_READS_MAX_AFTER_SHORT } else { STEP_READS_MAX };
        !self.thread.workflow().is_cheap()
            || !replaced.is_empty()
            || new > STEP_READS_MAX
            || self.bytes + new > known_max
    }

    /// Writes a snapshot if all events are durable; otherwise does nothing.
    pub(super) fn keep_snapshot(&mut self, writer: &Arc<SnapshotWriter>) {
        let state = self.thread.state();
        if let Some(seq) = state.last_seq().filter(|_| self.durable == state.next_seq()) {
            writer.keep(state.clone(), seq, self.last_hash, self.snapshot);
            self.snapshot = seq;
        }
    }

    /// Removes its snapshots, except those that historical reads need.
    pub(super) fn remove_snapshots(&self, writer: &Arc<SnapshotWriter>) {
        let state = self.thread.state();
        if let Some(end) = state.last_seq().filter(|end| end.0 >= snapshots::EVENTS_MIN) {
            writer.remove_unneeded(state, end);
        }
    }
}
