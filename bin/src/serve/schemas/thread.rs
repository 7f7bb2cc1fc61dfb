//! Threads: lists, pages, what became of one.

use rethread::ThreadId;
use serde::Serialize;
use serde_json::Value;
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

/// What became of the index.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Compacted {
    pub(crate) index_bytes_before: u64,
    pub(crate) index_bytes: u64,
}
