//! Sending a request and reading what comes back, byte by byte.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::Value;
use tokio::time::Instant;

use super::HttpClient;
use super::reading::{Reading, not_json};
use crate::client::{Listener, ModelEntry};
use crate::error::{ErrorKind, LlmError};
use crate::request::Request;
use crate::response::Response;
use crate::wire::{AnswerContext, Progress, fault};

/// How long a stream may still take to end after the answer is whole: only figures can follow.
const ENDING_MS: u64 = 5_000;
/// How long to wait for the end of the body after the last event, so that the connection can be used again.
const DRAIN: Duration = Duration::from_millis(50);
/// The longest error body that is read, in bytes.
const ERROR_BYTES_MAX: usize = 256 << 10;
/// How long an error body may take; the status already says most.
const ERROR_WAIT: Duration = Duration::from_secs(10);
/// The most pages of a list of models that are fetched.
const MODEL_PAGES_MAX: usize = 20;

impl HttpClient {
    pub(super) async fn attempt(
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
                format!("the request has {} bytes, the limit is {}", body.len(), self.limits.request_bytes_max),
            ));
        }
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Ok(value) = HeaderValue::from_str(key)
            && !key.is_empty()
        {
            headers.insert(HeaderName::from_static("x-client-request-id"), value);
        }
        let send = self.http.post(self.url(&self.wire.call_path(request))).headers(headers).body(body).send();
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
        let body = self.whole_body(answer).await.map_err(|mut error| {
            // Its head has come: it began, and is paid for.
            if error.kind == ErrorKind::Connection {
                error.kind = ErrorKind::StreamInterrupted;
            }
            error
        })?;
        Reading::new(&*self.wire, cx, &self.limits).whole(&body, listener)
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
            Err(_) => Err(self.late("more of an answer", wait_ms)),
        }
    }

    fn within(&self, bytes: usize) -> Result<(), LlmError> {
        super::reading::within(self.name, bytes, self.limits.answer_bytes_max)
    }

    /// The models that the provider offers, within the time of one attempt.
    pub(super) async fn list_models(&self) -> Result<Vec<ModelEntry>, LlmError> {
        let limit = Duration::from_millis(self.limits.try_ms);
        let late = |_| Err(self.late("a whole list of models", self.limits.try_ms));
        tokio::time::timeout(limit, self.pages_of_models()).await.unwrap_or_else(late)
    }

    async fn pages_of_models(&self) -> Result<Vec<ModelEntry>, LlmError> {
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
                return Err(fault::from_answer(self.name, status, &headers, &body, SystemTime::now()));
            }
            let body = self.whole_body(answer).await?;
            let value: Value = serde_json::from_slice(&body)
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
