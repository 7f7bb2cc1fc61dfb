//! `/v1/threads`: starting, listing, looking at and deleting threads.

use std::time::Duration;

use actix_web::{HttpMessage as _, HttpRequest, HttpResponse, web};
use rethread::errors::{ControlError, Faults};
use rethread::operate::{BranchFilter, Labels, ThreadQuery};
use rethread::runs::{ConversationFormat, OnBusy, read_conversation};
use rethread::{Json, Message, NodeId, OrderedMap, StartThread, ThreadHandle, ThreadId, ThreadSummary};
use rethread_events::text::with_sources;
use rethread_events::thread::OutcomeJson;
use rethread_events::workflow::Fault;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::beginning::{self, Repeatable};
use super::extract::{Named, QueryParams};
use super::guard::{self, Allowed};
use super::problem::{Kind, Problem};
use super::request;
use super::schemas::{Deleted, Threads};
use super::server::Shared;
use super::tokens::Scope;
use super::workflows::{Chosen, For, Inline};
use crate::views::{Thread, WaitingCall};

/// How many threads a page holds.
const PAGE: usize = 50;
const PAGE_MAX: usize = 500;
/// How long an outcome may be waited for.
pub(crate) const WAIT_MAX_MS: u64 = 30_000;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only these, with commas between them: `pending`, `running`, `waiting`, `suspended`, `queued`, `paused`, `completed`,
    /// `cancelled`, `error`, `interrupted`.
    #[param(
        pattern = "^((pending|running|waiting|suspended|queued|paused|completed|cancelled|error|interrupted)(,|$))*$"
    )]
    status: Option<String>,
    /// Only threads that began on a workflow of this name.
    workflow: Option<String>,
    /// Only threads with these labels: `KEY=VALUE`, with commas between them.
    #[param(pattern = "^[A-Za-z0-9._/-]{1,64}=[^,]{1,64}(,[A-Za-z0-9._/-]{1,64}=[^,]{1,64})*$")]
    label: Option<String>,
    /// Only threads with these search attributes, which their workflows list under `search`: `VARIABLE=VALUE`, with commas
    /// between them. A value is compared as text and as JSON; one with a comma is written in quotation marks.
    #[param(pattern = "^[A-Za-z_][A-Za-z0-9_]{0,60}=[^,\"]{0,64}(,[A-Za-z_][A-Za-z0-9_]{0,60}=[^,\"]{0,64})*$")]
    search: Option<String>,
    /// The branches of this thread; `none` for threads that are not a branch. All threads when absent.
    #[param(pattern = "^(none|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$")]
    branch_of: Option<String>,
    /// Only threads made at this time or later.
    #[param(format = DateTime)]
    since: Option<String>,
    /// Only threads made before this time.
    #[param(format = DateTime)]
    until: Option<String>,
    /// `newest` first, which is the default, or `oldest`.
    #[param(pattern = "^(newest|oldest)$")]
    order: Option<String>,
    /// Where the page before ended: its `next`.
    #[param(pattern = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
    cursor: Option<String>,
    /// At most so many, 50 unless given, 500 at most.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u64>,
    /// `usage`: with tokens, cost and the present node of each thread, which costs a look into each.
    #[param(pattern = "^usage$")]
    include: Option<String>,
}

/// The parameters of a list that select threads, as they are written.
pub(crate) struct Filter {
    pub(crate) status: Option<String>,
    pub(crate) workflow: Option<String>,
    pub(crate) label: Option<String>,
    pub(crate) search: Option<String>,
    pub(crate) branch_of: Option<String>,
    pub(crate) since: Option<String>,
    pub(crate) until: Option<String>,
    pub(crate) order: Option<String>,
    pub(crate) limit: Option<u64>,
}

impl Filter {
    /// The first page, of threads that the token of the request may see.
    pub(crate) fn query(self, request: &HttpRequest, oldest_first: bool) -> Result<ThreadQuery, Problem> {
        let branch_of = match self.branch_of.as_deref() {
            None => BranchFilter::Any,
            Some("none") => BranchFilter::TopLevel,
            Some(owner) => BranchFilter::Of(
                owner.parse().map_err(|_| Problem::parameter("branch_of", "expected the id of a thread, or `none`"))?,
            ),
        };
        let oldest_first = match self.order.as_deref() {
            None => oldest_first,
            Some("newest") => false,
            Some("oldest") => true,
            Some(_) => return Err(Problem::parameter("order", "expected `newest` or `oldest`")),
        };
        Ok(ThreadQuery {
            status: request::statuses(self.status.as_deref())?,
            workflow: self.workflow,
            labels: guard::bound(request, request::labels(self.label.as_deref())?)?,
            search: request::search(self.search.as_deref())?,
            branch_of,
            since: request::time("since", self.since.as_deref())?,
            until: request::time("until", self.until.as_deref())?,
            after: None,
            oldest_first,
            limit: request::limit(self.limit, PAGE, PAGE_MAX)?,
        })
    }
}

/// Threads, the newest first. Ask on with `next` until it is null: a page may hold fewer than `limit`, or none, before
/// the last.
#[utoipa::path(get, path = "/v1/threads", tag = "threads", operation_id = "list_threads", params(ListQuery),
    responses((status = 200, description = "A page of the list", body = Threads)))]
pub(crate) async fn list(
    server: Shared,
    request: HttpRequest,
    QueryParams(query): QueryParams<ListQuery>,
) -> Result<HttpResponse, Problem> {
    let with_usage = match query.include.as_deref() {
        None => false,
        Some("usage") => true,
        Some(_) => return Err(Problem::parameter("include", "expected `usage`")),
    };
    let cursor = query.cursor.as_deref().map(str::parse::<ThreadId>).transpose();
    let after = cursor.map_err(|_| Problem::parameter("cursor", "expected the `next` of a page before"))?;
    let ListQuery { status, workflow, label, search, branch_of, since, until, order, limit, .. } = query;
    let filter = Filter { status, workflow, label, search, branch_of, since, until, order, limit };
    let page = server.runtime.thread_page(ThreadQuery { after, ..filter.query(&request, false)? }).await?;
    let mut threads = Vec::with_capacity(page.threads.len());
    for summary in &page.threads {
        let mut shown = Thread::from(summary);
        if with_usage {
            add_usage(&server.runtime.thread(summary.thread_id), &mut shown).await?;
        }
        threads.push(shown);
    }
    Ok(HttpResponse::Ok().json(Threads { threads, next: page.next }))
}

async fn add_usage(thread: &ThreadHandle, shown: &mut Thread) -> Result<(), Problem> {
    let state = match thread.state().await {
        Ok(state) => state,
        // One that cannot be read does not hide the others.
        Err(error) => {
            shown.problem = Some(json!(Problem::from(error)));
            return Ok(());
        }
    };
    shown.usage = Some(state.usage());
    shown.node = Some(state.node_name().cloned());
    shown.hook = state.hooks().map(|hooks| hooks.hook.key());
    Ok(())
}

/// A thread to be started. Give one of `workflow`, `hash` and `definition`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Start {
    /// The name of a workflow: its newest definition.
    workflow: Option<String>,
    /// The hash of a definition.
    hash: Option<String>,
    /// A definition: an object, or a text in YAML or JSON.
    #[schema(value_type = Option<Inline>)]
    definition: Option<Value>,
    /// The variable `input` of the workflow. It must fit the workflow's `input_schema`. When absent, it is an empty text, or
    /// `null` if there is an `input_schema`.
    input: Option<Value>,
    /// The folder on the server's machine that tools work in, in place of the server's own. Takes the scope `admin`.
    workspace: Option<String>,
    /// The labels of the thread: keys of at most 64 bytes, values of at most 256, at most 16 of them.
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    #[serde(default)]
    labels: Labels,
    /// What was said before: the first run goes on with this conversation. Each tool call has its result after it.
    #[schema(value_type = Option<Vec<Value>>)]
    messages: Option<Value>,
    /// The form of `messages`; the one of this API when absent.
    #[schema(value_type = Option<String>, pattern = "^(openai_chat|openai_responses|anthropic)$")]
    messages_format: Option<ConversationFormat>,
    /// Variables beside those of the workflow, or in their place.
    #[schema(value_type = Option<Object>)]
    variables: Option<OrderedMap<Json>>,
    /// The node to begin with, in place of the first one.
    #[schema(value_type = Option<String>)]
    entry: Option<NodeId>,
    /// What becomes of the start if as many threads are live as the server allows: `refuse`, which is the default, or `queue`.
    /// A thread that is queued is durable and begins when there is room.
    #[schema(value_type = Option<String>, pattern = "^(refuse|queue)$")]
    on_busy: Option<OnBusy>,
}

/// Starts a thread. It is durable when this answers, and goes on by itself. With `Idempotency-Key`, a request that is
/// sent again, also after a restart of the server, is answered with the thread that the first one started. A request that
/// starts none leaves its key free.
#[utoipa::path(post, path = "/v1/threads", tag = "threads", operation_id = "start_thread", request_body = Start,
    params(("Idempotency-Key" = Option<String>, Header, description = "A name for this request, 1 to 255 bytes", pattern = "^[!-~]([ -~]{0,253}[!-~])?$")),
    responses(
        (status = 201, description = "The thread has begun", body = Thread),
        (status = 404, description = "There is no such workflow, or the thread that the key started was deleted"),
        (status = 409, description = "A request with this key is at work"),
        (status = 413, description = "The input is too large"),
        (status = 429, description = "A limit of a label of the thread is reached: retry after `Retry-After`"),
        (status = 422, description = "The workflow has faults, the input does not fit its schema, or the key was used for another request"),
    ))]
pub(crate) async fn start(
    server: Shared,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    let start: Start = request::json(&request, &body)?;
    let allowed = request.extensions().get::<Allowed>().copied();
    if start.workspace.is_some() && allowed.is_none_or(|Allowed(scope)| scope < Scope::Admin) {
        let detail = "`workspace` needs a token of the scope `admin`: leave it out, and the server's folder is used";
        return Err(Problem::new(Kind::Forbidden, detail));
    }
    let workspace = start.workspace.or_else(|| server.settings.workspace.clone());
    let chosen = Chosen { workflow: start.workflow, hash: start.hash, definition: start.definition };
    let (input, labels) = (start.input.map(Json::from), guard::bound(&request, start.labels)?);
    let messages = past(start.messages, start.messages_format)?;
    let (variables, entry, on_busy) = (start.variables.unwrap_or_default(), start.entry, start.on_busy);
    let caller = request::traceparent(&request);
    // Tokens that are bound to other labels have keys of their own.
    let operation = match guard::bound_to(&request) {
        bound if bound.is_empty() => "start".to_owned(),
        bound => format!("start {bound}"),
    };
    let (sent, of_work) = (Repeatable::of(&request, operation, body)?, server.clone());
    let begun = beginning::begin(&server, sent, move |id| async move {
        let Some(workflow) = chosen.find(&of_work, For::Running).await? else {
            let detail = "name what to run: `workflow` (a name), `hash` or `definition`";
            return Err(Problem::new(Kind::InvalidRequest, detail));
        };
        let input = input.unwrap_or_else(|| workflow.absent_input());
        let start = StartThread::new(workflow, input).id(id).labels(labels).messages(messages);
        let mut start = start.variables(variables).traceparent(caller);
        if let Some(entry) = entry {
            start = start.entry(entry);
        }
        if let Some(on_busy) = on_busy {
            start = start.on_busy(on_busy);
        }
        if let Some(folder) = workspace {
            start = start.workspace(folder);
        }
        Ok(of_work.runtime.start(start).await?)
    });
    beginning::answer(begun.await?).await
}

fn past(messages: Option<Value>, format: Option<ConversationFormat>) -> Result<Vec<Message>, Problem> {
    match messages {
        Some(messages) => read_conversation(format, &messages)
            .map_err(|error| Problem::faults(Kind::InvalidInput, Faults(vec![Fault::new(error.place, error.what)]))),
        None if format.is_some() => {
            Err(Problem::new(Kind::InvalidInput, "`messages_format` needs `messages`, which is missing"))
        }
        None => Ok(Vec::new()),
    }
}

/// One thread at a glance, with its tokens and cost.
#[utoipa::path(get, path = "/v1/threads/{thread}", tag = "threads", operation_id = "show_thread",
    responses((status = 200, description = "The thread", body = Thread)))]
pub(crate) async fn show(server: Shared, Named(thread): Named) -> Result<HttpResponse, Problem> {
    let mut shown = Thread::from(&thread.summary().await?);
    add_usage(&thread, &mut shown).await?;
    let waiting = server.runtime.waiting_calls(Some(thread.id()));
    let waiting = waiting.iter().map(|wait| {
        let kind = if wait.is_tool { "tool" } else { "model" };
        WaitingCall { call: wait.call, kind, waiting_ms: wait.waiting_ms }
    });
    shown.calls_waiting = Some(waiting.collect());
    Ok(HttpResponse::Ok().json(shown))
}

/// Deletes a thread with all its branches. It must have ended, and no fork may inherit from it.
#[utoipa::path(delete, path = "/v1/threads/{thread}", tag = "threads", operation_id = "delete_thread",
    responses(
        (status = 200, description = "It is deleted", body = Deleted),
        (status = 409, description = "It has not ended, or forks inherit from it"),
    ))]
pub(crate) async fn delete(Named(thread): Named) -> Result<HttpResponse, Problem> {
    let id = thread.id();
    match thread.delete().await {
        Ok(()) => Ok(HttpResponse::Ok().json(Deleted { thread_id: id, status: "deleted" })),
        Err(error @ ControlError::Rejected { .. }) => {
            Err(Problem::new(Kind::Conflict, with_sources(&error)).at("thread_id", id))
        }
        Err(error) => Err(error.into()),
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct OutcomeQuery {
    /// Wait up to so many milliseconds until the thread has ended, waits for a person or is paused; 30000 at most.
    #[param(minimum = 0, maximum = 30000)]
    wait_ms: Option<u64>,
}

/// What a thread has come to. Asking again with `wait_ms` waits without following events.
#[utoipa::path(get, path = "/v1/threads/{thread}/outcome", tag = "threads", operation_id = "thread_outcome",
    params(OutcomeQuery),
    responses((status = 200, description = "Its outcome so far; it is not final while `status` is `pending` or `running`", body = OutcomeJson)))]
pub(crate) async fn outcome(
    server: Shared,
    request: HttpRequest,
    Named(thread): Named,
    QueryParams(query): QueryParams<OutcomeQuery>,
) -> Result<HttpResponse, Problem> {
    let wait_ms = query.wait_ms.unwrap_or(0);
    if wait_ms > WAIT_MAX_MS {
        return Err(Problem::parameter("wait_ms", format!("{WAIT_MAX_MS} at most")));
    }
    thread.summary().await?;
    // A read-only server activates no thread.
    if wait_ms > 0 && server.runtime.mode().runs() {
        tokio::select! {
            outcome = tokio::time::timeout(Duration::from_millis(wait_ms), thread.at_rest()) => {
                guard::check_still_allowed(&server, guard::by(&request))?;
                if let Ok(outcome) = outcome {
                    return Ok(HttpResponse::Ok().json(outcome?.json()));
                }
            }
            () = server.stopping.cancelled() => return Err(Problem::stopping()),
        }
    }
    let summary: ThreadSummary = thread.summary().await?;
    let state = thread.state_at(summary.last_seq).await?;
    Ok(HttpResponse::Ok().json(state.outcome(summary.last_position)))
}
