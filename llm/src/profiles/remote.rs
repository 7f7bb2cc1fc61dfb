//! The part of a client that is HTTP: address, key, headers, protocol.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::{ProfileError, Profiles, RecordedProfile, read_small};
use crate::client::Client;
use crate::http::{self, HttpClient, HttpParts, KeyHeader};
use crate::keys::{self, KeySource};
use crate::models::{KnownModels, ModelFacts};
use crate::profile::{Auth, Profile};
use crate::provider::Provider;
use crate::request::Request;
use crate::secret::{Key, without_secrets};
use crate::shape::shape;
use crate::wire::{self, Wire};

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(10);

/// The HTTP clients of all profiles, made on first use: for other machines, and for this one.
pub(super) type Connections = [OnceLock<reqwest::Client>; 2];

impl Profiles {
    pub(super) fn remote(
        &self,
        name: &str,
        profile: &Profile,
        known: &Arc<KnownModels>,
    ) -> Result<Arc<dyn Client>, ProfileError> {
        Ok(Arc::new(self.client_over_http(name, profile, known)?))
    }

    /// The bare HTTP client of a profile: one attempt per call, no limits but its own.
    ///
    /// # Errors
    /// As [`Profiles::client`].
    pub fn http_client(&self, name: &str, profile: &Profile) -> Result<HttpClient, ProfileError> {
        self.client_over_http(name, &self.resolved(profile), &self.known(profile))
    }

    fn client_over_http(
        &self,
        name: &str,
        profile: &Profile,
        known: &Arc<KnownModels>,
    ) -> Result<HttpClient, ProfileError> {
        let fault = |field, why: String| ProfileError::Value { profile: name.into(), field, why };
        let base = self.base_url(profile);
        let base = match Url::parse(&base) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.host_str().is_some() => url,
            Err(error) if base.contains("://") => return Err(fault("base_url", format!("`{base}`: {error}"))),
            _ => {
                // What is no address may be a key, and so may what stands before the host.
                let is_address = base.contains(['.', ':']) && !base.contains('@');
                let shown = if is_address { format!("`{base}` ") } else { String::new() };
                return Err(fault("base_url", format!("{shown}must begin with http:// or https://")));
            }
        };
        let key = self.key(name, profile, &base)?;
        let key_source = key_source(profile);
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
            profile: self.name_of(name),
            name: profile.provider.name(),
            wire: wire_of(profile, &base, known)?,
            http: self.http(&base)?,
            key_header: key_header(profile, &base),
            base,
            key,
            key_source,
            secrets,
            extra_headers,
            limits: profile.http,
            default_model: Some(profile.model.clone()).filter(|m| !m.is_empty()),
        }))
    }

    /// The name of a profile, for people; `None` if a program made it up.
    fn name_of(&self, name: &str) -> Option<String> {
        (self.profiles.contains_key(name) && !name.starts_with('\0')).then(|| name.to_owned())
    }

    fn http(&self, base: &Url) -> Result<reqwest::Client, ProfileError> {
        let [others, own] = &self.http;
        let known = if http::is_of_this_machine(base) { own } else { others };
        if let Some(http) = known.get() {
            return Ok(http.clone());
        }
        let http = http::shared(base, CONNECT).map_err(|e| ProfileError::Http(Box::new(e)))?;
        Ok(known.get_or_init(|| http).clone())
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
            Some(variable) if !is_variable(variable) => {
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
            let named = self.name_of(name);
            let variables = variables.join(" or ");
            return Err(ProfileError::NoKey { profile: named, provider: profile.provider, variables });
        }
        Ok(KeySource::None)
    }

    pub(super) fn record(&self, name: Option<&str>, profile: &Profile) -> Option<RecordedProfile> {
        profile.provider.feature()?;
        let facts = ModelFacts { prices: None, ..self.known(profile).of("").facts.clone() };
        let profile = &self.resolved(profile);
        Some(RecordedProfile {
            name: name.map(str::to_owned),
            provider: profile.provider,
            model: profile.model.clone(),
            base_url: Url::parse(&self.base_url(profile)).map(without_secrets).unwrap_or_default(),
            auth: profile.auth,
            api_version: profile.api_version.clone(),
            reasoning_field: profile.reasoning_field.clone(),
            facts,
            params: profile.params.clone(),
            cache: profile.cache,
            fallback: Vec::new(),
        })
    }
}

/// Where the key of a profile comes from, for people.
fn key_source(profile: &Profile) -> String {
    if profile.auth == Auth::None {
        return "the profile sends none (auth = \"none\")".to_owned();
    }
    if let Some(path) = &profile.api_key_file {
        return format!("it comes from {}", path.display());
    }
    if let Some(program) = profile.api_key_command.first() {
        return format!("it comes from the command `{program}`");
    }
    let variables =
        profile.api_key_env.as_deref().map_or_else(|| profile.provider.key_env().join(" or "), str::to_owned);
    format!("it comes from {variables}")
}

/// The host and the port of an address.
pub(super) fn server_of(base_url: &str) -> Option<(String, u16)> {
    let url = Url::parse(base_url).ok()?;
    // An address of version 6 is in brackets there.
    let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
    Some((host, url.port_or_known_default()?))
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
#[cfg_attr(not(feature = "openai"), allow(unused_variables))]
fn wire_of(profile: &Profile, base: &Url, known: &Arc<KnownModels>) -> Result<Arc<dyn Wire>, ProfileError> {
    match profile.provider {
        #[cfg(feature = "anthropic")]
        Provider::Anthropic => Ok(Arc::new(wire::anthropic::Anthropic { models: Arc::clone(known) })),
        #[cfg(feature = "gemini")]
        Provider::Gemini => Ok(Arc::new(wire::gemini::Gemini { models: Arc::clone(known) })),
        #[cfg(feature = "openai")]
        Provider::OpenaiResponses => Ok(wire::openai_responses::of_profile(profile, known)),
        #[cfg(feature = "openai")]
        Provider::OpenaiChat | Provider::GeminiOpenai => Ok(wire::openai_chat::of_profile(profile, base, known)),
        provider => Err(ProfileError::not_compiled(provider)),
    }
}

/// The host of an address.
pub(super) fn host_of(base: &str) -> Option<String> {
    Url::parse(base).ok()?.host_str().map(str::to_owned)
}

/// The body of a request as JSON, without a client.
pub(super) fn body(
    profile: &Profile,
    base: &str,
    known: &Arc<KnownModels>,
    request: &Request,
) -> Result<Option<Vec<u8>>, ProfileError> {
    let Ok(base) = Url::parse(base) else { return Ok(None) };
    let fault = |error| ProfileError::Request(Box::new(error));
    let mut request = request.clone();
    profile.apply(&mut request);
    shape(&known.of(&request.model), profile.provider, &mut request).map_err(fault)?;
    request.validate(profile.provider.name()).map_err(fault)?;
    wire_of(profile, &base, known)?.build(&request).map(|built| Some(built.body)).map_err(fault)
}

/// Whether a text can be the name of an environment variable.
fn is_variable(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}
