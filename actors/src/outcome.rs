//! The outcome of a thread.

use rethread_events::fault::ExecutionError;
use rethread_events::ids::{Position, ThreadId};
use rethread_events::thread::{OutcomeJson, State, Status, Totals};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::ReadError;

/// The outcome of a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The thread.
    pub thread_id: ThreadId,
    /// Its status.
    pub status: Status,
    /// The output of its last node.
    pub output: Option<Value>,
    /// Why it failed.
    pub error: Option<ExecutionError>,
    /// Its totals.
    pub totals: Totals,
    /// The whole state.
    pub state: State,
    /// The position of its last event.
    pub last_position: Position,
}

/// Why there is no output of the requested type.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutcomeError {
    /// The end of the thread cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The thread did not complete; its outcome contains the reason.
    #[error("thread {} did not complete: its status is {}", .0.thread_id, .0.status)]
    NotCompleted(Box<Outcome>),
    /// The output of the thread is not of this type.
    #[error("the output of thread {thread} is not of the expected type")]
    Type {
        /// The thread.
        thread: ThreadId,
        /// The place and the reason.
        #[source]
        source: serde_json::Error,
    },
}

/// Returns the status of a thread at rest that has branches, which waits for what its branches wait for.
fn status_at_rest(state: &State) -> Status {
    match state.status() {
        Status::Running if state.has_branches() => Status::Waiting,
        status => status,
    }
}

impl Outcome {
    pub(crate) fn new(state: State, last_position: Position) -> Self {
        Self {
            thread_id: state.thread(),
            status: status_at_rest(&state),
            output: state.output().map(|output| output.clone().into_value()),
            error: state.error(),
            totals: *state.totals(),
            state,
            last_position,
        }
    }

    /// Returns whether the thread completed.
    pub fn success(&self) -> bool {
        self.status == Status::Completed
    }

    /// Returns the output as a value of this type; a thread without an output has the output `null`.
    ///
    /// # Errors
    /// `NotCompleted` when the thread did not complete; `Type` when its output is of another type.
    pub fn output_as<T: DeserializeOwned>(self) -> Result<T, OutcomeError> {
        if !self.success() {
            return Err(OutcomeError::NotCompleted(Box::new(self)));
        }
        let thread = self.thread_id;
        serde_json::from_value(self.output.unwrap_or_default()).map_err(|source| OutcomeError::Type { thread, source })
    }

    /// Returns what `run --json` prints.
    pub fn json(&self) -> OutcomeJson {
        OutcomeJson { status: self.status, ..self.state.outcome(self.last_position) }
    }

    /// As `json`, as a JSON value.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self.json()).unwrap_or_default()
    }
}
