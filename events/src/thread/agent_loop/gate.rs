//! The decision of a strategy before the loop continues.

use crate::event::Event;

/// Whether the loop may continue.
pub(in super::super) enum Gate {
    /// This comes first.
    Owes(Box<Event>),
    /// Not before an answer.
    Shut,
    /// It may.
    Open,
}

impl Gate {
    /// The other decision where this one lets the loop continue.
    pub(in super::super) fn or(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Open => other(),
            Self::Owes(_) | Self::Shut => self,
        }
    }

    pub(in super::super) fn owes(event: impl Into<Event>) -> Self {
        Self::Owes(Box::new(event.into()))
    }
}
