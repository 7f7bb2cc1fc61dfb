//! Threads: lists, pages, what became of one.

use rethread::ThreadId;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::views::{BranchOf, Moment, Thread};

/// A page of threads.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Threads {
    pub(crate) threads: Vec<Thread>,
    /// The `cursor` of the next page; null on the last.
    #[schema(value_type = Option<String>)]
    pub(crate) next: Option<ThreadId>,
}

/// What a thread used.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Usage {
    /// Of prompts; null where it is not known.
    input_tokens: Option<u64>,
    /// Of answers; null where it is not known.
    output_tokens: Option<u64>,
    /// Of both; null where it is not known.
    total_tokens: Option<u64>,
    cached_input_tokens: u64,
    cache_write_tokens: u64,
    reasoning_tokens: u64,
    /// In billionths of a US dollar, of the calls whose price is known; null where none is known.
    cost_nanousd: Option<u64>,
    llm_calls: u64,
    tool_calls: u64,
    /// Model calls whose cost is not known.
    n_unpriced: u64,
    /// Whether `cost_nanousd` misses the cost of a call.
    cost_is_partial: bool,
}

/// What a thread has come to.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Outcome {
    thread_id: String,
    status: String,
    /// Whether it reached an end.
    success: bool,
    /// The output of its last node.
    output: Option<Value>,
    /// Why it failed.
    #[schema(value_type = Option<Object>)]
    error: Option<Value>,
    iterations: u64,
    usage: Usage,
    last_seq: u64,
    last_position: u64,
}

/// A thread that is gone.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Deleted {
    #[schema(value_type = String)]
    pub(crate) thread_id: ThreadId,
    pub(crate) status: &'static str,
}

/// What went.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Collected {
    /// The threads as they were, in the order in which they went; each with the number of its `branches`, which went with
    /// it, and with the `events` and their `bytes` before compression, those of the branches included.
    #[schema(value_type = Vec<Object>)]
    deleted: Vec<Value>,
    /// Threads that may go and stay, because a thread that stays inherits from them.
    kept_for_heirs: Vec<String>,
    /// Whether there are more that may go.
    more: bool,
    /// Bytes of the events of all threads that stay, where a size was given.
    bytes_left: Option<u64>,
    /// The hashes of the definitions of workflows that went, because no thread runs on them.
    definitions: Vec<String>,
}

/// What became of the index.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Compacted {
    pub(crate) index_bytes_before: u64,
    pub(crate) index_bytes: u64,
}

/// What an import did.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Imported {
    /// Threads that were written.
    threads: Vec<String>,
    /// Threads that were there already, with the same events.
    known: Vec<String>,
    /// Events that were written.
    n_events: u64,
}

/// A thread, and what came of it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kin {
    thread_id: String,
    /// `pending`, `running`, `waiting`, `paused`, `completed`, `cancelled`, `error` or `interrupted`.
    status: String,
    workflow: Option<String>,
    workflow_hash: Option<String>,
    started_at: String,
    last_at: String,
    last_seq: u64,
    last_position: u64,
    forked_from: Option<Moment>,
    branch_of: Option<BranchOf>,
    damaged: bool,
    /// What it is called at the thread whose branch it is.
    branch: Option<String>,
    /// Its forks and branches.
    #[schema(no_recursion)]
    children: Vec<Self>,
}
