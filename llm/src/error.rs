//! The errors of a call, grouped by what the caller does next.

use std::time::Duration;

use rethread_events::event::FailedUsage;
use rethread_events::expression::nearest;
pub use rethread_events::fault::ErrorKind;
use rethread_events::text::head_bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// The longest excerpt of a provider's words that an error carries, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 2_000;

/// Returns whether the same request may succeed when it is sent again after a failure of this kind, and none for a kind
/// with which no model call fails.
pub(crate) const fn is_retryable(kind: ErrorKind) -> Option<bool> {
    match kind {
        ErrorKind::RateLimit
        | ErrorKind::Overloaded
        | ErrorKind::Server
        | ErrorKind::Timeout
        | ErrorKind::Connection
        | ErrorKind::StreamInterrupted
        | ErrorKind::MalformedResponse => Some(true),
        ErrorKind::Authentication
        | ErrorKind::Permission
        | ErrorKind::InvalidRequest
        | ErrorKind::NotFound
        | ErrorKind::ContextLength
        | ErrorKind::ContentFilter
        | ErrorKind::Quota
        | ErrorKind::TooLarge
        | ErrorKind::Cancelled => Some(false),
        ErrorKind::InvalidArguments
        | ErrorKind::UnknownTool
        | ErrorKind::Failed
        | ErrorKind::Panicked
        | ErrorKind::Indeterminate
        | ErrorKind::Denied
        | ErrorKind::Conflict
        | ErrorKind::Limit
        | ErrorKind::Expression
        | ErrorKind::Configuration
        | ErrorKind::Internal
        | ErrorKind::CrashedProcess
        | ErrorKind::InvalidInput
        | ErrorKind::InvalidOutput
        | ErrorKind::Interrupted
        | ErrorKind::Guardrail => None,
    }
}

/// Reads the kind of a failed model call. A kind with which no model call fails is an error.
pub(crate) fn model_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ErrorKind, D::Error> {
    let kind = ErrorKind::deserialize(deserializer)?;
    match is_retryable(kind) {
        Some(_) => Ok(kind),
        None => Err(D::Error::custom(format!("no model call fails with `{kind}`"))),
    }
}

/// Reads several, as [`model_kind`].
pub(crate) fn model_kinds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ErrorKind>, D::Error> {
    #[derive(Deserialize)]
    struct One(#[serde(deserialize_with = "model_kind")] ErrorKind);
    Ok(Vec::<One>::deserialize(deserializer)?.into_iter().map(|One(kind)| kind).collect())
}

/// Returns the message of a parser about a key or a value that it does not know, with the one that was probably meant.
pub(crate) fn with_nearest(message: String) -> String {
    let unknown = ["unknown field `", "unknown variant `"];
    let Some((_, rest)) = unknown.iter().find_map(|begin| message.split_once(begin)) else { return message };
    let Some((name, known)) = rest.split_once("`, expected ") else { return message };
    match nearest(name, known.split('`').skip(1).step_by(2)) {
        Some(meant) => format!("{} (did you mean `{meant}`?)", message.trim_end()),
        None => message,
    }
}

/// A call that failed. Its JSON form is the `error` object of a printed answer; it never holds a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error(
    "{provider}: {kind}{}: {message}{}",
    status.map(|s| format!(" (HTTP {s})")).unwrap_or_default(),
    place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default()
)]
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
    /// The profile, its address and what to check, for failures of connections, keys and names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Box<str>>,
    /// What the provider reported before the attempt failed. Absent if it reported nothing: the usage is then unknown, not
    /// zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Box<FailedUsage>>,
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
            retryable: matches!(is_retryable(kind), Some(true)),
            request_id: None,
            place: None,
            used: None,
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
