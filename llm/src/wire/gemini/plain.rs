//! The piece that nearly every piece is: one part with text, and figures.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::wire::plain::{First, Nothing, Text};

/// A piece with one candidate. Keys that say nothing about the answer may hold anything.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Piece<'a> {
    #[serde(borrow)]
    pub(super) candidates: [Candidate<'a>; 1],
    #[serde(default)]
    pub(super) usage_metadata: Figures,
    #[serde(borrow, default)]
    pub(super) model_version: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) response_id: Option<Text<'a>>,
    #[serde(default, rename = "promptFeedback")]
    _prompt_feedback: Nothing,
    #[serde(default, rename = "error")]
    _error: Nothing,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Candidate<'a> {
    #[serde(borrow)]
    pub(super) content: Content<'a>,
    #[serde(default, rename = "index")]
    _index: First,
    #[serde(default, rename = "finishReason")]
    _finish_reason: Nothing,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Content<'a> {
    #[serde(borrow)]
    pub(super) parts: [Part<'a>; 1],
    #[serde(default, rename = "role")]
    _role: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part<'a> {
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(default)]
    pub(super) thought: bool,
}

/// The figures so far, of text only.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Figures {
    pub(super) prompt_token_count: Option<u64>,
    pub(super) candidates_token_count: Option<u64>,
    pub(super) thoughts_token_count: Option<u64>,
    pub(super) tool_use_prompt_token_count: Option<u64>,
    pub(super) total_token_count: Option<u64>,
    pub(super) cached_content_token_count: Option<u64>,
    #[serde(default, rename = "promptTokensDetails")]
    _prompt: Vec<OfText>,
    #[serde(default, rename = "candidatesTokensDetails")]
    _candidates: Vec<OfText>,
    #[serde(default, rename = "cacheTokensDetails")]
    _cache: IgnoredAny,
}

/// The figure of one kind, which is text.
#[derive(Debug, Deserialize)]
struct OfText {
    #[serde(rename = "modality")]
    _modality: Modality,
}

#[derive(Debug, Deserialize)]
enum Modality {
    #[serde(rename = "TEXT")]
    Text,
}

#[cfg(test)]
mod tests;
