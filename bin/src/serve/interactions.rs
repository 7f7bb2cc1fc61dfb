//! `/v1/interactions`: what waits for people, and their answers.

use actix_web::{HttpRequest, HttpResponse, web};
use rethread::Json;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::extract::Named;
use super::problem::Problem;
use super::request;
use super::schemas::{Answered, Interactions};
use super::server::Shared;

/// Everything that waits for a person, in all threads.
#[utoipa::path(get, path = "/v1/interactions", tag = "interactions", operation_id = "list_interactions",
    responses((status = 200, description = "The open questions, those that have waited longest first", body = Interactions)))]
pub(crate) async fn list(server: Shared) -> Result<HttpResponse, Problem> {
    let (inbox, now) = (server.runtime.inbox().await?, server.runtime.now());
    let open: Vec<_> = inbox.open.iter().map(|question| question.to_json(now)).collect();
    let unreadable = inbox.unreadable.into_iter();
    let unreadable: Vec<_> =
        unreadable.map(|(thread, error)| json!({ "thread_id": thread, "problem": Problem::from(error) })).collect();
    Ok(HttpResponse::Ok().json(json!({ "interactions": open, "unreadable": unreadable })))
}

/// What a thread and the branches that it runs ask people.
#[utoipa::path(get, path = "/v1/threads/{thread}/interactions", tag = "interactions", operation_id = "thread_interactions",
    responses(
        (status = 200, description = "The open questions, those that have waited longest first", body = Interactions),
    ))]
pub(crate) async fn of_thread(server: Shared, Named(thread): Named) -> Result<HttpResponse, Problem> {
    let (open, now) = (thread.inbox().await?, server.runtime.now());
    let open: Vec<_> = open.iter().map(|question| question.to_json(now)).collect();
    Ok(HttpResponse::Ok().json(json!({ "interactions": open, "unreadable": [] })))
}

/// An answer.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    /// Any JSON that the question can use. For `approve_tool`: `true`, `false`, `{"decision": "approve"}`,
    /// `{"decision": "edit", "arguments": {…}}`, `{"decision": "reject", "reason": "…"}` or
    /// `{"decision": "answer", "content": …}`.
    answer: Value,
}

/// Answers a question; the first answer counts, and the same one again is accepted without effect.
#[utoipa::path(post, path = "/v1/interactions/{interaction}/respond", tag = "interactions", operation_id = "respond",
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "A name for this request, 1 to 255 bytes"),
    ),
    request_body = Answer,
    responses(
        (status = 200, description = "The answer counts, durably", body = Answered),
        (status = 404, description = "There is no such question"),
        (status = 409, description = "It was answered otherwise before, or is closed"),
        (status = 422, description = "The answer cannot be used and the question stays open, or the key was used for another answer"),
    ))]
pub(crate) async fn respond(
    server: Shared,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    let Answer { answer } = request::json(&request, &body)?;
    let (thread, interaction) = request::interaction(&request)?;
    let id = interaction.key(thread);
    // The same answer twice has no effect anyway: the key only keeps another one from being sent under it.
    let keyed = server.keys.begin(&request, &format!("respond {id}"), &body, thread).await?;
    server.runtime.thread(thread).respond(interaction, Json::from(answer)).await?;
    let mut response = HttpResponse::Ok();
    if keyed.is_some_and(|keyed| keyed.is_repeated) {
        response.insert_header(("Idempotency-Replayed", "true"));
    }
    Ok(response.json(json!({ "id": id, "thread_id": thread, "status": "answered" })))
}

/// Takes a question back.
#[utoipa::path(post, path = "/v1/interactions/{interaction}/cancel", tag = "interactions", operation_id = "cancel_interaction",
    responses(
        (status = 200, description = "It is closed", body = Answered),
        (status = 404, description = "There is no such question"),
        (status = 409, description = "It is closed already"),
    ))]
pub(crate) async fn cancel(server: Shared, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let (thread, interaction) = request::interaction(&request)?;
    server.runtime.thread(thread).cancel_interaction(interaction).await?;
    Ok(HttpResponse::Ok().json(json!({ "id": interaction.key(thread), "thread_id": thread, "status": "cancelled" })))
}
