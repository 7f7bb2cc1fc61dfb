//! `/v1/session`: a token in a cookie, for the page: a browser's `EventSource` sends no headers of its own.

use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use utoipa::ToSchema;

use super::guard::{self, COOKIE};
use super::problem::Problem;
use super::request;
use super::schemas::Session;
use super::server::Shared;
use super::tokens;

/// The largest body that is read here.
const BODY_BYTES_MAX: usize = 4_096;

/// A token.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Credentials {
    /// As `rethread token create` printed it.
    token: String,
}

/// Stores a token in a cookie that scripts cannot read and other sites cannot send.
#[utoipa::path(post, path = "/v1/session", tag = "surroundings", operation_id = "begin_session", request_body = Credentials,
    responses(
        (status = 200, description = "The cookie is set", body = Session),
        (status = 401, description = "The token is unknown or has expired"),
    ))]
pub(crate) async fn begin(
    server: Shared,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let body = request::body(payload, BODY_BYTES_MAX).await?;
    let Credentials { token } = request::json(&request, &body)?;
    let scope = guard::known(&server, tokens::hash(&token))?;
    // A token that is known holds nothing that would end the cookie early.
    let cookie = format!("{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict");
    Ok(HttpResponse::Ok().insert_header(("Set-Cookie", cookie)).json(Session { scope }))
}

/// Forgets the cookie.
#[utoipa::path(delete, path = "/v1/session", tag = "surroundings", operation_id = "end_session",
    responses((status = 204, description = "It is forgotten")))]
pub(crate) async fn end() -> HttpResponse {
    let cookie = format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
    HttpResponse::NoContent().insert_header(("Set-Cookie", cookie)).finish()
}
