//! Models that workers ask, over NATS.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_llm::client::{CallContext, Client, Delta, Health, Listener, ModelEntry};
use rethread_llm::{LlmError, Request, Response};
use rethread_tools::workers::{ModelCall, ModelHandler, Workers};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

/// A model of workers, as a client: each question goes to one worker of the pool, which has the key of the provider, its limits
/// and its retries.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use rethread::operate::WorkerModel;
/// # use rethread::tools::workers::{CallerOptions, Workers};
/// # async fn start(workers: Workers) -> Result<(), rethread::errors::OpenError> {
/// // A node names it: `provider: big`.
/// let model = WorkerModel::new(workers, "default", "big");
/// let runtime = rethread::Runtime::builder().client("big", Arc::new(model)).start().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct WorkerModel {
    workers: Workers,
    pool: String,
    model: String,
}

impl WorkerModel {
    /// The model that workers of this pool have under this name.
    pub fn new(workers: Workers, pool: impl Into<String>, model: impl Into<String>) -> Self {
        Self { workers, pool: pool.into(), model: model.into() }
    }

    fn error(&self, error: &ExecutionError) -> LlmError {
        let made = LlmError::new(error.kind, &self.model, &error.message);
        LlmError { retryable: error.retryable, ..made }
    }
}

impl Client for WorkerModel {
    fn provider(&self) -> &str {
        &self.model
    }

    fn call<'a>(&'a self, request: &'a Request, cx: CallContext<'a>) -> BoxFuture<'a, Result<Response, LlmError>> {
        let CallContext { listener, key, attempt, traceparent, .. } = cx;
        async move {
            let refused = |error: serde_json::Error| {
                LlmError::new(ErrorKind::MalformedResponse, &self.model, format!("the worker's answer: {error}"))
            };
            let asked = Request { stream: request.stream && listener.wants_deltas(), ..request.clone() };
            let call = ModelCall {
                model: self.model.clone(),
                request: serde_json::to_value(&asked).map_err(refused)?,
                key: key.to_owned(),
                attempt,
                traceparent,
            };
            let mut heard = |piece: Value| match serde_json::from_value::<Delta>(piece) {
                Ok(delta) => listener.delta(delta),
                Err(error) => tracing::warn!(%error, "a worker sent what is not a piece of an answer"),
            };
            let answer = self.workers.ask_model(&self.pool, call, &mut heard).await;
            serde_json::from_value(answer.map_err(|error| self.error(&error))?).map_err(refused)
        }
        .boxed()
    }

    /// That a worker is there is known when it is asked.
    fn check(&self) -> BoxFuture<'_, Health> {
        let provider = self.model.clone();
        let unknown =
            Health { provider, reachable: true, key_accepted: None, model_available: None, took_ms: 0, error: None };
        std::future::ready(unknown).boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<ModelEntry>, LlmError>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }
}

/// Passes the pieces of an answer on.
struct Pieces(UnboundedSender<Value>);

impl Listener for Pieces {
    fn delta(&mut self, delta: Delta) {
        if let Ok(piece) = serde_json::to_value(delta) {
            let _ = self.0.send(piece);
        }
    }
}

/// The handler of a worker that asks this client. A request without a model is asked of `model`.
pub fn model_handler(client: Arc<dyn Client>, model: impl Into<String>) -> ModelHandler {
    let model = model.into();
    Arc::new(move |call: ModelCall, pieces| {
        let (client, model) = (client.clone(), model.clone());
        async move {
            let ModelCall { request, key, attempt, traceparent, .. } = call;
            let invalid = |error: serde_json::Error| ExecutionError::new(ErrorKind::InvalidRequest, error.to_string());
            let mut request: Request = serde_json::from_value(request).map_err(invalid)?;
            if request.model.is_empty() {
                request.model = model;
            }
            let mut pieces = Pieces(pieces);
            let mut cx = CallContext::new(&key, &mut pieces).traceparent(traceparent);
            cx.attempt = attempt;
            let answer = client.call(&request, cx).await.map_err(|error| ExecutionError {
                retryable: error.retryable,
                ..ExecutionError::new(error.kind, error.message)
            })?;
            serde_json::to_value(answer).map_err(|error| ExecutionError::new(ErrorKind::Internal, error.to_string()))
        }
        .boxed()
    })
}
