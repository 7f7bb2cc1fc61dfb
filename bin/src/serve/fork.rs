//! `/v1/threads/{thread}/fork`: another way on from a moment.

use actix_web::{HttpRequest, HttpResponse, web};
use rethread::{ForkChanges, ForkRequest, Json, Ordered};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::moments::MomentQuery;
use super::problem::{Document, Problem};
use super::request;
use super::schemas::Thread;
use super::server::Shared;
use super::workflows::Chosen;

/// What is different from the moment on. Everything may be absent.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fork {
    /// The last event that is inherited; the last one there is unless a moment is given.
    seq: Option<u64>,
    /// The checkpoint that is forked from.
    checkpoint: Option<String>,
    /// The time that is forked from.
    at: Option<String>,
    /// Variables that are set anew.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    variables: Ordered<Json>,
    /// The profile of every model call from there on.
    profile: Option<String>,
    /// User prompts of nodes, by the ids of the nodes.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    prompts: Ordered<String>,
    /// The name of the workflow to go on with: its newest definition.
    workflow: Option<String>,
    /// The hash of the definition to go on with.
    hash: Option<String>,
    /// The definition to go on with: an object, or a text in YAML or JSON.
    #[schema(value_type = Option<Object>)]
    definition: Option<Value>,
}

/// Starts a new thread that goes on from a moment of this one, which stays as it is. Calls that were open at that
/// moment are treated as after a crash.
#[utoipa::path(post, path = "/v1/threads/{thread}/fork", tag = "threads", operation_id = "fork_thread",
    params(("thread" = String, Path, description = "The id of the thread")), request_body = Option<Fork>,
    responses(
        (status = 201, description = "The new thread has begun", body = Thread),
        (status = 404, description = "There is no such thread, moment or workflow", body = Document, content_type = "application/problem+json"),
        (status = 422, description = "The thread cannot go on so from there", body = Document, content_type = "application/problem+json"),
    ))]
pub(crate) async fn fork(server: Shared, request: HttpRequest, payload: web::Payload) -> Result<HttpResponse, Problem> {
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    let fork: Fork = request::json_or_default(&request, &body)?;
    let parent = server.runtime.thread(request::thread(&request)?);
    let moment = MomentQuery { seq: fork.seq, checkpoint: fork.checkpoint, at: fork.at };
    let at = moment.seq(&parent).await?;
    let chosen = Chosen { workflow: fork.workflow, hash: fork.hash, definition: fork.definition };
    let workflow = chosen.find(&server).await?;
    let changes = ForkChanges {
        variables: fork.variables,
        prompts: fork.prompts,
        profile: fork.profile.map(Into::into),
        ..ForkChanges::default()
    };
    let thread = parent.fork(ForkRequest { at, changes, workflow }).await?;
    let location = ("Location", format!("/v1/threads/{}", thread.id()));
    Ok(HttpResponse::Created().insert_header(location).json(thread.summary().await?.to_json()))
}
