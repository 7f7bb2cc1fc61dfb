//! What a thread is told: pause, resume, cancel, a checkpoint, a message, variables.

use actix_web::{HttpRequest, HttpResponse, web};
use rethread::{Json, LimitRaised, Message, Ordered, ThreadHandle};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::problem::{Document, Kind, Problem};
use super::request;
use super::schemas::{Checkpoint, Thread};
use super::server::Shared;

/// Why something is done.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reason {
    /// For whoever reads the log.
    reason: Option<String>,
}

/// How far a thread may go on beyond a limit; all absent to end a pause and no more.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    /// The budget in tokens from here on, in all.
    tokens: Option<u64>,
    /// The budget in billionths of a US dollar from here on, in all.
    cost_nanousd: Option<u64>,
    /// So many more iterations.
    iterations: Option<u32>,
}

/// A name for the present moment.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Label {
    label: String,
}

/// A message for the conversation.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMessage {
    /// `user`, `system` or `assistant`.
    role: String,
    /// A text, or a list of parts as `rethread llm call` takes them.
    content: Value,
}

/// Variables of the thread.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Variables {
    #[schema(value_type = Object)]
    variables: Ordered<Json>,
}

async fn shown(thread: &ThreadHandle) -> Result<HttpResponse, Problem> {
    Ok(HttpResponse::Ok().json(thread.summary().await?.to_json()))
}

/// Lets the thread and its branches begin nothing new; what runs may end.
#[utoipa::path(post, path = "/v1/threads/{thread}/pause", tag = "control", operation_id = "pause_thread",
    params(("thread" = String, Path, description = "The id of the thread")), request_body = Option<Reason>,
    responses(
        (status = 200, description = "It is paused, durably", body = Thread),
        (status = 404, description = "There is no such thread", body = Document, content_type = "application/problem+json"),
        (status = 409, description = "It has ended, or is paused already", body = Document, content_type = "application/problem+json"),
    ))]
pub(crate) async fn pause(
    server: Shared,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    let Reason { reason } = request::json_or_default(&request, &body)?;
    let thread = server.runtime.thread(request::thread(&request)?);
    thread.pause(reason).await?;
    shown(&thread).await
}

/// Ends the pauses of the thread and its branches; with limits, lets them go on beyond the one that stopped them.
#[utoipa::path(post, path = "/v1/threads/{thread}/resume", tag = "control", operation_id = "resume_thread",
    params(("thread" = String, Path, description = "The id of the thread")), request_body = Option<Limits>,
    responses(
        (status = 200, description = "It goes on", body = Thread),
        (status = 404, description = "There is no such thread", body = Document, content_type = "application/problem+json"),
        (status = 409, description = "It has ended, or is not paused", body = Document, content_type = "application/problem+json"),
    ))]
pub(crate) async fn resume(
    server: Shared,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    let Limits { tokens, cost_nanousd, iterations } = request::json_or_default(&request, &body)?;
    let thread = server.runtime.thread(request::thread(&request)?);
    let raised = LimitRaised { tokens, cost_nanousd, iterations };
    thread.go_on(raised).await?;
    shown(&thread).await
}

/// Ends the thread and its branches in good order: each open call gets its last event.
#[utoipa::path(post, path = "/v1/threads/{thread}/cancel", tag = "control", operation_id = "cancel_thread",
    params(("thread" = String, Path, description = "The id of the thread")), request_body = Option<Reason>,
    responses(
        (status = 200, description = "It has ended", body = Thread),
        (status = 404, description = "There is no such thread", body = Document, content_type = "application/problem+json"),
        (status = 409, description = "It has ended before", body = Document, content_type = "application/problem+json"),
    ))]
pub(crate) async fn cancel(
    server: Shared,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    let Reason { reason } = request::json_or_default(&request, &body)?;
    let thread = server.runtime.thread(request::thread(&request)?);
    thread.cancel(reason).await?;
    shown(&thread).await
}

/// Gives the present moment a name.
#[utoipa::path(post, path = "/v1/threads/{thread}/checkpoints", tag = "moments", operation_id = "create_checkpoint",
    params(("thread" = String, Path, description = "The id of the thread")), request_body = Label,
    responses(
        (status = 201, description = "The moment has the name", body = Checkpoint),
        (status = 404, description = "There is no such thread", body = Document, content_type = "application/problem+json"),
        (status = 409, description = "The thread has ended, or has a checkpoint of that name", body = Document, content_type = "application/problem+json"),
    ))]
pub(crate) async fn checkpoint(
    server: Shared,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    let Label { label } = request::json(&request, &body)?;
    let thread = server.runtime.thread(request::thread(&request)?);
    thread.checkpoint(label.as_str()).await?;
    let seq = thread.checkpoint_seq(&label).await?;
    Ok(HttpResponse::Created().json(json!({ "label": label, "seq": seq })))
}

/// Puts a message into the conversation; the next model call sees it.
#[utoipa::path(post, path = "/v1/threads/{thread}/messages", tag = "control", operation_id = "add_message",
    params(("thread" = String, Path, description = "The id of the thread")), request_body = NewMessage,
    responses(
        (status = 200, description = "It is in the conversation", body = Thread),
        (status = 404, description = "There is no such thread", body = Document, content_type = "application/problem+json"),
        (status = 409, description = "The thread has ended", body = Document, content_type = "application/problem+json"),
        (status = 422, description = "Such a message cannot stand in a conversation", body = Document, content_type = "application/problem+json"),
    ))]
pub(crate) async fn message(
    server: Shared,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    let NewMessage { role, content } = request::json(&request, &body)?;
    let message: Message = serde_json::from_value(json!({ "role": role, "content": content })).map_err(|error| {
        let detail =
            format!("this is no message: {error}; the simplest is {{\"role\": \"user\", \"content\": \"text\"}}");
        Problem::new(Kind::Unusable, detail)
    })?;
    let thread = server.runtime.thread(request::thread(&request)?);
    thread.add_message(message).await?;
    shown(&thread).await
}

/// Sets variables of the thread.
#[utoipa::path(post, path = "/v1/threads/{thread}/variables", tag = "control", operation_id = "set_variables",
    params(("thread" = String, Path, description = "The id of the thread")), request_body = Variables,
    responses(
        (status = 200, description = "They are set", body = Thread),
        (status = 404, description = "There is no such thread", body = Document, content_type = "application/problem+json"),
        (status = 409, description = "The thread has ended", body = Document, content_type = "application/problem+json"),
        (status = 422, description = "No variable can have such a name", body = Document, content_type = "application/problem+json"),
    ))]
pub(crate) async fn variables(
    server: Shared,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    let Variables { variables } = request::json(&request, &body)?;
    let thread = server.runtime.thread(request::thread(&request)?);
    thread.set_variables(variables).await?;
    shown(&thread).await
}
