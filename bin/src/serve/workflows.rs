//! `/v1/workflows`: definitions by name and by hash.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, web};
use rethread::errors::Faults;
use rethread::operate::WorkflowVersions;
use rethread::{Hash, Workflow};
use rethread_events::workflow::{FILE_BYTES_MAX, WorkflowSpec, locate, parse, parse_in};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::problem::{Kind, Problem};
use super::request;
use super::server::{Server, Shared};

/// A definition that was put.
#[derive(Serialize, ToSchema)]
pub(crate) struct PutWorkflow {
    name: String,
    /// Names the definition for ever.
    #[schema(value_type = String)]
    hash: Hash,
    /// Whether the log did not have it.
    created: bool,
}

/// The definitions of a name.
#[derive(Serialize, ToSchema)]
pub(crate) struct Versions {
    name: String,
    /// The definition that a thread gets that is started by name.
    #[schema(value_type = String)]
    newest: Option<Hash>,
    /// The hashes, in the order in which the definitions came; the newest last.
    #[schema(value_type = Vec<String>)]
    versions: Vec<Hash>,
}

/// All names.
#[derive(Serialize, ToSchema)]
pub(crate) struct Workflows {
    workflows: Vec<Versions>,
}

/// A definition.
#[derive(Serialize, ToSchema)]
pub(crate) struct Definition {
    name: String,
    #[schema(value_type = String)]
    hash: Hash,
    /// The workflow as it runs, in the format of workflow files: see docs/WORKFLOWS.md.
    #[schema(value_type = Object)]
    definition: WorkflowSpec,
}

impl From<WorkflowVersions> for Versions {
    fn from(versions: WorkflowVersions) -> Self {
        Self { newest: versions.newest(), name: versions.name, versions: versions.hashes }
    }
}

/// All workflows that the log has, by name.
#[utoipa::path(get, path = "/v1/workflows", tag = "workflows", operation_id = "list_workflows",
    responses((status = 200, description = "The names, sorted", body = Workflows)))]
pub(crate) async fn list(server: Shared) -> Result<HttpResponse, Problem> {
    let workflows = server.runtime.workflows().await?.into_iter().map(Versions::from).collect();
    Ok(HttpResponse::Ok().json(Workflows { workflows }))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PutQuery {
    /// `true`: only check it, keep nothing.
    dry_run: Option<bool>,
}

/// Stores a workflow: a file as `rethread run` takes it, YAML or JSON. All faults are reported at once.
#[utoipa::path(post, path = "/v1/workflows", tag = "workflows", operation_id = "put_workflow", params(PutQuery),
    request_body(content((Object = "application/json"), (String = "application/yaml"))),
    responses(
        (status = 200, description = "The log has it already, or it was only checked", body = PutWorkflow),
        (status = 201, description = "The log has it now", body = PutWorkflow),
        (status = 422, description = "It has faults, or needs what this server has not"),
    ))]
pub(crate) async fn put(server: Shared, request: HttpRequest, payload: web::Payload) -> Result<HttpResponse, Problem> {
    let query: PutQuery = request::query(&request)?;
    let media_type = request::media_type(&request);
    if !["application/json", "application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"]
        .contains(&media_type.as_str())
    {
        let detail =
            "the body must be a workflow, with the header `Content-Type: application/yaml` or `application/json`";
        return Err(Problem::new(Kind::UnsupportedMediaType, detail));
    }
    let text = request::body(payload, server.settings.body_bytes_max.min(FILE_BYTES_MAX)).await?;
    let workflow = parse_in(&text, &server.runtime.surroundings()).map_err(Problem::workflow)?;
    let mut faults = Faults(server.runtime.check(&workflow));
    if !faults.0.is_empty() {
        locate(&String::from_utf8_lossy(&text), &mut faults);
        return Err(Problem::workflow(faults));
    }
    let (name, hash) = (workflow.name().to_owned(), workflow.hash());
    let created = match query.dry_run {
        Some(true) => false,
        _ => server.runtime.put_workflow(workflow).await?,
    };
    let mut response = if created { HttpResponse::Created() } else { HttpResponse::Ok() };
    response.insert_header(("Location", format!("/v1/definitions/{hash}")));
    Ok(response.json(PutWorkflow { name, hash, created }))
}

/// The definitions of one name.
#[utoipa::path(get, path = "/v1/workflows/{name}", tag = "workflows", operation_id = "workflow_versions",
    responses(
        (status = 200, description = "Their hashes", body = Versions),
        (status = 404, description = "No workflow has this name"),
    ))]
pub(crate) async fn versions(server: Shared, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let name = request::named(&request, "name");
    match server.runtime.workflow_versions(&name).await? {
        Some(versions) => Ok(HttpResponse::Ok().json(Versions::from(versions))),
        None => Err(no_workflow(&name)),
    }
}

/// One definition. It never changes, so it may be kept for ever.
#[utoipa::path(get, path = "/v1/definitions/{hash}", tag = "workflows", operation_id = "definition",
    responses(
        (status = 200, description = "The definition", body = Definition),
        (status = 404, description = "The log has no such definition"),
    ))]
pub(crate) async fn definition(server: Shared, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let workflow = with_hash(&server, &request::named(&request, "hash")).await?;
    Ok(HttpResponse::Ok().insert_header(("Cache-Control", "private, max-age=31536000, immutable")).json(Definition {
        name: workflow.name().to_owned(),
        hash: workflow.hash(),
        definition: workflow.spec().clone(),
    }))
}

pub(crate) fn no_workflow(name: &str) -> Problem {
    let name = request::cut(name);
    let detail = format!("the log has no workflow `{name}`: GET /v1/workflows lists them, POST /v1/workflows puts one");
    Problem::new(Kind::NoWorkflow, detail).at("workflow", name)
}

async fn with_hash(server: &Server, text: &str) -> Result<Arc<Workflow>, Problem> {
    let hash: Hash = text.parse().map_err(|_| no_workflow(text))?;
    server.runtime.workflow(hash).await?.ok_or_else(|| no_workflow(text))
}

/// A workflow, in the format of workflow files: an object, or a text in YAML or JSON.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "a shape, for the document")]
pub(crate) enum Inline {
    Text(String),
    #[schema(value_type = Object)]
    Object(Value),
}

/// Which workflow is meant: exactly one of the three.
pub(crate) struct Chosen {
    /// Its name: the newest definition of that name.
    pub(crate) workflow: Option<String>,
    /// The hash of its definition.
    pub(crate) hash: Option<String>,
    /// The definition itself: an object, or a text in YAML or JSON.
    pub(crate) definition: Option<Value>,
}

/// What a workflow is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// To run: the server must have what it needs.
    Running,
    /// To read it, or to rerun it with recorded answers.
    Reading,
}

impl Chosen {
    /// The workflow that is meant; `None` when none was named.
    pub(crate) async fn find(&self, server: &Server, purpose: For) -> Result<Option<Arc<Workflow>>, Problem> {
        match (&self.workflow, &self.hash, &self.definition) {
            (None, None, None) => Ok(None),
            (Some(name), None, None) => {
                let versions = server.runtime.workflow_versions(name).await?;
                let newest = versions.and_then(|versions| versions.newest()).ok_or_else(|| no_workflow(name))?;
                with_hash(server, &newest.to_string()).await.map(Some)
            }
            (None, Some(hash), None) => with_hash(server, hash).await.map(Some),
            (None, None, Some(definition)) => inline(server, definition, purpose).map(Some),
            _ => {
                let detail = "give one of `workflow` (a name), `hash` and `definition`, not several";
                Err(Problem::new(Kind::InvalidRequest, detail))
            }
        }
    }
}

fn inline(server: &Server, definition: &Value, purpose: For) -> Result<Arc<Workflow>, Problem> {
    let (text, is_text) = match definition {
        Value::String(text) => (text.clone(), true),
        value => (value.to_string(), false),
    };
    let located = |mut faults: Faults| {
        if is_text {
            locate(&text, &mut faults);
        } else {
            // The lines would be those of this program's own writing.
            faults.0.iter_mut().for_each(|fault| fault.place = None);
        }
        Problem::workflow(faults)
    };
    let (read, faults) = match purpose {
        For::Running => {
            let read = parse_in(text.as_bytes(), &server.runtime.surroundings());
            let faults = read.as_ref().map(|workflow| server.runtime.check(workflow)).unwrap_or_default();
            (read, faults)
        }
        For::Reading => (parse(text.as_bytes()), Vec::new()),
    };
    let workflow = read.map_err(located)?;
    if faults.is_empty() { Ok(Arc::new(workflow)) } else { Err(located(Faults(faults))) }
}
