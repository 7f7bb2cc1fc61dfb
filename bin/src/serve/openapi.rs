//! `/v1/openapi.json`: the API in the words of OpenAPI 3.1, made from the handlers themselves.

mod alike;
mod exact;

use std::sync::OnceLock;

use actix_web::HttpResponse;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

use super::problem::{Document, Fault, Place};
use super::routes::{self, Access};
use super::{
    archive, control, events, explain, fork, graph, health, incoming, interactions, log, maintenance, media, memories,
    messages, metrics, migrate, moments, rerun, runs, schedules, session, signals, surroundings, threads, usage,
    workflows,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "rethread",
        description = "Threads of LLM agents on a durable log: start them, watch them, answer them, go back to any of their moments. docs/HTTP.md shows it by example.",
    ),
    tags(
        (name = "workflows", description = "Definitions, by name and by hash"),
        (name = "threads", description = "Runs of workflows"),
        (name = "control", description = "Commands to a thread"),
        (name = "moments", description = "Historical reads"),
        (name = "events", description = "What happened, and what happens"),
        (name = "schedules", description = "Threads that are started by themselves"),
        (name = "memories", description = "Texts that threads stored for later threads"),
        (name = "interactions", description = "Questions to people"),
        (name = "surroundings", description = "Tools, profiles, the server"),
        (name = "operation", description = "Health and metrics"),
        (name = "log", description = "The log itself, for other programs of rethread"),
    ),
    paths(
        workflows::list, workflows::put, workflows::versions, workflows::definition,
        threads::list, threads::start, threads::show, threads::delete, threads::outcome,
        runs::list, runs::create, runs::outcome, runs::cancel, messages::list, media::media,
        moments::state, moments::family, moments::steps, moments::checkpoints, graph::graph,
        explain::explain, explain::tree, usage::of_thread, usage::of_log,
        events::of_thread, events::of_log,
        control::pause, control::resume, control::cancel, control::change_wait, signals::send, incoming::receive, control::checkpoint, control::message, control::variables,
        fork::fork, migrate::migrate, rerun::rerun,
        schedules::list, schedules::show, schedules::put, schedules::delete, schedules::pause, schedules::resume, schedules::backfill,
        memories::list, memories::namespaces, memories::forget,
        interactions::list, interactions::of_thread, interactions::respond, interactions::cancel,
        surroundings::tools, surroundings::profiles, surroundings::info, session::begin, session::end,
        health::live, health::ready, metrics::metrics, document,
        log::about, log::records, log::streams, log::stream, log::records_of_stream, log::blob, log::values, log::verify, archive::import,
        maintenance::collect, maintenance::compact, maintenance::backup,
    ),
    components(schemas(Document, Fault, Place, rethread::RecordedEvent)),
)]
struct Api;

/// The document.
pub(crate) fn api() -> utoipa::openapi::OpenApi {
    let mut api = Api::openapi();
    api.info.version = env!("CARGO_PKG_VERSION").into();
    let components = api.components.get_or_insert_default();
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    for (path, item) in &mut api.paths.paths {
        for (method, operation) in operations(item) {
            let route = routes::ROUTES.iter().find(|route| route.path == path && route.method == method);
            if route.is_none_or(|route| !matches!(route.access, Access::Anybody | Access::Signed)) {
                let by_token = utoipa::openapi::SecurityRequirement::new::<_, _, String>("token", []);
                operation.security = Some(vec![by_token, utoipa::openapi::SecurityRequirement::default()]);
            }
            alike::complete(path, operation);
        }
    }
    api
}

pub(crate) fn operations(
    item: &mut utoipa::openapi::PathItem,
) -> impl Iterator<Item = (&'static str, &mut utoipa::openapi::path::Operation)> {
    let all = [("get", &mut item.get), ("post", &mut item.post), ("delete", &mut item.delete), ("put", &mut item.put)];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "operation", operation_id = "openapi",
    responses((status = 200, description = "The document", body = Object)))]
pub(crate) async fn document() -> HttpResponse {
    static DOCUMENT: OnceLock<String> = OnceLock::new();
    let document = DOCUMENT.get_or_init(|| {
        let mut document = serde_json::to_value(api()).unwrap_or_default();
        exact::refine(&mut document);
        document.to_string()
    });
    HttpResponse::Ok().content_type("application/json").body(document.as_str())
}

#[cfg(test)]
mod tests;
