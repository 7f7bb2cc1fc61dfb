//! `/v1/usage` and `/v1/threads/{thread}/usage`: what calls of models and tools used, page by page.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse};
use rethread::operate::{Labels, UsageQuery};
use rethread::runs::RunId;
use rethread::{CallId, Position, Seq, ThreadId};
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Named, QueryParams};
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
    /// `model` for sums by model, `tool` for sums by tool, `label` for sums by the values of the label `label_key`, `call`
    /// for every call; sums by model and by tool when absent.
    #[param(pattern = "^(model|tool|label|call)$")]
    by: Option<String>,
    /// With `by=label`: the key of the label. Threads without it are the group whose `label_value` is null.
    #[param(pattern = "^[A-Za-z0-9._/-]{1,64}$")]
    label_key: Option<String>,
    /// Only calls of threads with these labels: `KEY=VALUE`, with commas between them.
    #[param(pattern = "^[A-Za-z0-9._/-]{1,64}=[^,]{1,64}(,[A-Za-z0-9._/-]{1,64}=[^,]{1,64})*$")]
    label: Option<String>,
    /// Only calls that ended after this position of the log; the `next` of a page before.
    #[param(pattern = "^[0-9]{1,18}$")]
    after: Option<String>,
    /// Only calls that ended at this time or later.
    #[param(format = DateTime)]
    since: Option<String>,
    /// The most calls, 500 by default, at most 5000.
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
    /// The most calls, 500 by default, at most 5000.
    #[param(minimum = 1, maximum = 5000)]
    limit: Option<u64>,
}

fn by(text: Option<&str>, expected: &str) -> Result<Option<By>, Problem> {
    match text {
        None => Ok(None),
        Some("model") => Ok(Some(By::Model)),
        Some("tool") => Ok(Some(By::Tool)),
        Some("call") => Ok(Some(By::Call)),
        Some(_) => Err(Problem::parameter("by", format!("expected {expected}"))),
    }
}

/// Returns the usage of the calls of all threads, in the order in which they ended. Request the next page with `next`
/// until it is null: a page may have fewer than `limit` calls, or none, before the last. Calls that have not ended do
/// not count.
#[utoipa::path(get, path = "/v1/usage", tag = "events", operation_id = "log_usage", params(LogQuery),
    responses((status = 200, description = "A page", body = Usages)))]
pub(crate) async fn of_log(
    server: Shared,
    request: HttpRequest,
    QueryParams(query): QueryParams<LogQuery>,
) -> Result<HttpResponse, Problem> {
    let label_key = match (query.by.as_deref(), query.label_key) {
        (Some("label"), Some(key)) => {
            Labels::new().with(key.as_str(), "value").map_err(|error| Problem::parameter("label_key", error))?;
            Some(key)
        }
        (Some("label"), None) => return Err(Problem::parameter("label_key", "`by=label` needs the key of a label")),
        (_, Some(_)) => return Err(Problem::parameter("label_key", "it is for `by=label`")),
        (_, None) => None,
    };
    let by = if label_key.is_some() { None } else { by(query.by.as_deref(), "`model`, `tool`, `label` or `call`")? };
    let after = query.after.as_deref().map(|text| {
        request::position(text).ok_or_else(|| Problem::parameter("after", "expected a position of the log"))
    });
    let query = UsageQuery::<Position> {
        after: after.transpose()?,
        since: request::time("since", query.since.as_deref())?,
        labels: guard::bound(&request, request::labels(query.label.as_deref())?)?,
        label_key: label_key.clone(),
        limit: request::limit(query.limit, PAGE, PAGE_MAX)?,
    };
    let page = server.runtime.usage(query).await?;
    let next = page.next.map(|next| next.to_string());
    if let Some(key) = label_key {
        let mut sums = BTreeMap::new();
        page.add_by_label(&mut sums);
        return Ok(HttpResponse::Ok().json(Usages { next: Some(next), ..Usages::by_label(&key, &sums) }));
    }
    Ok(HttpResponse::Ok().json(By::page(by, &page.calls, next)))
}

/// Returns the usage of the calls of a thread and its branches, thread by thread. Request the next page with `next`
/// until it is null. Inherited calls and calls that have not ended do not count.
#[utoipa::path(get, path = "/v1/threads/{thread}/usage", tag = "threads", operation_id = "thread_usage",
    params(ThreadQuery),
    responses(
        (status = 200, description = "A page", body = Usages),
        (status = 404, description = "There is no such thread or run"),
        (status = 409, description = "The run waits and has not begun"),
    ))]
pub(crate) async fn of_thread(
    Named(thread): Named,
    QueryParams(query): QueryParams<ThreadQuery>,
) -> Result<HttpResponse, Problem> {
    let by = by(query.by.as_deref(), "`model`, `tool` or `call`")?;
    let after = query.after.as_deref().map(|text| match CallId::parse_key(text) {
        Ok((thread, CallId(seq))) => Ok((thread, seq)),
        Err(_) => Err(Problem::parameter("after", "expected the `next` of a page before")),
    });
    let of = UsageQuery::<(ThreadId, Seq)> {
        after: after.transpose()?,
        since: request::time("since", query.since.as_deref())?,
        labels: Labels::new(),
        label_key: None,
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
