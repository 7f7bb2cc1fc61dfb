//! Another model when one stays down.

use std::sync::Arc;

use crate::client::{CallContext, Client, Delta, Layer, Listener, TryEvent, model_name};
use crate::error::{ErrorKind, LlmError, is_retryable};
use crate::request::Request;
use crate::response::Response;

/// A client that turns to others, in order, when its own attempts are used up.
pub struct Fallback {
    first: Arc<dyn Client>,
    /// Each with the model that it is asked for.
    others: Vec<(Arc<dyn Client>, String)>,
}

impl Fallback {
    /// `first`, then `others`, each with the model that it is asked for.
    pub fn new(first: Arc<dyn Client>, others: Vec<(Arc<dyn Client>, String)>) -> Self {
        Self { first, others }
    }
}

impl Layer for Fallback {
    fn inner(&self) -> &dyn Client {
        &*self.first
    }

    async fn call_inner(&self, request: &Request, cx: CallContext<'_>) -> Result<Response, LlmError> {
        let mut counter = Counting { inner: cx.listener, attempts: 0, began: false, last: None, from: None };
        let mut asked = model_name(&*self.first, &request.model);
        let inner_cx = CallContext { listener: &mut counter, ..cx };
        let mut error = match self.first.call(request, inner_cx).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        for (client, model) in &self.others {
            if !may_succeed_elsewhere(&error) {
                break;
            }
            tracing::warn!(key = cx.key, %error, model, "the model failed: calling the next one");
            counter.falls_back(cx.attempt, &error, asked);
            asked = model_name(&**client, model);
            let attempt = cx.attempt + counter.attempts;
            if std::mem::take(&mut counter.began) {
                counter.inner.delta(Delta::Restarted { attempt });
            }
            let request = Request { model: model.clone(), ..request.clone() };
            let inner_cx = CallContext { listener: &mut counter, attempt, ..cx };
            match client.call(&request, inner_cx).await {
                Ok(response) => return Ok(Response { fallback_from: counter.from, ..response }),
                Err(other) => error = other,
            }
        }
        counter.ends(cx.attempt, &error, &asked);
        Err(error)
    }
}

/// Whether another provider may do better. What is wrong with the request is wrong everywhere.
fn may_succeed_elsewhere(error: &LlmError) -> bool {
    let not_the_request =
        [ErrorKind::Authentication, ErrorKind::Permission, ErrorKind::NotFound, ErrorKind::Quota].contains(&error.kind);
    not_the_request || is_retryable(error.kind) == Some(true)
}

/// Passes everything on, with attempts numbered through. The last failed attempt of a model is held back until it is
/// known whether a fallback follows.
struct Counting<'a> {
    inner: &'a mut dyn Listener,
    attempts: u32,
    began: bool,
    last: Option<TryEvent>,
    /// The model that failed before the present one.
    from: Option<String>,
}

impl Counting<'_> {
    /// The attempts of this model are over, and a fallback is asked next.
    fn falls_back(&mut self, first: u32, error: &LlmError, asked: String) {
        let last = self.last_failed(first, error, &asked);
        // The client knows the model where the request leaves it to the client.
        let from = last.model.clone().unwrap_or(asked);
        self.inner.tried(TryEvent { wait_ms: Some(0), ..last });
        self.from = Some(from);
    }

    /// The call has failed: no model is left, or no other can do better.
    fn ends(&mut self, first: u32, error: &LlmError, asked: &str) {
        let last = self.last_failed(first, error, asked);
        self.inner.tried(last);
    }

    fn last_failed(&mut self, first: u32, error: &LlmError, asked: &str) -> TryEvent {
        let last = self.last.take().unwrap_or_else(|| {
            // A client that reports no attempts made one.
            self.attempts += 1;
            TryEvent {
                attempt: first + self.attempts - 1,
                took_ms: 0,
                error: Some(error.clone()),
                wait_ms: None,
                model: Some(asked.to_owned()),
                fallback_from: None,
            }
        });
        TryEvent { fallback_from: self.from.take(), ..last }
    }
}

impl Listener for Counting<'_> {
    fn inner(&mut self) -> Option<&mut dyn Listener> {
        Some(&mut *self.inner)
    }

    fn delta(&mut self, delta: Delta) {
        self.began = !matches!(delta, Delta::Restarted { .. });
        self.inner.delta(delta);
    }

    fn tried(&mut self, event: TryEvent) {
        self.attempts += 1;
        if event.error.is_some() && event.wait_ms.is_none() {
            self.last = Some(event);
        } else {
            self.inner.tried(TryEvent { fallback_from: self.from.clone(), ..event });
        }
    }

    fn wants_deltas(&self) -> bool {
        self.inner.wants_deltas()
    }
}

#[cfg(test)]
mod tests;
