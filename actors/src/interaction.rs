//! Questions to people, answered by the application.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rethread_events::codec::OrderedMap;
use rethread_events::event::{AnswerType, AskedTool, OperationType};
use rethread_events::ids::{CallId, NodeId, Seq, ThreadId, Time};
use rethread_events::json::Json;
use rethread_events::principal::Principal;
use rethread_events::thread::{Input, Interaction, State};
use rethread_store::LogReader;
use tokio_util::sync::CancellationToken;

use crate::error::ControlError;

/// A question to a person.
#[derive(Debug, Clone, PartialEq)]
pub struct InteractionRequest {
    /// Its id; with the thread's it is unique, see [`CallId::key`].
    pub id: CallId,
    /// The kind of the question, which decides what an answer may be:
    ///
    /// - `UpdateVariables`, `AddMessage`: a node asks; a value of the type [`InteractionRequest::answer`], or any value that
    ///   the node's expressions can use where the question has no type.
    /// - `ApproveTool`: whether [`InteractionRequest::tool_call`] runs. `true` or `false`, or one of
    ///   `{"decision": "approve"}`, `{"decision": "edit", "arguments": {…}}`, `{"decision": "reject", "reason": "…"}`,
    ///   `{"decision": "answer", "content": …}`.
    /// - `ApproveContent`: whether an input or an answer is used that a guardrail has stopped. `true` or `false`, or one of
    ///   `{"decision": "approve"}`, `{"decision": "reject", "reason": "…"}`, `{"decision": "answer", "content": "a text in its
    ///   place"}`.
    /// - `AnswerTool`: a model asks; any value, which is the result of its call.
    /// - `RelayModel`: a person answers for the model; the answer as a text, or the JSON that the prompt asks for when
    ///   the answer is to use tools.
    /// - `InformTool`: a tool that runs asks, for example an MCP server in the middle of a call. Where there is a form
    ///   (`schema` in the metadata), an object that fits it, or the value alone when it has one field; for a page to be
    ///   opened (`url`), yes or no. `{"decision": "reject"}` gives no answer. The question ends with the call.
    pub operation_type: OperationType,
    /// The question. For `RelayModel` it is the whole request that the model would get.
    pub prompt: Option<String>,
    /// When it was asked.
    pub requested_at: Time,
    /// Until when it can be answered.
    pub deadline: Option<Time>,
    /// Data from the workflow's author for the application; `choices` if a model offers some; `from`, `schema` and
    /// `url` if a tool asks.
    pub metadata: Option<Json>,
    /// The tool call of the question.
    pub tool_call: Option<AskedTool>,
    /// The type of the answer; any JSON value when absent. An answer of another type is refused, see
    /// [`AnswerType::expected`].
    pub answer: Option<AnswerType>,
}

impl InteractionRequest {
    /// Creates the question for a person, with the prompt of [`Services::prompt_of`](crate::services::Services).
    pub(crate) fn new(ask: &Interaction, prompt: Option<String>) -> Self {
        Self {
            id: ask.id,
            operation_type: ask.operation_type,
            prompt,
            requested_at: ask.requested_at,
            deadline: ask.deadline,
            metadata: ask.metadata.clone(),
            tool_call: ask.tool_call.clone(),
            answer: ask.answer_type.clone(),
        }
    }
}

/// Gives a thread an input; the returned future completes when it is durable.
type SendInput = dyn Fn(Input) -> BoxFuture<'static, Result<Option<Seq>, ControlError>> + Send + Sync;

/// What a handler can read and do.
#[derive(Clone)]
pub struct InteractionContext {
    /// The thread.
    pub thread: ThreadId,
    /// The node that asks.
    pub node: NodeId,
    /// The state at the moment of the question: variables, conversation, path.
    pub state: State,
    /// Cancelled when the answer is no longer needed: the question expired, was withdrawn, or was answered by other
    /// means.
    pub cancel: CancellationToken,
    pub(crate) store: Arc<dyn LogReader>,
    pub(crate) send_input: Arc<SendInput>,
}

impl InteractionContext {
    /// Sets variables of scope `thread`. They are durable when this returns. [`InteractionContext::state`] does not
    /// change.
    ///
    /// # Errors
    /// `Rejected` when the thread has ended or a name is invalid; errors of the thread or the log.
    pub async fn set_variables(&self, variables: OrderedMap<Json>) -> Result<(), ControlError> {
        (self.send_input)(Input::SetVariables(variables).by(Some(Principal::Handler))).await.map(drop)
    }
}

impl std::fmt::Debug for InteractionContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InteractionContext")
            .field("thread", &self.thread)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

/// Gets answers from people. Implemented by the application: a dialog, a chat, a terminal. A thread may have several
/// questions at once; each is one call of the handler.
///
/// A handler that cannot answer now waits on `cx.cancel`: the question stays open, survives a restart,
/// and can be answered through [`crate::ThreadHandle::respond`]. After a restart the question is asked again.
pub trait UserInteractionHandler: Send + Sync + 'static {
    /// Returns the raw answer: a text, a boolean, any JSON; see [`InteractionRequest::operation_type`]. An error, or an
    /// answer that cannot be used, ends the question as failed and is recorded.
    fn handle(&self, request: InteractionRequest, cx: InteractionContext) -> BoxFuture<'static, Result<Json, String>>;
}
