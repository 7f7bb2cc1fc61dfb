//! Questions that wait for people.

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

/// A question that waits for a person.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Interaction {
    /// Its name worldwide.
    id: String,
    thread_id: String,
    workflow: Option<String>,
    node: String,
    /// What will be done with the answer, and so what it may be: `approve_tool`, `answer_tool`, `update_variables`,
    /// `add_message`, `relay_model`.
    operation_type: String,
    prompt: Option<String>,
    #[schema(value_type = Option<Object>)]
    tool_call: Option<Value>,
    /// The type of the answer: `{"type": "boolean"}`, `{"type": "choice", "choices": […]}`, `{"type": "text"}`,
    /// `{"type": "number"}` or `{"type": "json_schema", "schema": {…}}`; null where any value is an answer.
    #[schema(value_type = Option<Object>)]
    answer: Option<Value>,
    requested_at: String,
    age_ms: u64,
    deadline: Option<String>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
}

/// What waits for people.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Interactions {
    /// Those that have waited longest first.
    interactions: Vec<Interaction>,
    /// Threads that cannot be read, and why; what they ask is not known.
    unreadable: Vec<Unreadable>,
    /// How many questions are open, on all pages.
    total: usize,
    /// The `cursor` of the next page; null on the last.
    next: Option<String>,
}

/// A thread that cannot be read.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unreadable {
    thread_id: String,
    #[schema(value_type = Object)]
    problem: Value,
}

/// A question that was answered or taken back.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answered {
    id: String,
    thread_id: String,
    /// `answered` or `cancelled`.
    status: String,
}
