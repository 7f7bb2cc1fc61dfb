//! Moments of a thread: names, states, families.

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::thread::Usage;

/// A name of a moment.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkpoint {
    label: String,
    seq: u64,
}

/// The named moments of a thread.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkpoints {
    thread_id: String,
    checkpoints: Vec<Checkpoint>,
}

/// The whole state of a thread at a moment; docs/EVENTS.md describes it.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct State {
    thread_id: String,
    /// The moment: the last event that is in the state.
    seq: u64,
    status: String,
    workflow: Option<String>,
    workflow_hash: Option<String>,
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

/// A thread of a family at a moment.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Member {
    thread_id: String,
    /// The thread whose branch it is; null for the first.
    owner: Option<String>,
    /// What the branch is called at its owner.
    name: Option<String>,
    /// Its last event at that moment; null for a branch that had not begun.
    seq: Option<u64>,
    status: String,
    /// The node it was in.
    node: Option<String>,
}

/// A thread and the branches that ran at a moment.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Family {
    thread_id: String,
    seq: u64,
    members: Vec<Member>,
}
