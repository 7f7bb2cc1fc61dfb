//! Commands to a thread: pause, resume, cancel, a checkpoint, a message, variables.

use actix_web::{HttpRequest, HttpResponse};
use rethread::event::LimitRaised;
use rethread::{CallId, Json, Message, OrderedMap, Part, Seq, ThreadHandle, Time};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::extract::{JsonBody, Named, OptionalJsonBody};
use super::problem::{Kind, Problem};
use super::request;
use super::schemas::Checkpoint;
use crate::views::Thread;

/// Why something is done.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reason {
    /// A text for readers of the log.
    pub(crate) reason: Option<String>,
}

/// How far a thread may go on beyond a limit; all absent to end a pause and no more.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    /// The budget in tokens from here on, in all.
    #[serde(default, deserialize_with = "request::count")]
    tokens: Option<u64>,
    /// The budget in billionths of a US dollar from here on, in all.
    #[serde(default, deserialize_with = "request::count")]
    cost_nanousd: Option<u64>,
    /// So many more iterations.
    #[serde(default, deserialize_with = "request::count")]
    iterations: Option<u32>,
    /// Whether model calls without a known price are allowed from here on; a budget in money does not count them.
    #[serde(default)]
    allow_unpriced: bool,
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
    #[schema(pattern = "^(user|system|assistant)$")]
    role: String,
    #[schema(value_type = Content)]
    content: Value,
}

/// A text, or a list of parts as `rethread llm call` takes them.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "a shape, for the document")]
pub(crate) enum Content {
    Text(String),
    #[schema(value_type = Vec<Object>)]
    Parts(Vec<Value>),
}

/// Variables of the thread.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Variables {
    #[schema(value_type = Object)]
    variables: OrderedMap<Json>,
}

pub(crate) async fn shown(thread: &ThreadHandle) -> Result<HttpResponse, Problem> {
    Ok(HttpResponse::Ok().json(Thread::from(&thread.summary().await?)))
}

/// Lets the thread and its branches begin nothing new; what runs may end.
#[utoipa::path(post, path = "/v1/threads/{thread}/pause", tag = "control", operation_id = "pause_thread",
    request_body = Option<Reason>,
    responses(
        (status = 200, description = "It is paused, durably", body = Thread),
        (status = 409, description = "It has ended, or is paused already"),
    ))]
pub(crate) async fn pause(
    Named(thread): Named,
    OptionalJsonBody(body): OptionalJsonBody<Reason>,
) -> Result<HttpResponse, Problem> {
    thread.pause(body.reason).await?;
    shown(&thread).await
}

/// Ends the pauses of the thread and its branches; with limits, lets them go on beyond the one that stopped them.
#[utoipa::path(post, path = "/v1/threads/{thread}/resume", tag = "control", operation_id = "resume_thread",
    request_body = Option<Limits>,
    responses(
        (status = 200, description = "It continues", body = Thread),
        (status = 409, description = "It has ended, or is not paused"),
        (status = 429, description = "A limit of a label of the thread is reached: retry after `Retry-After`"),
    ))]
pub(crate) async fn resume(
    Named(thread): Named,
    OptionalJsonBody(body): OptionalJsonBody<Limits>,
) -> Result<HttpResponse, Problem> {
    let Limits { tokens, cost_nanousd, iterations, allow_unpriced } = body;
    let raised = LimitRaised { tokens, cost_nanousd, iterations, allow_unpriced, by: None };
    thread.resume_tree(raised).await?;
    shown(&thread).await
}

/// Ends the thread and its branches in good order: each open call gets its last event. If the workflow has `on_cancel` or
/// `finally`, the thread ends after these hooks; a second request ends it at once.
#[utoipa::path(post, path = "/v1/threads/{thread}/cancel", tag = "control", operation_id = "cancel_thread",
    request_body = Option<Reason>,
    responses(
        (status = 200, description = "It has ended, or its hooks run", body = Thread),
        (status = 409, description = "It has ended before, or hooks of a run that failed or completed are running"),
    ))]
pub(crate) async fn cancel(
    Named(thread): Named,
    OptionalJsonBody(body): OptionalJsonBody<Reason>,
) -> Result<HttpResponse, Problem> {
    thread.cancel(body.reason).await?;
    shown(&thread).await
}

/// When a wait ends.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitUntil {
    /// The time; one that has come ends the wait at once.
    #[schema(format = DateTime)]
    until: String,
}

/// Lets a wait of the thread end at another time. The id of the wait is the seq of its WAIT_STARTED.
#[utoipa::path(post, path = "/v1/threads/{thread}/waits/{wait}", tag = "control", operation_id = "change_wait",
    request_body = WaitUntil,
    responses(
        (status = 200, description = "The wait ends at that time", body = Thread),
        (status = 409, description = "The thread has no such open wait"),
        (status = 422, description = "The time cannot be read, is before 1970, or more than a hundred years away"),
    ))]
pub(crate) async fn change_wait(
    request: HttpRequest,
    Named(thread): Named,
    JsonBody(body): JsonBody<WaitUntil>,
) -> Result<HttpResponse, Problem> {
    let text = request::named(&request, "wait");
    let by_key = CallId::parse_key(&text).ok().filter(|(of, _)| *of == thread.id()).map(|(_, wait)| wait);
    let wait = by_key.or_else(|| text.parse().ok().map(|seq| CallId(Seq(seq)))).ok_or_else(|| {
        let detail = "a wait is named by its id, the seq of its WAIT_STARTED, or as it is `pending` in the state";
        Problem::new(Kind::NoMoment, detail).at("wait", request::cut(&text))
    })?;
    let until: Time = body.until.parse().map_err(|error| Problem::new(Kind::Unusable, format!("`until`: {error}")))?;
    thread.change_wait(wait, until).await?;
    shown(&thread).await
}

/// Gives the present moment a name.
#[utoipa::path(post, path = "/v1/threads/{thread}/checkpoints", tag = "moments", operation_id = "create_checkpoint",
    request_body = Label,
    responses(
        (status = 201, description = "The moment has the name", body = Checkpoint),
        (status = 409, description = "The thread has ended, or has a checkpoint of that name"),
    ))]
pub(crate) async fn checkpoint(Named(thread): Named, JsonBody(body): JsonBody<Label>) -> Result<HttpResponse, Problem> {
    thread.checkpoint(body.label.as_str()).await?;
    let seq = thread.checkpoint_seq(&body.label).await?;
    Ok(HttpResponse::Created().json(Checkpoint { label: body.label, seq }))
}

/// Puts a message into the conversation; the next model call sees it.
#[utoipa::path(post, path = "/v1/threads/{thread}/messages", tag = "control", operation_id = "add_message",
    request_body = NewMessage,
    responses(
        (status = 200, description = "It is in the conversation", body = Thread),
        (status = 409, description = "The thread has ended"),
        (status = 422, description = "Such a message is not allowed in a conversation"),
    ))]
pub(crate) async fn message(
    Named(thread): Named,
    JsonBody(body): JsonBody<NewMessage>,
) -> Result<HttpResponse, Problem> {
    let message = read(body).map_err(|error| {
        let detail =
            format!("this is no message: {error}; the simplest is {{\"role\": \"user\", \"content\": \"text\"}}");
        Problem::new(Kind::Unusable, detail)
    })?;
    thread.add_message(message).await?;
    shown(&thread).await
}

fn read(body: NewMessage) -> Result<Message, serde_json::Error> {
    let content = match body.content {
        Value::String(text) => vec![Part::text(text)],
        parts => serde_json::from_value(parts)?,
    };
    Ok(Message { role: serde_json::from_value(body.role.into())?, content })
}

/// Sets variables of the thread.
#[utoipa::path(post, path = "/v1/threads/{thread}/variables", tag = "control", operation_id = "set_variables",
    request_body = Variables,
    responses(
        (status = 200, description = "They are set", body = Thread),
        (status = 409, description = "The thread has ended"),
        (status = 422, description = "No variable can have such a name"),
    ))]
pub(crate) async fn variables(
    Named(thread): Named,
    JsonBody(body): JsonBody<Variables>,
) -> Result<HttpResponse, Problem> {
    thread.set_variables(body.variables).await?;
    shown(&thread).await
}
