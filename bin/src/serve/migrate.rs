//! `/v1/threads/{thread}/migrate`: moves a thread to another definition.

use actix_web::HttpResponse;
use rethread::operate::Migration;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::extract::{JsonBody, Named};
use super::problem::{Kind, Problem};
use super::server::Shared;
use super::workflows::{Chosen, For, Inline};
use crate::views::MigratedView;

/// The definition to continue with. Give one of `workflow`, `hash` and `definition`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Migrate {
    /// The name of a workflow: its newest definition.
    workflow: Option<String>,
    /// The hash of a definition.
    hash: Option<String>,
    /// The definition itself: an object, or a text in YAML or JSON.
    #[schema(value_type = Option<Inline>)]
    definition: Option<Value>,
    /// Only if the thread runs on a workflow of this name, or on the definition whose hash begins with these digits, at
    /// least 8.
    from: Option<String>,
    /// Whether it is only checked.
    #[serde(default)]
    dry_run: bool,
}

/// Migrates a thread to another definition in place. What is open continues with its recorded request. A thread that
/// runs on the definition already stays unchanged, so a repeated request changes nothing.
#[utoipa::path(post, path = "/v1/threads/{thread}/migrate", tag = "threads", operation_id = "migrate_thread",
    request_body = Migrate,
    responses(
        (status = 200, description = "The result of the migration", body = MigratedView),
        (status = 404, description = "There is no such thread or workflow"),
        (status = 409, description = "The thread has ended, something of it is running, it is a branch, or it waits for branches"),
        (status = 422, description = "The workflow has faults, or the thread cannot continue with it from where it is"),
    ))]
pub(crate) async fn migrate(
    server: Shared,
    Named(thread): Named,
    JsonBody(migrate): JsonBody<Migrate>,
) -> Result<HttpResponse, Problem> {
    thread.summary().await?;
    let chosen = Chosen { workflow: migrate.workflow, hash: migrate.hash, definition: migrate.definition };
    let Some(workflow) = chosen.find(&server, For::Running).await? else {
        let detail = "name the definition to continue with: `workflow` (a name), `hash` or `definition`";
        return Err(Problem::new(Kind::InvalidRequest, detail));
    };
    let reference = workflow.reference();
    let migration = Migration { workflow, from: migrate.from, dry_run: migrate.dry_run };
    let migrated = thread.migrate(migration).await?;
    Ok(HttpResponse::Ok().json(MigratedView::new(thread.id(), migrated, reference)))
}
