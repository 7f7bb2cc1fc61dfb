//! What one runtime asks another to do, and the answer: JSON, between processes of the same version or the next one.

use rethread_events::codec::OrderedMap;
use rethread_events::event::StartedByParent;
use rethread_events::ids::{Hash, NodeId, Position, Seq, ThreadId, TraceId};
use rethread_events::json::Json;
use rethread_events::labels::Labels;
use rethread_events::memory::MemoryError;
use rethread_events::message::Message;
use rethread_events::principal::Principal;
#[cfg(feature = "schedules")]
use rethread_events::schedule::Schedule;
use rethread_events::text::with_sources;
use rethread_events::thread::{Input, Rejected, Start};
use rethread_store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(feature = "schedules")]
use crate::error::ScheduleError;
use crate::error::{ControlError, NextMove, ReadError, RuntimeError, SignalError, StartThreadError};
use crate::memories::{MemoryChange, RememberError};
use crate::queue_keys::QueueId;
use crate::signal::Signal;

/// A request to the runtime of a thread.
// One at a time, on its way to another process.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum Request {
    /// Give the thread an input.
    Give {
        thread: ThreadId,
        input: Input,
        /// Whether it reports what happened outside of the thread, and the event that it follows from.
        report: Option<Option<Position>>,
        /// The definition of the run that it begins, which the log has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        definition: Option<Hash>,
    },
    /// Migrate the thread to a definition, which the log has.
    Migrate { thread: ThreadId, definition: Hash, by: Option<Principal> },
    /// Delete the thread and its branches.
    Delete { thread: ThreadId, by: Principal },
    /// Wait until all that the thread decided is durable.
    Settle { thread: ThreadId },
    /// Start a thread.
    Start(StartRequest),
    /// Add a definition, which the log has, to the versions of its name. The place of the name is that of a thread with this id.
    Keep { place: ThreadId, workflow: Hash },
    /// Store a value, unless there is one under the name.
    PutOnce { place: ThreadId, name: String, value: Vec<u8> },
    /// Send a signal. The place is that of its name. The answer is a `Result<SignalSent, SignalFailure>`.
    Signal { place: ThreadId, signal: Signal },
    /// Deliver signals of a name that are kept: a thread waits for one.
    KeptSignals { place: ThreadId, name: String },
    /// Begin the runs of a queue that can begin: it has changed.
    Queue { place: ThreadId, queue: QueueId },
    /// Change a schedule. The place is that of all schedules. The answer is a `Result<(), ScheduleFailure>`.
    #[cfg(feature = "schedules")]
    Schedule { place: ThreadId, name: String, change: ScheduleChange, within: Labels },
    /// Change the memories of a namespace. The place is that of the namespace. The answer is a `Result<MemoryChanged, MemoryFailure>`.
    Memory { place: ThreadId, namespace: Labels, change: MemoryChange },
}

impl Request {
    /// Gives a thread an input. `report` as in [`Request::Give`].
    pub(crate) fn give(thread: ThreadId, input: &Input, report: Option<Option<Position>>) -> Self {
        if let Input::Migrate(workflow) = input.given() {
            let by = if let Input::By { by, .. } = input { Some(by.clone()) } else { None };
            return Self::Migrate { thread, definition: workflow.hash(), by };
        }
        let run = if let Input::Run(run) = input.given() { run.definition.as_ref() } else { None };
        let definition = run.map(|workflow| workflow.hash());
        Self::Give { thread, input: input.clone(), report, definition }
    }

    pub(super) fn thread(&self) -> ThreadId {
        match self {
            Self::Give { thread, .. }
            | Self::Migrate { thread, .. }
            | Self::Delete { thread, .. }
            | Self::Settle { thread } => *thread,
            Self::Start(start) => start.id,
            Self::Keep { place, .. }
            | Self::PutOnce { place, .. }
            | Self::Signal { place, .. }
            | Self::KeptSignals { place, .. }
            | Self::Memory { place, .. }
            | Self::Queue { place, .. } => *place,
            #[cfg(feature = "schedules")]
            Self::Schedule { place, .. } => *place,
        }
    }
}

/// A start, as its own process checked it. The log has the definition.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartRequest {
    pub(super) id: ThreadId,
    pub(super) workflow: Hash,
    pub(super) parent: Option<(StartedByParent, TraceId)>,
    input: Json,
    workspace: Option<String>,
    labels: Labels,
    messages: Vec<Message>,
    variables: OrderedMap<Json>,
    entry: Option<NodeId>,
    traceparent: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    waits_for_room: bool,
}

/// The workflow, the parent, whether it waits for room, and the other settings of a start.
pub(crate) type Parts = (Hash, Option<(StartedByParent, TraceId)>, bool, Start);

impl StartRequest {
    pub(crate) fn new(id: ThreadId, (workflow, parent, waits_for_room, start): &Parts) -> Self {
        let start = start.clone();
        Self {
            id,
            workflow: *workflow,
            parent: *parent,
            input: start.input,
            workspace: start.workspace,
            labels: start.labels,
            messages: start.messages.iter().map(|message| (**message).clone()).collect(),
            variables: start.variables,
            entry: start.entry,
            traceparent: start.traceparent.map(|caller| caller.to_string()),
            waits_for_room: *waits_for_room,
        }
    }

    pub(super) fn start(self) -> (bool, Start) {
        let start = Start {
            input: self.input,
            workspace: self.workspace,
            labels: self.labels,
            messages: self.messages.into_iter().map(Into::into).collect(),
            variables: self.variables,
            entry: self.entry,
            traceparent: self.traceparent.and_then(|caller| caller.parse().ok()),
        };
        (self.waits_for_room, start)
    }
}

/// What came of a request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Response {
    /// It is done. The seq of the first event that it led to.
    Done {
        first: Option<Seq>,
    },
    /// The thread belongs to another runtime.
    Moved,
    NoThread,
    InUse {
        thread: ThreadId,
        forks: Vec<ThreadId>,
    },
    Rejected {
        why: Rejected,
    },
    Conflict {
        expected: Seq,
        actual: Seq,
    },
    Failed {
        message: String,
        next_move: NextMove,
    },
    /// What the request says.
    Answer {
        value: Value,
    },
}

impl Response {
    pub(super) fn answer(value: &impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(value) => Self::Answer { value },
            Err(error) => Self::Failed { message: error.to_string(), next_move: NextMove::TellOperator },
        }
    }

    pub(super) fn of(answered: Result<Option<Seq>, ControlError>) -> Self {
        let error = match answered {
            Ok(first) => return Self::Done { first },
            Err(error) => error,
        };
        match &error {
            ControlError::Read(ReadError::NoThread(_)) => return Self::NoThread,
            ControlError::Rejected { source: why, .. } if !matches!(why, Rejected::Unfit(_)) => {
                return Self::Rejected { why: why.clone() };
            }
            ControlError::Read(ReadError::Runtime(RuntimeError::Elsewhere(_))) => return Self::Moved,
            _ => {}
        }
        match error.runtime() {
            Some(RuntimeError::Store(StoreError::Conflict { expected, actual, .. })) => {
                Self::Conflict { expected: *expected, actual: *actual }
            }
            Some(RuntimeError::Store(StoreError::InUse { thread, forks })) => {
                Self::InUse { thread: *thread, forks: forks.clone() }
            }
            _ => Self::Failed { message: with_sources(&error), next_move: error.next_move() },
        }
    }

    pub(super) fn of_start(started: Result<(), StartThreadError>) -> Self {
        match started {
            Ok(()) => Self::Done { first: None },
            Err(StartThreadError::Runtime(error)) => Self::of(Err(error.into())),
            Err(error) => Self::Failed { message: with_sources(&error), next_move: error.next_move() },
        }
    }

    pub(super) fn into_result(self, thread: ThreadId) -> Result<Option<Seq>, ControlError> {
        Err(match self {
            Self::Done { first } => return Ok(first),
            Self::Answer { .. } => return Ok(None),
            Self::Moved => RuntimeError::Elsewhere(thread).into(),
            Self::NoThread => ReadError::NoThread(thread).into(),
            Self::Rejected { why } => ControlError::rejected(thread, why),
            Self::Conflict { expected, actual } => {
                RuntimeError::from(StoreError::Conflict { thread, expected, actual }).into()
            }
            Self::InUse { thread, forks } => RuntimeError::from(StoreError::InUse { thread, forks }).into(),
            Self::Failed { message, next_move } => RuntimeError::Remote { thread, message, next_move }.into(),
        })
    }
}

/// Why a signal was not sent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SignalFailure {
    NotAwaited { name: String },
    Full { n: usize },
    Invalid { what: String },
    Unfinished { id: String, source: Response },
    Control { source: Response },
}

impl From<SignalError> for SignalFailure {
    fn from(error: SignalError) -> Self {
        match error {
            SignalError::NotAwaited { name } => Self::NotAwaited { name },
            SignalError::Full { n } => Self::Full { n },
            SignalError::Invalid(what) => Self::Invalid { what },
            SignalError::Unfinished { id, source } => Self::Unfinished { id, source: Response::of(Err(*source)) },
            SignalError::Control(error) => Self::Control { source: Response::of(Err(error)) },
        }
    }
}

impl SignalFailure {
    /// `place` is that of the signal.
    pub(crate) fn into_error(self, place: ThreadId) -> SignalError {
        let control = |source: Response| match source.into_result(place) {
            Err(error) => error,
            Ok(_) => RuntimeError::Elsewhere(place).into(),
        };
        match self {
            Self::NotAwaited { name } => SignalError::NotAwaited { name },
            Self::Full { n } => SignalError::Full { n },
            Self::Invalid { what } => SignalError::Invalid(what),
            Self::Unfinished { id, source } => SignalError::Unfinished { id, source: Box::new(control(source)) },
            Self::Control { source } => control(source).into(),
        }
    }
}

/// Why memories were not changed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum MemoryFailure {
    Refused { error: MemoryError },
    Control { source: Response },
}

impl From<RememberError> for MemoryFailure {
    fn from(error: RememberError) -> Self {
        let control = |error: RuntimeError| Self::Control { source: Response::of(Err(error.into())) };
        match error {
            RememberError::Refused(error) => Self::Refused { error },
            RememberError::Store(error) => control(error.into()),
            RememberError::Runtime(error) => control(error),
        }
    }
}

impl MemoryFailure {
    /// `place` is that of the namespace.
    pub(crate) fn into_error(self, place: ThreadId) -> RememberError {
        match self {
            Self::Refused { error } => RememberError::Refused(error),
            Self::Control { source } => RememberError::Runtime(match source.into_result(place) {
                Err(error) => RuntimeError::of_control(place, &error),
                Ok(_) => RuntimeError::Elsewhere(place),
            }),
        }
    }
}

/// A change of a schedule.
#[cfg(feature = "schedules")]
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum ScheduleChange {
    Put { schedule: Box<Schedule> },
    Pause { is_paused: bool },
    Delete,
}

/// Why a schedule was not changed.
#[cfg(feature = "schedules")]
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ScheduleFailure {
    NoSchedule { name: String },
    Taken { name: String },
    NoWorkflow { workflow: String },
    Invalid { what: String },
    Full { n: usize },
    Control { source: Response },
}

#[cfg(feature = "schedules")]
impl From<ScheduleError> for ScheduleFailure {
    fn from(error: ScheduleError) -> Self {
        match error {
            ScheduleError::NoSchedule { name } => Self::NoSchedule { name },
            ScheduleError::Taken { name } => Self::Taken { name },
            ScheduleError::NoWorkflow { workflow } => Self::NoWorkflow { workflow },
            ScheduleError::Invalid(what) => Self::Invalid { what },
            ScheduleError::Full { n } => Self::Full { n },
            ScheduleError::Runtime(error) => Self::Control { source: Response::of(Err(error.into())) },
            error => Self::Control {
                source: Response::Failed { message: with_sources(&error), next_move: error.next_move() },
            },
        }
    }
}

#[cfg(feature = "schedules")]
impl ScheduleFailure {
    /// `place` is that of all schedules.
    pub(crate) fn into_error(self, place: ThreadId) -> ScheduleError {
        match self {
            Self::NoSchedule { name } => ScheduleError::NoSchedule { name },
            Self::Taken { name } => ScheduleError::Taken { name },
            Self::NoWorkflow { workflow } => ScheduleError::NoWorkflow { workflow },
            Self::Invalid { what } => ScheduleError::Invalid(what),
            Self::Full { n } => ScheduleError::Full { n },
            Self::Control { source } => ScheduleError::Runtime(match source.into_result(place) {
                Err(error) => RuntimeError::of_control(place, &error),
                Ok(_) => RuntimeError::Elsewhere(place),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
