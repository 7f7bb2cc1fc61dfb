//! Webhooks of other services: a delivery with a valid signature is sent as a signal.

mod config;
mod scheme;

use actix_web::{HttpRequest, HttpResponse, web};
use rethread::operate::Signal;
use rethread::{Hash, Json, Principal};
use serde_json::Value;

pub(crate) use self::config::{Entry, Incoming, check, read};
use self::scheme::Delivery;
use super::problem::{Kind, Problem};
use super::request;
use super::server::Shared;
use super::signals::SignalResult;

/// Receives a delivery of a webhook and sends its body as a signal. The configuration (`[incoming.NAME]`) says how it is
/// signed and which signal it is. It needs no token.
#[utoipa::path(post, path = "/v1/incoming/{name}", tag = "control", operation_id = "receive_webhook",
    request_body = Value,
    responses(
        (status = 200, description = "It is received, or kept, durably", body = SignalResult),
        (status = 204, description = "It is a test delivery (`ping` of GitHub), and no signal was sent"),
        (status = 401, description = "Its signature is missing, wrong or too old"),
        (status = 404, description = "The configuration has no such webhook"),
        (status = 409, description = "No thread waits for it, and it is not to be kept"),
        (status = 422, description = "It cannot be sent as it is, or no thread that waits for it takes its payload"),
    ))]
pub(crate) async fn receive(
    server: Shared,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let name = request::named(&request, "name");
    let Some(webhook) = server.incoming.get(&name) else {
        let detail = "there is no such incoming webhook: add `[incoming.NAME]` to rethread.toml and restart the server";
        return Err(Problem::new(Kind::NotFound, detail).at("name", request::cut(&name)));
    };
    request::check_is_json(&request)?;
    let body = request::body(payload, webhook.body_bytes_max.min(server.settings.body_bytes_max)).await?;
    let delivery = Delivery {
        header: &|name| request.headers().get(name)?.to_str().ok(),
        body: &body,
        now_s: server.runtime.now().unix_us() / 1_000_000,
    };
    // Before anything of the body is read.
    webhook.scheme.verify(&webhook.secrets, &delivery).map_err(|why| {
        tracing::info!(webhook = name, %why, "delivery refused");
        let detail = "the signature is missing, does not fit the body, or is too old: compare the secret, the kind of \
                      signature and the clock; the log of the server says more (RETHREAD_LOG=rethread::serve::incoming=info)";
        Problem::new(Kind::InvalidSignature, detail)
    })?;
    if webhook.scheme.is_test(&delivery) {
        return Ok(HttpResponse::NoContent().finish());
    }
    let payload: Value = request::parsed(&body)?;
    let event = webhook.scheme.event(&delivery, &payload);
    let Some(signal) = webhook.signal_for(event) else {
        let detail =
            "the delivery names no event, which `signal` in the configuration of the webhook contains as `{event}`";
        return Err(Problem::new(Kind::Unusable, detail));
    };
    // With the name, because two services may use the same ids.
    let id = match webhook.scheme.id(&delivery, &payload) {
        Some(id) => format!("{name}/{id}"),
        None => format!("{name}/{}", Hash::of(&body)),
    };
    let signal = Signal {
        name: signal,
        id: Some(id),
        payload: Json::from(payload),
        keep_for_ms: webhook.keep_for_ms,
        labels: webhook.labels.clone(),
        by: Some(Principal::named(&format!("webhook {name}"))),
    };
    Ok(HttpResponse::Ok().json(SignalResult::from(server.runtime.signal(signal).await?)))
}
