//! Sends a request and reads the response, byte by byte.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use rethread_events::json_text;
use rethread_events::memory::Embedding;
use rethread_events::trace_context::TraceParent;
use serde_json::Value;
use tokio::time::Instant;

use super::HttpClient;
use super::reading::{Reading, not_json};
use crate::client::{CallContext, Listener, ModelEntry};
use crate::error::{ErrorKind, LlmError};
use crate::request::Request;
use crate::response::{Cost, Response};
use crate::secret::{Key, without_secrets};
use crate::shape;
use crate::wire::{AnswerContext, BETAS, Built, Progress, fault};

/// How long a stream may still take to end after the answer is whole: only figures can follow.
const ENDING_MS: u64 = 5_000;
/// How long to wait for the end of the body after the last event, so that the connection can be used again.
const DRAIN: Duration = Duration::from_millis(50);
/// The longest error body that is read, in bytes.
const ERROR_BYTES_MAX: usize = 256 << 10;
/// How long an error body may take; the status already says most.
const ERROR_WAIT: Duration = Duration::from_secs(10);
/// How long to wait before an answer that is written in the background is requested, at first and at most.
const POLL_FIRST: Duration = Duration::from_millis(500);
const POLL_MAX: Duration = Duration::from_secs(5);
/// The most pages of a list of models that are fetched.
const MODEL_PAGES_MAX: usize = 20;

impl HttpClient {
    pub(super) async fn attempt(
        &self,
        request: &Request,
        CallContext { listener, key: id, traceparent, .. }: CallContext<'_>,
    ) -> Result<Response, LlmError> {
        let until = Instant::now() + Duration::from_millis(self.limits.try_ms);
        let path = self.wire.call_path(request);
        let built = self.build(request)?;
        let (mut prefix, splits_think_tag) = (built.prefix, built.splits_think_tag);
        built.changes.iter().for_each(|change| listener.changed(change.clone()));
        let sent = match self.post(&path, built, id, traceparent).await {
            // Nothing was done with the refused request.
            Err(error) if fault::refuses_thoughts(&error) => match shape::without_thoughts(request, &error) {
                Some((request, change)) => {
                    let built = self.build(&request)?;
                    prefix = built.prefix;
                    listener.changed(change);
                    self.post(&path, built, id, traceparent).await
                }
                None => Err(error),
            },
            sent => sent,
        };
        let (answer, key) = sent?;
        let request_id = fault::request_id(answer.headers());
        let reported_cost = fault::reported_cost(answer.headers());
        let service_tier = fault::service_tier(answer.headers());
        let cx = AnswerContext { prefix, splits_think_tag, ..AnswerContext::new(self.name, request.n_answers()) };
        let read = if request.stream {
            self.read_stream(answer, cx, listener).await
        } else {
            self.read_whole(request, answer, cx, until, listener).await
        };
        match read {
            Ok(mut response) => {
                // They are recorded, and a server may put into them what it was sent.
                let clean = |id: String| self.without_keys(id, key.as_ref());
                response.request_id = request_id.map(clean);
                response.response_id = response.response_id.map(clean);
                response.service_tier = response.service_tier.or(service_tier).map(clean);
                if let Some(nanousd) = reported_cost.filter(|_| response.cost.is_none()) {
                    response.cost = Some(Cost { nanousd, prices: None });
                }
                Ok(response)
            }
            Err(mut error) => {
                error.request_id = error.request_id.or(request_id);
                Err(self.redact_keys(error, key.as_ref()))
            }
        }
    }

    /// Makes the vector of a text.
    pub(super) async fn vector(&self, model: &str, (path, body): (String, Value)) -> Result<Embedding, LlmError> {
        let body = serde_json::to_vec(&body)
            .map_err(|e| LlmError::new(ErrorKind::InvalidRequest, self.name, e.to_string()))?;
        let (answer, key) = self.post(&path, body.into(), "", None).await?;
        let request_id = fault::request_id(answer.headers());
        let read = async {
            let body = self.whole_body(answer).await?;
            let malformed = |why: String| LlmError::new(ErrorKind::MalformedResponse, self.name, why);
            let value: Value =
                json_text::read(&body).map_err(|error| malformed(not_json(&body, &error.to_string())))?;
            let vector = self.wire.embedded(&value).and_then(|vector| Embedding::new(model, &vector));
            vector.ok_or_else(|| malformed("the answer has no vector that can be compared".into()))
        };
        read.await.map_err(|mut error: LlmError| {
            error.request_id = error.request_id.or(request_id);
            self.redact_keys(error, key.as_ref())
        })
    }

    /// Posts a body and waits for the head of a successful answer.
    async fn post(
        &self,
        path: &str,
        built: Built,
        id: &str,
        traceparent: Option<TraceParent>,
    ) -> Result<(reqwest::Response, Option<Key>), LlmError> {
        let Built { body, headers: of_request, .. } = built;
        if body.len() > self.limits.request_bytes_max {
            return Err(LlmError::new(
                ErrorKind::TooLarge,
                self.name,
                format!("the request has {} bytes, the limit is {}", body.len(), self.limits.request_bytes_max),
            ));
        }
        let (body, url) = (Bytes::from(body), self.url(path));
        self.open(|mut headers| {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            if let Ok(value) = HeaderValue::from_str(id)
                && !id.is_empty()
            {
                headers.insert(HeaderName::from_static("x-client-request-id"), value);
            }
            if let Some(Ok(value)) = traceparent.map(|span| HeaderValue::from_str(&span.to_string())) {
                headers.insert(HeaderName::from_static("traceparent"), value);
            }
            for (name, value) in &of_request {
                // What the profile says wins over what the protocol says, and the betas of both are needed.
                let own = self.own_headers.get(*name).and_then(|own| own.to_str().ok());
                let value = match own {
                    Some(own) if *name == BETAS => format!("{own},{value}"),
                    Some(_) => continue,
                    None => value.clone(),
                };
                if let Ok(value) = HeaderValue::from_str(&value) {
                    headers.insert(HeaderName::from_static(name), value);
                }
            }
            self.http.post(url.clone()).headers(headers).body(body.clone())
        })
        .await
    }

    /// Sends a request and waits for the head of a successful answer. A key that is refused is renewed once: nothing
    /// was done with the refused one.
    async fn open(
        &self,
        request: impl Fn(HeaderMap) -> reqwest::RequestBuilder,
    ) -> Result<(reqwest::Response, Option<Key>), LlmError> {
        let mut key = self.key.current(self.name).await?;
        let mut is_renewed = false;
        loop {
            let sent = self.head(request(self.head_with(key.as_ref())).send()).await;
            let opened = match sent {
                Ok(answer) if answer.status().is_success() => return Ok((answer, key)),
                Ok(answer) => self.refused(answer).await,
                Err(error) => error,
            };
            let error = self.redact_keys(opened, key.as_ref());
            let refused = key.as_ref().filter(|_| error.kind == ErrorKind::Authentication && !is_renewed);
            let Some(refused) = refused else { return Err(error) };
            match self.key.renewed(self.name, refused).await? {
                Some(other) => key = Some(other),
                None => return Err(error),
            }
            is_renewed = true;
        }
    }

    /// The error of an answer that is not a success.
    async fn refused(&self, mut answer: reqwest::Response) -> LlmError {
        let status = answer.status();
        let headers = std::mem::take(answer.headers_mut());
        let target = headers.get(LOCATION).filter(|_| status.is_redirection()).and_then(|to| to.to_str().ok());
        let target = target.and_then(|to| answer.url().join(to).ok());
        let body = self.error_body(&mut answer).await;
        let mut error = fault::from_answer(self.name, status.as_u16(), &headers, &body, SystemTime::now());
        if let Some(target) = target {
            let why = format!(
                "the server redirects to {}, which is not followed: a key is not sent to another server, and a call is \
                 not turned into a GET; set base_url to the address that answers",
                without_secrets(target)
            );
            error = LlmError { message: why, retryable: false, ..error };
        }
        error
    }

    async fn head(
        &self,
        send: impl Future<Output = reqwest::Result<reqwest::Response>>,
    ) -> Result<reqwest::Response, LlmError> {
        match tokio::time::timeout(Duration::from_millis(self.limits.first_byte_ms), send).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(e)) => Err(self.transport(&e)),
            Err(_) => Err(self.timeout_error("the answer to begin", self.limits.first_byte_ms)),
        }
    }

    async fn read_whole(
        &self,
        request: &Request,
        answer: reqwest::Response,
        cx: AnswerContext,
        until: Instant,
        listener: &mut dyn Listener,
    ) -> Result<Response, LlmError> {
        let body = self.whole_body(answer).await.map_err(as_interrupted)?;
        let body = self.finished(request, body, until).await?;
        Reading::new(&*self.wire, cx, &self.limits).whole(&body, listener)
    }

    /// Returns the answer. If the provider writes it in the background and it is not ready, requests it until it is, or
    /// until the attempt has no time left.
    async fn finished(&self, request: &Request, mut body: Vec<u8>, until: Instant) -> Result<Vec<u8>, LlmError> {
        if request.extra.get("background").and_then(Value::as_bool) != Some(true) {
            return Ok(body);
        }
        let mut wait = POLL_FIRST;
        while let Some(job) = json_text::read(&body).ok().and_then(|value| self.wire.unfinished(&value)) {
            if Instant::now() + wait + POLL_FIRST >= until {
                let cancel = self.url(&job.cancel);
                let cancelled = self.open(|headers| self.http.post(cancel.clone()).headers(headers));
                // Cancelled or not, the answer has no reader any more.
                let _ = tokio::time::timeout(POLL_FIRST, cancelled).await;
                let mut error = self.timeout_error("a background answer", self.limits.try_ms);
                error.retryable = false;
                return Err(error);
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(POLL_MAX);
            let poll = self.url(&job.poll);
            let polled = async {
                let (answer, key) = self.open(|headers| self.http.get(poll.clone()).headers(headers)).await?;
                self.whole_body(answer).await.map_err(|error| self.redact_keys(error, key.as_ref()))
            };
            match polled.await {
                Ok(polled) => body = polled,
                // The answer is written all the same: asking for it again costs nothing, a new request does.
                Err(error) if error.retryable => wait = error.retry_after().unwrap_or(wait).max(wait),
                Err(error) => return Err(error),
            }
        }
        Ok(body)
    }

    async fn whole_body(&self, mut answer: reqwest::Response) -> Result<Vec<u8>, LlmError> {
        let expected = answer.content_length().unwrap_or(0);
        self.check_size(usize::try_from(expected).unwrap_or(usize::MAX))?;
        // What the head promises is not believed beyond a megabyte before the bytes are there.
        let mut body = Vec::with_capacity(usize::try_from(expected).unwrap_or(0).min(1 << 20));
        while let Some(piece) = self.piece(&mut answer, self.limits.idle_ms).await? {
            self.check_size(body.len() + piece.len())?;
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    async fn error_body(&self, answer: &mut reqwest::Response) -> Vec<u8> {
        let mut body = Vec::new();
        let read = async {
            while let Ok(Some(piece)) = answer.chunk().await {
                let room = ERROR_BYTES_MAX - body.len();
                body.extend_from_slice(&piece[..piece.len().min(room)]);
                if body.len() >= ERROR_BYTES_MAX {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(ERROR_WAIT, read).await;
        body
    }

    async fn read_stream(
        &self,
        mut answer: reqwest::Response,
        cx: AnswerContext,
        listener: &mut dyn Listener,
    ) -> Result<Response, LlmError> {
        let mut reading = Reading::new(&*self.wire, cx, &self.limits);
        let mut whole_since = None;
        loop {
            let wait_ms = match reading.progress() {
                Progress::More => self.limits.idle_ms,
                // Counted from the answer's end, not from the last piece: a server may keep the connection alive.
                Progress::Ending => {
                    let since: &mut Instant = whole_since.get_or_insert_with(Instant::now);
                    let waited_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
                    self.limits.idle_ms.min(ENDING_MS).saturating_sub(waited_ms)
                }
                Progress::Done => break,
            };
            match self.piece(&mut answer, wait_ms).await {
                Ok(Some(piece)) => reading.push(&piece, listener)?,
                Ok(None) => break,
                Err(error) => match reading.broken(error) {
                    Some(error) => return Err(error),
                    None => break,
                },
            }
        }
        if reading.progress() == Progress::Done {
            let drain = async { while let Ok(Some(_)) = answer.chunk().await {} };
            let _ = tokio::time::timeout(DRAIN, drain).await;
        }
        reading.finish(listener)
    }

    async fn piece(&self, answer: &mut reqwest::Response, wait_ms: u64) -> Result<Option<Bytes>, LlmError> {
        match tokio::time::timeout(Duration::from_millis(wait_ms), answer.chunk()).await {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(e)) => Err(self.transport(&e)),
            Err(_) => Err(self.timeout_error("the next part of an answer", wait_ms)),
        }
    }

    fn check_size(&self, bytes: usize) -> Result<(), LlmError> {
        super::reading::check_size(self.name, bytes, self.limits.answer_bytes_max)
    }

    /// The models that the provider offers, within the time of one attempt.
    pub(super) async fn list_models(&self) -> Result<Vec<ModelEntry>, LlmError> {
        let limit = Duration::from_millis(self.limits.try_ms);
        let timed_out = |_| Err(self.timeout_error("the list of models", self.limits.try_ms));
        tokio::time::timeout(limit, self.pages_of_models()).await.unwrap_or_else(timed_out)
    }

    async fn pages_of_models(&self) -> Result<Vec<ModelEntry>, LlmError> {
        let mut out = Vec::new();
        let mut query = String::new();
        for _ in 0..MODEL_PAGES_MAX {
            let path = format!("{}{query}", self.wire.models_path());
            let url = self.url(&path);
            let (answer, _) = self.open(|headers| self.http.get(url.clone()).headers(headers)).await?;
            let body = self.whole_body(answer).await?;
            let value: Value = json_text::read(&body)
                .map_err(|e| LlmError::new(ErrorKind::MalformedResponse, self.name, not_json(&body, &e.to_string())))?;
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

/// The error of an answer whose head has come: it began, and is paid for.
fn as_interrupted(mut error: LlmError) -> LlmError {
    if error.kind == ErrorKind::Connection {
        error.kind = ErrorKind::StreamInterrupted;
    }
    error
}
