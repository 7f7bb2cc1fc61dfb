//! Extractors for handlers: the thread, the parameters, the body. An unusable request is a [`Problem`].

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, web};
use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use rethread::{Seq, State, ThreadHandle};
use serde::de::DeserializeOwned;

use super::guard;
use super::moments::MomentQuery;
use super::problem::{Kind, Problem};
use super::request;
use super::server::Shared;

fn server(request: &HttpRequest) -> Result<&Shared, Problem> {
    request.app_data().ok_or_else(|| Problem::new(Kind::Internal, "the server has no log"))
}

/// The thread that the path names; it need not be there.
pub(crate) struct Named(pub(crate) ThreadHandle);

impl FromRequest for Named {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let of = |request| {
            let server = server(request)?;
            let by = guard::principal(server, request);
            Ok(Self(server.runtime.thread(request::thread(request)?).by(by)))
        };
        ready(of(request))
    }
}

/// The query parameters.
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest for QueryParams<T> {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(request::query(request).map(Self))
    }
}

/// The JSON in the body.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned + 'static> FromRequest for JsonBody<T> {
    type Error = Problem;
    type Future = LocalBoxFuture<'static, Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let body = whole(request, payload);
        let request = request.clone();
        async move { request::json(&request, &body.await?).map(Self) }.boxed_local()
    }
}

/// The JSON in the body; nothing is said by an empty one and by `null`.
pub(crate) struct OptionalJsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default + 'static> FromRequest for OptionalJsonBody<T> {
    type Error = Problem;
    type Future = LocalBoxFuture<'static, Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let body = whole(request, payload);
        let request = request.clone();
        async move { request::json_or_default(&request, &body.await?).map(Self) }.boxed_local()
    }
}

fn whole(
    request: &HttpRequest,
    payload: &mut Payload,
) -> impl Future<Output = Result<bytes::Bytes, Problem>> + 'static {
    let bytes_max = server(request).map(|server| server.settings.body_bytes_max);
    let payload = web::Payload::from_request(request, payload).into_inner();
    async move {
        let payload = payload.map_err(|error| Problem::new(Kind::InvalidRequest, error.to_string()))?;
        request::body(payload, bytes_max?).await
    }
}

/// The thread that the path names, and the moment of it that the parameters name.
pub(crate) struct AtMoment {
    pub(crate) thread: ThreadHandle,
    /// Absent for the present.
    pub(crate) seq: Option<Seq>,
}

impl FromRequest for AtMoment {
    type Error = Problem;
    type Future = LocalBoxFuture<'static, Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let named = Named::from_request(request, payload).into_inner();
        let query: Result<MomentQuery, _> = request::query(request);
        async move {
            let (Named(thread), query) = (named?, query?);
            Ok(Self { seq: query.seq(&thread).await?, thread })
        }
        .boxed_local()
    }
}

impl AtMoment {
    /// The thread as it was.
    pub(crate) async fn state(&self) -> Result<State, Problem> {
        Ok(match self.seq {
            Some(seq) => self.thread.state_at(seq).await?,
            None => self.thread.state().await?,
        })
    }

    /// The seq of the moment.
    pub(crate) async fn seq_or_last(&self) -> Result<Seq, Problem> {
        match self.seq {
            Some(seq) => Ok(seq),
            None => Ok(self.thread.summary().await?.last_seq),
        }
    }
}
