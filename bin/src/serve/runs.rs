//! `/v1/threads/{thread}/runs`: the runs of a thread, and the next one.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, web};
use rethread::runs::{AcceptedRun, OnMessage, RunId, RunRequest, Taken};
use rethread::{Json, OrderedMap, Seq};
use rethread_events::thread::OutcomeJson;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::beginning::REPLAYED;
use super::control::{self, Reason};
use super::extract::{Named, OptionalJsonBody, QueryParams};
use super::guard;
use super::idempotency::Key;
use super::problem::{Kind, Problem};
use super::request;
use super::server::Shared;
use super::threads::WAIT_MAX_MS;
use super::workflows::{Chosen, For, Inline};
use crate::views::{Runs, Thread};

/// How many runs a page holds.
pub(crate) const PAGE: usize = 50;
pub(crate) const PAGE_MAX: usize = 500;

/// The next run of a thread, or a message to the one that is going on.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewRun {
    /// The variable `input` of the run. It must fit the workflow's `input_schema`. A message that steers or interrupts is a
    /// text.
    input: Value,
    /// Variables of the thread that are set as the run begins.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    variables: Option<OrderedMap<Json>>,
    /// What happens if a run is in progress: `queue`, `steer`, `interrupt` or `reject`; by default as the workflow
    /// says.
    #[serde(default)]
    #[schema(value_type = Option<String>, pattern = "^(queue|steer|interrupt|reject)$")]
    on_message: Option<OnMessage>,
    /// Whether the run keeps to the definition of the last run. Otherwise it takes the newest of that name, unless one is
    /// given.
    #[serde(default)]
    pin: bool,
    /// The name of a workflow, whose newest definition the run takes.
    workflow: Option<String>,
    /// The hash of the definition that the run takes.
    hash: Option<String>,
    /// The definition that the run takes: an object, or a text in YAML or JSON.
    #[schema(value_type = Option<Inline>)]
    definition: Option<Value>,
}

/// The result of a request for a run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Accepted {
    #[schema(value_type = String)]
    thread_id: rethread::ThreadId,
    /// The run that answers it.
    #[schema(value_type = u64)]
    run_id: RunId,
    /// `started`, `queued`, `steers` or `interrupts`.
    #[schema(value_type = String)]
    taken: Taken,
    /// The event that records it.
    #[schema(value_type = u64)]
    seq: Seq,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// Where the page before ended: its `next`.
    pub(crate) cursor: Option<u64>,
    /// The most runs, 50 by default, at most 500.
    #[param(minimum = 1, maximum = 500)]
    pub(crate) limit: Option<u64>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct OutcomeQuery {
    /// How many milliseconds to wait for the end of the run; at most 30000.
    #[param(minimum = 0, maximum = 30000)]
    wait_ms: Option<u64>,
}

/// Starts the next run of a thread: the conversation and the variables continue. If a run is in progress, `on_message`
/// decides what happens. With `Idempotency-Key`, a repeated request is not done twice.
#[utoipa::path(post, path = "/v1/threads/{thread}/runs", tag = "control", operation_id = "create_run", request_body = NewRun,
    params(("Idempotency-Key" = Option<String>, Header, description = "A name for this request, 1 to 255 bytes", pattern = "^[!-~]([ -~]{0,253}[!-~])?$")),
    responses(
        (status = 201, description = "It is accepted, durably", body = Accepted),
        (status = 404, description = "There is no such thread or workflow"),
        (status = 409, description = "A run is in progress and the policy is `reject` or a definition was given, or too many runs wait"),
        (status = 413, description = "The input is too large"),
        (status = 429, description = "A limit of a label of the thread is reached: retry after `Retry-After`"),
        (status = 422, description = "The definition has faults, the input does not fit, or the key was used for another request"),
    ))]
pub(crate) async fn create(
    server: Shared,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    let NewRun { input, variables, on_message, pin, workflow, hash, definition } = request::json(&request, &body)?;
    let given = Chosen { workflow, hash, definition }.find(&server, For::Running).await?;
    let id = request::thread(&request)?;
    let thread = server.runtime.thread(id).by(guard::principal(&server, &request));
    let run = RunRequest::new(input).variables(variables.unwrap_or_default());
    let mut run = run.traceparent(request::traceparent(&request));
    if let Some(policy) = on_message {
        run = run.on_message(policy);
    }
    match given {
        Some(_) if pin => {
            let detail = "`pin` keeps the definition of the last run, and another one is given: leave out one of them";
            return Err(Problem::new(Kind::Unusable, detail));
        }
        Some(workflow) => run = run.workflow(workflow),
        None if pin => run = run.pin(),
        None => {}
    }
    let key = Key::of(&request)?;
    if let Some(key) = key {
        run = run.key(key.text());
    }
    let accepted = thread.run(run).await?;
    let mut response = HttpResponse::Created();
    if accepted.is_repeated {
        response.insert_header(REPLAYED);
    }
    let AcceptedRun { run_id, taken, seq, is_repeated: _ } = accepted;
    Ok(response.json(Accepted { thread_id: id, run_id, taken, seq }))
}

/// The runs of a thread, the last one first, and those that wait.
#[utoipa::path(get, path = "/v1/threads/{thread}/runs", tag = "threads", operation_id = "list_runs", params(PageQuery),
    responses((status = 200, description = "A page of the runs", body = Runs)))]
pub(crate) async fn list(
    Named(thread): Named,
    QueryParams(query): QueryParams<PageQuery>,
) -> Result<HttpResponse, Problem> {
    let limit = request::limit(query.limit, PAGE, PAGE_MAX)?;
    let before = query.cursor.map(|cursor| RunId(Seq(cursor)));
    Ok(HttpResponse::Ok().json(Runs::of(&thread, before, limit).await?))
}

/// Returns the outcome of the thread at the end of a run. With `wait_ms`, repeated requests wait for it without
/// following events.
#[utoipa::path(get, path = "/v1/threads/{thread}/runs/{run}/outcome", tag = "threads", operation_id = "run_outcome",
    params(OutcomeQuery),
    responses(
        (status = 200, description = "The outcome at the end of the run", body = OutcomeJson),
        (status = 404, description = "There is no such run, or it was cancelled"),
        (status = 409, description = "The run has not ended"),
    ))]
pub(crate) async fn outcome(
    server: Shared,
    request: HttpRequest,
    Named(thread): Named,
    QueryParams(query): QueryParams<OutcomeQuery>,
) -> Result<HttpResponse, Problem> {
    let (run, wait_ms) = (named(&request)?, query.wait_ms.unwrap_or(0));
    if wait_ms > WAIT_MAX_MS {
        return Err(Problem::parameter("wait_ms", format!("{WAIT_MAX_MS} at most")));
    }
    if !thread.state().await?.is_open_run(run) {
        return Ok(HttpResponse::Ok().json(thread.run_outcome(run).await?.to_json()));
    }
    tokio::select! {
        outcome = tokio::time::timeout(Duration::from_millis(wait_ms), thread.run_outcome(run)) => {
            guard::check_still_allowed(&server, guard::by(&request))?;
            match outcome {
                Ok(outcome) => Ok(HttpResponse::Ok().json(outcome?.to_json())),
                Err(_) => {
                    let detail = format!("run {run} of thread {} has not ended: ask again with wait_ms", thread.id());
                    Err(Problem::new(Kind::Conflict, detail).at("thread_id", thread.id()))
                }
            }
        }
        () = server.stopping.cancelled() => Err(Problem::stopping()),
    }
}

/// Cancels one run: that which goes on, or one that waits. Other runs that wait follow.
#[utoipa::path(post, path = "/v1/threads/{thread}/runs/{run}/cancel", tag = "control", operation_id = "cancel_run",
    request_body = Option<Reason>,
    responses(
        (status = 200, description = "It has ended, ends after its hooks, or will not begin", body = Thread),
        (status = 409, description = "The run neither goes on nor waits"),
    ))]
pub(crate) async fn cancel(
    request: HttpRequest,
    Named(thread): Named,
    OptionalJsonBody(body): OptionalJsonBody<Reason>,
) -> Result<HttpResponse, Problem> {
    thread.cancel_run(named(&request)?, body.reason).await?;
    control::shown(&thread).await
}

/// The run that the path names.
fn named(request: &HttpRequest) -> Result<RunId, Problem> {
    let text = request::named(request, "run");
    text.parse().map(|seq| RunId(Seq(seq))).map_err(|_| {
        let detail = "a run is named by its id, a number: GET /v1/threads/{thread}/runs lists them";
        Problem::new(Kind::NoMoment, detail).at("run", request::cut(&text))
    })
}
