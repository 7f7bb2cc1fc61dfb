//! Another model when one stays down.

use std::sync::Arc;

use rethread_events::event::RequestChange;

use crate::client::{CallContext, Client, Delta, Layer, Listener, TryEvent};
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
        let mut counter = Counting { inner: cx.listener, attempts: 0, began: false };
        let inner_cx = CallContext { listener: &mut counter, ..cx };
        let mut error = match self.first.call(request, inner_cx).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        for (stage, (client, model)) in (1..).zip(&self.others) {
            if !may_succeed_elsewhere(&error) {
                break;
            }
            tracing::warn!(key = cx.key, %error, model, "the model failed: trying the next one");
            // A client that does not report its attempts made one.
            counter.attempts = counter.attempts.max(stage);
            let attempt = cx.attempt + counter.attempts;
            if std::mem::take(&mut counter.began) {
                counter.inner.delta(Delta::Restarted { attempt });
            }
            let request = Request { model: model.clone(), ..request.clone() };
            let inner_cx = CallContext { listener: &mut counter, attempt, ..cx };
            match client.call(&request, inner_cx).await {
                Ok(response) => return Ok(response),
                Err(other) => error = other,
            }
        }
        Err(error)
    }
}

/// Whether another provider may do better. What is wrong with the request is wrong everywhere.
fn may_succeed_elsewhere(error: &LlmError) -> bool {
    let not_the_request =
        [ErrorKind::Authentication, ErrorKind::Permission, ErrorKind::NotFound, ErrorKind::Quota].contains(&error.kind);
    not_the_request || is_retryable(error.kind) == Some(true)
}

/// Passes everything on, with attempts numbered through.
struct Counting<'a> {
    inner: &'a mut dyn Listener,
    attempts: u32,
    began: bool,
}

impl Listener for Counting<'_> {
    fn delta(&mut self, delta: Delta) {
        self.began = !matches!(delta, Delta::Restarted { .. });
        self.inner.delta(delta);
    }

    fn tried(&mut self, event: TryEvent) {
        self.attempts += 1;
        self.inner.tried(event);
    }

    fn changed(&mut self, change: RequestChange) {
        self.inner.changed(change);
    }

    fn wants_deltas(&self) -> bool {
        self.inner.wants_deltas()
    }
}

#[cfg(test)]
mod tests;
