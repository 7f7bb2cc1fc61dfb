//! Events, and pages of them.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// An event as scripts read it everywhere; docs/EVENTS.md describes its `data`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Event {
    /// Its place in the whole log.
    position: u64,
    /// The thread it was written to: for an inherited event, the one it was inherited from.
    thread_id: String,
    seq: u64,
    id: String,
    time: String,
    /// Its documented name.
    #[serde(rename = "type")]
    kind: String,
    version: u16,
    trace_id: String,
    /// The position that led to it.
    cause: Option<u64>,
    hash: String,
    #[schema(value_type = Object)]
    data: Value,
}

/// A page of events of the log.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Events {
    events: Vec<Event>,
    /// The `after` of the next page; null when nothing follows by now.
    next: Option<u64>,
}

/// A page of events of a thread.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThreadEvents {
    events: Vec<Event>,
    /// The `from_seq` of the next page; null when nothing follows by now.
    next: Option<u64>,
}
