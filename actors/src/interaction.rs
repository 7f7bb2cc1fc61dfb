//! Questions to people, answered by the application.

use futures::future::BoxFuture;
use rethread_events::event::OperationType;
use rethread_events::ids::{CallId, NodeId, ThreadId, Time};
use rethread_events::json::Json;
use rethread_events::thread::State;
use tokio_util::sync::CancellationToken;

/// A question to a person.
#[derive(Debug, Clone, PartialEq)]
pub struct InteractionRequest {
    /// Its id; with the thread's it is unique, see [`CallId::key`].
    pub id: CallId,
    /// What will be done with the answer. The handler need not care.
    pub operation_type: OperationType,
    /// The question.
    pub prompt: Option<String>,
    /// Until when it can be answered.
    pub deadline: Option<Time>,
    /// What the workflow's author wants the application to know.
    pub metadata: Option<Json>,
}

/// What a handler may look at.
#[derive(Debug, Clone)]
pub struct InteractionContext {
    /// The thread.
    pub thread: ThreadId,
    /// The node that asks.
    pub node: NodeId,
    /// The state at the moment of the question: variables, conversation, path.
    pub state: State,
    /// Cancelled when the answer is no longer wanted: the question ran out of time, was taken back, or was answered
    /// by other means.
    pub cancel: CancellationToken,
}

/// Gets answers from people. Implemented by the application: a dialog, a chat, a terminal.
///
/// One that cannot answer now (nobody is there) waits on `cx.cancel`: the question stays open, survives a restart,
/// and can be answered through [`crate::ThreadHandle::respond`]. After a restart the question is asked again.
pub trait UserInteractionHandler: Send + Sync + 'static {
    /// The raw answer: a text, a boolean, any JSON. An error ends the question as failed and goes into the log.
    fn handle(&self, request: InteractionRequest, cx: InteractionContext) -> BoxFuture<'static, Result<Json, String>>;
}
