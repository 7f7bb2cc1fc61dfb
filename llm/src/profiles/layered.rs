//! The outer layers of a profile's client: what requests leave open, and what answers cost.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use rethread_events::message::{Usage, UsageSource};
use serde::Serialize;
use serde_json::Value;

use crate::client::{CallContext, Client, Layer, Listener, ModelInfo, TryEvent};
use crate::error::LlmError;
use crate::models::{Known, KnownModels};
use crate::prices::Terms;
use crate::profile::Profile;
use crate::request::Request;
use crate::response::Response;
use crate::shape::{restore, shape};
use crate::tokens::{self, Counter};

/// A client that knows its profile.
pub(super) struct Profiled {
    profile: Profile,
    inner: Arc<dyn Client>,
    known: Arc<KnownModels>,
}

impl Profiled {
    pub(super) fn new(profile: Profile, inner: Arc<dyn Client>, known: Arc<KnownModels>) -> Self {
        Self { profile, inner, known }
    }
}

impl Layer for Profiled {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }

    async fn call_inner(&self, request: &Request, mut cx: CallContext<'_>) -> Result<Response, LlmError> {
        let mut request = request.clone();
        self.profile.apply(&mut request);
        let known = self.known.of(&request.model);
        let tools = Arc::clone(&request.tools);
        for change in shape(&known, self.profile.provider, &mut request)? {
            cx.listener.changed(change);
        }
        let mut response = self.inner.call(&request, cx.reborrow()).await?;
        restore(self.profile.provider, &tools, &mut response);
        Ok(response)
    }

    fn known(&self, model: &str) -> Option<ModelInfo> {
        self.inner.model_info(if model.is_empty() { &self.profile.model } else { model })
    }
}

/// A client that knows what its answers cost and what its models can do.
pub(super) struct Priced {
    inner: Arc<dyn Client>,
    known: Arc<KnownModels>,
    /// Counts what the provider does not report.
    counter: Arc<Counter>,
    model: String,
    /// The region of the address, see [`region_of`](crate::prices::region_of).
    region: Option<&'static str>,
    totals: Mutex<Totals>,
}

/// The usage of the answers of one profile since its client was created. Answers from the cache do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Totals {
    /// Answers.
    pub answers: u64,
    /// Answers whose cost is unknown; they are missing from `nanousd`.
    pub answers_without_cost: u64,
    /// Money, in thousand-millionths of a US dollar.
    pub nanousd: u64,
    /// Answers whose tokens the provider did not report, or not all: they were counted here.
    pub answers_counted: u64,
    /// Tokens.
    pub usage: Usage,
}

impl Priced {
    pub(super) fn new(
        inner: Arc<dyn Client>,
        profile: &Profile,
        known: Arc<KnownModels>,
        region: Option<&'static str>,
    ) -> Self {
        Self {
            inner,
            known,
            counter: Arc::new(Counter::for_model(&profile.model)),
            model: profile.model.clone(),
            region,
            totals: Mutex::default(),
        }
    }

    pub(super) fn totals(&self) -> Totals {
        *self.totals.lock()
    }

    /// Sets the cost of the answer to a call that began then.
    fn price(&self, request: &Request, response: &mut Response, began: Timestamp) {
        let (usage, source) = response.figures();
        let is_reported = response.cost.is_some_and(|cost| cost.prices.is_none());
        // What the provider says that it bills wins. What a mock answers costs nothing, unless its profile has prices.
        if let Some(known) = self.priced(request, response.model.as_deref()).filter(|_| !is_reported) {
            let calls = if response.calls.is_empty() { std::slice::from_ref(&usage) } else { &response.calls };
            let said = Terms {
                tier: response.service_tier.as_deref(),
                speed: response.speed.as_deref(),
                region: response.inference_geo.as_deref(),
                time: None,
            };
            let terms = self.terms(request, said, began);
            response.cost = known.facts.prices.as_ref().and_then(|prices| prices.cost(calls, terms));
        }
        let mut totals = self.totals.lock();
        totals.answers += 1;
        totals.answers_counted += u64::from(source == UsageSource::Counted);
        totals.usage.add(&usage);
        match response.cost {
            Some(cost) => totals.nanousd = totals.nanousd.saturating_add(cost.nanousd),
            None => totals.answers_without_cost += 1,
        }
    }

    /// Sets the cost of what a failed attempt used that began then.
    fn price_failed(&self, request: &Request, error: &mut LlmError, began: Timestamp) {
        let Some(used) = error.used.as_deref_mut() else { return };
        // A provider that has reported no tokens of the answer has not begun it.
        let usage = Usage { output_tokens: used.usage.output_tokens.or(Some(0)), ..used.usage };
        let known = self.priced(request, None);
        let prices = known.as_ref().and_then(|known| known.facts.prices.as_ref());
        let cost = prices.and_then(|prices| prices.cost(&[usage], self.terms(request, Terms::default(), began)));
        (used.cost_nanousd, used.prices) = (cost.map(|cost| cost.nanousd), cost.and_then(|cost| cost.prices));
    }

    /// The model that was asked, or else the one that answered, if its prices are known.
    fn priced(&self, request: &Request, answered: Option<&str>) -> Option<Arc<Known>> {
        let known = |model: &str| Some(self.known.of(model)).filter(|known| known.facts.has_prices());
        known(&request.model).or_else(|| known(answered?))
    }

    /// The terms of a call that began then: what the provider says of them, or else what was asked for.
    fn terms<'a>(&self, request: &'a Request, said: Terms<'a>, began: Timestamp) -> Terms<'a> {
        let asked = |name: &str| request.extra.get(name).and_then(Value::as_str);
        Terms {
            tier: said.tier.or(request.service_tier.as_deref()),
            speed: said.speed.or_else(|| asked("speed")),
            region: self.region.or(said.region).or_else(|| asked("inference_geo")),
            time: Some([began, Timestamp::now()]),
        }
    }
}

/// Sets what failed attempts cost.
struct Pricing<'a> {
    inner: &'a mut dyn Listener,
    priced: &'a Priced,
    request: &'a Request,
    began: Timestamp,
}

impl Listener for Pricing<'_> {
    fn inner(&mut self) -> Option<&mut dyn Listener> {
        Some(&mut *self.inner)
    }

    fn tried(&mut self, mut event: TryEvent) {
        if let Some(error) = &mut event.error {
            self.priced.price_failed(self.request, error, self.began);
        }
        self.inner.tried(event);
    }

    fn wants_deltas(&self) -> bool {
        self.inner.wants_deltas()
    }
}

impl Layer for Priced {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }

    async fn call_inner(&self, request: &Request, cx: CallContext<'_>) -> Result<Response, LlmError> {
        let began = Timestamp::now();
        let mut listener = Pricing { inner: cx.listener, priced: self, request, began };
        let result = self.inner.call(request, CallContext { listener: &mut listener, ..cx }).await;
        let response = result.map_err(|mut error| {
            self.price_failed(request, &mut error, began);
            error
        })?;
        let is_own = request.model.is_empty() || request.model == self.model;
        let counter = if is_own { Arc::clone(&self.counter) } else { Arc::new(Counter::for_model(&request.model)) };
        let mut response = tokens::complete(counter, request, response).await;
        self.price(request, &mut response, began);
        Ok(response)
    }

    fn known(&self, model: &str) -> Option<ModelInfo> {
        let known = self.known.of(model);
        let has_own = known.facts.context.is_some() || known.facts.prices.is_some();
        (known.is_listed || has_own).then(|| known.facts.info(if model.is_empty() { &self.model } else { model }))
    }
}

#[cfg(test)]
mod tests;
