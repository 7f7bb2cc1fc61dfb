//! One attempt over HTTP: send the body, read the answer, within limits of size and time.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use crate::client::{CallContext, Client, Health, Listener, ModelEntry, ModelInfo};
use crate::error::{ErrorKind, LlmError};
use crate::request::Request;
use crate::response::Response;
use crate::secret::Key;
use crate::sse::Decoder;
use crate::wire::{AnswerContext, Progress, Wire, fault};

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

/// How long a stream may still take to end after the answer is whole: only figures can follow.
const ENDING: Duration = Duration::from_secs(5);
/// How long to wait for the end of the body after the last event, so that the connection can be used again.
const DRAIN: Duration = Duration::from_millis(50);
/// The longest error body that is read, in bytes.
const ERROR_BYTES_MAX: usize = 256 << 10;
/// The most pages of a list of models that are fetched.
const MODEL_PAGES_MAX: usize = 20;

/// An HTTP client for providers, to be shared by everything in a process: it holds the connections.
///
/// # Errors
/// When the system's certificates cannot be read.
pub fn shared(connect_timeout: Duration) -> Result<reqwest::Client, LlmError> {
    reqwest::Client::builder()
        .connect_timeout(connect_timeout)
        .pool_idle_timeout(Duration::from_secs(60))
        .user_agent(concat!("rethread/", env!("CARGO_PKG_VERSION")))
        // A redirect to another host would take the key there: only the headers that HTTP itself knows are dropped
        // on the way, and some providers have headers of their own.
        .redirect(reqwest::redirect::Policy::custom(|attempt| {
            let same = attempt.previous().last().is_some_and(|from| {
                from.host_str() == attempt.url().host_str()
                    && from.port_or_known_default() == attempt.url().port_or_known_default()
                    && from.scheme() == attempt.url().scheme()
            });
            if same && attempt.previous().len() < 5 { attempt.follow() } else { attempt.stop() }
        }))
        .build()
        .map_err(|e| LlmError::new(ErrorKind::Connection, "http", chain(&e)))
}

/// A provider reached over HTTP. Every call is one attempt.
pub struct HttpClient {
    name: &'static str,
    wire: Arc<dyn Wire>,
    http: reqwest::Client,
    base: Url,
    key: Option<Key>,
    headers: HeaderMap,
    limits: HttpLimits,
    default_model: Option<String>,
}

/// What an [`HttpClient`] is made of.
pub(crate) struct HttpParts {
    pub(crate) name: &'static str,
    pub(crate) wire: Arc<dyn Wire>,
    pub(crate) http: reqwest::Client,
    pub(crate) base: Url,
    pub(crate) key: Option<Key>,
    pub(crate) extra_headers: HeaderMap,
    pub(crate) limits: HttpLimits,
    pub(crate) default_model: Option<String>,
}

impl HttpClient {
    pub(crate) fn new(parts: HttpParts) -> Self {
        let HttpParts { name, wire, http, base, key, extra_headers, limits, default_model } = parts;
        let mut headers = HeaderMap::new();
        wire.headers(key.as_ref(), &mut headers);
        // What the profile says wins over what the protocol says.
        headers.extend(extra_headers);
        Self { name, wire, http, base, key, headers, limits, default_model }
    }

    /// The exact body that a request is sent as.
    ///
    /// # Errors
    /// When the request cannot be put into this provider's words.
    pub fn body(&self, request: &Request) -> Result<Value, LlmError> {
        request.validate(self.name)?;
        self.wire.body(request)
    }

    /// The base URL with a path and query of the protocol added; a query of the base URL stays.
    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let joined = format!("{}{path}", url.path().trim_end_matches('/'));
        url.set_path(&joined);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            url.query_pairs_mut().append_pair(name, value);
        }
        url
    }

    async fn attempt(
        &self,
        request: &Request,
        listener: &mut dyn Listener,
        key: &str,
    ) -> Result<Response, LlmError> {
        let body = serde_json::to_vec(&self.body(request)?)
            .map_err(|e| LlmError::new(ErrorKind::InvalidRequest, self.name, e.to_string()))?;
        if body.len() > self.limits.request_bytes_max {
            return Err(LlmError::new(
                ErrorKind::TooLarge,
                self.name,
                format!(
                    "the request has {} bytes, the limit is {}",
                    body.len(),
                    self.limits.request_bytes_max
                ),
            ));
        }
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Ok(value) = HeaderValue::from_str(key)
            && !key.is_empty()
        {
            headers.insert(HeaderName::from_static("x-client-request-id"), value);
        }
        let send = self
            .http
            .post(self.url(&self.wire.call_path(request)))
            .headers(headers)
            .body(body)
            .send();
        let mut answer = self.head(send).await?;
        let status = answer.status().as_u16();
        let request_id = fault::request_id(answer.headers());
        if !answer.status().is_success() {
            let headers = std::mem::take(answer.headers_mut());
            let body = self.error_body(&mut answer).await;
            return Err(fault::from_answer(self.name, status, &headers, &body, SystemTime::now()));
        }
        let cx = AnswerContext { provider: self.name, n_answers: request.n_answers() };
        let read = if request.stream {
            self.read_stream(answer, cx, listener).await
        } else {
            self.read_whole(answer, cx, listener).await
        };
        match read {
            Ok(mut response) => {
                response.request_id = request_id;
                Ok(response)
            }
            Err(mut error) => {
                error.request_id = error.request_id.or(request_id);
                Err(error)
            }
        }
    }

    async fn head(
        &self,
        send: impl Future<Output = reqwest::Result<reqwest::Response>>,
    ) -> Result<reqwest::Response, LlmError> {
        match tokio::time::timeout(Duration::from_millis(self.limits.first_byte_ms), send).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(e)) => Err(self.transport(&e)),
            Err(_) => Err(self.late("an answer to begin", self.limits.first_byte_ms)),
        }
    }

    async fn read_whole(
        &self,
        answer: reqwest::Response,
        cx: AnswerContext,
        listener: &mut dyn Listener,
    ) -> Result<Response, LlmError> {
        let body = self.whole_body(answer).await?;
        self.parse_whole(&body, cx, listener)
    }

    /// Reads a body that was asked for whole. Some servers stream all the same.
    fn parse_whole(
        &self,
        body: &[u8],
        cx: AnswerContext,
        listener: &mut dyn Listener,
    ) -> Result<Response, LlmError> {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) if fault::is_error(&value) => Err(fault::from_value(self.name, None, &value)),
            Ok(value) => self.wire.answer(&value, cx),
            Err(_) if looks_like_events(body) => {
                let mut events = Events::new(self, cx);
                events.push(body, listener)?;
                events.finish(listener)
            }
            Err(e) => Err(cx.malformed(not_json(body, &e.to_string()))),
        }
    }

    async fn whole_body(&self, mut answer: reqwest::Response) -> Result<Vec<u8>, LlmError> {
        let expected = answer.content_length().unwrap_or(0);
        self.within(usize::try_from(expected).unwrap_or(usize::MAX))?;
        // What the head promises is not believed beyond a megabyte before the bytes are there.
        let mut body = Vec::with_capacity(usize::try_from(expected).unwrap_or(0).min(1 << 20));
        while let Some(piece) = self.piece(&mut answer, self.limits.idle_ms).await? {
            self.within(body.len() + piece.len())?;
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    /// Whatever can be had of an error body, quickly: the status already says most.
    async fn error_body(&self, answer: &mut reqwest::Response) -> Vec<u8> {
        let mut body = Vec::new();
        while let Ok(Ok(Some(piece))) =
            tokio::time::timeout(Duration::from_secs(10), answer.chunk()).await
        {
            let room = ERROR_BYTES_MAX - body.len();
            body.extend_from_slice(&piece[..piece.len().min(room)]);
            if body.len() >= ERROR_BYTES_MAX {
                break;
            }
        }
        body
    }

    async fn read_stream(
        &self,
        mut answer: reqwest::Response,
        cx: AnswerContext,
        listener: &mut dyn Listener,
    ) -> Result<Response, LlmError> {
        // What is no stream of events (an answer in one piece, an error, a page) is collected and read whole.
        let mut whole: Option<Vec<u8>> = None;
        let mut events = Events::new(self, cx);
        let mut total = 0_usize;
        let mut first = true;
        loop {
            let wait = match events.progress {
                Progress::More => self.limits.idle_ms,
                Progress::Ending => self.limits.idle_ms.min(ENDING.as_millis() as u64),
                Progress::Done => break,
            };
            let piece = match self.piece(&mut answer, wait).await {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                // The answer is whole: what broke afterwards does not matter, unless its figures were still to come.
                // A server that only keeps the connection open has none to send.
                Err(e)
                    if events.progress != Progress::More
                        && (e.kind == ErrorKind::Timeout || events.assembler.has_figures()) =>
                {
                    break;
                }
                Err(mut error) => {
                    if error.kind == ErrorKind::Connection && total > 0 {
                        error.kind = ErrorKind::StreamInterrupted;
                    }
                    return Err(error);
                }
            };
            total = total.saturating_add(piece.len());
            self.within(total)?;
            if first && let Some(byte) = piece.iter().find(|b| !b.is_ascii_whitespace()) {
                first = false;
                if matches!(byte, b'{' | b'[' | b'<') {
                    whole = Some(Vec::new());
                }
            }
            match &mut whole {
                Some(body) => body.extend_from_slice(&piece),
                None => events.push(&piece, listener)?,
            }
        }
        if let Some(body) = whole {
            return self.parse_unstreamed(&body, cx, listener);
        }
        if events.progress == Progress::Done {
            let drain = async { while let Ok(Some(_)) = answer.chunk().await {} };
            let _ = tokio::time::timeout(DRAIN, drain).await;
        }
        if total == 0 {
            return Err(cx.malformed("the answer is empty"));
        }
        events.finish(listener)
    }

    /// Reads the body of an answer that was asked for in pieces and came in one: as JSON, or as a JSON list of
    /// what would have been the events.
    fn parse_unstreamed(
        &self,
        body: &[u8],
        cx: AnswerContext,
        listener: &mut dyn Listener,
    ) -> Result<Response, LlmError> {
        match serde_json::from_slice::<Value>(body) {
            Ok(Value::Array(list)) if !fault::is_error(&Value::Array(list.clone())) => {
                let mut assembler = self.wire.assembler(cx);
                for value in list {
                    let event = crate::sse::Event { name: String::new(), data: value.to_string() };
                    assembler.event(&event, listener)?;
                }
                assembler.finish()
            }
            _ => {
                let response = self.parse_whole(body, cx, listener)?;
                crate::wire::draft::tell(&response, listener);
                Ok(response)
            }
        }
    }

    async fn piece(
        &self,
        answer: &mut reqwest::Response,
        wait_ms: u64,
    ) -> Result<Option<Bytes>, LlmError> {
        match tokio::time::timeout(Duration::from_millis(wait_ms), answer.chunk()).await {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(e)) => Err(self.transport(&e)),
            Err(_) => Err(self.late("more of an answer", wait_ms)),
        }
    }

    fn within(&self, bytes: usize) -> Result<(), LlmError> {
        if bytes <= self.limits.answer_bytes_max {
            return Ok(());
        }
        Err(LlmError::new(
            ErrorKind::TooLarge,
            self.name,
            format!("the answer is larger than {} bytes", self.limits.answer_bytes_max),
        ))
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

    fn late(&self, what: &str, after_ms: u64) -> LlmError {
        LlmError::new(ErrorKind::Timeout, self.name, format!("waited {after_ms} ms for {what}"))
    }

    fn clean(&self, mut error: LlmError) -> LlmError {
        if let Some(key) = &self.key {
            error.message = key.redact(error.message);
            error.code = error.code.map(|code| key.redact(code));
        }
        error
    }

    async fn list_models(&self) -> Result<Vec<ModelEntry>, LlmError> {
        let mut out = Vec::new();
        let mut query = String::new();
        for _ in 0..MODEL_PAGES_MAX {
            let path = format!("{}{query}", self.wire.models_path());
            let send = self.http.get(self.url(&path)).headers(self.headers.clone()).send();
            let mut answer = self.head(send).await?;
            let status = answer.status().as_u16();
            if !answer.status().is_success() {
                let headers = std::mem::take(answer.headers_mut());
                let body = self.error_body(&mut answer).await;
                return Err(fault::from_answer(
                    self.name,
                    status,
                    &headers,
                    &body,
                    SystemTime::now(),
                ));
            }
            let body = self.whole_body(answer).await?;
            let value: Value = serde_json::from_slice(&body).map_err(|e| {
                LlmError::new(
                    ErrorKind::MalformedResponse,
                    self.name,
                    not_json(&body, &e.to_string()),
                )
            })?;
            let (models, next) = self.wire.models(&value);
            out.extend(models);
            match next {
                Some(next) => query = format!("?{next}"),
                None => break,
            }
        }
        Ok(out)
    }
}

impl Client for HttpClient {
    fn provider(&self) -> &str {
        self.name
    }

    fn call<'a>(
        &'a self,
        request: &'a Request,
        cx: CallContext<'a>,
    ) -> BoxFuture<'a, Result<Response, LlmError>> {
        async move {
            let limit = Duration::from_millis(self.limits.try_ms);
            let attempt = self.attempt(request, cx.listener, cx.key);
            match tokio::time::timeout(limit, attempt).await {
                Ok(result) => result.map_err(|e| self.clean(e)),
                Err(_) => Err(self.late("a whole answer", self.limits.try_ms)),
            }
        }
        .boxed()
    }

    fn model_info(&self, model: &str) -> Option<ModelInfo> {
        let _ = model;
        None
    }

    fn check(&self) -> BoxFuture<'_, Health> {
        async move {
            let started = Instant::now();
            let result = self.list_models().await.map_err(|e| self.clean(e));
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
        async move { self.list_models().await.map_err(|e| self.clean(e)) }.boxed()
    }
}

/// The events of one answer, from bytes to the assembler.
struct Events<'a> {
    client: &'a HttpClient,
    cx: AnswerContext,
    decoder: Decoder,
    assembler: Box<dyn crate::wire::Assembler>,
    progress: Progress,
}

impl<'a> Events<'a> {
    fn new(client: &'a HttpClient, cx: AnswerContext) -> Self {
        Self {
            client,
            cx,
            decoder: Decoder::new(client.limits.event_bytes_max),
            assembler: client.wire.assembler(cx),
            progress: Progress::More,
        }
    }

    fn push(&mut self, bytes: &[u8], listener: &mut dyn Listener) -> Result<(), LlmError> {
        let (assembler, progress) = (&mut self.assembler, &mut self.progress);
        let mut failed = None;
        let pushed = self.decoder.push(bytes, |event| {
            match assembler.event(event, listener) {
                // What ends an answer stays its end, whatever follows.
                Ok(Progress::More) if *progress == Progress::Ending => {}
                Ok(now) => *progress = now,
                Err(error) => failed = Some(error),
            }
            failed.is_none() && *progress != Progress::Done
        });
        if let Some(error) = failed {
            return Err(error);
        }
        pushed.map_err(|e| LlmError::new(ErrorKind::TooLarge, self.client.name, e.to_string()))
    }

    fn finish(mut self, listener: &mut dyn Listener) -> Result<Response, LlmError> {
        if self.progress != Progress::Done
            && let Some(event) = self.decoder.finish()
        {
            match self.assembler.event(&event, listener) {
                Ok(progress) if progress != Progress::More => self.progress = progress,
                Ok(_) => {}
                // An event that was cut off is not a malformed one.
                Err(e) if e.kind == ErrorKind::MalformedResponse => {
                    if self.progress == Progress::More {
                        return Err(self.cx.interrupted());
                    }
                }
                Err(e) => return Err(e),
            }
        }
        if self.progress == Progress::More {
            return Err(self.cx.interrupted());
        }
        self.assembler.finish()
    }
}

fn looks_like_events(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii_start();
    [b"data:".as_slice(), b"event:", b": "].iter().any(|start| body.starts_with(start))
}

fn not_json(body: &[u8], why: &str) -> String {
    if body.trim_ascii().is_empty() {
        return "the answer is empty".into();
    }
    let begin = String::from_utf8_lossy(&body[..body.len().min(300)]);
    format!("the answer is not JSON ({why}); it begins: {begin}")
}

/// An error and what caused it, without the URL, whose query may hold a key.
fn chain(error: &reqwest::Error) -> String {
    use std::error::Error as _;
    let mut text = if error.is_connect() {
        "cannot connect".to_owned()
    } else if error.is_timeout() {
        "timed out".to_owned()
    } else {
        "the connection failed".to_owned()
    };
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
