//! The messages of the actor of a thread, without the reports of its work.

use std::sync::Arc;
use std::time::Duration;

use actix::Message;
use rethread_events::ids::{CallId, Position, TraceId};
use rethread_events::json::Json;
use rethread_events::thread::{First, Fork, Input, State};
use rethread_events::workflow::Workflow;

use crate::branch_states::BranchBudget;
use crate::memory_budget::Reservation;
use crate::port::Reply;

/// The reason of a pause that a branch takes over from its parent. The resume of the parent ends only such pauses.
pub(crate) const PAUSED_WITH_PARENT: &str = "the thread whose branch this is was paused";

/// How a new thread begins.
pub(crate) struct Begin {
    pub(crate) workflow: Arc<Workflow>,
    pub(crate) origin: Origin,
    pub(crate) trace: Option<TraceId>,
    /// Whether it begins only if there is a free place for a live thread. A thread that waits in a queue leaves memory
    /// at once.
    pub(crate) needs_room: bool,
    /// Receives the position of the first append, once it is durable.
    pub(crate) reply: Reply,
}

/// The origin of a new thread.
pub(crate) enum Origin {
    /// Nothing.
    Nothing {
        first: Box<First>,
        /// Whether it waits until there is a free place.
        waits: bool,
    },
    /// A moment of another thread.
    Moment {
        parent: Arc<State>,
        fork: Box<Fork>,
        /// Answers to questions that it inherits, in the same append as its beginning: all or none.
        answers: Vec<(CallId, Json)>,
    },
}

/// Gives the thread an input. The same value moves from the mailbox to the step that takes the input.
pub(crate) struct Tell {
    pub(super) input: Input,
    pub(super) reply: Option<Reply>,
    /// The event of another thread that the input follows from.
    pub(super) cause: Option<Position>,
    /// Whether the thread's own work gives it.
    pub(super) is_work: bool,
    /// Its reservation, if it waited for room in the log. A caller from outside gets an error at once if there is no
    /// room.
    pub(super) place: Option<Reservation>,
}

impl Message for Tell {
    type Result = ();
}

impl Tell {
    /// An input from another part of the runtime, which waits for no reply.
    pub(crate) fn unasked(input: Input) -> Self {
        Self { input, reply: None, cause: None, is_work: false, place: None }
    }

    /// The end of a branch, or what it has spent. Its log has this event last.
    pub(crate) fn of_branch(input: Input, end: Position) -> Self {
        Self { cause: Some(end), ..Self::unasked(input) }
    }

    /// What happened outside of the thread, maybe recorded by this event of another thread.
    pub(crate) fn reported(input: Input, cause: Option<Position>, reply: Reply) -> Self {
        Self { cause, ..Self::asked(input, reply) }
    }

    /// An input from outside.
    pub(crate) fn asked(input: Input, reply: Reply) -> Self {
        Self { reply: Some(reply), ..Self::unasked(input) }
    }

    /// A report of the thread's own work.
    pub(super) fn of_work(input: Input, reply: Option<Reply>, place: Option<Reservation>) -> Self {
        Self { reply, is_work: true, place, ..Self::unasked(input) }
    }
}

/// A caller waits for the thread, and may have asked after its last report.
pub(crate) struct CheckIdle;

impl Message for CheckIdle {
    type Result = ();
}

/// The thread was loaded and has nothing to do. It is passivated unless a waiting message changes that.
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

/// Makes the parent of a branch compare their budgets, see [`BranchBudget`].
pub(crate) struct SyncBudget(pub(crate) Box<BranchBudget>);

impl Message for SyncBudget {
    type Result = ();
}

/// Replies when all that the thread decided so far is durable, and its branches have recorded what follows for them.
pub(crate) struct Settle(pub(crate) Reply);

impl Message for Settle {
    type Result = ();
}
