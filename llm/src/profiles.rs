//! The profiles of a configuration, and the clients made from them.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use url::Url;

use crate::answers::{AnswerStore, Cached, StoreError};
use crate::client::Client;
use crate::error::LlmError;
use crate::fallback::Fallback;
use crate::http::{self, HttpClient, HttpParts};
use crate::limit::Limited;
use crate::mock::{Mock, ScriptError};
use crate::prices::{self, PriceTable};
use crate::profile::{Auth, CacheProfile, Profile};
use crate::provider::Provider;
use crate::relay::{HumanRelay, Relay};
use crate::retry::{RetryStats, Retrying};
use crate::secret::Key;
use crate::wire::{self, Wire};

mod layered;

/// The largest configuration file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(10);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The configuration is not what it should be: correct it.
    #[error("the configuration is wrong: {0}")]
    Syntax(String),
    /// The file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// Which file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// No profile of that name.
    #[error("no profile is named `{name}`; there are: {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A model name that could be anybody's.
    #[error("nobody knows whose model `{0}` is: name the provider or a profile")]
    WhoseModel(String),
    /// There is no key.
    #[error("{provider} wants a key: set {variables}")]
    NoKey {
        /// The provider.
        provider: Provider,
        /// Where a key is looked for.
        variables: String,
    },
    /// A value that cannot be used.
    #[error("profile `{profile}`: {field} {why}")]
    Value {
        /// Which profile.
        profile: String,
        /// Which of its fields.
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The script of a mock cannot be followed.
    #[error("profile `{profile}`: the script of the mock cannot be followed")]
    Script {
        /// Which profile.
        profile: String,
        /// Why.
        #[source]
        source: ScriptError,
    },
    /// The answer cache cannot be opened.
    #[error("profile `{profile}`: the answer cache cannot be opened")]
    Cache {
        /// Which profile.
        profile: String,
        /// Why.
        #[source]
        source: StoreError,
    },
    /// The shared HTTP client cannot be made.
    #[error("the HTTP client cannot be made")]
    Http(#[source] LlmError),
}

/// Reads a variable of the environment.
type Env = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The profiles of a configuration. It makes one client per profile and one HTTP client for all, both on first use;
/// everything that calls through one profile shares its limits. Cheap to share behind an [`Arc`].
pub struct Profiles {
    profiles: BTreeMap<String, Profile>,
    default: Option<String>,
    env: Box<Env>,
    http: OnceLock<reqwest::Client>,
    clients: Mutex<HashMap<String, Arc<dyn Client>>>,
    retrying: Mutex<HashMap<String, Arc<Retrying>>>,
    stores: Mutex<HashMap<PathBuf, Arc<AnswerStore>>>,
    cache_folder: Option<PathBuf>,
    relay: Option<Arc<dyn Relay>>,
    table: Arc<PriceTable>,
}

/// The part of `rethread.toml` that is read here; other tables belong to others.
#[derive(Debug, Deserialize)]
struct File {
    #[serde(default)]
    default_profile: Option<String>,
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
}

impl Profiles {
    /// No profiles: clients come from provider, model and environment alone.
    pub fn empty() -> Self {
        Self::new(BTreeMap::new(), None)
    }

    /// These profiles.
    pub fn new(profiles: BTreeMap<String, Profile>, default: Option<String>) -> Self {
        Self {
            profiles,
            default,
            env: Box::new(|name| std::env::var(name).ok()),
            http: OnceLock::new(),
            clients: Mutex::default(),
            retrying: Mutex::default(),
            stores: Mutex::default(),
            cache_folder: None,
            relay: None,
            table: PriceTable::built_in(),
        }
    }

    /// The profiles of a `rethread.toml`.
    ///
    /// # Errors
    /// [`ProfileError::Syntax`] with the line and column, [`ProfileError::Unknown`] for a fallback or default that
    /// does not exist.
    pub fn from_toml(text: &str) -> Result<Self, ProfileError> {
        let file: File = toml::from_str(text).map_err(|e| ProfileError::Syntax(e.to_string()))?;
        let profiles = Self::new(file.profiles, file.default_profile);
        let named = profiles.profiles.values().flat_map(|p| &p.fallback).chain(&profiles.default);
        for name in named {
            profiles.get(name)?;
        }
        Ok(profiles)
    }

    /// The profiles of a file.
    ///
    /// # Errors
    /// As [`Profiles::from_toml`], and [`ProfileError::File`].
    pub fn from_file(path: &Path) -> Result<Self, ProfileError> {
        Self::from_toml(&read_small(path)?)
    }

    /// Reads variables from `env` instead of the environment of the process.
    #[must_use]
    pub fn with_env(
        mut self,
        env: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.env = Box::new(env);
        self
    }

    /// Keeps answers in this folder, for profiles that ask for a cache and name no folder.
    #[must_use]
    pub fn with_cache_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache_folder = Some(folder.into());
        self
    }

    /// Asks people through `relay`, for profiles whose provider is `human`.
    #[must_use]
    pub fn with_relay(mut self, relay: Arc<dyn Relay>) -> Self {
        self.relay = Some(relay);
        self
    }

    /// Takes prices and abilities of models from this table instead of the built-in one.
    #[must_use]
    pub fn with_prices(mut self, table: Arc<PriceTable>) -> Self {
        self.table = table;
        self
    }

    /// What the attempts of a profile came to so far; none when it was never used.
    pub fn retry_stats(&self, name: &str) -> Option<RetryStats> {
        self.retrying.lock().get(name).map(|client| client.stats())
    }

    /// Adds a profile, or replaces the one of that name along with its client.
    pub fn insert(&mut self, name: impl Into<String>, profile: Profile) {
        let name = name.into();
        self.clients.lock().remove(&name);
        self.profiles.insert(name, profile);
    }

    /// The names of the profiles, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.profiles.keys().map(String::as_str)
    }

    /// The profile that is meant when none is named.
    pub fn default_name(&self) -> Option<&str> {
        self.default.as_deref()
    }

    /// A profile by name.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`].
    pub fn get(&self, name: &str) -> Result<&Profile, ProfileError> {
        self.profiles.get(name).ok_or_else(|| ProfileError::Unknown {
            name: name.chars().take(80).collect(),
            known: if self.profiles.is_empty() {
                "none".into()
            } else {
                self.names().collect::<Vec<_>>().join(", ")
            },
        })
    }

    /// The client of a profile, made on first use.
    ///
    /// # Errors
    /// When the profile does not exist or says something that cannot be done.
    pub fn client(&self, name: &str) -> Result<Arc<dyn Client>, ProfileError> {
        if let Some(client) = self.clients.lock().get(name) {
            return Ok(Arc::clone(client));
        }
        let client = self.make(name, self.get(name)?)?;
        // Two callers may have made one at the same time: both get the first, so that they share its limits.
        Ok(Arc::clone(self.clients.lock().entry(name.to_owned()).or_insert(client)))
    }

    /// The client for a provider and model, without a profile; key and base URL come from the environment.
    ///
    /// # Errors
    /// [`ProfileError::NoKey`] and what else [`Profiles::client`] may say.
    pub fn client_for(
        &self,
        provider: Provider,
        model: &str,
    ) -> Result<Arc<dyn Client>, ProfileError> {
        let name = format!("{provider}/{model}");
        if let Some(client) = self.clients.lock().get(&name) {
            return Ok(Arc::clone(client));
        }
        let client = self.make(&name, &Profile::new(provider, model))?;
        Ok(Arc::clone(self.clients.lock().entry(name).or_insert(client)))
    }

    /// The client for a bare model name: the profile of that name, the first profile with that model, or the
    /// provider whose models are named so.
    ///
    /// # Errors
    /// [`ProfileError::WhoseModel`], and what else [`Profiles::client`] may say.
    pub fn client_for_model(&self, model: &str) -> Result<Arc<dyn Client>, ProfileError> {
        if self.profiles.contains_key(model) {
            return self.client(model);
        }
        if let Some((name, _)) = self.profiles.iter().find(|(_, p)| p.model == model) {
            return self.client(name);
        }
        let (provider, model) = match model.split_once('/').map(|(p, m)| (p.parse(), m)) {
            Some((Ok(provider), model)) => (provider, model),
            _ => match Provider::of_model(model) {
                Some(provider) => (provider, model),
                None => return Err(ProfileError::WhoseModel(model.chars().take(80).collect())),
            },
        };
        self.client_for(provider, model)
    }

    /// The clients of every profile.
    ///
    /// # Errors
    /// The first profile that has none.
    pub fn all(&self) -> Result<BTreeMap<String, Arc<dyn Client>>, ProfileError> {
        self.profiles.keys().map(|name| Ok((name.clone(), self.client(name)?))).collect()
    }

    fn make(&self, name: &str, profile: &Profile) -> Result<Arc<dyn Client>, ProfileError> {
        let first = self.alone(name, profile)?;
        if profile.fallback.is_empty() {
            return Ok(first);
        }
        // One step only: the fallbacks of a fallback are not followed, so that no list can go in circles.
        let mut others = Vec::with_capacity(profile.fallback.len());
        for other in &profile.fallback {
            let profile = self.get(other)?;
            others.push((self.alone(other, profile)?, profile.model.clone()));
        }
        Ok(Arc::new(Fallback::new(first, others)))
    }

    /// The client of a profile without its fallbacks, from the inside out: one attempt, its limits, attempts again,
    /// what the profile says and what it costs, answers known already.
    fn alone(&self, name: &str, profile: &Profile) -> Result<Arc<dyn Client>, ProfileError> {
        let mut client = self.bare(name, profile)?;
        if profile.limits.limits_anything() {
            client = Arc::new(Limited::new(client, profile.limits.clone(), &profile.model));
        }
        let retrying = Arc::new(Retrying::new(client, profile.retry.clone()));
        self.retrying.lock().insert(name.to_owned(), Arc::clone(&retrying));
        let mut client: Arc<dyn Client> = retrying;
        let base = self.base_url(profile);
        let host = Url::parse(&base).ok().and_then(|url| url.host_str().map(str::to_owned));
        let list = prices::list_of(profile.provider, host.as_deref());
        client = Arc::new(layered::Priced::new(client, profile, Arc::clone(&self.table), list));
        if let Some(cache) = &profile.cache {
            let store = self.store(name, cache)?;
            client = Arc::new(Cached::new(client, store, format!("{} {base}", profile.provider)));
        }
        Ok(Arc::new(layered::Profiled::new(profile.clone(), client)))
    }

    /// The cache of a profile; profiles with the same folder share it.
    fn store(&self, name: &str, cache: &CacheProfile) -> Result<Arc<AnswerStore>, ProfileError> {
        let Some(folder) = cache.folder.as_ref().or(self.cache_folder.as_ref()) else {
            return Err(ProfileError::Value {
                profile: name.into(),
                field: "cache.folder",
                why: "is missing, and nobody said where answers are kept".into(),
            });
        };
        let mut stores = self.stores.lock();
        if let Some(store) = stores.get(folder) {
            return Ok(Arc::clone(store));
        }
        let store = AnswerStore::open(folder, cache.bounds)
            .map_err(|source| ProfileError::Cache { profile: name.into(), source })?;
        let store = Arc::new(store);
        stores.insert(folder.clone(), Arc::clone(&store));
        Ok(store)
    }

    /// The client that makes one attempt.
    fn bare(&self, name: &str, profile: &Profile) -> Result<Arc<dyn Client>, ProfileError> {
        match profile.provider {
            Provider::Mock => {
                let script = profile.script.clone();
                let mock = match script {
                    Some(script) => Mock::new(script)
                        .map_err(|source| ProfileError::Script { profile: name.into(), source })?,
                    None => Mock::saying("This is the mock model: give it a script."),
                };
                Ok(Arc::new(mock))
            }
            Provider::Human => match &self.relay {
                Some(relay) => Ok(Arc::new(HumanRelay::new(Arc::clone(relay)))),
                None => Err(ProfileError::Value {
                    profile: name.into(),
                    field: "provider",
                    why: "is human, and there is nobody to ask here".into(),
                }),
            },
            Provider::OpenaiChat
            | Provider::OpenaiResponses
            | Provider::Anthropic
            | Provider::Gemini
            | Provider::GeminiOpenai => Ok(Arc::new(self.http_client(name, profile)?)),
        }
    }

    /// The bare HTTP client of a profile: one attempt per call, no limits but its own.
    ///
    /// # Errors
    /// As [`Profiles::client`].
    pub fn http_client(&self, name: &str, profile: &Profile) -> Result<HttpClient, ProfileError> {
        let fault = |field, why: String| ProfileError::Value { profile: name.into(), field, why };
        let base = self.base_url(profile);
        let base = Url::parse(&base).map_err(|e| fault("base_url", format!("`{base}`: {e}")))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(fault("base_url", "must begin with http:// or https://".into()));
        }
        let key = self.key(name, profile, &base)?;
        let mut extra_headers = HeaderMap::new();
        for (name, value) in &profile.headers {
            let name = HeaderName::try_from(name)
                .map_err(|e| fault("headers", format!("`{name}`: {e}")))?;
            let value = HeaderValue::try_from(value)
                .map_err(|e| fault("headers", format!("`{name}`: {e}")))?;
            extra_headers.insert(name, value);
        }
        Ok(HttpClient::new(HttpParts {
            name: profile.provider.name(),
            wire: wire_of(profile, &base),
            http: self.http()?,
            base,
            key,
            extra_headers,
            limits: profile.http,
            default_model: Some(profile.model.clone()).filter(|m| !m.is_empty()),
        }))
    }

    fn http(&self) -> Result<reqwest::Client, ProfileError> {
        if let Some(http) = self.http.get() {
            return Ok(http.clone());
        }
        let http = http::shared(CONNECT).map_err(ProfileError::Http)?;
        Ok(self.http.get_or_init(|| http).clone())
    }

    fn base_url(&self, profile: &Profile) -> String {
        if let Some(url) = &profile.base_url {
            return url.clone();
        }
        let own = || profile.provider.base_url().unwrap_or_default().to_owned();
        self.first_set(profile.provider.base_url_env()).unwrap_or_else(own)
    }

    fn first_set(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| (self.env)(name).filter(|v| !v.trim().is_empty()))
    }

    fn key(&self, name: &str, profile: &Profile, base: &Url) -> Result<Option<Key>, ProfileError> {
        if profile.auth == Auth::None {
            return Ok(None);
        }
        if let Some(path) = &profile.api_key_file {
            return Ok(Some(Key::new(&read_small(path)?)));
        }
        let usual = profile.provider.key_env();
        let variables: Vec<&str> = match &profile.api_key_env {
            Some(variable) => vec![variable],
            None => usual.to_vec(),
        };
        if let Some(key) = self.first_set(&variables) {
            let key = Key::new(&key);
            if HeaderValue::from_str(key.expose()).is_err() {
                return Err(ProfileError::Value {
                    profile: name.into(),
                    field: "the key",
                    why: format!("in {} cannot stand in a header", variables.join(" or ")),
                });
            }
            return Ok(Some(key));
        }
        // A server of one's own may want none; the provider's own address always does.
        let own = profile.provider.base_url().and_then(|own| Url::parse(own).ok());
        if profile.api_key_env.is_some() || own.is_some_and(|own| own.host_str() == base.host_str())
        {
            return Err(ProfileError::NoKey {
                provider: profile.provider,
                variables: variables.join(" or "),
            });
        }
        Ok(None)
    }
}

/// The protocol of a profile.
fn wire_of(profile: &Profile, base: &Url) -> Arc<dyn Wire> {
    let azure = base.host_str().is_some_and(|host| host.ends_with(".azure.com"));
    let api_key_header = profile.auth == Auth::ApiKey || azure;
    let api_version = profile.api_version.clone();
    match profile.provider {
        Provider::OpenaiResponses => {
            Arc::new(wire::openai_responses::OpenaiResponses { api_key_header, api_version })
        }
        Provider::Anthropic => {
            Arc::new(wire::anthropic::Anthropic { bearer: profile.auth == Auth::Bearer })
        }
        Provider::Gemini => Arc::new(wire::gemini::Gemini),
        Provider::GeminiOpenai => Arc::new(wire::openai_chat::OpenaiChat {
            gemini: true,
            api_key_header,
            api_version,
            reasoning_field: profile.reasoning_field.clone(),
        }),
        Provider::OpenaiChat | Provider::Mock | Provider::Human => {
            Arc::new(wire::openai_chat::OpenaiChat {
                gemini: false,
                api_key_header,
                api_version,
                reasoning_field: profile.reasoning_field.clone().or_else(|| reasoning_field(base)),
            })
        }
    }
}

/// Servers that are known to want their reasoning back in a conversation with tools.
fn reasoning_field(base: &Url) -> Option<String> {
    let host = base.host_str()?;
    ["deepseek.com", "moonshot.ai", "moonshot.cn"]
        .iter()
        .any(|wants| host.ends_with(wants))
        .then(|| "reasoning_content".to_owned())
}

fn read_small(path: &Path) -> Result<String, ProfileError> {
    use std::io::Read as _;
    let fail = |source| ProfileError::File { path: path.display().to_string(), source };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(fail)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(fail)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(fail(std::io::Error::new(
            std::io::ErrorKind::FileTooLarge,
            format!("larger than {FILE_BYTES_MAX} bytes"),
        )));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
