//! Answers kept on disk, found again by the hash of the exact request. Only for profiles that ask for it.

use std::sync::Arc;

use rethread_events::message::FinishReason;

use crate::client::{CallContext, Client, Layer, TryEvent};
use crate::error::LlmError;
use crate::request::Request;
use crate::response::{Cost, Response};

mod store;

pub(crate) use store::clear;
pub use store::{AnswerStore, CacheLimits, StoreError};

/// A client that gives a known answer without asking.
pub struct Cached {
    inner: Arc<dyn Client>,
    store: Arc<AnswerStore>,
    /// Where the answers come from; the same model elsewhere may answer otherwise.
    origin: String,
}

impl Cached {
    /// `inner`, its answers kept in `store` under this origin.
    pub fn new(inner: Arc<dyn Client>, store: Arc<AnswerStore>, origin: String) -> Self {
        Self { inner, store, origin }
    }

    /// The hash of everything that an answer depends on. Whether it is streamed is not part of it.
    fn key(&self, request: &Request) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.origin.as_bytes());
        hasher.update(&[0]);
        let whole = Request { stream: false, ..request.clone() };
        // A request that cannot be written as JSON cannot be sent either.
        let _ = serde_json::to_writer(&mut hasher, &whole);
        *hasher.finalize().as_bytes()
    }
}

impl Layer for Cached {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }

    async fn call_inner(&self, request: &Request, mut cx: CallContext<'_>) -> Result<Response, LlmError> {
        let key = self.key(request);
        let store = Arc::clone(&self.store);
        let known = tokio::task::spawn_blocking(move || store.get(&key)).await.ok().flatten();
        if let Some(mut response) = known {
            response.cached = true;
            response.cost = response.cost.map(|cost| Cost { nanousd: 0, ..cost });
            if request.stream && cx.listener.wants_deltas() {
                crate::wire::draft::emit(&response, cx.listener);
            }
            cx.listener.tried(TryEvent {
                attempt: cx.attempt,
                took_ms: 0,
                error: None,
                wait_ms: None,
                model: None,
                fallback_from: None,
            });
            return Ok(response);
        }
        let n_cleared = self.store.n_cleared();
        let response = self.inner.call(request, cx.reborrow()).await?;
        // An answer that was cut off or filtered may come out better the next time.
        if matches!(response.finish_reason, FinishReason::Stop | FinishReason::ToolCalls) {
            let (store, copy) = (Arc::clone(&self.store), response.clone());
            // The caller has its answer; a cache that cannot be written is no fault of the call.
            let kept = tokio::task::spawn_blocking(move || store.put(&key, &copy, n_cleared)).await;
            if let Ok(Err(error)) = kept {
                tracing::warn!(%error, "cannot store an answer in the cache");
            }
        }
        Ok(response)
    }
}

#[cfg(test)]
mod tests;
