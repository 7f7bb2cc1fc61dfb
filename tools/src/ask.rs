//! How a tool asks a person in the middle of a call.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rethread_events::fault::ExecutionError;
use rethread_events::json::Json;
use tokio_util::sync::CancellationToken;

/// A question of a tool that is running.
#[derive(Debug, Clone)]
pub struct Question {
    /// The idempotency key of the call that asks. A call may ask several times.
    pub key: Arc<str>,
    /// Who asks, for people: the name of a server or of a tool.
    pub from: String,
    /// The question.
    pub message: String,
    /// What the answer must look like, as JSON Schema; nothing when there is no form to fill in.
    pub schema: Option<Json>,
    /// A page that the person is asked to open. What happens there is not seen by the tool's caller.
    pub url: Option<String>,
    /// Cancelled when the answer is no longer awaited.
    pub cancel: CancellationToken,
}

/// The answer of a person.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The answer, fit for the schema.
    Accept(Json),
    /// No, on purpose.
    Decline,
    /// No answer: the person closed the question or is not there.
    Cancel,
}

/// Asks people on behalf of tools. The embedding program implements it; without one, questions are declined.
pub trait AskPerson: Send + Sync {
    /// Asks, and waits for the answer without a time limit of its own. The time limit of the calling tool continues: a
    /// tool that asks people needs a `timeout_ms` that lets them answer. Dropping the future withdraws the question.
    ///
    /// # Errors
    /// Cancels the call that asked.
    fn ask(&self, question: Question) -> BoxFuture<'static, Result<Reply, ExecutionError>>;
}
