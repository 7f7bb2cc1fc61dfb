//! `/v1/threads/{thread}/rerun`: a thread run again with its recorded answers.

use actix_web::{HttpRequest, HttpResponse, web};
use rethread::{ForkRequest, Seq};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::beginning::{self, Begun, REPLAYED, Repeatable};
use super::extract::Named;
use super::guard;
use super::problem::Problem;
use super::request;
use super::server::Shared;
use super::tokens::Scope;
use super::workflows::{Chosen, For, Inline};
use crate::rerun::again;
use crate::views::{RerunReport, Thread};

/// On what a thread is run again. Everything may be absent: then on the definition that it ran on, to its end.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rerun {
    /// The name of the workflow to run it on: its newest definition.
    workflow: Option<String>,
    /// The hash of the definition to run it on.
    hash: Option<String>,
    /// The definition to run it on: an object, or a text in YAML or JSON.
    #[schema(value_type = Option<Inline>)]
    definition: Option<Value>,
    /// Only this run is run again, from the recorded state before it, and the branches that began in it.
    #[serde(default, deserialize_with = "request::count")]
    run_id: Option<u64>,
    /// Rerun it up to this event, and if there is no difference, continue with real calls from there: as a new thread,
    /// a fork. Requires the scope `operate`.
    #[serde(default, deserialize_with = "request::count")]
    live_from: Option<u64>,
}

/// Reruns a thread and its branches with the recorded answers of models, tools and people, and returns the first event
/// that differs. Calls no model and no tool, and writes nothing, unless `live_from` is given: then the thread alone is
/// rerun up to there, and a fork continues with real calls. With `Idempotency-Key`, a repeated request returns the fork
/// that the first one started.
#[utoipa::path(post, path = "/v1/threads/{thread}/rerun", tag = "threads", operation_id = "rerun_thread",
    params(("Idempotency-Key" = Option<String>, Header, description = "A name for this request, 1 to 255 bytes", pattern = "^[!-~]([ -~]{0,253}[!-~])?$")),
    request_body = Option<Rerun>,
    responses(
        (status = 200, description = "The result; no thread was started", body = RerunReport),
        (status = 201, description = "It was the same up to there, and the new thread has begun", body = RerunReport),
        (status = 404, description = "There is no such thread, run, event or workflow, or the thread that the key began was deleted"),
        (status = 409, description = "The run waits, or the thread has ended at that moment, or a request with this key is at work"),
        (status = 422, description = "The thread cannot continue so from there, or the key was used for another request"),
        (status = 429, description = "A limit of a label of the thread is reached: retry after `Retry-After`"),
    ))]
pub(crate) async fn rerun(
    server: Shared,
    request: HttpRequest,
    Named(thread): Named,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    let rerun: Rerun = request::json_or_default(&request, &body)?;
    let sent = Repeatable::of(&request, format!("rerun {}", thread.id()), body)?;
    let chosen = Chosen { workflow: rerun.workflow, hash: rerun.hash, definition: rerun.definition };
    let Some(from) = rerun.live_from.map(Seq) else {
        let reran = again(&thread, rerun.run_id, None, chosen.find(&server, For::Reading).await?).await?;
        return Ok(HttpResponse::Ok().json(answer(&reran, None)));
    };
    guard::needs(&server, &request, Scope::Operate)?;
    let (of_work, parent) = (server.clone(), thread.clone());
    let begun = beginning::begin(&server, sent, move |id| async move {
        let workflow = chosen.find(&of_work, For::Running).await?;
        let reran = again(&parent, rerun.run_id, Some(from), workflow.clone()).await?;
        if reran.diverged().is_some() {
            return Ok((reran, None));
        }
        let fork = ForkRequest { at: Some(from), workflow, id: Some(id), ..ForkRequest::default() };
        Ok((reran, Some(parent.fork(fork).await?)))
    });
    let mut response = HttpResponse::Created();
    let (reran, fork) = match begun.await? {
        Begun::Now((reran, None)) => return Ok(HttpResponse::Ok().json(answer(&reran, None))),
        Begun::Now((reran, Some(fork))) => (reran, fork),
        Begun::Before(fork) => {
            response.insert_header(REPLAYED);
            // On what the fork runs on it was the same up to there, and is again.
            (again(&thread, rerun.run_id, Some(from), Some(fork.definition(None).await?)).await?, fork)
        }
    };
    Ok(response
        .insert_header(request::location(fork.id()))
        .json(answer(&reran, Some(Thread::from(&fork.summary().await?)))))
}

fn answer(reran: &rethread::operate::RerunReport, thread: Option<Thread>) -> RerunReport {
    let mut answer = RerunReport::from(reran);
    answer.thread = Some(thread);
    answer
}
