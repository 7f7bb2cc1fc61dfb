//! The protocols of the providers: one file or folder each, which implements the traits of [`protocol`].

#[cfg(feature = "anthropic")]
pub(crate) mod anthropic;
#[cfg(any(feature = "anthropic", feature = "gemini", feature = "openai"))]
pub(crate) mod body;
pub(crate) mod draft;
#[cfg(feature = "http")]
pub(crate) mod fault;
#[cfg(feature = "gemini")]
pub(crate) mod gemini;
#[cfg(feature = "http")]
pub(crate) mod json;
#[cfg(feature = "openai")]
pub(crate) mod openai_chat;
#[cfg(feature = "openai")]
pub(crate) mod openai_responses;
#[cfg(feature = "http")]
mod plain;
#[cfg(feature = "http")]
mod protocol;
#[cfg(any(feature = "anthropic", feature = "openai"))]
mod subset;

#[cfg(feature = "http")]
pub(crate) use protocol::*;

use rethread_events::ids::Hash;

use crate::error::{ErrorKind, LlmError};

/// The context for reading an answer, besides its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswerContext {
    /// The provider's name, for errors.
    pub(crate) provider: &'static str,
    /// The answers that the conversation already holds. Makes the ids of calls, where the provider gives none,
    /// unique in the conversation and the same after a restart.
    pub(crate) n_answers: usize,
    /// The hash of what the answer is bound to, see [`Built::prefix`].
    pub(crate) prefix: Option<Hash>,
    /// Whether the model writes its thoughts into the text, see [`Built::splits_think_tag`].
    pub(crate) splits_think_tag: bool,
}

impl AnswerContext {
    pub(crate) fn new(provider: &'static str, n_answers: usize) -> Self {
        Self { provider, n_answers, prefix: None, splits_think_tag: false }
    }

    pub(crate) fn malformed(self, what: impl AsRef<str>) -> LlmError {
        LlmError::new(ErrorKind::MalformedResponse, self.provider, what)
    }

    pub(crate) fn interrupted(self) -> LlmError {
        LlmError::new(ErrorKind::StreamInterrupted, self.provider, "the stream ended before the answer did")
    }
}

#[cfg(test)]
pub(crate) mod tests;
