//! `/v1/interactions`: what waits for people, and their answers.

use actix_web::{HttpRequest, HttpResponse, web};
use rethread::operate::OpenInteraction;
use rethread::{CallId, Json, ThreadId, Time};
use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::beginning::REPLAYED;
use super::event_filter::Labelled;
use super::extract::{Named, QueryParams};
use super::guard;
use super::idempotency::{Key, blocking};
use super::problem::Problem;
use super::request;
use super::schemas::{Answered, Interactions, Unreadable};
use super::server::Shared;
use crate::views::Interaction;

/// How many questions a page holds.
const PAGE: usize = 50;
const PAGE_MAX: usize = 500;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Where the page before ended: its `next`.
    #[param(pattern = "^[0-9]{1,16}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-[0-9]{1,18}$")]
    cursor: Option<String>,
    /// The most questions, 50 by default, at most 500.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u64>,
}

/// The place of a question in the list, which does not move when those before it are answered.
type Place = (Time, ThreadId, CallId);

fn place(question: &OpenInteraction) -> Place {
    (question.request.requested_at, question.thread, question.request.id)
}

/// When it was asked, in microseconds since 1970, and its id.
fn cursor(question: &OpenInteraction) -> String {
    format!("{}-{}", question.request.requested_at.unix_us(), question.key())
}

fn read_cursor(text: &str) -> Option<Place> {
    let (asked, key) = text.split_once('-')?;
    let (thread, call) = CallId::parse_key(key).ok()?;
    Some((Time::from_unix_us(asked.parse().ok()?), thread, call))
}

/// Returns the open questions of all threads, those that have waited longest first. Request the next page with `next`
/// until it is null. Costs a load of every thread that has not ended.
#[utoipa::path(get, path = "/v1/interactions", tag = "interactions", operation_id = "list_interactions", params(ListQuery),
    responses((status = 200, description = "A page of the list", body = Interactions)))]
pub(crate) async fn list(
    server: Shared,
    request: HttpRequest,
    QueryParams(query): QueryParams<ListQuery>,
) -> Result<HttpResponse, Problem> {
    let limit = request::limit(query.limit, PAGE, PAGE_MAX)?;
    let after = query.cursor.as_deref().map(|cursor| {
        read_cursor(cursor).ok_or_else(|| Problem::parameter("cursor", "expected the `next` of a page before"))
    });
    let after = after.transpose()?;
    let (mut inbox, now) = (server.runtime.inbox().await?, server.runtime.now());
    if let Some(mut labelled) = Labelled::new(&server.runtime, guard::bound_to(&request)) {
        inbox = blocking(move || {
            inbox.open.retain(|question| labelled.has(question.thread));
            inbox.unreadable.retain(|(thread, _)| labelled.has(*thread));
            inbox
        })
        .await?;
    }
    let from = after.map_or(0, |after| inbox.open.partition_point(|question| place(question) <= after));
    let end = inbox.open.len().min(from + limit);
    let page = &inbox.open[from..end];
    let next = page.last().filter(|_| end < inbox.open.len()).map(cursor);
    let interactions = page.iter().map(|question| Interaction::of(question, now)).collect();
    let unreadable = inbox.unreadable.into_iter();
    let unreadable =
        unreadable.map(|(thread_id, error)| Unreadable { thread_id, problem: Problem::from(error) }).collect();
    Ok(HttpResponse::Ok().json(Interactions { interactions, unreadable, total: inbox.open.len(), next }))
}

/// Returns the open questions of a thread and its running branches.
#[utoipa::path(get, path = "/v1/threads/{thread}/interactions", tag = "interactions", operation_id = "thread_interactions",
    responses((status = 200, description = "The open questions, those that have waited longest first", body = Interactions)))]
pub(crate) async fn of_thread(server: Shared, Named(thread): Named) -> Result<HttpResponse, Problem> {
    let (open, now) = (thread.inbox().await?, server.runtime.now());
    let interactions: Vec<_> = open.iter().map(|question| Interaction::of(question, now)).collect();
    let total = interactions.len();
    Ok(HttpResponse::Ok().json(Interactions { interactions, unreadable: Vec::new(), total, next: None }))
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
