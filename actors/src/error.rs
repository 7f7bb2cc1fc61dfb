//! The errors of the operations: one enum for each, its variants grouped by what the caller does next.
//!
//! Every operation can fail because of the runtime or its log ([`RuntimeError`]); its own variants say what is wrong
//! with the request. The text says what could not be done, and with what. If there is a reason, it is only in
//! `source()`, and not in the text.

use rethread_events::event::EventError;
use rethread_events::expression::ExpressionError;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::{CallId, Hash, RunId, Seq, ThreadId, Time};
use rethread_events::label_limits::LabelLimitReached;
use rethread_events::text::with_sources;
use rethread_events::thread::{FoldError, Rejected, Status, StepError};
use rethread_events::workflow::Faults;
use rethread_store::StoreError;

/// What a caller does after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum NextMove {
    /// Change the request: it can never succeed as it is.
    ChangeRequest,
    /// Name something that exists: what the request names does not.
    NameAnother,
    /// Read the thread again, then decide again: its state does not allow the request.
    ReadAgain,
    /// Send the same request again later, to another runtime if this one is shutting down.
    Retry,
    /// Notify an operator: the log or the machine needs attention.
    TellOperator,
}

/// The runtime or its log failed. The request is not the cause, except for some errors of the store.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    // Retry.
    /// Too many at once: retry in a moment.
    #[error("{what}: {n} at once, the limit is {n_max}")]
    Busy {
        /// The resource whose limit was reached.
        what: &'static str,
        /// The current number.
        n: usize,
        /// The limit.
        n_max: usize,
    },
    /// A limit of a label was reached: retry after the time in the error.
    #[error(transparent)]
    LabelLimit(#[from] LabelLimitReached),
    /// The thread's actor was stopped by a panic. Acknowledged inputs are in the log; the next input activates the
    /// thread again.
    #[error("the actor of thread {0} stopped unexpectedly")]
    ActorStopped(ThreadId),
    /// The runtime is shutting down: use another one.
    #[error("the runtime is shutting down")]
    ShuttingDown,
    /// Another runtime has the thread, and does not answer at the moment. Nothing was done.
    #[error("thread {0} is run by another process, which does not answer at the moment")]
    Elsewhere(ThreadId),
    // By `next_move`.
    /// The runtime that has the thread answered with an error.
    #[error("the process that runs thread {thread}: {message}")]
    Remote {
        /// The thread.
        thread: ThreadId,
        /// The error.
        message: String,
        /// What the caller does next.
        next_move: NextMove,
    },
    // Change the request.
    /// Several runtimes have the log, and only one that has it alone does this.
    #[error("{what}: only where one process has the log alone, and several have this one")]
    Shared {
        /// What.
        what: &'static str,
    },
    // Change the request.
    /// An erasure names no labels.
    #[error("an erasure needs labels, which say whose schedules, signals and memories are erased")]
    NoLabels,
    // By the error of the store.
    /// The log cannot be read or written. [`StoreError::is_temporary`] says whether a retry can help.
    #[error(transparent)]
    Store(#[from] StoreError),
    // Tell an operator.
    /// The cache of answers could not be emptied: files of it may still hold what was deleted.
    #[error("cached answers may hold what was deleted: {0}")]
    Answers(String),
    // By `retryable`.
    /// The provider made no vector of the words of a search.
    #[error("the provider made no vector of the words")]
    Embedding(#[source] ExecutionError),
    // Tell an operator.
    /// A record is not an event that this version knows.
    #[error("the event of thread {thread} at seq {seq} cannot be read")]
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
    /// A definition in the log is invalid.
    #[error("{0}")]
    Definition(Faults),
}

/// A read failed: of the events, state, outcome or result of a thread, of lists, of the whole log.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    // Name another.
    /// There is no such thread.
    #[error("no thread {0}")]
    NoThread(ThreadId),
    /// The thread has no such seq.
    #[error("thread {thread} has no seq {seq}: it ends at {last}")]
    NoSeq {
        /// The thread.
        thread: ThreadId,
        /// The requested seq.
        seq: Seq,
        /// The last seq of the thread.
        last: Seq,
    },
    /// No request to a model can be built for this seq.
    #[error("thread {thread}, call {call}: {why}; `events` lists the calls of a thread")]
    NoRequest {
        /// The thread.
        thread: ThreadId,
        /// The seq that was given as that of a call.
        call: CallId,
        /// Why.
        why: String,
    },
    /// The definition that the thread runs on is not in the log: import it first.
    #[error("thread {thread} runs on workflow `{name}` ({hash}), whose definition is not in this log: import it first")]
    NoDefinition {
        /// The thread.
        thread: ThreadId,
        /// The name of the workflow.
        name: String,
        /// The hash of the definition.
        hash: Hash,
    },
    // Change the request.
    /// The expression of [`ThreadHandle::bisect`](crate::ThreadHandle::bisect) cannot be parsed.
    #[error("thread {thread} cannot be searched with this expression")]
    Expression {
        /// The thread.
        thread: ThreadId,
        /// Why.
        #[source]
        source: ExpressionError,
    },
    // Tell an operator.
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
    /// The process ended several times in some work for the thread: that work is refused, other work is not.
    #[error(
        "thread {thread}: `{work}` is refused, because the process ended {n} times in it; raise limits.crashes_max to have \
         it tried again"
    )]
    EndsProcess {
        /// The thread.
        thread: ThreadId,
        /// The work: `verify`, `rerun`, or `history` for a historical read.
        work: &'static str,
        /// How often.
        n: u32,
    },
    /// The runtime or the log failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

/// A value is larger than [`Limits::input_bytes_max`](crate::Limits::input_bytes_max): make it smaller.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{what} of {bytes} bytes is over the limit of {bytes_max}")]
pub struct TooLarge {
    /// The name of the value.
    pub what: &'static str,
    /// Its size as JSON.
    pub bytes: usize,
    /// The limit.
    pub bytes_max: usize,
}

/// A thread was not started, or a workflow not stored. Nothing changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StartThreadError {
    // Change the request.
    /// The workflow has faults, or needs a tool, profile or provider that this runtime lacks.
    #[error("{0}")]
    Workflow(Faults),
    /// The input does not fit the `input_schema` of the workflow, or the messages, variables or entry are invalid.
    #[error("the workflow cannot begin with this:\n{0}")]
    Input(Faults),
    /// The input cannot be serialized as JSON: a map has keys that are not strings, or its own `Serialize` failed.
    #[error("the input cannot be written as JSON: {0}")]
    NoJson(String),
    /// The input is too large.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The runtime or the log failed. A thread with the same id is `Store(Conflict)`.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

/// An input to a thread was not accepted: a pause, a resume, a cancellation, an answer, a message, a deletion. Nothing
/// changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    // Name another.
    /// There is no such question to a person.
    #[error("no interaction {0}")]
    NoInteraction(String),
    // Change the request.
    /// The given value is too large.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    // Read again, or for `Rejected::Invalid` change the request.
    /// The state of the thread does not allow the input.
    #[error("thread {thread} rejected the input")]
    Rejected {
        /// The thread.
        thread: ThreadId,
        /// Why.
        #[source]
        source: Rejected,
    },
    /// The thread cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// A run was not given to a thread, or there is none to wait for. Nothing changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    // Name another.
    /// The thread has no such run, or it was cancelled before it began.
    #[error("thread {thread} has no run {run}")]
    NoRun {
        /// The thread.
        thread: ThreadId,
        /// The run.
        run: RunId,
    },
    /// The seq does not belong to the run.
    #[error("run {run} of thread {thread} has no seq {seq}: it begins at {started}, and its last event is {last}")]
    NotInRun {
        /// The thread.
        thread: ThreadId,
        /// The run.
        run: RunId,
        /// The requested seq.
        seq: Seq,
        /// The first one of the run.
        started: Seq,
        /// The last one of the run.
        last: Seq,
    },
    // Read again.
    /// The run waits until earlier runs have ended.
    #[error("run {run} of thread {thread} waits and has not begun")]
    NotBegun {
        /// The thread.
        thread: ThreadId,
        /// The run.
        run: RunId,
    },
    /// The run is in progress, so it has no end yet.
    #[error("run {run} of thread {thread} has not ended")]
    NotEnded {
        /// The thread.
        thread: ThreadId,
        /// The run.
        run: RunId,
    },
    // Change the request.
    /// The definition has faults, or needs a tool, profile or provider that this runtime lacks.
    #[error("{0}")]
    Workflow(Faults),
    /// The input cannot be serialized as JSON: a map has keys that are not strings, or its own `Serialize` failed.
    #[error("the input cannot be written as JSON: {0}")]
    NoJson(String),
    /// The thread rejects the run, or cannot be read.
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// A signal was not sent. Nothing changed, except after [`SignalError::Unfinished`].
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SignalError {
    // Send it again later, or with a time for which it is kept.
    /// No thread waits for it.
    #[error("no thread waits for signal `{name}` with this payload: send it later, or say how long it is to be kept")]
    NotAwaited {
        /// Its name.
        name: String,
    },
    /// Too many signals are kept.
    #[error("{n} signals are kept already: wait until threads have received some, or keep them for a shorter time")]
    Full {
        /// How many.
        n: usize,
    },
    // Change the request.
    /// The signal is invalid.
    #[error("{0}")]
    Invalid(String),
    // Send it again with this id.
    /// It is not known whether all threads that wait for the signal received it. None received it twice.
    #[error("signal {id} may not have reached every thread that waits for it: send it again with this id")]
    Unfinished {
        /// Its id.
        id: String,
        /// The error of one of the threads.
        #[source]
        source: Box<ControlError>,
    },
    /// All threads that wait for the signal rejected it, or the log cannot be read.
    #[error(transparent)]
    Control(#[from] ControlError),
}

impl SignalError {
    /// Returns what the caller does next.
    pub fn next_move(&self) -> NextMove {
        match self {
            Self::NotAwaited { .. } | Self::Full { .. } => NextMove::Retry,
            Self::Invalid(_) => NextMove::ChangeRequest,
            Self::Unfinished { source, .. } => source.next_move(),
            Self::Control(error) => error.next_move(),
        }
    }
}

/// A schedule was not made, read or changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    // Name another one.
    /// The log has no such schedule.
    #[error("the log has no schedule `{name}`")]
    NoSchedule {
        /// Its name.
        name: String,
    },
    /// A schedule of this name has labels that the caller may not change.
    #[error("the name `{name}` is taken: choose another one")]
    Taken {
        /// The name.
        name: String,
    },
    /// The log has no such workflow.
    #[error("the log has no workflow `{workflow}`: put its definition into the log first")]
    NoWorkflow {
        /// Its name.
        workflow: String,
    },
    // Change the request.
    /// The schedule is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The input is too large.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The log has reached its limit of schedules.
    #[error("the log has {n} schedules, as many as it can have: remove one")]
    Full {
        /// How many.
        n: usize,
    },
    // As its source says.
    /// A thread cannot be started.
    #[error("{}", match tick {
        Some(tick) => format!("the thread of {tick} was not started"),
        None => "a thread of the schedule could not be started".to_owned(),
    })]
    Start {
        /// The tick; absent if it was only a trial.
        tick: Option<Time>,
        /// Why.
        #[source]
        source: StartThreadError,
    },
    /// The previous thread of the schedule cannot be cancelled.
    #[error("thread {thread} was not cancelled")]
    Cancel {
        /// The thread.
        thread: ThreadId,
        /// Why.
        #[source]
        source: Box<ControlError>,
    },
    /// The log cannot be read or written.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

impl ScheduleError {
    /// Returns what the caller does next.
    pub fn next_move(&self) -> NextMove {
        match self {
            Self::NoSchedule { .. } | Self::Taken { .. } | Self::NoWorkflow { .. } => NextMove::NameAnother,
            Self::Invalid(_) | Self::TooLarge(_) | Self::Full { .. } => NextMove::ChangeRequest,
            Self::Start { source, .. } => source.next_move(),
            Self::Cancel { source, .. } => source.next_move(),
            Self::Runtime(error) => error.next_move(),
        }
    }
}

impl From<StoreError> for ScheduleError {
    fn from(error: StoreError) -> Self {
        Self::Runtime(error.into())
    }
}

impl From<ReadError> for SignalError {
    fn from(error: ReadError) -> Self {
        Self::Control(error.into())
    }
}

impl From<TooLarge> for SignalError {
    fn from(error: TooLarge) -> Self {
        Self::Control(error.into())
    }
}

/// A thread was not migrated. Nothing changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    // Change the request.
    /// The definition has faults, or needs a tool, profile or provider that this runtime lacks.
    #[error("{0}")]
    Workflow(Faults),
    /// The thread rejects the migration, or cannot be read.
    #[error(transparent)]
    Control(#[from] ControlError),
}

impl MigrateError {
    /// Returns what the caller does next.
    pub fn next_move(&self) -> NextMove {
        match self {
            Self::Workflow(_) => NextMove::ChangeRequest,
            Self::Control(error) => error.next_move(),
        }
    }

    /// Returns why the thread rejects the migration, if that is the error.
    pub fn rejected(&self) -> Option<&Rejected> {
        match self {
            Self::Control(ControlError::Rejected { source, .. }) => Some(source),
            Self::Control(_) | Self::Workflow(_) => None,
        }
    }
}

/// A fork was not made. Nothing changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    // Change the request.
    /// The thread has ended at that moment, so that a fork there would have nothing to do: fork it at `instead`.
    #[error(
        "thread {thread} has ended ({status}) at seq {at}, so a fork there would do nothing: fork it at seq {instead}, \
         from where {before} runs again"
    )]
    AtEnd {
        /// The thread.
        thread: ThreadId,
        /// How it ended.
        status: Status,
        /// The requested moment.
        at: Seq,
        /// The last moment at which a fork would run the changed nodes.
        instead: Seq,
        /// The node that runs again from there.
        before: String,
    },
    /// The thread has no such run, or the run has not begun.
    #[error("thread {thread} has not begun a run {run}: list its runs")]
    NoRun {
        /// The thread.
        thread: ThreadId,
        /// The run.
        run: RunId,
    },
    /// The definition or the changes do not fit.
    #[error("{0}")]
    Workflow(Faults),
    /// An answer or a variable cannot be used, or the thread cannot be read.
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// A thread was not exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The thread cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The thread has no such run, or the run has not ended.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The file cannot be written.
    #[error("cannot read or write the export")]
    Io(#[from] std::io::Error),
}

/// An export was not imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The log failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file cannot be read.
    #[error("cannot read or write the export")]
    Io(#[from] std::io::Error),
    /// A line is not JSON, or not what an export holds.
    #[error("line {line}: {what}")]
    Line {
        /// Which line, from 1.
        line: u64,
        /// The fault.
        what: String,
    },
    /// The export is incomplete. Nothing of it was imported.
    #[error("line {line}: {what} (export it again; `--allow-incomplete` of `rethread import` takes what there is)")]
    Incomplete {
        /// The line where that was found.
        line: u64,
        /// The missing part.
        what: String,
    },
    /// The process ended several times while this export was imported. Nothing of it was read now.
    #[error(
        "the export is refused, because the process ended {n} times while it was imported; export fewer threads at a time, \
         give the process more memory, or raise limits.crashes_max to have it tried again"
    )]
    EndsProcess {
        /// How often.
        n: u32,
    },
    /// The log has a thread with this id and other events.
    #[error("line {line}: the log has a thread {thread} already, with other events")]
    Differs {
        /// The line where the thread ends.
        line: u64,
        /// The thread.
        thread: ThreadId,
    },
}

/// A runtime did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    // Change the settings.
    /// A setting is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The workspace cannot be used.
    #[error("{0}")]
    Workspace(String),
    // Tell an operator.
    /// The folder for records of background processes cannot be used.
    #[cfg(feature = "commands")]
    #[error(transparent)]
    Processes(#[from] rethread_tools::ProcessesError),
    /// The operating system could not create a thread.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    // By the error of the store.
    /// The log cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RuntimeError {
    /// The error of the runtime in one of a control of a thread.
    pub(crate) fn of_control(thread: ThreadId, error: &ControlError) -> Self {
        error.runtime().cloned().unwrap_or(Self::ActorStopped(thread))
    }

    /// As [`RuntimeError::of_control`], for a request to another runtime that has the same effect if it is repeated: one without
    /// an answer is `Elsewhere`, which is tried again.
    pub(crate) fn of_repeatable(place: ThreadId, error: &ControlError) -> Self {
        match Self::of_control(place, error) {
            Self::Store(StoreError::InDoubt { .. }) => Self::Elsewhere(place),
            error => error,
        }
    }

    /// Returns what the caller does next.
    pub fn next_move(&self) -> NextMove {
        match self {
            Self::Busy { .. }
            | Self::LabelLimit(_)
            | Self::ActorStopped(_)
            | Self::ShuttingDown
            | Self::Elsewhere(_) => NextMove::Retry,
            Self::Remote { next_move, .. } => *next_move,
            Self::Shared { .. } | Self::NoLabels => NextMove::ChangeRequest,
            Self::Store(error) => match error {
                StoreError::Busy { .. }
                | StoreError::Full { .. }
                | StoreError::Moved { .. }
                | StoreError::Unavailable { .. }
                | StoreError::Closed => NextMove::Retry,
                StoreError::Conflict { .. }
                | StoreError::Fenced { .. }
                | StoreError::InUse { .. }
                | StoreError::InDoubt { .. }
                | StoreError::Locked { .. } => NextMove::ReadAgain,
                StoreError::NotFound { .. } => NextMove::NameAnother,
                StoreError::TooLarge { .. } | StoreError::Invalid(_) => NextMove::ChangeRequest,
                StoreError::ReadOnly { .. }
                | StoreError::Format { .. }
                | StoreError::Damaged(_)
                | StoreError::Unsuitable { .. }
                | StoreError::Stopped { .. }
                | StoreError::Io { .. } => NextMove::TellOperator,
            },
            Self::Embedding(error) if error.retryable => NextMove::Retry,
            Self::Answers(_) | Self::Embedding(_) | Self::Event { .. } | Self::Fold(_) | Self::Definition(_) => {
                NextMove::TellOperator
            }
        }
    }
}

impl OpenError {
    /// The log could not be read while it was opened.
    pub(crate) fn of_read(error: ReadError) -> Self {
        match error {
            ReadError::Runtime(RuntimeError::Store(error)) => Self::Store(error),
            error => Self::Store(StoreError::Invalid(with_sources(&error))),
        }
    }
}

impl ReadError {
    /// Returns what the caller does next.
    pub fn next_move(&self) -> NextMove {
        match self {
            Self::NoThread(_) | Self::NoSeq { .. } | Self::NoRequest { .. } | Self::NoDefinition { .. } => {
                NextMove::NameAnother
            }
            Self::Expression { .. } => NextMove::ChangeRequest,
            Self::SetAside { .. } | Self::EndsProcess { .. } => NextMove::TellOperator,
            Self::Runtime(error) => error.next_move(),
        }
    }
}

impl StartThreadError {
    /// Converts the error of the start of a new thread, which rejects no input unless its actor is faulty.
    pub(crate) fn of_begin(thread: ThreadId, error: ControlError) -> Self {
        RuntimeError::of_control(thread, &error).into()
    }

    /// Returns what the caller does next.
    pub fn next_move(&self) -> NextMove {
        match self {
            Self::Workflow(_) | Self::Input(_) | Self::NoJson(_) | Self::TooLarge(_) => NextMove::ChangeRequest,
            Self::Runtime(error) => error.next_move(),
        }
    }
}

impl ControlError {
    /// Returns what the caller does next.
    pub fn next_move(&self) -> NextMove {
        match self {
            Self::NoInteraction(_) => NextMove::NameAnother,
            Self::TooLarge(_) | Self::Rejected { source: Rejected::Invalid(_) | Rejected::Unfit(_), .. } => {
                NextMove::ChangeRequest
            }
            Self::Rejected { .. } => NextMove::ReadAgain,
            Self::Read(error) => error.next_move(),
        }
    }

    /// Returns the failure of the runtime or its log, if it is one.
    pub fn runtime(&self) -> Option<&RuntimeError> {
        match self {
            Self::Read(ReadError::Runtime(error)) => Some(error),
            _ => None,
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
            StepError::Fold(error) => error.into(),
        }
    }
}

impl RunError {
    /// Returns what the caller does next.
    pub fn next_move(&self) -> NextMove {
        match self {
            Self::NoRun { .. } | Self::NotInRun { .. } => NextMove::NameAnother,
            Self::NotBegun { .. } | Self::NotEnded { .. } => NextMove::ReadAgain,
            Self::Workflow(_) | Self::NoJson(_) => NextMove::ChangeRequest,
            Self::Control(error) => error.next_move(),
        }
    }
}

impl ForkError {
    /// Returns what the caller does next.
    pub fn next_move(&self) -> NextMove {
        match self {
            Self::NoRun { .. } => NextMove::NameAnother,
            Self::AtEnd { .. } | Self::Workflow(_) => NextMove::ChangeRequest,
            Self::Control(error) => error.next_move(),
        }
    }
}

/// Conversions through the error that the operation shares with others.
macro_rules! from_through {
    ($($from:ty => $shared:ty => $($to:ty),+;)+) => {$($(
        impl From<$from> for $to {
            fn from(error: $from) -> Self {
                Self::from(<$shared>::from(error))
            }
        }
    )+)+};
}

from_through! {
    StoreError => RuntimeError => ReadError, StartThreadError;
    FoldError => RuntimeError => ReadError;
    RuntimeError => ControlError => RunError, MigrateError;
    TooLarge => ControlError => RunError;
    StoreError => ControlError => RunError, MigrateError;
    RuntimeError => ReadError => ControlError, ExportError, ImportError, crate::errors::OutcomeError;
    StoreError => ReadError => ControlError, ExportError, ImportError;
    FoldError => ReadError => ControlError;
    ReadError => ControlError => RunError, ForkError, MigrateError;
    RuntimeError => ControlError => ForkError;
    TooLarge => ControlError => ForkError;
}

/// Lets a tool use `?` on operations of its runtime, see [`Runtime::of`](crate::Runtime::of).
macro_rules! error_of_tool {
    ($($from:ty),+) => {$(
        impl From<$from> for ExecutionError {
            fn from(error: $from) -> Self {
                Self::new(ErrorKind::Failed, with_sources(&error))
            }
        }
    )+};
}

error_of_tool!(
    RuntimeError,
    ReadError,
    StartThreadError,
    ControlError,
    ForkError,
    MigrateError,
    crate::errors::OutcomeError
);

#[cfg(test)]
mod tests;
