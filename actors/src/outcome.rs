//! What a thread has come to.

use rethread_events::fault::ExecutionError;
use rethread_events::ids::{Position, ThreadId};
use rethread_events::thread::{State, Status, Totals};
use serde_json::Value;

/// What a thread has come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The thread.
    pub thread_id: ThreadId,
    /// How far it is.
    pub status: Status,
    /// The output of its last node.
    pub output: Option<Value>,
    /// Why it failed.
    pub error: Option<ExecutionError>,
    /// Its sums.
    pub totals: Totals,
    /// The whole state.
    pub state: State,
    /// The position of its last event.
    pub last_position: Position,
}

/// A thread at rest in a fork waits for what its branches wait for.
fn status_at_rest(state: &State) -> Status {
    match state.status() {
        Status::Running if state.fan().is_some() => Status::Waiting,
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

    /// Whether the thread reached an end.
    pub fn success(&self) -> bool {
        self.status == Status::Completed
    }

    /// What `run --json` prints.
    pub fn to_json(&self) -> Value {
        let mut json = self.state.outcome_json();
        json["status"] = self.status.name().into();
        json["last_position"] = self.last_position.0.into();
        json
    }
}
