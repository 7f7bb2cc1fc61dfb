//! Threads: lists, pages, results.

use rethread::ThreadId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::views::Thread;

/// A page of threads.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Threads {
    pub(crate) threads: Vec<Thread>,
    /// The `cursor` of the next page; null on the last.
    #[schema(value_type = Option<String>)]
    pub(crate) next: Option<ThreadId>,
}

/// A thread that was deleted.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Deleted {
    #[schema(value_type = String)]
    pub(crate) thread_id: ThreadId,
    pub(crate) status: &'static str,
}

/// The result of compacting the index.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Compacted {
    pub(crate) index_bytes_before: u64,
    pub(crate) index_bytes: u64,
    /// The number of cached answers that were removed.
    pub(crate) answers: u64,
}
