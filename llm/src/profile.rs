//! A profile: a named provider, model and their settings, as written in `rethread.toml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::answers::CacheLimits;
use crate::limit::RateLimits;
use crate::mock::MockScript;
use crate::models::ModelFacts;
use crate::prices::ProfilePrices;
use crate::provider::Provider;
use crate::request::{CacheMode, ReasoningOptions, Request, ResponseFormat, ToolChoice};
use crate::retry::RetryPolicy;

/// A named way to a model.
///
/// ```
/// let profiles = rethread_llm::Profiles::from_toml(r#"
///     default_profile = "fast"
///
///     [profiles.fast]
///     provider = "openai_chat"
///     model = "gpt-6-luna"
///     params = { temperature = 0.2, max_tokens = 800 }
///     fallback = ["local"]
///
///     [profiles.local]
///     provider = "openai_chat"
///     model = "qwen3"
///     base_url = "http://127.0.0.1:8000/v1"
///     auth = "none"
/// "#)?;
/// assert_eq!(profiles.get("fast")?.model, "gpt-6-luna");
/// # Ok::<(), rethread_llm::profiles::ProfileError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Whose model it is.
    pub provider: Provider,
    /// The model, as its provider names it.
    #[serde(default)]
    pub model: String,
    /// Where the provider is found; its own address when absent, or what the usual variable says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The variable that holds the key; the provider's usual ones when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// A file that holds the key and nothing else; wins over variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_file: Option<PathBuf>,
    /// A command that prints the key, program and arguments, run without a shell when a call needs the key; wins over
    /// variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_key_command: Vec<String>,
    /// How long a key of `api_key_command` is used before the command runs again, in milliseconds; 45 minutes when
    /// absent. A key that the provider refuses is renewed at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_ttl_ms: Option<u64>,
    /// How the key is shown.
    #[serde(default)]
    pub auth: Auth,
    /// Azure's `api-version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// What is known of the model, in place of what the table of models says: for deployments, whose names are arbitrary,
    /// and for private models.
    #[serde(default, skip_serializing_if = "is_default")]
    pub model_facts: ModelFacts,
    /// Headers added to every request. `${NAME}` in a value is replaced by a variable of the environment, `$${` by
    /// `${`. Keys belong into variables: this file is read by people.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The name under which an OpenAI-compatible server wants reasoning text back, such as `reasoning_content`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_field: Option<String>,
    /// The defaults of requests.
    #[serde(default)]
    pub params: Params,
    /// Limits of size and time of one attempt.
    #[serde(default)]
    pub http: HttpLimits,
    /// When and how often to ask again.
    #[serde(default)]
    pub retry: RetryPolicy,
    /// How often and how much may be asked.
    #[serde(default)]
    pub limits: RateLimits,
    /// Answers are kept on disk and given again to the same request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_cache: Option<CacheProfile>,
    /// The price of the model, in dollars per million tokens; overrides the table of models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<ProfilePrices>,
    /// The list of the table of models whose prices hold, for a gateway that bills what the provider does: `openai`,
    /// `anthropic`, … That of the address when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_list: Option<String>,
    /// Whether the provider caches the beginning of prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheMode>,
    /// Profiles to turn to, in order, when this one stays down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<String>,
    /// The script of a mock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<MockScript>,
    /// A file with the script of a mock, YAML or JSON; a relative path is taken from the current folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script_file: Option<PathBuf>,
}

/// Limits of one attempt. Times are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpLimits {
    /// From the request to the head of the answer. Models may think for minutes before they begin.
    pub first_byte_ms: u64,
    /// Between two pieces of an answer.
    pub idle_ms: u64,
    /// The whole attempt.
    pub try_ms: u64,
    /// The largest answer, in bytes.
    pub answer_bytes_max: usize,
    /// The largest event of a stream, in bytes.
    pub event_bytes_max: usize,
    /// The largest request body, in bytes.
    pub request_bytes_max: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            first_byte_ms: 600_000,
            idle_ms: 180_000,
            try_ms: 900_000,
            answer_bytes_max: 64 << 20,
            event_bytes_max: 16 << 20,
            request_bytes_max: 64 << 20,
        }
    }
}

/// Where and how long answers are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheProfile {
    /// The folder; `answers` when absent. A relative one is in the folder that
    /// [`Profiles::with_data_dir`](crate::Profiles::with_data_dir) gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// Its bounds.
    pub bounds: CacheLimits,
}

/// How the key is shown to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// As the protocol does it.
    #[default]
    Default,
    /// In a header `api-key`, as Azure wants it.
    ApiKey,
    /// As a bearer token, with every provider.
    Bearer,
    /// Not at all, for a server of one's own.
    None,
}

/// The defaults of requests; the fields are those of [`Request`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// See [`Request::max_tokens`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// See [`Request::temperature`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// See [`Request::top_p`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// See [`Request::top_k`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u64>,
    /// See [`Request::seed`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// See [`Request::stop`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// See [`Request::tool_choice`]; only for requests with tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// See [`Request::parallel_tool_calls`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// See [`Request::response_format`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_format: Option<ResponseFormat>,
    /// See [`Request::reasoning`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<ReasoningOptions>,
    /// See [`Request::service_tier`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// See [`Request::verbosity`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<String>,
    /// See [`Request::extra`]; a request's own keys win.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

impl Profile {
    /// A profile of this provider and model, everything else by default.
    pub fn new(provider: Provider, model: impl Into<String>) -> Self {
        Self {
            provider,
            model: model.into(),
            base_url: None,
            api_key_env: None,
            api_key_file: None,
            api_key_command: Vec::new(),
            api_key_ttl_ms: None,
            auth: Auth::default(),
            api_version: None,
            model_facts: ModelFacts::default(),
            headers: BTreeMap::new(),
            reasoning_field: None,
            params: Params::default(),
            http: HttpLimits::default(),
            retry: RetryPolicy::default(),
            limits: RateLimits::default(),
            answer_cache: None,
            prices: None,
            price_list: None,
            cache: None,
            fallback: Vec::new(),
            script: None,
            script_file: None,
        }
    }

    /// What the profile says of its model.
    pub(crate) fn facts(&self) -> ModelFacts {
        let prices = self.prices.as_ref().map(|ProfilePrices(prices)| prices.clone());
        ModelFacts { prices, ..self.model_facts.clone() }
    }

    /// Fills in what the request leaves open. Doing it twice changes nothing more.
    pub fn apply(&self, request: &mut Request) {
        let params = &self.params;
        if request.model.is_empty() {
            request.model.clone_from(&self.model);
        }
        request.max_tokens = request.max_tokens.or(params.max_tokens);
        request.temperature = request.temperature.or(params.temperature);
        request.top_p = request.top_p.or(params.top_p);
        request.top_k = request.top_k.or(params.top_k);
        request.seed = request.seed.or(params.seed);
        if request.stop.is_empty() {
            request.stop.clone_from(&params.stop);
        }
        if !request.tools.is_empty() {
            request.parallel_tool_calls = request.parallel_tool_calls.or(params.parallel_tool_calls);
            if request.tool_choice.as_ref().is_none_or(|choice| *choice == ToolChoice::Auto) {
                request.tool_choice = params.tool_choice.clone().or(request.tool_choice.take());
            }
        }
        if request.response_format.is_none() {
            request.response_format.clone_from(&params.response_format);
        }
        if request.reasoning.is_none() {
            request.reasoning.clone_from(&params.reasoning);
        }
        if request.service_tier.is_none() {
            request.service_tier.clone_from(&params.service_tier);
        }
        if request.verbosity.is_none() {
            request.verbosity.clone_from(&params.verbosity);
        }
        request.cache = request.cache.or(self.cache);
        for (key, value) in &params.extra {
            if !request.extra.contains_key(key) {
                request.extra.insert(key.clone(), value.clone());
            }
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
