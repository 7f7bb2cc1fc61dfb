//! What one runtime asks another to do, and the answer: JSON, between processes of the same version or the next one.

use rethread_events::codec::OrderedMap;
use rethread_events::event::StartedByParent;
use rethread_events::ids::{Hash, NodeId, Position, Seq, ThreadId, TraceId};
use rethread_events::json::Json;
use rethread_events::labels::Labels;
use rethread_events::message::Message;
use rethread_events::text::with_sources;
use rethread_events::thread::{Input, Rejected, Start};
use rethread_store::StoreError;
use serde::{Deserialize, Serialize};

use crate::error::{ControlError, NextMove, ReadError, RuntimeError, StartThreadError};

/// A request to the runtime of a thread.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum Request {
    /// Give the thread an input.
    Give {
        thread: ThreadId,
        input: Input,
        /// Whether it reports what happened outside of the thread, and the event that it follows from.
        report: Option<Option<Position>>,
    },
    /// Wait until all that the thread decided is durable.
    Settle { thread: ThreadId },
    /// Start a thread.
    Start(StartRequest),
    /// Add a definition, which the log has, to the versions of its name. The place of the name is that of a thread with this id.
    Keep { place: ThreadId, workflow: Hash },
    /// Store a value, unless there is one under the name.
    PutOnce { place: ThreadId, name: String, value: Vec<u8> },
}

impl Request {
    pub(super) fn thread(&self) -> ThreadId {
        match self {
            Self::Give { thread, .. } | Self::Settle { thread } => *thread,
            Self::Start(start) => start.id,
            Self::Keep { place, .. } | Self::PutOnce { place, .. } => *place,
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
}

/// The workflow, the parent and the other settings of a start.
pub(crate) type Parts = (Hash, Option<(StartedByParent, TraceId)>, Start);

impl StartRequest {
    pub(crate) fn new(id: ThreadId, (workflow, parent, start): &Parts) -> Self {
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
        }
    }

    pub(super) fn start(self) -> Start {
        Start {
            input: self.input,
            workspace: self.workspace,
            labels: self.labels,
            messages: self.messages.into_iter().map(Into::into).collect(),
            variables: self.variables,
            entry: self.entry,
            traceparent: self.traceparent.and_then(|caller| caller.parse().ok()),
        }
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
}

impl Response {
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
        if let Some((expected, actual)) = error.runtime().and_then(conflict) {
            return Self::Conflict { expected, actual };
        }
        Self::Failed { message: with_sources(&error), next_move: error.next_move() }
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
            Self::Moved => RuntimeError::Elsewhere(thread).into(),
            Self::NoThread => ReadError::NoThread(thread).into(),
            Self::Rejected { why } => ControlError::rejected(thread, why),
            Self::Conflict { expected, actual } => {
                RuntimeError::from(StoreError::Conflict { thread, expected, actual }).into()
            }
            Self::Failed { message, next_move } => RuntimeError::Remote { thread, message, next_move }.into(),
        })
    }
}

/// Whether the log refused it because another runtime was first.
fn conflict(error: &RuntimeError) -> Option<(Seq, Seq)> {
    match error {
        RuntimeError::Store(StoreError::Conflict { expected, actual, .. }) => Some((*expected, *actual)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
