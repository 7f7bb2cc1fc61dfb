//! `/v1/schedules`: threads that are started by themselves.

use actix_web::{HttpRequest, HttpResponse};
use rethread::operate::{Schedule, ScheduleState};
use rethread::{ThreadId, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::extract::JsonBody;
use super::guard;
use super::problem::{Kind, Problem};
use super::request;
use super::server::{Server, Shared};

/// How many ticks are shown.
const NEXT: usize = 5;

/// A schedule, how far it is, and its next ticks.
#[derive(Serialize, ToSchema)]
pub(crate) struct ShownSchedule {
    state: ScheduleState,
    /// The next ticks, also of one that is paused.
    #[schema(value_type = Vec<String>)]
    next: Vec<Time>,
}

/// All schedules.
#[derive(Serialize, ToSchema)]
pub(crate) struct Schedules {
    schedules: Vec<ShownSchedule>,
}

/// Which past ticks are started.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Backfill {
    /// Ticks after this time.
    #[schema(format = DateTime)]
    after: String,
    /// Ticks up to this time.
    #[schema(format = DateTime)]
    until: String,
}

/// The threads that were started.
#[derive(Serialize, ToSchema)]
pub(crate) struct Backfilled {
    #[schema(value_type = Vec<String>)]
    threads: Vec<ThreadId>,
}

fn shown(server: &Server, state: ScheduleState) -> ShownSchedule {
    // A schedule that this program does not understand has none.
    let next = state.upcoming(server.runtime.now(), NEXT).unwrap_or_default();
    ShownSchedule { state, next }
}

/// The schedule that the path names, if the token of the request is for threads like its threads.
async fn named(server: &Server, request: &HttpRequest) -> Result<ScheduleState, Problem> {
    let name = request::named(request, "name");
    let state = server.runtime.schedule(&name).await?;
    if !state.schedule.labels.include(&guard::bound_to(request)) {
        return Err(rethread::errors::ScheduleError::NoSchedule { name }.into());
    }
    Ok(state)
}

/// All schedules, by name.
#[utoipa::path(get, path = "/v1/schedules", tag = "schedules", operation_id = "list_schedules",
    responses((status = 200, description = "The schedules, sorted by name", body = Schedules)))]
pub(crate) async fn list(server: Shared, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let bound = guard::bound_to(&request);
    let all = server.runtime.schedules().await?.into_iter();
    let of_token = all.filter(|state| state.schedule.labels.include(&bound));
    let schedules = of_token.map(|state| shown(&server, state)).collect();
    Ok(HttpResponse::Ok().json(Schedules { schedules }))
}

/// One schedule.
#[utoipa::path(get, path = "/v1/schedules/{name}", tag = "schedules", operation_id = "schedule",
    responses(
        (status = 200, description = "The schedule", body = ShownSchedule),
        (status = 404, description = "There is no such schedule"),
    ))]
pub(crate) async fn show(server: Shared, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let state = named(&server, &request).await?;
    Ok(HttpResponse::Ok().json(shown(&server, state)))
}

/// Makes a schedule, or changes the one of this name from now on.
#[utoipa::path(put, path = "/v1/schedules/{name}", tag = "schedules", operation_id = "put_schedule",
    request_body = Schedule,
    responses(
        (status = 200, description = "The schedule, durably", body = ShownSchedule),
        (status = 404, description = "There is no such workflow"),
        (status = 422, description = "It is invalid, or its workflow does not accept its input"),
    ))]
pub(crate) async fn put(
    server: Shared,
    request: HttpRequest,
    JsonBody(body): JsonBody<Value>,
) -> Result<HttpResponse, Problem> {
    let read = serde_json::from_value(body);
    let mut schedule: Schedule =
        read.map_err(|error| Problem::new(Kind::Unusable, format!("the schedule: {error}")))?;
    schedule.labels = guard::bound(&request, schedule.labels)?;
    let name = request::named(&request, "name");
    let state = server.runtime.put_schedule(&name, schedule, &guard::bound_to(&request)).await?;
    Ok(HttpResponse::Ok().json(shown(&server, state)))
}

/// Removes a schedule. Its threads stay.
#[utoipa::path(delete, path = "/v1/schedules/{name}", tag = "schedules", operation_id = "delete_schedule",
    responses(
        (status = 204, description = "It is removed"),
        (status = 404, description = "There is no such schedule"),
    ))]
pub(crate) async fn delete(server: Shared, request: HttpRequest) -> Result<HttpResponse, Problem> {
    server.runtime.delete_schedule(&request::named(&request, "name"), &guard::bound_to(&request)).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Starts nothing by a schedule until it is resumed.
#[utoipa::path(post, path = "/v1/schedules/{name}/pause", tag = "schedules", operation_id = "pause_schedule",
    responses(
        (status = 200, description = "It is paused, durably", body = ShownSchedule),
        (status = 404, description = "There is no such schedule"),
    ))]
pub(crate) async fn pause(server: Shared, request: HttpRequest) -> Result<HttpResponse, Problem> {
    set_paused(&server, &request, true).await
}

/// Ends the pause of a schedule. Ticks of the pause are not caught up.
#[utoipa::path(post, path = "/v1/schedules/{name}/resume", tag = "schedules", operation_id = "resume_schedule",
    responses(
        (status = 200, description = "It starts threads again", body = ShownSchedule),
        (status = 404, description = "There is no such schedule"),
    ))]
pub(crate) async fn resume(server: Shared, request: HttpRequest) -> Result<HttpResponse, Problem> {
    set_paused(&server, &request, false).await
}

async fn set_paused(server: &Server, request: &HttpRequest, is_paused: bool) -> Result<HttpResponse, Problem> {
    let name = request::named(request, "name");
    let state = server.runtime.pause_schedule(&name, is_paused, &guard::bound_to(request)).await?;
    Ok(HttpResponse::Ok().json(shown(server, state)))
}

/// Starts the threads of past ticks that the log does not have, at most 1 000. It can be repeated.
#[utoipa::path(post, path = "/v1/schedules/{name}/backfill", tag = "schedules", operation_id = "backfill_schedule",
    request_body = Backfill,
    responses(
        (status = 200, description = "The threads that were started", body = Backfilled),
        (status = 404, description = "There is no such schedule"),
        (status = 422, description = "A time cannot be read or has not come, or there are too many ticks"),
    ))]
pub(crate) async fn backfill(
    server: Shared,
    request: HttpRequest,
    JsonBody(body): JsonBody<Backfill>,
) -> Result<HttpResponse, Problem> {
    let state = named(&server, &request).await?;
    let time = |name: &str, text: &str| {
        text.parse::<Time>().map_err(|error| Problem::new(Kind::Unusable, format!("`{name}`: {error}")))
    };
    let (after, until) = (time("after", &body.after)?, time("until", &body.until)?);
    let threads = server.runtime.backfill_schedule(&state.name, after, until).await?;
    Ok(HttpResponse::Ok().json(Backfilled { threads }))
}
