//! `/v1/interactions`: what waits for people, and their answers.

use actix_web::{HttpRequest, HttpResponse, web};
use rethread::Json;
use rethread::operate::InboxQuery;
use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::beginning::REPLAYED;
use super::extract::{Named, QueryParams};
use super::guard;
use super::idempotency::Key;
use super::problem::Problem;
use super::request;
use super::schemas::{Answered, Interactions, Unreadable};
use super::server::Shared;
use super::threads::Filter;
use crate::views::Interaction;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only questions of threads with these statuses, with commas between them: `pending`, `running`, `waiting`, `suspended`,
    /// `queued`, `paused`, `completed`, `cancelled`, `error`, `interrupted`. Those of all that have not ended when absent.
    #[param(
        pattern = "^((pending|running|waiting|suspended|queued|paused|completed|cancelled|error|interrupted)(,|$))*$"
    )]
    status: Option<String>,
    /// Only of threads that began on a workflow of this name.
    workflow: Option<String>,
    /// Only of threads with these labels: `KEY=VALUE`, with commas between them.
    #[param(pattern = "^[A-Za-z0-9._/-]{1,64}=[^,]{1,64}(,[A-Za-z0-9._/-]{1,64}=[^,]{1,64})*$")]
    label: Option<String>,
    /// Only of threads with these search attributes, which their workflows list under `search`: `VARIABLE=VALUE`, with commas
    /// between them.
    #[param(pattern = "^[A-Za-z_][A-Za-z0-9_]{0,60}=[^,\"]{0,64}(,[A-Za-z_][A-Za-z0-9_]{0,60}=[^,\"]{0,64})*$")]
    search: Option<String>,
    /// Of the branches of this thread; `none` for threads that are not a branch. Of all threads when absent.
    #[param(pattern = "^(none|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$")]
    branch_of: Option<String>,
    /// Only of threads made at this time or later.
    #[param(format = DateTime)]
    since: Option<String>,
    /// Only of threads made before this time.
    #[param(format = DateTime)]
    until: Option<String>,
    /// The threads in the order `oldest` first, which is the default, or `newest`.
    #[param(pattern = "^(newest|oldest)$")]
    order: Option<String>,
    /// Where the page before ended: its `next`.
    #[param(pattern = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-[0-9]{1,18})?$")]
    cursor: Option<String>,
    /// The most questions, 50 by default, at most 500.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u64>,
}

/// Returns open questions, those of the oldest threads first. Request the next page with `next` until it is null: a page may
/// hold fewer than `limit`, or none, before the last. Costs the load of the threads of the page, and of threads between them
/// that ask nothing.
#[utoipa::path(get, path = "/v1/interactions", tag = "interactions", operation_id = "list_interactions", params(ListQuery),
    responses((status = 200, description = "A page of the list", body = Interactions)))]
pub(crate) async fn list(
    server: Shared,
    request: HttpRequest,
    QueryParams(query): QueryParams<ListQuery>,
) -> Result<HttpResponse, Problem> {
    let ListQuery { status, workflow, label, search, branch_of, since, until, order, cursor, limit } = query;
    let after = cursor.as_deref().map(str::parse).transpose();
    let after = after.map_err(|_| Problem::parameter("cursor", "expected the `next` of a page before"))?;
    let filter = Filter { status, workflow, label, search, branch_of, since, until, order, limit };
    let threads = filter.query(&request, true)?;
    let (page, now) = (server.runtime.inbox_page(InboxQuery { threads, after }).await?, server.runtime.now());
    let interactions = page.open.iter().map(|question| Interaction::of(question, now)).collect();
    let unreadable = page.unreadable.into_iter();
    let unreadable =
        unreadable.map(|(thread_id, error)| Unreadable { thread_id, problem: Problem::from(error) }).collect();
    let next = page.next.map(|place| place.to_string());
    Ok(HttpResponse::Ok().json(Interactions { interactions, unreadable, next }))
}

/// Returns the open questions of a thread and its running branches.
#[utoipa::path(get, path = "/v1/threads/{thread}/interactions", tag = "interactions", operation_id = "thread_interactions",
    responses((status = 200, description = "The open questions, those that have waited longest first", body = Interactions)))]
pub(crate) async fn of_thread(server: Shared, Named(thread): Named) -> Result<HttpResponse, Problem> {
    let (open, now) = (thread.inbox().await?, server.runtime.now());
    let interactions = open.iter().map(|question| Interaction::of(question, now)).collect();
    Ok(HttpResponse::Ok().json(Interactions { interactions, unreadable: Vec::new(), next: None }))
}

/// An answer.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    /// A value of the type that the question names under `answer`, or any JSON where it names none. A text is converted
    /// where it can only mean one value: `"yes"`, `"3"`. For `approve_tool`: `true`, `false`, `{"decision": "approve"}`,
    /// `{"decision": "edit", "arguments": {…}}`, `{"decision": "reject", "reason": "…"}` or
    /// `{"decision": "answer", "content": …}`.
    answer: Value,
}

/// Answers a question; the first answer counts, and the same one again is accepted without effect.
#[utoipa::path(post, path = "/v1/interactions/{interaction}/respond", tag = "interactions", operation_id = "respond",
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "A name for this request, 1 to 255 bytes", pattern = "^[!-~]([ -~]{0,253}[!-~])?$"),
    ),
    request_body = Answer,
    responses(
        (status = 200, description = "The answer is recorded, durably", body = Answered),
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
    // The same answer twice has no effect anyway: the key only prevents a different one with the same key.
    let mut keyed = match Key::of(&request)? {
        Some(key) => Some(server.keys.begin(&key, &format!("respond {id}"), &body, thread).await?),
        None => None,
    };
    let answerer = server.runtime.thread(thread).by(guard::principal(&server, &request));
    let answered = answerer.respond(interaction, Json::from(answer)).await.map_err(Problem::from);
    if let (Err(problem), Some(keyed)) = (&answered, &keyed)
        && problem.is_refusal()
        && !keyed.is_repeated
    {
        keyed.forget().await;
    }
    answered?;
    if let Some(keyed) = &mut keyed {
        keyed.has_begun().await;
    }
    let mut response = HttpResponse::Ok();
    if keyed.is_some_and(|keyed| keyed.is_repeated) {
        response.insert_header(REPLAYED);
    }
    Ok(response.json(Answered { id, thread_id: thread, status: "answered" }))
}

/// Withdraws a question.
#[utoipa::path(post, path = "/v1/interactions/{interaction}/cancel", tag = "interactions", operation_id = "cancel_interaction",
    responses(
        (status = 200, description = "It is closed", body = Answered),
        (status = 404, description = "There is no such question"),
        (status = 409, description = "It is closed already"),
    ))]
pub(crate) async fn cancel(server: Shared, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let (thread, interaction) = request::interaction(&request)?;
    server.runtime.thread(thread).by(guard::principal(&server, &request)).cancel_interaction(interaction).await?;
    Ok(HttpResponse::Ok().json(Answered { id: interaction.key(thread), thread_id: thread, status: "cancelled" }))
}
