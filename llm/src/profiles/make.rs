//! From a profile to its client, layer by layer.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use url::Url;

use super::{ProfileError, Profiles, check, layered, read_small};
use crate::answers::{AnswerStore, Cached};
use crate::client::Client;
use crate::fallback::Fallback;
use crate::http::{self, HttpClient, HttpParts, KeyHeader};
use crate::keys::{self, KeySource};
use crate::limit::Limited;
use crate::mock::{Mock, MockScript};
use crate::prices::{self, PriceTable};
use crate::profile::{Auth, CacheProfile, Profile};
use crate::provider::Provider;
use crate::relay::HumanRelay;
use crate::request::Request;
use crate::retry::Retrying;
use crate::secret::Key;
use crate::wire::openai_chat::Reasoning;
use crate::wire::{self, Wire};

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(10);

impl Profiles {
    pub(super) fn make(&self, name: &str, profile: &Profile) -> Result<Arc<dyn Client>, ProfileError> {
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

    /// The client of a profile without its fallbacks. There is one of it, whoever turns to it, so that all share its
    /// limits.
    fn alone(&self, name: &str, profile: &Profile) -> Result<Arc<dyn Client>, ProfileError> {
        // Held while it is made: two callers must not make two. Nothing waits in there.
        let mut alone = self.alone.lock();
        if let Some(client) = alone.get(name) {
            return Ok(Arc::clone(client));
        }
        let client = self.layers(name, profile)?;
        alone.insert(name.to_owned(), Arc::clone(&client));
        Ok(client)
    }

    /// From the inside out: one attempt, its limits, attempts again, what the profile says and what it costs, answers
    /// known already.
    fn layers(&self, name: &str, profile: &Profile) -> Result<Arc<dyn Client>, ProfileError> {
        let mut client = self.bare(name, profile)?;
        if profile.limits.limits_anything() {
            client = Arc::new(Limited::new(client, profile.limits.clone(), &profile.model));
        }
        // A person is asked once and may take days.
        if profile.provider != Provider::Human {
            let retrying = Retrying::new(client, profile.retry.clone()).with_fallback(!profile.fallback.is_empty());
            let retrying = Arc::new(retrying);
            self.retrying.lock().insert(name.to_owned(), Arc::clone(&retrying));
            client = retrying;
        }
        let base = self.base_url(profile);
        let host = Url::parse(&base).ok().and_then(|url| url.host_str().map(str::to_owned));
        let list = prices::list_of(profile.provider, host.as_deref());
        let priced = layered::Priced::new(client, profile, Arc::clone(&self.table), list);
        let priced = Arc::new(priced);
        self.priced.lock().insert(name.to_owned(), Arc::clone(&priced));
        client = priced;
        if let Some(cache) = &profile.cache {
            let store = self.store(name, cache)?;
            client = Arc::new(Cached::new(client, store, origin(profile, &base)));
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
                let fault = |source| ProfileError::Script { profile: name.into(), source };
                let script = match (&profile.script, &profile.script_file) {
                    (Some(script), _) => Some(script.clone()),
                    (None, Some(path)) => Some(MockScript::parse(&read_small(path)?).map_err(fault)?),
                    (None, None) => None,
                };
                let mock = match script {
                    Some(script) => Mock::new(script).map_err(fault)?,
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
        let mut secrets = Vec::new();
        for (name, value) in &profile.headers {
            let wrong = |why: String| fault("headers", format!("`{name}`: {why}"));
            let header = HeaderName::try_from(name).map_err(|e| wrong(e.to_string()))?;
            let (text, values) = expand(value, &*self.env).map_err(wrong)?;
            let mut value = HeaderValue::try_from(text).map_err(|e| wrong(e.to_string()))?;
            value.set_sensitive(!values.is_empty());
            secrets.extend(values.iter().map(|value| Key::new(value)));
            extra_headers.insert(header, value);
        }
        Ok(HttpClient::new(HttpParts {
            name: profile.provider.name(),
            wire: wire_of(profile, &base, &self.table),
            http: self.http()?,
            key_header: key_header(profile, &base),
            base,
            key,
            secrets,
            extra_headers,
            limits: profile.http,
            default_model: Some(profile.model.clone()).filter(|m| !m.is_empty()),
        }))
    }

    fn http(&self) -> Result<reqwest::Client, ProfileError> {
        if let Some(http) = self.http.get() {
            return Ok(http.clone());
        }
        let http = http::shared(CONNECT).map_err(|e| ProfileError::Http(Box::new(e)))?;
        Ok(self.http.get_or_init(|| http).clone())
    }

    pub(super) fn base_url(&self, profile: &Profile) -> String {
        if let Some(url) = &profile.base_url {
            return url.clone();
        }
        let own = || profile.provider.base_url().unwrap_or_default().to_owned();
        self.first_set(profile.provider.base_url_env()).unwrap_or_else(own)
    }

    fn first_set(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| (self.env)(name).filter(|v| !v.trim().is_empty()))
    }

    fn key(&self, name: &str, profile: &Profile, base: &Url) -> Result<KeySource, ProfileError> {
        let fault = |field, why: String| ProfileError::Value { profile: name.into(), field, why };
        if profile.auth == Auth::None {
            return Ok(KeySource::None);
        }
        if let Some(path) = &profile.api_key_file {
            if !profile.api_key_command.is_empty() {
                return Err(fault("api_key_command", "and api_key_file exclude each other".into()));
            }
            // What cannot be read is said at once; each call reads the file again when it changed.
            keys::key_of(&read_small(path)?, &path.display().to_string()).map_err(|why| fault("api_key_file", why))?;
            return Ok(KeySource::file(path.clone()));
        }
        if !profile.api_key_command.is_empty() {
            let ttl = profile.api_key_ttl_ms.map(Duration::from_millis);
            return Ok(KeySource::command(profile.api_key_command.clone(), ttl));
        }
        let usual = profile.provider.key_env();
        let variables: Vec<&str> = match &profile.api_key_env {
            // What is no such name may be the key itself, and names of variables are printed.
            Some(variable) if !check::is_variable(variable) => {
                let what = "names an environment variable: letters, digits and _, not the key itself";
                return Err(fault("api_key_env", what.into()));
            }
            Some(variable) => vec![variable],
            None => usual.to_vec(),
        };
        if let Some(key) = self.first_set(&variables) {
            let key = keys::key_of(&key, &variables.join(" or ")).map_err(|why| fault("api_key_env", why))?;
            return Ok(KeySource::Fixed(key));
        }
        // A server of one's own may want none; the provider's own address always does.
        let own = profile.provider.base_url().and_then(|own| Url::parse(own).ok());
        if profile.api_key_env.is_some() || own.is_some_and(|own| own.host_str() == base.host_str()) {
            return Err(ProfileError::NoKey { provider: profile.provider, variables: variables.join(" or ") });
        }
        Ok(KeySource::None)
    }
}

/// A header's value with `${NAME}` replaced by variables, and the values that were put in.
fn expand(text: &str, env: &super::Env) -> Result<(String, Vec<String>), String> {
    let (mut out, mut values, mut rest) = (String::with_capacity(text.len()), Vec::new(), text);
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            out.push_str(&rest[..at - 1]);
            out.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let (name, tail) = rest[at + 2..].split_once('}').ok_or("`${` without `}`; write `$${` for the characters")?;
        let value = env(name).filter(|value| !value.trim().is_empty());
        let value = value.ok_or_else(|| format!("the variable {name} is not set"))?;
        out.push_str(value.trim());
        values.push(value);
        rest = tail;
    }
    out.push_str(rest);
    Ok((out, values))
}

/// Where the answers of a profile come from: all that it sends beside the request, in one line. Only its hash is kept.
fn origin(profile: &Profile, base: &str) -> String {
    let Profile { provider, headers, api_version, reasoning_field, reasoning_model, .. } = profile;
    let mut origin = format!("{provider} {base}");
    if !headers.is_empty() || api_version.is_some() || reasoning_field.is_some() {
        origin += &format!(" {headers:?} {api_version:?} {reasoning_field:?}");
    }
    if let Some(reasons) = reasoning_model {
        origin += &format!(" {reasons}");
    }
    origin
}

/// How the key of a profile is shown.
fn key_header(profile: &Profile, base: &Url) -> KeyHeader {
    let azure = base.host_str().is_some_and(|host| host.ends_with(".azure.com"));
    match (profile.auth, profile.provider) {
        (Auth::Bearer, _) => KeyHeader::Bearer,
        (Auth::ApiKey, _) => KeyHeader::Named("api-key"),
        (Auth::Default | Auth::None, Provider::Anthropic) => KeyHeader::Named("x-api-key"),
        (Auth::Default | Auth::None, Provider::Gemini) => KeyHeader::Named("x-goog-api-key"),
        (Auth::Default | Auth::None, _) if azure => KeyHeader::Named("api-key"),
        (Auth::Default | Auth::None, _) => KeyHeader::Bearer,
    }
}

/// The protocol of a profile.
fn wire_of(profile: &Profile, base: &Url, table: &Arc<PriceTable>) -> Arc<dyn Wire> {
    let api_version = profile.api_version.clone();
    let reasoning = Reasoning { said: profile.reasoning_model, table: Arc::clone(table) };
    match profile.provider {
        Provider::OpenaiResponses => Arc::new(wire::openai_responses::OpenaiResponses { api_version, reasoning }),
        Provider::Anthropic => Arc::new(wire::anthropic::Anthropic),
        Provider::Gemini => Arc::new(wire::gemini::Gemini),
        Provider::GeminiOpenai => Arc::new(wire::openai_chat::OpenaiChat {
            gemini: true,
            api_version,
            reasoning_field: profile.reasoning_field.clone(),
            reasoning,
        }),
        Provider::OpenaiChat | Provider::Mock | Provider::Human => Arc::new(wire::openai_chat::OpenaiChat {
            gemini: false,
            api_version,
            reasoning_field: profile.reasoning_field.clone().or_else(|| reasoning_field(base)),
            reasoning,
        }),
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

/// The body of a request, without a client.
pub(super) fn body(
    profile: &Profile,
    base: &str,
    table: &Arc<PriceTable>,
    request: &Request,
) -> Result<Option<Value>, ProfileError> {
    let Ok(base) = Url::parse(base) else { return Ok(None) };
    let fault = |error| ProfileError::Request(Box::new(error));
    request.validate(profile.provider.name()).map_err(fault)?;
    wire_of(profile, &base, table).body(request).map(Some).map_err(fault)
}
