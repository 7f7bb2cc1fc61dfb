//! The one error type of everything that is executed: models, tools, nodes, threads.

use std::fmt;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The arguments do not fit the tool's schema.
    InvalidArguments,
    /// There is no such tool.
    UnknownTool,
    /// It took too long.
    Timeout,
    /// The call was cancelled.
    Cancelled,
    /// It tried and failed.
    Failed,
    /// It crashed.
    Panicked,
    /// Whether it happened is not known: its answer was lost and it must not be run again.
    Indeterminate,
    /// Larger than the limit.
    TooLarge,
    /// Not allowed.
    Denied,
    /// There is no such thing.
    NotFound,
    /// The state does not allow it.
    Conflict,
    /// The provider does not know the key.
    Authentication,
    /// The key may not do this.
    Permission,
    /// The request is malformed in the provider's eyes.
    InvalidRequest,
    /// The conversation is longer than the model can read.
    ContextLength,
    /// A filter cut in.
    ContentFilter,
    /// Too many requests.
    RateLimit,
    /// The account is used up.
    Quota,
    /// The provider has no room.
    Overloaded,
    /// The provider failed.
    Server,
    /// The provider cannot be reached.
    Connection,
    /// The stream ended in the middle.
    StreamInterrupted,
    /// The answer cannot be understood.
    MalformedResponse,
    /// A limit of the workflow was reached.
    Limit,
    /// An expression could not be evaluated.
    Expression,
    /// The definition or the configuration is wrong.
    Configuration,
    /// A fault of this program.
    Internal,
    /// The process ended several times in this step; it is not run again.
    CrashedProcess,
    /// The inputs of a sub-workflow do not fit its `input_schema`.
    InvalidInput,
    /// The output of a thread or a sub-workflow does not fit its `output_schema`.
    InvalidOutput,
    /// A message of the user interrupted it.
    Interrupted,
    /// A guardrail rejected it.
    Guardrail,
}

impl ErrorKind {
    /// Whether what failed in this way may have taken effect all the same: its answer was lost, cut off or not
    /// understood. That it does not leave doubt does not say that nothing was done.
    pub const fn leaves_doubt(self) -> bool {
        match self {
            Self::Timeout
            | Self::Cancelled
            | Self::Panicked
            | Self::Indeterminate
            | Self::TooLarge
            | Self::Server
            | Self::Connection
            | Self::StreamInterrupted
            | Self::MalformedResponse
            | Self::Limit
            | Self::Internal
            | Self::CrashedProcess
            | Self::Interrupted => true,
            Self::InvalidArguments
            | Self::UnknownTool
            | Self::Failed
            | Self::Denied
            | Self::NotFound
            | Self::Conflict
            | Self::Authentication
            | Self::Permission
            | Self::InvalidRequest
            | Self::ContextLength
            | Self::ContentFilter
            | Self::RateLimit
            | Self::Quota
            | Self::Overloaded
            | Self::Expression
            | Self::Configuration
            | Self::InvalidInput
            | Self::InvalidOutput
            | Self::Guardrail => false,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The name in JSON.
        self.serialize(f)
    }
}

/// Why a model call, a tool call, a node or a thread failed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ExecutionError {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// The description of the failure, for people and models.
    pub message: String,
    /// Whether trying again may help.
    pub retryable: bool,
    /// The cause, if it adds information.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "source")]
    pub cause: Option<String>,
}

impl ExecutionError {
    /// An error that trying again does not mend.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retryable: false, cause: None }
    }

    /// An error that trying again may mend.
    pub fn retryable(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { retryable: true, ..Self::new(kind, message) }
    }

    /// Adds a cause to the error.
    #[must_use]
    pub fn caused_by(mut self, cause: impl fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }
}
