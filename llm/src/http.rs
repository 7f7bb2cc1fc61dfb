//! One attempt over HTTP: send the body, read the answer, within limits of size and time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use url::Url;

use crate::client::{CallContext, Client, Health, ModelEntry};
use crate::error::{ErrorKind, LlmError};
use crate::keys::KeySource;
pub use crate::profile::HttpLimits;
use crate::request::Request;
use crate::response::Response;
use crate::secret::Key;
use crate::wire::{Built, Wire};
use rethread_events::memory::Embedding;
use rethread_events::text::sources_after;

mod attempt;
pub(crate) mod reading;

/// An HTTP client for the server at this address, to be shared by everything in a process that reaches it or its like
/// ([`is_of_this_machine`]): it holds the connections. A proxy of the environment is not used for this machine.
///
/// # Errors
/// When no client can be made at all. On a machine without certificates there is one that reaches plain `http://`
/// addresses, such as a local model server, and trusts no other server.
pub fn shared(to: &Url, connect_timeout: Duration) -> Result<reqwest::Client, LlmError> {
    client(to, connect_timeout, same_host_only)
}

/// As [`shared`], for one that follows no redirect: what was to be posted would become a question for something else.
///
/// # Errors
/// As [`shared`].
pub fn shared_without_redirects(to: &Url, connect_timeout: Duration) -> Result<reqwest::Client, LlmError> {
    client(to, connect_timeout, reqwest::redirect::Policy::none)
}

/// Whether an address is one of this machine alone, which no proxy can reach.
pub fn is_of_this_machine(url: &Url) -> bool {
    url.host_str().is_some_and(rethread_events::text::is_loopback)
}

fn client(
    to: &Url,
    connect_timeout: Duration,
    redirects: fn() -> reqwest::redirect::Policy,
) -> Result<reqwest::Client, LlmError> {
    let builder = || {
        let builder = reqwest::Client::builder();
        let builder = if is_of_this_machine(to) { builder.no_proxy() } else { builder };
        builder
            .connect_timeout(connect_timeout)
            .pool_idle_timeout(Duration::from_secs(60))
            .user_agent(concat!("rethread/", env!("CARGO_PKG_VERSION")))
            .redirect(redirects())
    };
    builder()
        .build()
        .or_else(|error| {
            tracing::warn!(error = chain(&error), "only http:// addresses can be reached");
            builder().tls_certs_only(std::iter::empty()).build()
        })
        .map_err(|e| LlmError::new(ErrorKind::Connection, "http", chain(&e)))
}

/// A redirect to another host would take the key there: only the headers that HTTP itself knows are dropped on the
/// way, and some providers have headers of their own. A redirect that turns a POST into a GET would lose its body.
fn same_host_only() -> reqwest::redirect::Policy {
    reqwest::redirect::Policy::custom(|attempt| {
        let keeps_method = matches!(attempt.status().as_u16(), 307 | 308);
        let same = attempt.previous().last().is_some_and(|from| {
            from.host_str() == attempt.url().host_str()
                && from.port_or_known_default() == attempt.url().port_or_known_default()
                && from.scheme() == attempt.url().scheme()
        });
        if same && keeps_method && attempt.previous().len() < 5 { attempt.follow() } else { attempt.stop() }
    })
}

/// A provider reached over HTTP. Every call is one attempt.
pub struct HttpClient {
    name: &'static str,
    /// The profile that it is the client of.
    profile: Option<String>,
    wire: Arc<dyn Wire>,
    http: reqwest::Client,
    base: Url,
    key: KeySource,
    /// Where the key comes from, for people.
    key_source: String,
    key_header: KeyHeader,
    /// The values that were inserted into headers from variables; they must not appear in errors.
    secrets: Vec<Key>,
    /// The headers of every request besides the key.
    headers: HeaderMap,
    /// The headers that the profile sets, which win over everything.
    own_headers: HeaderMap,
    limits: HttpLimits,
    default_model: Option<String>,
}

/// The header that shows the key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KeyHeader {
    /// `Authorization: Bearer …`.
    Bearer,
    /// A header of this name that holds the key alone.
    Named(&'static str),
}

impl KeyHeader {
    fn insert(self, key: &Key, headers: &mut HeaderMap) {
        let text = match self {
            Self::Bearer => format!("Bearer {}", key.expose()),
            Self::Named(_) => key.expose().to_owned(),
        };
        if let Ok(mut value) = HeaderValue::from_str(&text) {
            value.set_sensitive(true);
            match self {
                Self::Bearer => headers.insert(AUTHORIZATION, value),
                Self::Named(name) => headers.insert(name, value),
            };
        }
    }
}

/// The parts of a new [`HttpClient`].
pub(crate) struct HttpParts {
    pub(crate) profile: Option<String>,
    pub(crate) name: &'static str,
    pub(crate) wire: Arc<dyn Wire>,
    pub(crate) http: reqwest::Client,
    pub(crate) base: Url,
    pub(crate) key: KeySource,
    pub(crate) key_source: String,
    pub(crate) key_header: KeyHeader,
    pub(crate) secrets: Vec<Key>,
    pub(crate) extra_headers: HeaderMap,
    pub(crate) limits: HttpLimits,
    pub(crate) default_model: Option<String>,
}

impl HttpClient {
    pub(crate) fn new(parts: HttpParts) -> Self {
        let HttpParts {
            profile,
            name,
            wire,
            http,
            base,
            key,
            key_source,
            key_header,
            secrets,
            extra_headers,
            limits,
            default_model,
        } = parts;
        let mut headers = HeaderMap::new();
        wire.headers(&mut headers);
        let own_headers = extra_headers;
        Self {
            name,
            profile,
            wire,
            http,
            base,
            key,
            key_source,
            key_header,
            secrets,
            headers,
            own_headers,
            limits,
            default_model,
        }
    }

    /// The head of a request with this key. What the profile says wins over what the protocol says.
    fn head_with(&self, key: Option<&Key>) -> HeaderMap {
        let mut headers = self.headers.clone();
        if let Some(key) = key {
            self.key_header.insert(key, &mut headers);
        }
        headers.extend(self.own_headers.clone());
        headers
    }

    fn build(&self, request: &Request) -> Result<Built, LlmError> {
        request.validate(self.name)?;
        self.wire.build(request)
    }

    /// The base URL with a path and query of the protocol added; a query of the base URL stays.
    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut base = url.path().trim_end_matches('/');
        // Some write the version into the base URL where the official clients add it themselves.
        if let Some(version) = path.split('/').nth(1) {
            base = base.strip_suffix(version).and_then(|b| b.strip_suffix('/')).unwrap_or(base);
        }
        let joined = format!("{base}{path}");
        url.set_path(&joined);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            url.query_pairs_mut().append_pair(name, value);
        }
        url
    }

    fn transport(&self, error: &reqwest::Error) -> LlmError {
        let kind = if error.is_timeout() { ErrorKind::Timeout } else { ErrorKind::Connection };
        let mut out = LlmError::new(kind, self.name, chain(error));
        if error.is_builder() {
            out.kind = ErrorKind::InvalidRequest;
            out.retryable = false;
        }
        out
    }

    /// The error with the profile, its address and what to check, if one of these may be wrong.
    fn placed(&self, error: LlmError) -> LlmError {
        let next = match error.kind {
            ErrorKind::Connection | ErrorKind::Timeout => "check base_url, the network and the proxy".to_owned(),
            ErrorKind::Authentication | ErrorKind::Permission => format!("check the key: {}", self.key_source),
            ErrorKind::NotFound => "check the model and base_url".to_owned(),
            ErrorKind::MalformedResponse => format!("check that base_url is an address of `{}`", self.name),
            _ => return error,
        };
        let mut base = crate::secret::without_secrets(self.base.clone());
        base.truncate(base.trim_end_matches('/').len());
        let profile = self.profile.as_ref().map(|name| format!("profile `{name}`, ")).unwrap_or_default();
        LlmError { place: Some(format!("{profile}{base}; {next}").into()), ..error }
    }

    fn timeout_error(&self, what: &str, after_ms: u64) -> LlmError {
        LlmError::new(ErrorKind::Timeout, self.name, format!("waited {after_ms} ms for {what}"))
    }

    /// A text of the provider without the keys that were sent.
    fn without_keys(&self, text: String, key: Option<&Key>) -> String {
        key.into_iter().chain(&self.secrets).fold(text, |text, key| key.redact(text))
    }

    /// The error without the keys that were sent.
    fn redact_keys(&self, mut error: LlmError, key: Option<&Key>) -> LlmError {
        error.message = self.without_keys(error.message, key);
        error.code = error.code.map(|code| self.without_keys(code, key));
        error.request_id = error.request_id.map(|id| self.without_keys(id, key));
        error
    }
}

impl Client for HttpClient {
    fn provider(&self) -> &str {
        self.name
    }

    fn call<'a>(&'a self, request: &'a Request, cx: CallContext<'a>) -> BoxFuture<'a, Result<Response, LlmError>> {
        async move {
            let limit = Duration::from_millis(self.limits.try_ms);
            let attempt = self.attempt(request, cx);
            match tokio::time::timeout(limit, attempt).await {
                Ok(result) => result.map_err(|error| self.placed(error)),
                Err(_) => Err(self.placed(self.timeout_error("the answer", self.limits.try_ms))),
            }
        }
        .boxed()
    }

    fn embed<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Embedding, LlmError>> {
        let fault = |why: &str| LlmError::new(ErrorKind::Configuration, self.name, why);
        let limit = Duration::from_millis(self.limits.try_ms);
        async move {
            let model = self.default_model.as_deref();
            let model = model.ok_or_else(|| fault("the profile names no model: name one that makes embeddings"))?;
            let request = self.wire.embed(model, text);
            let request =
                request.ok_or_else(|| fault("it makes no embeddings: name a profile of a provider that does"))?;
            let timed_out = |_| Err(self.timeout_error("the vector", self.limits.try_ms));
            tokio::time::timeout(limit, self.vector(model, request)).await.unwrap_or_else(timed_out)
        }
        .boxed()
    }

    fn check(&self) -> BoxFuture<'_, Health> {
        async move {
            let started = Instant::now();
            let result = self.list_models().await.map_err(|error| self.placed(error));
            let mut health = Health::good(self.name, started.elapsed());
            match result {
                Ok(models) => {
                    health.model_available = self
                        .default_model
                        .as_deref()
                        .filter(|_| !models.is_empty())
                        .map(|name| models.iter().any(|m| m.id == name));
                }
                Err(error) => {
                    health.reachable = error.status.is_some();
                    health.key_accepted = match error.status {
                        Some(401 | 403) => Some(false),
                        Some(400) if error.kind == ErrorKind::Authentication => Some(false),
                        _ => None,
                    };
                    health.error = Some(error);
                }
            }
            health
        }
        .boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<ModelEntry>, LlmError>> {
        self.list_models().boxed()
    }
}

/// An error and what caused it, without the URL, whose query may hold a key.
fn chain(error: &reqwest::Error) -> String {
    let what = match () {
        () if error.is_connect() => "cannot connect",
        () if error.is_timeout() => "timed out",
        () => "the connection failed",
    };
    sources_after(what.to_owned(), error)
}

#[cfg(test)]
mod tests;
