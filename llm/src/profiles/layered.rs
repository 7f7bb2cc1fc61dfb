//! The outermost layer of a profile's client: fills in what requests leave open.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::client::{CallContext, Client, Health, ModelEntry, ModelInfo};
use crate::error::LlmError;
use crate::profile::Profile;
use crate::request::Request;
use crate::response::Response;

/// A client that knows its profile.
pub(super) struct Profiled {
    profile: Profile,
    inner: Arc<dyn Client>,
}

impl Profiled {
    pub(super) fn new(profile: Profile, inner: Arc<dyn Client>) -> Self {
        Self { profile, inner }
    }
}

impl Client for Profiled {
    fn provider(&self) -> &str {
        self.inner.provider()
    }

    fn call<'a>(
        &'a self,
        request: &'a Request,
        mut cx: CallContext<'a>,
    ) -> BoxFuture<'a, Result<Response, LlmError>> {
        if !self.profile.changes(request) {
            return self.inner.call(request, cx);
        }
        async move {
            let mut request = request.clone();
            self.profile.apply(&mut request);
            self.inner.call(&request, cx.reborrow()).await
        }
        .boxed()
    }

    fn model_info(&self, model: &str) -> Option<ModelInfo> {
        self.inner.model_info(if model.is_empty() { &self.profile.model } else { model })
    }

    fn check(&self) -> BoxFuture<'_, Health> {
        self.inner.check()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<ModelEntry>, LlmError>> {
        self.inner.models()
    }
}
