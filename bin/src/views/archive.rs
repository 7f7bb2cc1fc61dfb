//! Imported and collected threads.

use rethread::{Hash, ThreadId};
use serde::{Deserialize, Serialize};

use super::Thread;

/// The result of an import.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Imported {
    /// Threads that were written.
    #[cfg_attr(feature = "server", schema(value_type = Vec<String>))]
    pub(crate) threads: Vec<ThreadId>,
    /// Threads that the log already had, with the same events.
    #[cfg_attr(feature = "server", schema(value_type = Vec<String>))]
    pub(crate) known: Vec<ThreadId>,
    /// The number of events that were written.
    pub(crate) n_events: u64,
}

impl From<rethread::operate::Imported> for Imported {
    fn from(imported: rethread::operate::Imported) -> Self {
        Self { threads: imported.threads, known: imported.known, n_events: imported.n_events }
    }
}

/// The result of a garbage collection.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Collected {
    /// The deleted threads, in the order of their deletion; each with the number of its `branches`, which were deleted
    /// with it, and with the `events` and their `bytes` before compression, including those of the branches.
    #[cfg_attr(feature = "server", schema(value_type = Vec<Object>))]
    deleted: Vec<CollectedThread>,
    /// Threads that may be deleted and stay, because a thread that stays inherits from them.
    #[cfg_attr(feature = "server", schema(value_type = Vec<String>))]
    kept_for_heirs: Vec<ThreadId>,
    /// Whether there are more that may be deleted.
    more: bool,
    /// Bytes of the events of all threads that stay, if a size was given.
    bytes_left: Option<u64>,
    /// The hashes of the deleted definitions of workflows, which no thread runs on.
    #[cfg_attr(feature = "server", schema(value_type = Vec<String>))]
    definitions: Vec<Hash>,
    /// The number of deleted memories.
    memories: u64,
    /// The number of deleted schedules.
    schedules: u64,
    /// The number of deleted signals that were kept.
    signals: u64,
}

#[derive(Debug, Serialize)]
struct CollectedThread {
    #[serde(flatten)]
    thread: Thread,
    branches: u64,
    events: u64,
    bytes: u64,
}

impl From<rethread::operate::Collected> for Collected {
    fn from(collected: rethread::operate::Collected) -> Self {
        let of = |gone: &rethread::operate::CollectedThread| CollectedThread {
            thread: Thread::from(&gone.summary),
            branches: gone.n_branches,
            events: gone.n_events,
            bytes: gone.bytes,
        };
        Self {
            deleted: collected.threads.iter().map(of).collect(),
            kept_for_heirs: collected.inherited,
            more: collected.more,
            bytes_left: collected.bytes_left,
            definitions: collected.definitions,
            memories: collected.n_memories,
            schedules: collected.n_schedules,
            signals: collected.n_signals,
        }
    }
}
