//! The events that end runs.

use rethread::store::Kind;
use rethread_events::event::event_type_named;

/// Their names.
const NAMES: [&str; 3] = ["THREAD_COMPLETED", "THREAD_FAILED", "THREAD_CANCELLED"];

/// Their kinds in the log.
pub(super) fn kinds() -> Vec<Kind> {
    NAMES.iter().filter_map(|name| event_type_named(name)).map(|event| Kind(event.code)).collect()
}
