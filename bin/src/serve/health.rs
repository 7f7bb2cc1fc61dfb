//! `/health`: whether the process lives, and whether it takes work.

use actix_web::HttpResponse;

use super::idempotency::blocking;
use super::problem::Problem;
use super::schemas::Health;
use super::server::Shared;
use rethread::operate::LogAccess as _;

/// The process answers.
#[utoipa::path(get, path = "/health/live", tag = "operation", operation_id = "live",
    responses((status = 200, description = "It lives", body = Health)))]
pub(crate) async fn live() -> HttpResponse {
    HttpResponse::Ok().json(Health { status: "ok", pid: Some(std::process::id()) })
}

/// The server takes work: it is not stopping, and its log can be read.
#[utoipa::path(get, path = "/health/ready", tag = "operation", operation_id = "ready",
    responses(
        (status = 200, description = "It accepts work", body = Health),
        (status = 503, description = "It is stopping, or its log cannot be written: its folder was moved or removed, or its servers cannot be reached"),
    ))]
pub(crate) async fn ready(server: Shared) -> Result<HttpResponse, Problem> {
    if server.stopping.is_cancelled() {
        return Err(Problem::stopping());
    }
    let store = server.runtime.store();
    blocking(move || store.check_writable().and_then(|()| store.streams(None, &[], 1))).await??;
    Ok(HttpResponse::Ok().json(Health { status: "ok", pid: None }))
}
