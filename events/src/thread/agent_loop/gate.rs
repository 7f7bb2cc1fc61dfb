//! The decision of a strategy before the loop continues.

use crate::event::Event;

/// Whether the loop may continue.
pub(in super::super) enum Gate {
    /// This comes first.
    Event(Box<Event>),
    /// Not before an answer.
    Closed,
    /// It may.
    Open,
}

impl Gate {
    /// The other decision where this one lets the loop continue.
    pub(in super::super) fn or(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Open => other(),
            Self::Event(_) | Self::Closed => self,
        }
    }

    pub(in super::super) fn event(event: impl Into<Event>) -> Self {
        Self::Event(Box::new(event.into()))
    }
}
