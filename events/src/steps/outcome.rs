//! How a node or a call inside it is doing.

use serde::Serialize;

/// How a node, a call or a thread ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepOutcome {
    /// It has not ended.
    #[default]
    Open,
    /// It did its work.
    Completed,
    /// It failed.
    Failed,
    /// It was cancelled, or it was not needed any more.
    Cancelled,
}
