//! How far a thread is.

use serde::{Deserialize, Serialize};

/// How far a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Made, and not begun: nothing of it has run.
    Pending,
    /// Running.
    Running,
    /// Waits for a person.
    Waiting,
    /// Begins nothing new until it is resumed.
    Paused,
    /// Reached an end.
    Completed,
    /// It was cancelled.
    Cancelled,
    /// Ended in an error.
    Error,
    /// Neither ended nor at rest, and no process works on it: it was killed, or imported, and continues when it is
    /// resumed. The state alone never has this status, because it does not know which process works on it.
    Interrupted,
    /// Waits for a time or a signal.
    Suspended,
    /// Waits in a queue, and has not begun its run.
    Queued,
}

impl Status {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 10] = [
        Self::Pending,
        Self::Running,
        Self::Waiting,
        Self::Paused,
        Self::Completed,
        Self::Cancelled,
        Self::Error,
        Self::Interrupted,
        Self::Suspended,
        Self::Queued,
    ];

    /// Its number, for a store that stores it beside the stream.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The status with that number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Whether nothing happens until the thread is given another run.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Error)
    }

    /// Its name, as it appears in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
            Self::Interrupted => "interrupted",
            Self::Suspended => "suspended",
            Self::Queued => "queued",
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
