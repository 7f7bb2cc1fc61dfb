//! Questions that wait for people.

use rethread::event::{AnswerType, AskedTool, OperationType};
use rethread::operate::OpenInteraction;
use rethread::{Json, NodeId, ThreadId, Time};
use serde::Serialize;

/// A question that waits for a person.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Interaction {
    /// Its name worldwide.
    id: String,
    #[cfg_attr(feature = "server", schema(value_type = String))]
    thread_id: ThreadId,
    workflow: Option<String>,
    #[cfg_attr(feature = "server", schema(value_type = String))]
    node: NodeId,
    /// The kind of the question, which decides what an answer may be: `approve_tool`, `answer_tool`,
    /// `update_variables`, `add_message`, `relay_model`.
    #[cfg_attr(feature = "server", schema(value_type = String))]
    operation_type: OperationType,
    prompt: Option<String>,
    #[cfg_attr(feature = "server", schema(value_type = Option<Object>))]
    tool_call: Option<AskedTool>,
    /// The type of the answer: `{"type": "boolean"}`, `{"type": "choice", "choices": […]}`, `{"type": "text"}`,
    /// `{"type": "number"}` or `{"type": "json_schema", "schema": {…}}`; null where any value is an answer.
    #[cfg_attr(feature = "server", schema(value_type = Option<Object>))]
    answer: Option<AnswerType>,
    #[cfg_attr(feature = "server", schema(value_type = String))]
    requested_at: Time,
    age_ms: u64,
    #[cfg_attr(feature = "server", schema(value_type = Option<String>))]
    deadline: Option<Time>,
    #[cfg_attr(feature = "server", schema(value_type = Option<Object>))]
    metadata: Option<Json>,
}

impl Interaction {
    /// A question as it is at a time.
    pub(crate) fn of(open: &OpenInteraction, now: Time) -> Self {
        let request = &open.request;
        Self {
            id: open.key(),
            thread_id: open.thread,
            workflow: open.workflow.clone(),
            node: open.node.clone(),
            operation_type: request.operation_type,
            prompt: request.prompt.clone(),
            tool_call: request.tool_call.clone(),
            answer: request.answer.clone(),
            requested_at: request.requested_at,
            age_ms: open.age_ms(now),
            deadline: request.deadline,
            metadata: request.metadata.clone(),
        }
    }
}
