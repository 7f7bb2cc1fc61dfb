//! The interface of every client, and what it reports during a call.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rethread_events::event::RequestChange;
use rethread_events::memory::Embedding;
use rethread_events::message::Usage;
use rethread_events::thread::PermitObserver;
use rethread_events::trace_context::TraceParent;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::error::{ErrorKind, LlmError};
use crate::request::Request;
use crate::response::Response;

/// A piece of an answer that is still coming in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delta {
    /// More text.
    Text(String),
    /// More reasoning.
    Reasoning(String),
    /// More of a refusal.
    Refusal(String),
    /// More of a tool call. The first piece of each call names the tool.
    ToolCall {
        /// Which call of the answer, from 0.
        index: usize,
        /// The id of the call, with the first piece, where the provider gave one by then.
        id: Option<String>,
        /// The tool, with the first piece.
        name: Option<String>,
        /// The text to append to the arguments.
        arguments_fragment: String,
    },
    /// The pieces so far are void: the answer broke off and the request is sent again.
    Restarted {
        /// The number of the attempt that follows, from 2.
        attempt: u32,
    },
}

/// The result of one attempt, reported when it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TryEvent {
    /// Its number, from 1.
    pub attempt: u32,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// Why it failed; absent if it succeeded.
    pub error: Option<LlmError>,
    /// How long the client waits before the next attempt, in milliseconds; absent if there is no next one.
    pub wait_ms: Option<u64>,
    /// The model that was asked, as `PROVIDER/MODEL`.
    #[serde(default)]
    pub model: Option<String>,
    /// The model that failed before it, whose fallback it is.
    #[serde(default)]
    pub fallback_from: Option<String>,
}

/// The name of a model in events: with its provider, or that alone where the client chooses the model.
pub(crate) fn model_name(client: &dyn Client, model: &str) -> String {
    let provider = client.provider();
    if model.is_empty() { provider.to_owned() } else { format!("{provider}/{model}") }
}

/// Follows a call while it runs. It is called from the call's own task, in order: its methods must be
/// quick and must not block.
pub trait Listener: Send {
    /// The listener to which everything is passed on that the methods of this one do not take; none at the end of the chain.
    fn inner(&mut self) -> Option<&mut dyn Listener> {
        None
    }

    /// A piece of the answer came in.
    fn delta(&mut self, delta: Delta) {
        if let Some(inner) = self.inner() {
            inner.delta(delta);
        }
    }

    /// An attempt ended.
    fn tried(&mut self, event: TryEvent) {
        if let Some(inner) = self.inner() {
            inner.tried(event);
        }
    }

    /// The request that is sent differs from the one that was asked for. Each attempt says so anew.
    fn changed(&mut self, change: RequestChange) {
        if let Some(inner) = self.inner() {
            inner.changed(change);
        }
    }

    /// The provider reported the usage of this attempt so far, in a stream that has not ended. Figures are cumulative: the
    /// last report of an attempt counts. A caller that cancels the call has no other account of what it used.
    fn used(&mut self, usage: &Usage) {
        if let Some(inner) = self.inner() {
            inner.used(usage);
        }
    }

    /// Whether pieces are wanted at all. A client makes none for a listener that says no, and then they cost
    /// nothing.
    fn wants_deltas(&self) -> bool {
        true
    }
}

/// No listener.
impl Listener for () {
    fn wants_deltas(&self) -> bool {
        false
    }
}

/// Collects the pieces.
impl Listener for Vec<Delta> {
    fn delta(&mut self, delta: Delta) {
        self.push(delta);
    }
}

/// The context of one call that is not part of the request.
pub struct CallContext<'a> {
    /// Who follows it.
    pub listener: &'a mut dyn Listener,
    /// A name for the call, the same for every repetition: the idempotency key if the provider supports one, and the
    /// key of log lines. May be empty.
    pub key: &'a str,
    /// The number of this attempt, from 1. A layer that retries increments it.
    pub attempt: u32,
    /// The span of the call, which a client over HTTP passes on.
    pub traceparent: Option<TraceParent>,
    /// How long the caller waits.
    pub(crate) time: CallTime<'a>,
}

/// How long the caller of a model waits. Waits for permits are no part of it.
#[derive(Clone, Copy)]
pub(crate) struct CallTime<'a> {
    deadline: Option<Instant>,
    permits: Option<&'a dyn PermitObserver>,
}

impl<'a> CallTime<'a> {
    /// When the caller stops waiting for the answer; every wait for a permit moves it.
    pub(crate) fn deadline(self) -> Option<Instant> {
        self.deadline.map(|deadline| self.moved(deadline))
    }

    /// The deadline that a wait for a permit must keep: the caller's, unless the caller follows such waits.
    pub(crate) fn permit_deadline(self) -> Option<Instant> {
        self.deadline.filter(|_| self.permits.is_none())
    }

    /// This moment, later by all waits for permits.
    pub(crate) fn moved(self, at: Instant) -> Instant {
        let waited = Duration::from_millis(self.permits.map_or(0, PermitObserver::waited_ms));
        at.checked_add(waited).unwrap_or(at)
    }

    /// Says that the call waits for a permit, until the guard is dropped.
    pub(crate) fn waits(self) -> WaitGuard<'a> {
        if let Some(permits) = self.permits {
            permits.wait_begins();
        }
        WaitGuard(self.permits)
    }
}

/// A wait for a permit.
pub(crate) struct WaitGuard<'a>(Option<&'a dyn PermitObserver>);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        if let Some(permits) = self.0 {
            permits.wait_ends();
        }
    }
}

impl<'a> CallContext<'a> {
    /// A call with this name and listener.
    pub fn new(key: &'a str, listener: &'a mut dyn Listener) -> Self {
        let time = CallTime { deadline: None, permits: None };
        Self { listener, key, attempt: 1, traceparent: None, time }
    }

    /// Sets the span of the call.
    #[must_use]
    pub fn traceparent(mut self, traceparent: Option<TraceParent>) -> Self {
        self.traceparent = traceparent;
        self
    }

    /// Sets when the caller stops waiting for the answer: no wait that goes beyond it is begun. It does not end the
    /// call.
    #[must_use]
    pub fn until(mut self, deadline: Option<Instant>) -> Self {
        self.time.deadline = deadline;
        self
    }

    /// Sets who follows the waits for permits. They then move the deadline.
    #[must_use]
    pub fn permits(mut self, permits: &'a dyn PermitObserver) -> Self {
        self.time.permits = Some(permits);
        self
    }

    /// The same context for a call inside the call.
    pub fn reborrow(&mut self) -> CallContext<'_> {
        let Self { key, attempt, traceparent, time, .. } = *self;
        CallContext { listener: &mut *self.listener, key, attempt, traceparent, time }
    }
}

/// The known properties of a model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModelInfo {
    /// Its name.
    pub model: String,
    /// The longest conversation it takes, in tokens.
    pub context_tokens_max: Option<u64>,
    /// The longest answer it gives, in tokens.
    pub output_tokens_max: Option<u64>,
    /// Whether it can call tools.
    pub tools: Option<bool>,
    /// Whether it sees images.
    pub vision: Option<bool>,
    /// Whether it thinks before it answers.
    pub reasoning: Option<bool>,
    /// Whether it can enforce a JSON Schema.
    pub json_schema: Option<bool>,
    /// Its prices, if known.
    pub prices: Option<crate::response::UnitPrices>,
}

/// One model that a provider offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelEntry {
    /// Its name.
    pub id: String,
    /// A name for people, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Who made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owned_by: Option<String>,
    /// The longest conversation it takes, in tokens, where the provider says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens_max: Option<u64>,
    /// The longest answer it gives, in tokens, where the provider says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens_max: Option<u64>,
}

/// Whether a provider can be used right now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// The provider's name.
    pub provider: String,
    /// Whether it answered at all.
    pub reachable: bool,
    /// Whether it took the key; none when that could not be seen.
    pub key_accepted: Option<bool>,
    /// Whether the model of the profile is on offer; none when that could not be seen.
    pub model_available: Option<bool>,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// The error.
    pub error: Option<LlmError>,
}

impl Health {
    pub(crate) fn good(provider: &str, took: Duration) -> Self {
        Self {
            provider: provider.into(),
            reachable: true,
            key_accepted: Some(true),
            model_available: None,
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            error: None,
        }
    }
}

/// A way to a model. A call is cancelled by dropping its future: nothing is sent after that, and an answer on its
/// way is thrown away.
pub trait Client: Send + Sync {
    /// The provider's name, as it appears in errors.
    fn provider(&self) -> &str;

    /// Asks and waits for the whole answer, telling the listener of every piece on the way when
    /// [`Request::stream`] is set.
    ///
    /// # Errors
    /// The error of the last attempt, if none succeeded within the limits.
    fn call<'a>(&'a self, request: &'a Request, cx: CallContext<'a>) -> BoxFuture<'a, Result<Response, LlmError>>;

    /// Returns the known properties of a model, without a request.
    fn model_info(&self, model: &str) -> Option<ModelInfo> {
        let _ = model;
        None
    }

    /// Makes the vector of a text, by which texts of similar meaning are found. One attempt.
    ///
    /// # Errors
    /// `configuration` where the provider makes none, as by default; otherwise the error of the attempt.
    fn embed<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Embedding, LlmError>> {
        let _ = text;
        let message = "it makes no embeddings: name a profile of a provider that does";
        std::future::ready(Err(LlmError::new(ErrorKind::Configuration, self.provider(), message))).boxed()
    }

    /// Whether the provider answers and takes the key. One attempt, no tokens.
    fn check(&self) -> BoxFuture<'_, Health>;

    /// The models on offer.
    ///
    /// # Errors
    /// As [`Client::call`].
    fn models(&self) -> BoxFuture<'_, Result<Vec<ModelEntry>, LlmError>>;
}

/// A client around another one: it changes calls, and passes everything else on.
pub(crate) trait Layer: Send + Sync {
    /// The client inside.
    fn inner(&self) -> &dyn Client;

    /// [`Client::call`], with the client inside.
    fn call_inner(
        &self,
        request: &Request,
        cx: CallContext<'_>,
    ) -> impl Future<Output = Result<Response, LlmError>> + Send;

    /// [`Client::model_info`].
    fn known(&self, model: &str) -> Option<ModelInfo> {
        self.inner().model_info(model)
    }
}

impl<L: Layer> Client for L {
    fn provider(&self) -> &str {
        self.inner().provider()
    }

    fn call<'a>(&'a self, request: &'a Request, cx: CallContext<'a>) -> BoxFuture<'a, Result<Response, LlmError>> {
        self.call_inner(request, cx).boxed()
    }

    fn model_info(&self, model: &str) -> Option<ModelInfo> {
        self.known(model)
    }

    fn embed<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Embedding, LlmError>> {
        self.inner().embed(text)
    }

    fn check(&self) -> BoxFuture<'_, Health> {
        self.inner().check()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<ModelEntry>, LlmError>> {
        self.inner().models()
    }
}
