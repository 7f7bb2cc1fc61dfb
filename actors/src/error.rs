//! What can go wrong with the runtime, by what the caller does next.

use rethread_events::event::EventError;
use rethread_events::ids::{CallId, Seq, ThreadId};
use rethread_events::thread::{FoldError, Rejected, Status, StepError};
use rethread_events::workflow::Faults;
use rethread_store::StoreError;

/// An operation on a thread was not done.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// There is no such thread.
    #[error("no thread {0}")]
    NoThread(ThreadId),
    /// There is no such moment in the thread.
    #[error("thread {thread} has no seq {seq}: it ends at {last}")]
    NoSeq {
        /// The thread.
        thread: ThreadId,
        /// The seq that was asked for.
        seq: Seq,
        /// The last one there is.
        last: Seq,
    },
    /// No request to a model can be built there.
    #[error("thread {thread}, call {call}: {why}; `events` lists the calls of a thread")]
    NoRequest {
        /// The thread.
        thread: ThreadId,
        /// The seq that was given as that of a call.
        call: CallId,
        /// Why.
        why: String,
    },
    /// The state of the thread does not allow it; nothing changed.
    #[error("thread {thread}: {source}")]
    Rejected {
        /// The thread.
        thread: ThreadId,
        /// Why.
        #[source]
        source: Rejected,
    },
    /// A fork at the end of a thread would have nothing to do; nothing changed.
    #[error(
        "thread {thread} has ended ({status}) at seq {at}, so a fork there would do nothing: fork it at seq {instead}, \
         from where {before} runs again"
    )]
    ForkAtEnd {
        /// The thread.
        thread: ThreadId,
        /// How it ended.
        status: Status,
        /// The moment that was asked for.
        at: Seq,
        /// The last moment from which what is changed would count.
        instead: Seq,
        /// What runs again from there.
        before: String,
    },
    /// There is no such question to a person.
    #[error("no interaction {0}")]
    NoInteraction(String),
    /// The definition does not fit, or cannot be read.
    #[error("{0}")]
    Workflow(Faults),
    /// The definition that the thread runs on is not in the log.
    #[error("thread {thread} runs on workflow `{name}` ({hash}), whose definition is not in this log: import it first")]
    NoDefinition {
        /// The thread.
        thread: ThreadId,
        /// The name of the workflow.
        name: String,
        /// The hash of the definition.
        hash: rethread_events::ids::Hash,
    },
    /// The log cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record is not an event that this version knows.
    #[error("thread {thread}, seq {seq}: {source}")]
    Event {
        /// The thread.
        thread: ThreadId,
        /// The record.
        seq: Seq,
        /// Why.
        #[source]
        source: EventError,
    },
    /// The events of the thread do not follow from each other.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// The process ended several times while the events of the thread were folded: it is not folded again.
    #[error(
        "thread {thread} is set aside: the process ended {n} times while its events were folded; delete it, or raise \
         limits.crashes_max to have it tried again"
    )]
    SetAside {
        /// The thread.
        thread: ThreadId,
        /// How often.
        n: u32,
    },
    /// The process ended several times in some work for the thread: that work is refused, and other work is not.
    #[error(
        "thread {thread}: `{work}` is refused, because the process ended {n} times in it; raise limits.crashes_max to have \
         it tried again"
    )]
    EndsProcess {
        /// The thread.
        thread: ThreadId,
        /// Which work: `verify`, `rerun`, or `history` for a read of a past state.
        work: &'static str,
        /// How often.
        n: u32,
    },
    /// Too much at once: try again in a moment.
    #[error("{what}: {n} at once, the limit is {n_max}")]
    Busy {
        /// What there is too much of.
        what: &'static str,
        /// How much there is.
        n: usize,
        /// The limit.
        n_max: usize,
    },
    /// What was given is over a limit; making it smaller helps.
    #[error("{what} of {bytes} bytes is over the limit of {bytes_max}")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// How large it is.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// What was given cannot be written as JSON: a map whose keys are no texts, or an error of its own.
    #[error("{what} cannot be written as JSON: {why}")]
    NoJson {
        /// What it is.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// The thread's actor was stopped by a panic. What was acknowledged is in the log; telling the thread anything
    /// brings it back.
    #[error("the actor of thread {0} stopped unexpectedly")]
    ActorStopped(ThreadId),
    /// The runtime is shutting down: use another one.
    #[error("the runtime is shutting down")]
    ShuttingDown,
}

impl RuntimeError {
    /// The seq of a call or question that was refused because it is closed, answered or unknown.
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Rejected { source, .. } => !matches!(source, Rejected::Invalid(_) | Rejected::UnknownInteraction(_)),
            Self::Store(error) => {
                matches!(error, StoreError::Conflict { .. } | StoreError::Fenced { .. } | StoreError::Locked { .. })
            }
            _ => false,
        }
    }

    pub(crate) fn rejected(thread: ThreadId, source: Rejected) -> Self {
        match source {
            Rejected::UnknownInteraction(id) => Self::NoInteraction(CallId::key(id, thread)),
            source => Self::Rejected { thread, source },
        }
    }

    pub(crate) fn of_step(thread: ThreadId, error: StepError) -> Self {
        match error {
            StepError::Rejected(rejected) => Self::rejected(thread, rejected),
            StepError::Fold(error) => Self::Fold(error),
        }
    }
}

/// The runtime did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The log cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operating system gave no thread.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// The folder for records of background processes cannot be used.
    #[cfg(feature = "commands")]
    #[error(transparent)]
    Processes(#[from] rethread_tools::ProcessesError),
    /// The workspace cannot be used.
    #[error("{0}")]
    Workspace(String),
    /// A setting makes no sense.
    #[error("{0}")]
    Invalid(String),
}
