//! The chunk that nearly every chunk is: some text and nothing else.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::wire::plain::{First, Nothing, Text};

/// A chunk of one choice. Keys that say nothing about the answer may hold anything; a key that might say something
/// and does not fit makes the whole not fit.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) model: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) service_tier: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) choices: [Choice<'a>; 1],
    #[serde(default, rename = "usage")]
    _usage: Nothing,
    #[serde(default, rename = "error")]
    _error: Nothing,
    #[serde(default, rename = "citations")]
    _citations: Nothing,
}

/// The choice of index 0.
#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default, rename = "index")]
    _index: First,
    #[serde(borrow)]
    pub(super) delta: Delta<'a>,
    #[serde(default, rename = "finish_reason")]
    _finish_reason: Nothing,
    #[serde(default, rename = "logprobs")]
    _logprobs: Nothing,
}

/// Text, and keys that say nothing.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Delta<'a> {
    #[serde(default, rename = "role")]
    _role: Option<IgnoredAny>,
    #[serde(borrow, default)]
    pub(super) content: Option<Text<'a>>,
    #[serde(default, rename = "refusal")]
    _refusal: Nothing,
    #[serde(default, rename = "tool_calls")]
    _tool_calls: Nothing,
    #[serde(default, rename = "function_call")]
    _function_call: Nothing,
    #[serde(default, rename = "reasoning_content")]
    _reasoning_content: Nothing,
    #[serde(default, rename = "reasoning")]
    _reasoning: Nothing,
}

#[cfg(test)]
mod tests;
