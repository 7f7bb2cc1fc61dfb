//! Moments of a thread: names, states, families.

use rethread::{Seq, ThreadId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::thread::Usage;
use crate::views::Member;

/// A name of a moment.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkpoint {
    pub(crate) label: String,
    #[schema(value_type = u64)]
    pub(crate) seq: Option<Seq>,
}

/// The named moments of a thread.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkpoints {
    #[schema(value_type = String)]
    pub(crate) thread_id: ThreadId,
    pub(crate) checkpoints: Vec<Checkpoint>,
}

/// The whole state of a thread at a moment; docs/EVENTS.md describes it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct State {
    thread_id: String,
    /// The moment: the last event that is in the state.
    seq: u64,
    status: String,
    workflow: Option<String>,
    workflow_hash: Option<String>,
    labels: std::collections::BTreeMap<String, String>,
    node: Option<String>,
    #[schema(value_type = Object)]
    variables: Value,
    #[schema(value_type = Vec<Object>)]
    messages: Vec<Value>,
    /// What is open: calls, questions and waits, each with `kind` and `id`.
    #[schema(value_type = Vec<Object>)]
    pending: Vec<Value>,
    usage: Usage,
    output: Option<Value>,
    #[schema(value_type = Option<Object>)]
    error: Option<Value>,
}

/// A thread and the branches that ran at a moment.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Family {
    #[schema(value_type = String)]
    pub(crate) thread_id: ThreadId,
    #[schema(value_type = u64)]
    pub(crate) seq: Seq,
    pub(crate) members: Vec<Member>,
}
