//! What the actor of a thread knows.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use actix::{Context, SpawnHandle};
use futures_util::future::{BoxFuture, Shared};
use rethread_events::ids::{CallId, Hash, Position, Seq, Time};
use rethread_events::thread::{Input, Thread};

use super::ThreadActor;
use super::messages::{Begin, Tell};
use super::pending_inputs::{Kept, Said};
use crate::branch_states::Watch;
use crate::clock;
use crate::error::ReadError;
use crate::inputs::bytes_of;
use crate::permit_waits::RunningCalls;
use crate::port::Reply;
use crate::snapshot_writer::SnapshotWriter;
use crate::snapshots;
use crate::stream_keys;
use crate::tool_asks::Asking;

/// What the actor of a thread does now.
pub(super) enum Phase {
    /// To be begun when the actor starts.
    Beginning(Box<Begin>),
    /// To be folded from the log: when the actor starts, or when the log has room again. Messages wait while it is
    /// folded.
    Away(Box<Kept>),
    Live(Box<Live>),
    /// Its machine takes a step on a blocking thread. The actor handles nothing meanwhile.
    Elsewhere(Box<Elsewhere>),
    /// Stopping: messages go to its successor.
    Gone,
}

pub(super) struct Live {
    pub(super) thread: Thread,
    /// The seq after the last durable event.
    pub(super) durable: Seq,
    pub(super) last_position: Position,
    pub(super) last_hash: Hash,
    /// Positions of the open calls' requests, as causes of what they lead to.
    pub(super) positions: HashMap<CallId, Position>,
    /// Appends under way, in order.
    pub(super) under_way: VecDeque<UnderWay>,
    /// The first append that was refused, while the answers to those before it are on their way.
    pub(super) refused: Option<(Seq, ReadError)>,
    /// What was begun; dropping an entry calls the work off.
    pub(super) running: RunningCalls,
    /// Tools that run and wait for answers of people.
    pub(super) asking: Asking,
    /// Its branches that were seen to run; they go on without this actor.
    pub(super) branches: Option<Watch>,
    /// What branches have not recorded yet of what durable events mean for them.
    pub(super) follow: Option<BranchesFollow>,
    /// When something is next to happen by itself.
    pub(super) next_due: Option<Time>,
    /// The timer for that; rings at that time or before.
    pub(super) alarm: Option<(Time, SpawnHandle)>,
    /// Its keys in the log, after the appends under way.
    pub(super) keys: Vec<Vec<u8>>,
    /// The seq of its own last snapshot; without one, of where it forked off, or began.
    pub(super) snapshot: Seq,
    pub(super) idle: Option<SpawnHandle>,
    pub(super) progress: Progress,
    /// Whether a [`NextStep`](super::messages::NextStep) is in the mailbox.
    pub(super) step_is_asked_for: bool,
    /// Whether its pause at a limit of tokens is in the mailbox.
    pub(super) pause_is_asked_for: bool,
    /// The bytes of all that was read and appended to come to its state, an upper bound of what a step reads of it.
    pub(super) bytes: usize,
}

/// What a live thread has appended since its actor started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Its first events, which are not durable yet: the log does not have the thread.
    Begins,
    /// Nothing. One that came back, and has nothing to do, need not stay.
    CameBack,
    /// Events, after those that the log had.
    GoesOn,
}

/// Completes when branches have recorded what events of their parent mean for them.
pub(super) type BranchesFollow = Shared<BoxFuture<'static, ()>>;

/// A thread whose machine is elsewhere.
pub(super) struct Elsewhere {
    /// With a machine without a state in the place of its own.
    pub(super) live: Box<Live>,
    /// The inputs of the next steps.
    pub(super) next: VecDeque<Tell>,
    /// What came back meanwhile, see [`ThreadActor::when_here`].
    pub(super) postponed: Vec<Postponed>,
}

/// What runs when the machine is back.
pub(super) type Postponed = Box<dyn FnOnce(&mut ThreadActor, &mut Context<ThreadActor>) + Send>;

/// The most bytes that a step on the event loop may read.
pub(super) const STEP_READS_MAX: usize = 64 << 10;

/// An append whose answer has not come yet.
pub(super) struct UnderWay {
    /// The seq of its first event.
    pub(super) first: Seq,
    /// The seq after its last event.
    pub(super) end: Seq,
    /// Whom to tell: who asked for it.
    pub(super) replies: Vec<Reply>,
    /// Those who asked later and changed nothing: they wait for what they found.
    pub(super) later: Vec<Reply>,
    /// What led to it, if the thread's own work said it.
    pub(super) said: Option<Said>,
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
            progress: Progress::CameBack,
            step_is_asked_for: false,
            pause_is_asked_for: false,
            bytes: 0,
        }
    }

    /// Whether the log has the request of a call. What a fork inherits is not the fork's before its first append is
    /// there, even if its parent's log has it.
    pub(super) fn has_in_log(&self, call: CallId) -> bool {
        self.progress != Progress::Begins && call.0 < self.durable
    }

    /// The time for this thread: never before that of its last event.
    pub(super) fn now(&self) -> Time {
        self.thread.state().time_at(clock::now())
    }

    /// Returns whether a step may take long: it evaluates expressions that are not cheap, or reads much.
    pub(super) fn takes_long(&self) -> bool {
        let replaced = &self.thread.state().changes().prompts;
        !self.thread.workflow().is_cheap() || !replaced.is_empty() || self.bytes > STEP_READS_MAX
    }

    /// As [`Live::takes_long`], for the step that this input leads to.
    pub(super) fn takes_long_with(&self, input: &Input) -> bool {
        self.takes_long() || self.bytes + bytes_of(input) > STEP_READS_MAX
    }

    /// Stores a snapshot of what is durable; a state with events in flight is not.
    pub(super) fn keep_snapshot(&mut self, writer: &Arc<SnapshotWriter>) {
        let state = self.thread.state();
        if let Some(seq) = state.last_seq().filter(|_| self.durable == state.next_seq()) {
            writer.keep(state.clone(), seq, self.last_hash, self.snapshot);
            self.snapshot = seq;
        }
    }

    /// Removes its snapshots, except those that historical reads need.
    pub(super) fn give_snapshots_back(&self, writer: &Arc<SnapshotWriter>) {
        let state = self.thread.state();
        if let Some(end) = state.last_seq().filter(|end| end.0 >= snapshots::EVENTS_MIN) {
            writer.give_back(state, end);
        }
    }
}
