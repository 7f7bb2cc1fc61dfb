//! What happened in a thread.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// What a thread did, node by node.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Steps {
    first_seq: u64,
    last_seq: u64,
    /// `open`, `completed`, `failed` or `cancelled`.
    outcome: String,
    /// One for each node that was entered, in that order: its calls, its times, what it used, what came of it.
    #[schema(value_type = Vec<Object>)]
    results: Vec<Value>,
    /// How many results were there before those that are held.
    n_dropped: u64,
}
