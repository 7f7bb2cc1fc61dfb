//! `/v1/models`: workflows as models.

use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;

use super::Error;
use crate::serve::problem::Problem;
use crate::serve::request;
use crate::serve::server::Shared;
use crate::serve::workflows::no_workflow;

#[derive(Serialize)]
struct Model {
    id: String,
    object: &'static str,
    /// The log does not have the time.
    created: u64,
    owned_by: &'static str,
}

#[derive(Serialize)]
struct Models {
    object: &'static str,
    data: Vec<Model>,
}

impl Model {
    fn of(id: String) -> Self {
        Self { id, object: "model", created: 0, owned_by: "rethread" }
    }
}

/// Returns all workflows of the log, by name.
pub(crate) async fn list(server: Shared) -> Result<HttpResponse, Error> {
    let workflows = server.runtime.workflows().await.map_err(Problem::from)?;
    let data = workflows.into_iter().map(|workflow| Model::of(workflow.name)).collect();
    Ok(HttpResponse::Ok().json(Models { object: "list", data }))
}

/// Returns one workflow.
pub(crate) async fn show(server: Shared, request: HttpRequest) -> Result<HttpResponse, Error> {
    let name = request::named(&request, "model");
    match server.runtime.workflow_versions(&name).await.map_err(Problem::from)? {
        Some(_) => Ok(HttpResponse::Ok().json(Model::of(name))),
        None => Err(no_workflow(&name).at("parameter", "model").into()),
    }
}
