//! What a strategy says before the loop goes on.

use crate::event::Event;

/// Whether the loop may go on.
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
