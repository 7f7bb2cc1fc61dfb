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
    pub(super) fn owes(event: impl Into<Event>) -> Self {
        Self::Owes(Box::new(event.into()))
    }
}
