//! Signals to the threads that wait for them.

use actix_web::{HttpRequest, HttpResponse};
use rethread::operate::{Labels, Signal, SignalSent};
use rethread::{Json, ThreadId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::extract::OptionalJsonBody;
use super::guard;
use super::problem::Problem;
use super::request;
use super::server::Shared;

/// A signal.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSignal {
    /// Its id, at most 200 bytes; one is made when absent. The same name and id again, within two days, is the same signal.
    id: Option<String>,
    /// Its payload; null if absent.
    #[serde(default)]
    payload: Value,
    /// How long it is kept, in milliseconds, if no thread waits for it; refused then when absent. At most 30 days.
    #[serde(default, deserialize_with = "request::count")]
    keep_for_ms: Option<u64>,
    /// Only threads with these labels receive it.
    #[serde(default)]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    labels: Labels,
}

/// The result of sending a signal.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct SignalResult {
    signal_id: String,
    /// The threads that received it.
    #[schema(value_type = Vec<String>)]
    threads: Vec<ThreadId>,
    /// Whether it is kept for a thread that will wait for it.
    is_kept: bool,
    /// Whether it was sent before: then nothing was sent now.
    is_known: bool,
}

impl From<SignalSent> for SignalResult {
    fn from(sent: SignalSent) -> Self {
        let SignalSent { id, threads, is_kept, is_known } = sent;
        Self { signal_id: id, threads, is_kept, is_known }
    }
}

/// Sends a signal to all threads that wait for it: those with a `signal` node of this name, whose `where` fits the payload.
#[utoipa::path(post, path = "/v1/signals/{name}", tag = "control", operation_id = "send_signal",
    request_body = Option<NewSignal>,
    responses(
        (status = 200, description = "It is received, or kept, durably", body = SignalResult),
        (status = 409, description = "No thread waits for it, and it is not to be kept"),
        (status = 422, description = "It cannot be sent as it is, or no thread that waits for it takes its payload"),
    ))]
pub(crate) async fn send(
    server: Shared,
    request: HttpRequest,
    OptionalJsonBody(body): OptionalJsonBody<NewSignal>,
) -> Result<HttpResponse, Problem> {
    let signal = Signal {
        name: request::named(&request, "name"),
        id: body.id,
        payload: Json::from(body.payload),
        keep_for_ms: body.keep_for_ms,
        labels: guard::bound(&request, body.labels)?,
        by: Some(guard::principal(&server, &request)),
    };
    Ok(HttpResponse::Ok().json(SignalResult::from(server.runtime.signal(signal).await?)))
}
