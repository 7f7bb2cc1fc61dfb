//! What a workflow says of its models beside its nodes: who judges conditions, what may be spent, who summarises.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{BudgetLimits, ModelChoice, OnLimit, OnUnpriced};
use crate::ids::ProfileId;
use crate::json::Json;

/// The model that judges conditions in natural language; never a person. It is shown the conversation, `input` and
/// `output`, and answers yes or no. Any other answer is asked for once more; then the condition counts as not fulfilled.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Judge {
    /// A named profile in place of provider and model.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "profile", alias = "profileId")]
    pub profile_id: Option<ProfileId>,
    /// The provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model's name at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How long one verdict may take; 60 000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "timeout", alias = "timeoutMs")]
    pub timeout_ms: Option<u64>,
    /// Keys of the provider's own, merged into its request as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Json>,
}

/// What a thread may spend on models. Checked before each model call against what is known to be spent, so that the
/// last call may go beyond it. A branch may spend what its owner had left when it began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Tokens of prompts and answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost in billionths of a US dollar. Every model needs a known price, unless `on_unpriced` is `allow`.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "costNanousd")]
    pub cost_nanousd: Option<u64>,
    /// The same in US dollars, as a text such as `'0.25'`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<String>,
    /// What happens when it is spent; the thread pauses when absent.
    #[serde(default = "pause", alias = "onExceeded")]
    pub on_exceeded: OnLimit,
    /// Whether a thread with a budget in money may start and continue although the price of a model is not known. When
    /// absent it does not start, and a call that turns out to have no price counts as a spent budget. With `allow` such
    /// calls are not counted, and a WARNING reports them.
    #[serde(default, skip_serializing_if = "is_refuse", alias = "onUnpriced")]
    pub on_unpriced: OnUnpriced,
}

// The signature that serde asks for.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_refuse(on_unpriced: &OnUnpriced) -> bool {
    *on_unpriced == OnUnpriced::Refuse
}

fn pause() -> OnLimit {
    OnLimit::Pause
}

/// What is absent in a file.
impl Default for Budget {
    fn default() -> Self {
        Self { tokens: None, cost_nanousd: None, usd: None, on_exceeded: pause(), on_unpriced: OnUnpriced::Refuse }
    }
}

/// What the runs of a thread may take together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThreadLimits {
    /// How long after the start of the thread a run may still be in progress, waiting for people included. A fork counts
    /// from the start of the thread that it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "timeout", alias = "timeoutMs")]
    pub timeout_ms: Option<u64>,
    /// What all runs may spend on models. A run begins with what those before it left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
}

impl Budget {
    /// What a thread is started with.
    pub(crate) fn limits(&self) -> BudgetLimits {
        let cost_nanousd = self.cost_nanousd.or_else(|| self.usd.as_deref().and_then(nanousd));
        BudgetLimits { tokens: self.tokens, cost_nanousd, on_exceeded: self.on_exceeded, on_unpriced: self.on_unpriced }
    }
}

/// An amount in US dollars with at most nine decimals, in billionths; `None` when it is none.
pub fn nanousd(text: &str) -> Option<u64> {
    let (whole, decimals) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && decimals.is_empty()) || !digits(whole) || !digits(decimals) || decimals.len() > 9 {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let decimals: u64 = format!("{decimals:0<9}").parse().ok()?;
    whole.checked_mul(1_000_000_000)?.checked_add(decimals)
}

/// When a conversation that has become too long is summarised, and by which model. User messages stay; the messages
/// between two of them are replaced by a summary. The originals stay in the log.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Before a model call with more than this many counted tokens; 80 000 when absent, never when 0 or `off`.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "tokenLimit")]
    pub token_limit: Option<TokenLimit>,
    /// A named profile in place of provider and model. Without any of them, the node's own model is asked.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "profile", alias = "profileId")]
    pub profile_id: Option<ProfileId>,
    /// The provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model's name at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How long one summary may take; 120 000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "timeout", alias = "timeoutMs")]
    pub timeout_ms: Option<u64>,
    /// Keys of the provider's own, merged into its request as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Json>,
}

/// A number of tokens, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TokenLimit {
    /// The number of tokens; 0 for none.
    Tokens(u64),
    /// None.
    Word(Off),
}

/// The word for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Off {
    /// Never.
    Off,
}

impl TokenLimit {
    /// The number, where there is one.
    pub fn tokens(self) -> Option<u64> {
        match self {
            Self::Tokens(0) | Self::Word(Off::Off) => None,
            Self::Tokens(n) => Some(n),
        }
    }
}

impl Summary {
    /// The model that it names, if any.
    pub(crate) fn model_choice(&self) -> Option<ModelChoice> {
        let named = self.profile_id.is_some() || self.provider.is_some();
        named.then(|| ModelChoice {
            profile: self.profile_id.clone(),
            provider: self.provider.clone(),
            model: self.model.clone(),
            extra: self.extra.clone(),
            ..ModelChoice::default()
        })
    }
}
