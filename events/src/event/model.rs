//! The choice of a model.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::ProfileId;
use crate::json::Json;
use crate::message::ToolChoice;

/// Which model, and how it is called.
#[derive(Debug, Clone, PartialEq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct ModelChoice {
    /// A named profile; it fills in what is absent below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileId>,
    /// The provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model's name at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The most tokens of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Whether the answer is streamed.
    #[serde(default)]
    pub stream: bool,
    /// How the model may use its tools, beyond the tool mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// Whether one answer may ask for several tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// Nucleus sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// A seed, where the provider supports one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Texts at which the answer stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// How much to think before the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<ReasoningOptions>,
    /// The tier of service, in the provider's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// How long answers are, where the provider knows that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<String>,
    /// Whether the provider caches the beginning of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheMode>,
    /// Keys of the provider's own, merged into its request as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Json>,
}

impl ModelChoice {
    /// The model for a call of another purpose: without what is said of the answers of the node.
    pub(crate) fn of_other_purpose(&self) -> Self {
        let Self { profile, provider, model, reasoning, service_tier, cache, extra, .. } = self.clone();
        Self { profile, provider, model, reasoning, service_tier, cache, extra, ..Self::default() }
    }
}

/// How much to think before the answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasoningOptions {
    /// How much, in a word that the provider knows: `none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`. `none` turns
    /// thinking off, where the model can do without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The most tokens to think; -1 leaves it to the model where the provider knows that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<i64>,
    /// Whether to show a summary of the thoughts, for example `auto`; `none` for no summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// Whether the provider caches the beginning of prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Encode, Decode, Serialize, Deserialize, JsonSchema)]
pub enum CacheMode {
    /// As the provider does it best: for minutes.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// For the longer of the provider's times: an hour at Anthropic.
    #[serde(rename = "1h")]
    Long,
    /// Not at all, as far as the provider can be told.
    #[serde(rename = "off")]
    Off,
}

/// A difference between the request of a model call and what is sent.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct RequestChange {
    /// What is left out or changed: a field of the request such as `temperature`, or `thoughts`, `refusals`, `media`, `model`.
    pub what: String,
    /// How many of them, where they can be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// Why, and what to write in its place.
    pub why: String,
}

impl RequestChange {
    /// A change without a count.
    pub fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), n: None, why: why.into() }
    }
}
