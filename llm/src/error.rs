//! What can go wrong with a call, grouped by what the caller does next.

use rethread_events::text::head_bytes;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest excerpt of a provider's words that an error carries, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 2_000;

/// The kinds of failure. Their names in JSON are the `kind` of a printed error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The key is missing, wrong or expired: give another.
    Authentication,
    /// The key is good but may not do this.
    Permission,
    /// The request is invalid: change it.
    InvalidRequest,
    /// No such model or endpoint.
    NotFound,
    /// The conversation is longer than the model takes: shorten it.
    ContextLength,
    /// The provider refuses the content.
    ContentFilter,
    /// Too many requests: wait, then ask again.
    RateLimit,
    /// The account has no credit or quota left.
    Quota,
    /// The provider is overloaded: ask again later.
    Overloaded,
    /// The provider failed: ask again.
    Server,
    /// A time limit passed.
    Timeout,
    /// The provider could not be reached, or the connection broke before an answer began.
    Connection,
    /// The answer began and did not end.
    StreamInterrupted,
    /// The answer is not what this protocol sends.
    MalformedResponse,
    /// The request or the answer is over a size limit.
    TooLarge,
    /// The caller no longer wants the answer.
    Cancelled,
}

impl ErrorKind {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Authentication => "authentication",
            Self::Permission => "permission",
            Self::InvalidRequest => "invalid_request",
            Self::NotFound => "not_found",
            Self::ContextLength => "context_length",
            Self::ContentFilter => "content_filter",
            Self::RateLimit => "rate_limit",
            Self::Quota => "quota",
            Self::Overloaded => "overloaded",
            Self::Server => "server",
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::StreamInterrupted => "stream_interrupted",
            Self::MalformedResponse => "malformed_response",
            Self::TooLarge => "too_large",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the same request may succeed when it is sent again.
    pub const fn is_retryable(self) -> bool {
        match self {
            Self::RateLimit
            | Self::Overloaded
            | Self::Server
            | Self::Timeout
            | Self::Connection
            | Self::StreamInterrupted
            | Self::MalformedResponse => true,
            Self::Authentication
            | Self::Permission
            | Self::InvalidRequest
            | Self::NotFound
            | Self::ContextLength
            | Self::ContentFilter
            | Self::Quota
            | Self::TooLarge
            | Self::Cancelled => false,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A call that failed. Its JSON form is the `error` object of a printed answer; it never holds a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{provider}: {kind}{}: {message}", status.map(|s| format!(" (HTTP {s})")).unwrap_or_default())]
pub struct LlmError {
    /// What to do next.
    pub kind: ErrorKind,
    /// The HTTP status, when there was an answer.
    pub status: Option<u16>,
    /// The provider's name.
    pub provider: String,
    /// The provider's own code or type.
    pub code: Option<String>,
    /// The provider's words, at most [`MESSAGE_BYTES_MAX`] bytes.
    pub message: String,
    /// How long the provider asks to wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// Whether the same request may succeed when it is sent again.
    pub retryable: bool,
    /// The provider's name for the request, for its support.
    pub request_id: Option<String>,
}

impl LlmError {
    /// An error of `kind`, retryable as the kind says.
    pub fn new(kind: ErrorKind, provider: impl Into<String>, message: impl AsRef<str>) -> Self {
        Self {
            kind,
            status: None,
            provider: provider.into(),
            code: None,
            message: head_bytes(message.as_ref().trim(), MESSAGE_BYTES_MAX).to_owned(),
            retry_after_ms: None,
            retryable: kind.is_retryable(),
            request_id: None,
        }
    }

    /// How long the provider asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ms.map(Duration::from_millis)
    }
}

/// The beginning of a text on one line, at most `bytes_max` bytes, cut between characters, with blanks run together.
pub fn excerpt(text: &str, bytes_max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(bytes_max));
    for word in text.split_whitespace() {
        let room = bytes_max.saturating_sub(out.len());
        if room <= usize::from(!out.is_empty()) {
            break;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        let room = bytes_max - out.len();
        if word.len() <= room {
            out.push_str(word);
        } else {
            out.push_str(head_bytes(word, room));
            break;
        }
    }
    out
}
