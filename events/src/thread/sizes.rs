//! Size checks before something becomes an event, so that its node fails and not the append.

use crate::codec;
use crate::event::Event;
use crate::fault::{ErrorKind, ExecutionError};

/// Why the event cannot be stored, if it cannot. Encodes only what is near the limit.
pub(super) fn fault_of(event: &Event) -> Option<ExecutionError> {
    if event.bytes_at_most() <= codec::BYTES_MAX {
        return None;
    }
    let why = event.encode().err()?;
    let message = format!("the event {} is too large: {why}", event.event_type().name);
    Some(ExecutionError::new(ErrorKind::TooLarge, message))
}

/// The event, or another one in its place that says that it is too large.
pub(super) fn or_else(event: Event, other: impl FnOnce(ExecutionError) -> Event) -> Event {
    match fault_of(&event) {
        Some(error) => other(error),
        None => event,
    }
}
