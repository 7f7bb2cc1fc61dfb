//! `/v1/usage` and `/v1/threads/{thread}/usage`: what calls of models and tools used, page by page.

use actix_web::{HttpRequest, HttpResponse};
use rethread::operate::{Labels, UsageQuery};
use rethread::runs::RunId;
use rethread::{CallId, Position, Seq, ThreadId};
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Asked, Named};
use super::guard;
use super::problem::Problem;
use super::request;
use super::server::Shared;
use crate::views::{By, Usages};

/// How many calls a page sums up or lists.
const PAGE: usize = 500;
const PAGE_MAX: usize = 5_000;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogQuery {
    /// `model` for sums by model, `tool` for sums by tool, `call` for every call; both sums when absent.
    #[param(pattern = "^(model|tool|call)$")]
    by: Option<String>,
    /// Only calls of threads with these labels: `KEY=VALUE`, with commas between them.
    #[param(pattern = "^[A-Za-z0-9._/-]{1,64}=[^,]{1,64}(,[A-Za-z0-9._/-]{1,64}=[^,]{1,64})*$")]
    label: Option<String>,
    /// Only calls that ended after this position of the log; the `next` of a page before.
    #[param(pattern = "^[0-9]{1,18}$")]
    after: Option<String>,
    /// Only calls that ended at this time or later.
    #[param(format = DateTime)]
    since: Option<String>,
    /// At most so many calls, 500 unless given, 5000 at most.
    #[param(minimum = 1, maximum = 5000)]
    limit: Option<u64>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ThreadQuery {
    /// `model` for sums by model, `tool` for sums by tool, `call` for every call; both sums when absent.
    #[param(pattern = "^(model|tool|call)$")]
    by: Option<String>,
    /// `false` leaves out the calls of its branches.
    branches: Option<bool>,
    /// Only calls of this run, and of the branches that began in it.
    #[param(minimum = 0)]
    run: Option<u64>,
    /// Where the page before ended: its `next`.
    #[param(pattern = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-[0-9]{1,18}$")]
    after: Option<String>,
    /// Only calls that ended at this time or later.
    #[param(format = DateTime)]
    since: Option<String>,
    /// At most so many calls, 500 unless given, 5000 at most.
    #[param(minimum = 1, maximum = 5000)]
    limit: Option<u64>,
}

fn by(text: Option<&str>) -> Result<Option<By>, Problem> {
    match text {
        None => Ok(None),
        Some("model") => Ok(Some(By::Model)),
        Some("tool") => Ok(Some(By::Tool)),
        Some("call") => Ok(Some(By::Call)),
        Some(_) => Err(Problem::parameter("by", "expected `model`, `tool` or `call`")),
    }
}

/// What the calls of all threads used, in the order in which they ended. Ask on with `next` until it is null: a page may
/// hold fewer than `limit` calls, or none, before the last. Calls that have not ended do not count.
#[utoipa::path(get, path = "/v1/usage", tag = "events", operation_id = "log_usage", params(LogQuery),
    responses((status = 200, description = "A page", body = Usages)))]
pub(crate) async fn of_log(
    server: Shared,
    request: HttpRequest,
    Asked(query): Asked<LogQuery>,
) -> Result<HttpResponse, Problem> {
    let by = by(query.by.as_deref())?;
    let after = query.after.as_deref().map(|text| {
        request::position(text).ok_or_else(|| Problem::parameter("after", "expected a position of the log"))
    });
    let query = UsageQuery::<Position> {
        after: after.transpose()?,
        since: request::time("since", query.since.as_deref())?,
        labels: guard::bound(&request, request::labels(query.label.as_deref())?)?,
        limit: request::limit(query.limit, PAGE, PAGE_MAX)?,
    };
    let page = server.runtime.usage(query).await?;
    let next = page.next.map(|next| next.to_string());
    Ok(HttpResponse::Ok().json(By::page(by, &page.calls, next)))
}

/// What the calls of a thread and of its branches used, thread by thread. Ask on with `next` until it is null. What the
/// thread inherits does not count, and calls that have not ended do not count.
#[utoipa::path(get, path = "/v1/threads/{thread}/usage", tag = "threads", operation_id = "thread_usage",
    params(ThreadQuery),
    responses(
        (status = 200, description = "A page", body = Usages),
        (status = 404, description = "There is no such thread or run"),
        (status = 409, description = "The run waits and has not begun"),
    ))]
pub(crate) async fn of_thread(Named(thread): Named, Asked(query): Asked<ThreadQuery>) -> Result<HttpResponse, Problem> {
    let by = by(query.by.as_deref())?;
    let after = query.after.as_deref().map(|text| match CallId::parse_key(text) {
        Ok((thread, CallId(seq))) => Ok((thread, seq)),
        Err(_) => Err(Problem::parameter("after", "expected the `next` of a page before")),
    });
    let of = UsageQuery::<(ThreadId, Seq)> {
        after: after.transpose()?,
        since: request::time("since", query.since.as_deref())?,
        labels: Labels::new(),
        limit: request::limit(query.limit, PAGE, PAGE_MAX)?,
    };
    let mut page = match (query.run, query.branches) {
        (Some(run), _) => thread.run_usage(RunId(Seq(run)), of).await?,
        (None, Some(false)) => thread.usage(of).await?,
        (None, _) => thread.family_usage(of).await?,
    };
    if query.branches == Some(false) {
        page.calls.retain(|call| call.thread == thread.id());
    }
    let next = page.next.map(|(thread, seq)| CallId(seq).key(thread));
    Ok(HttpResponse::Ok().json(By::page(by, &page.calls, next)))
}
