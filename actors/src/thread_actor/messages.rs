//! The messages that the actor of a thread handles, beside the reports of its work.

use std::sync::Arc;
use std::time::Duration;

use actix::Message;
use rethread_events::event::ThreadStarted;
use rethread_events::ids::{CallId, Position, TraceId};
use rethread_events::json::Json;
use rethread_events::thread::{Fork, Input, State};
use rethread_events::workflow::Workflow;

use crate::memory_budget::Reservation;
use crate::port::Reply;

/// What the pause of a thread is called in its branches; the end of that pause ends only such pauses.
pub(crate) const PAUSED_WITH_PARENT: &str = "the thread whose branch this is was paused";

/// How a new thread begins.
pub(crate) struct Begin {
    pub(crate) workflow: Arc<Workflow>,
    pub(crate) origin: Origin,
    pub(crate) trace: Option<TraceId>,
    /// Whether it begins only if there is room for one more live thread. What waits in a queue leaves the memory at once.
    pub(crate) needs_room: bool,
    /// Receives the position of the first append, once it is durable.
    pub(crate) reply: Reply,
}

/// What a new thread begins from.
pub(crate) enum Origin {
    /// Nothing.
    Nothing {
        started: Box<ThreadStarted>,
        /// Whether it waits until there is room for it.
        waits: bool,
    },
    /// A moment of another thread.
    Moment {
        parent: Arc<State>,
        fork: Box<Fork>,
        /// Answers to questions that it inherits, in the same append as its beginning: all of it or nothing.
        answers: Vec<(CallId, Json)>,
    },
}

/// Gives the thread an input. The same value goes from the mailbox to the step that takes the input.
pub(crate) struct Tell {
    pub(super) input: Input,
    pub(super) reply: Option<Reply>,
    /// The event of another thread that the input follows from.
    pub(super) cause: Option<Position>,
    /// Whether the thread's own work gives it.
    pub(super) is_work: bool,
    /// Its reservation, if it waited for room in the log. A caller from outside is answered at once when there is none.
    pub(super) place: Option<Reservation>,
}

impl Message for Tell {
    type Result = ();
}

impl Tell {
    /// Another part of the runtime tells it, and waits for nothing.
    pub(crate) fn unasked(input: Input) -> Self {
        Self { input, reply: None, cause: None, is_work: false, place: None }
    }

    /// A branch tells it of its end, which is this event of the log.
    pub(crate) fn of_branch(input: Input, end: Position) -> Self {
        Self { cause: Some(end), ..Self::unasked(input) }
    }

    /// An input from outside.
    pub(crate) fn asked(input: Input, reply: Reply) -> Self {
        Self { reply: Some(reply), ..Self::unasked(input) }
    }

    /// The thread's own work reports to it.
    pub(super) fn of_work(input: Input, reply: Option<Reply>, place: Option<Reservation>) -> Self {
        Self { reply, is_work: true, place, ..Self::unasked(input) }
    }
}

/// A caller waits for the thread, perhaps since after its last report.
pub(crate) struct CheckIdle;

impl Message for CheckIdle {
    type Result = ();
}

/// A call of the thread no longer waits for a permit: its deadline is known again.
pub(super) struct PermitGranted;

impl Message for PermitGranted {
    type Result = ();
}

/// The thread has come back to find nothing to do, and leaves unless a message that waited for it says otherwise.
pub(super) struct Passivate;

impl Message for Passivate {
    type Result = ();
}

/// The thread takes its next step without an input. At most one is in the mailbox.
pub(super) struct NextStep;

impl Message for NextStep {
    type Result = ();
}

/// Halts the thread: nothing new begins; running work may end within the grace time; what is appended
/// becomes durable.
pub(crate) struct Halt {
    pub(crate) grace: Duration,
}

impl Message for Halt {
    type Result = ();
}

/// A branch of the thread has written another [`BranchState`](crate::branch_states::BranchState).
pub(crate) struct BranchChanged;

impl Message for BranchChanged {
    type Result = ();
}

/// Whether a branch is paused, and whether it is so because its parent is.
#[derive(Default)]
pub(crate) struct Pauses {
    is_paused: bool,
    with_parent: bool,
}

impl Pauses {
    pub(super) fn of(branch: &State) -> Self {
        let with_parent = branch.pause_reason() == Some(PAUSED_WITH_PARENT);
        Self { is_paused: branch.is_paused(), with_parent }
    }

    /// Whether the branch should be paused and is not, or the other way round.
    pub(crate) fn differ_from(&self, parent_is_paused: bool) -> bool {
        if parent_is_paused { !self.is_paused } else { self.with_parent }
    }
}

/// Makes the pause of a branch follow its parent's.
pub(crate) struct SyncPause {
    pub(crate) parent_is_paused: bool,
}

impl Message for SyncPause {
    type Result = ();
}

/// Replies when everything that the thread decided so far is durable, and its branches have recorded what follows for
/// them from it.
pub(crate) struct Settle(pub(crate) Reply);

impl Message for Settle {
    type Result = ();
}
