//! The providers a profile can name.

use rethread_events::text;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A provider: a protocol, with where it is found and which variables hold its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// OpenAI: Responses at its own address and at Azure's, Chat Completions at any other.
    Openai,
    /// OpenAI Chat Completions, and every server that imitates it.
    #[serde(alias = "openai_compatible")]
    OpenaiChat,
    /// OpenAI Responses.
    OpenaiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini's own API.
    Gemini,
    /// Gemini through its OpenAI-compatible endpoint.
    GeminiOpenai,
    /// A script.
    Mock,
    /// A person who pastes the prompt into some chat, and the answer back.
    #[serde(alias = "human_relay")]
    Human,
}

/// Every provider, in the order of the documentation.
pub const PROVIDERS: [Provider; 8] = [
    Provider::Openai,
    Provider::OpenaiChat,
    Provider::OpenaiResponses,
    Provider::Anthropic,
    Provider::Gemini,
    Provider::GeminiOpenai,
    Provider::Mock,
    Provider::Human,
];

impl Provider {
    /// The name in profiles, on the command line and in errors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::OpenaiChat => "openai_chat",
            Self::OpenaiResponses => "openai_responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::GeminiOpenai => "gemini_openai",
            Self::Mock => "mock",
            Self::Human => "human",
        }
    }

    /// The feature of this crate that the provider needs; none for those that are always there.
    pub const fn feature(self) -> Option<&'static str> {
        match self {
            Self::Openai | Self::OpenaiChat | Self::OpenaiResponses | Self::GeminiOpenai => Some("openai"),
            Self::Anthropic => Some("anthropic"),
            Self::Gemini => Some("gemini"),
            Self::Mock | Self::Human => None,
        }
    }

    /// Returns the feature that is missing for this provider; none when it can be used.
    pub const fn missing_feature(self) -> Option<&'static str> {
        let is_there = match self {
            Self::Openai | Self::OpenaiChat | Self::OpenaiResponses | Self::GeminiOpenai => cfg!(feature = "openai"),
            Self::Anthropic => cfg!(feature = "anthropic"),
            Self::Gemini => cfg!(feature = "gemini"),
            Self::Mock | Self::Human => true,
        };
        if is_there { None } else { self.feature() }
    }

    /// The base URL of the provider itself, as its official client libraries mean it.
    pub const fn base_url(self) -> Option<&'static str> {
        match self {
            Self::Openai | Self::OpenaiChat | Self::OpenaiResponses => Some("https://api.openai.com/v1"),
            Self::Anthropic => Some("https://api.anthropic.com"),
            Self::Gemini => Some("https://generativelanguage.googleapis.com"),
            Self::GeminiOpenai => Some("https://generativelanguage.googleapis.com/v1beta/openai"),
            Self::Mock | Self::Human => None,
        }
    }

    /// The variables that may hold the base URL; the first that is set counts.
    pub const fn base_url_env(self) -> &'static [&'static str] {
        match self {
            Self::Openai | Self::OpenaiChat | Self::OpenaiResponses => &["OPENAI_BASE_URL"],
            Self::Anthropic => &["ANTHROPIC_BASE_URL"],
            Self::Gemini => &["GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"],
            Self::GeminiOpenai => &["GEMINI_OPENAI_BASE_URL"],
            Self::Mock | Self::Human => &[],
        }
    }

    /// The variables that may hold the key; the first that is set counts.
    pub const fn key_env(self) -> &'static [&'static str] {
        match self {
            Self::Openai | Self::OpenaiChat | Self::OpenaiResponses => &["OPENAI_API_KEY"],
            Self::Anthropic => &["ANTHROPIC_API_KEY"],
            Self::Gemini | Self::GeminiOpenai => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
            Self::Mock | Self::Human => &[],
        }
    }

    /// The provider whose protocol is spoken at this host.
    #[must_use]
    pub(crate) fn at(self, host: Option<&str>) -> Self {
        match self {
            Self::Openai if matches!(crate::prices::list_of(self, host), Some("openai" | "azure")) => {
                Self::OpenaiResponses
            }
            Self::Openai => Self::OpenaiChat,
            other => other,
        }
    }

    /// Returns the provider of a bare model name, by the beginning of the name; `None` if that is ambiguous.
    pub fn of_model(model: &str) -> Option<Self> {
        let model = model.strip_prefix("models/").unwrap_or(model);
        let starts = |prefixes: &[&str]| prefixes.iter().any(|p| model.starts_with(p));
        if starts(&["claude"]) {
            Some(Self::Anthropic)
        } else if starts(&["gemini", "gemma", "learnlm"]) {
            Some(Self::Gemini)
        } else if starts(&["gpt-", "chatgpt-", "o1", "o3", "o4", "ft:gpt", "codex-"]) {
            Some(Self::Openai)
        } else if starts(&["mock"]) {
            Some(Self::Mock)
        } else {
            None
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no provider's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a provider: expected openai, openai_chat, openai_responses, anthropic, gemini, gemini_openai, mock or human"
)]
pub struct UnknownProvider(pub String);

impl FromStr for Provider {
    type Err = UnknownProvider;
    fn from_str(text: &str) -> Result<Self, UnknownProvider> {
        let name = text.to_ascii_lowercase().replace('-', "_");
        match name.as_str() {
            "openai_compatible" => Ok(Self::OpenaiChat),
            "human_relay" => Ok(Self::Human),
            _ => PROVIDERS
                .into_iter()
                .find(|p| p.name() == name)
                .ok_or_else(|| UnknownProvider(text::head(text, 80).to_owned())),
        }
    }
}
