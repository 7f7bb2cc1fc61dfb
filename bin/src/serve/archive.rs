//! `/v1/import`: exported threads into the log.

use std::io::Cursor;

use actix_web::{HttpRequest, HttpResponse, web};
use rethread::errors::ImportError;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::QueryParams;
use super::problem::{Kind, Problem};
use super::request;
use super::server::Shared;
use crate::views::Imported;

/// How to read an export.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ImportQuery {
    /// Import what there is of an export that was cut
    allow_incomplete: bool,
}

/// Imports threads that `rethread export` wrote, as JSON lines. Threads that the log already has with the same
/// events are skipped. Imported threads are not resumed.
#[utoipa::path(post, path = "/v1/import", tag = "log", operation_id = "import_threads",
    params(ImportQuery),
    request_body(content((String = "application/x-ndjson"))),
    responses(
        (status = 200, description = "They are in the log", body = Imported),
        (status = 409, description = "The log has a thread with the same id and other events"),
        (status = 413, description = "The export is too large for this server"),
        (status = 415, description = "The body is no JSON lines"),
        (status = 422, description = "A line is not what an export holds, or the export is not whole"),
    ))]
pub(crate) async fn import(
    server: Shared,
    request: HttpRequest,
    QueryParams(query): QueryParams<ImportQuery>,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    if !["application/x-ndjson", "application/jsonl"].contains(&request::media_type(&request).as_str()) {
        let detail = "the body must be an export, with the header `Content-Type: application/x-ndjson`";
        return Err(Problem::new(Kind::UnsupportedMediaType, detail));
    }
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    let imported = match query.allow_incomplete {
        true => server.runtime.import_incomplete(Cursor::new(body)).await,
        false => server.runtime.import(Cursor::new(body)).await,
    };
    match imported {
        Ok(imported) => Ok(HttpResponse::Ok().json(Imported::from(imported))),
        Err(ImportError::Read(error)) => Err(error.into()),
        Err(ref error @ ImportError::Differs { line, thread }) => {
            Err(Problem::new(Kind::Conflict, error.to_string()).at("thread_id", thread).at("line", line))
        }
        Err(ref error @ ImportError::Incomplete { line, .. }) => {
            Err(Problem::new(Kind::Unusable, error.to_string()).at("line", line))
        }
        Err(ref error @ ImportError::Line { line, .. }) => {
            let detail = format!("{error}: the threads before it are in the log");
            Err(Problem::new(Kind::Unusable, detail).at("line", line))
        }
        Err(error @ ImportError::EndsProcess { .. }) => Err(Problem::new(Kind::Unusable, error.to_string())),
        Err(error) => Err(Problem::new(Kind::Internal, error.to_string())),
    }
}
