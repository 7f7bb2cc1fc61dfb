//! `/v1/threads/{thread}/explain` and `/v1/threads/{thread}/tree`: what the commands of these names print with --json.

use actix_web::HttpResponse;

use super::extract::{Named, QueryParams};
use super::moments::MomentQuery;
use super::problem::Problem;
use super::server::Shared;
use crate::views::{Explanation, Thread};
use crate::{explain as explanation, tree as kinship};

/// What happened up to a moment, or in a run, where the time and the money went, and why it failed, with the chain of
/// causes. Branches are explained as they are now.
#[utoipa::path(get, path = "/v1/threads/{thread}/explain", tag = "moments", operation_id = "explain_thread",
    params(MomentQuery),
    responses((status = 200, description = "The explanation", body = Explanation)))]
pub(crate) async fn explain(
    server: Shared,
    Named(thread): Named,
    QueryParams(query): QueryParams<MomentQuery>,
) -> Result<HttpResponse, Problem> {
    let what = query.what(&thread).await?;
    Ok(HttpResponse::Ok().json(explanation::explanation(&server.runtime, &thread, what).await?))
}

/// The root of a thread's tree, its forks, and their branches. Costs what it returns.
#[utoipa::path(get, path = "/v1/threads/{thread}/tree", tag = "threads", operation_id = "thread_tree",
    responses((status = 200, description = "The root, with its forks and branches", body = Thread)))]
pub(crate) async fn tree(server: Shared, Named(thread): Named) -> Result<HttpResponse, Problem> {
    let root = kinship::family(&server.runtime, thread.id()).await?;
    Ok(HttpResponse::Ok().json(root.view()))
}
