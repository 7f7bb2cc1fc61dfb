//! Pages of events.

use rethread::{Position, RecordedEvent, Seq};
use serde::Serialize;
use utoipa::ToSchema;

/// A page of events of the log.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Events {
    pub(crate) events: Vec<RecordedEvent>,
    /// The `after` of the next page; null when nothing follows by now.
    #[schema(value_type = Option<u64>)]
    pub(crate) next: Option<Position>,
}

/// A page of events of a thread.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThreadEvents {
    pub(crate) events: Vec<RecordedEvent>,
    /// The `from_seq` of the next page; null when nothing follows by now.
    #[schema(value_type = Option<u64>)]
    pub(crate) next: Option<Seq>,
}
