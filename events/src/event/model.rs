//! The choice of a model.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::ids::ProfileId;
use crate::json::Json;

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
    /// Keys of the provider's own, merged into its request as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Json>,
}
