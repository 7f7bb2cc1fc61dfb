//! `/v1/threads/{thread}/messages`: the conversation of a thread.

use actix_web::HttpResponse;
use rethread::runs::{RunId, ThreadMessage};
use rethread::{NodeId, Part, Role, Seq};
use serde::Serialize;
use utoipa::ToSchema;

use super::extract::{Named, QueryParams};
use super::problem::Problem;
use super::request;
use super::runs::{PAGE, PAGE_MAX, PageQuery};

/// A message of a conversation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Message {
    /// Its place in the conversation, from 0.
    index: u64,
    /// The event that added it.
    #[schema(value_type = u64)]
    seq: Seq,
    /// The run in which it came.
    #[schema(value_type = u64)]
    run_id: RunId,
    /// The node that said it; null for what was added from outside.
    #[schema(value_type = Option<String>)]
    node_id: Option<NodeId>,
    /// Whether it replaces messages that were summarised.
    summary: bool,
    /// `system`, `user`, `assistant` or `tool`.
    #[schema(value_type = String)]
    role: Role,
    #[schema(value_type = Vec<Object>)]
    content: Vec<Part>,
}

/// A page of a conversation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Messages {
    /// The last one first.
    messages: Vec<Message>,
    /// The `cursor` of the next page; null on the last.
    next: Option<u64>,
}

impl Message {
    fn of(message: ThreadMessage) -> Self {
        let ThreadMessage { index, seq, run_id, node, summary, message } = message;
        let rethread::Message { role, content } = (*message).clone();
        Self { index, seq, run_id, node_id: node, summary, role, content }
    }
}

/// The messages of the conversation, over all runs, the last one first.
#[utoipa::path(get, path = "/v1/threads/{thread}/messages", tag = "threads", operation_id = "list_messages",
    params(PageQuery),
    responses((status = 200, description = "A page of the conversation", body = Messages)))]
pub(crate) async fn list(
    Named(thread): Named,
    QueryParams(query): QueryParams<PageQuery>,
) -> Result<HttpResponse, Problem> {
    let limit = request::limit(query.limit, PAGE, PAGE_MAX)?;
    let messages: Vec<_> = thread.messages(query.cursor, limit).await?.into_iter().map(Message::of).collect();
    let next = messages.last().map(|last| last.index).filter(|index| *index > 0);
    Ok(HttpResponse::Ok().json(Messages { messages, next }))
}
