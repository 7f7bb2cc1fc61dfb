//! The routes: one table says what is served, who may ask for it, and who answers.

use actix_web::http::Method;
use actix_web::http::header::{self, HeaderValue};
use actix_web::{Error, HttpRequest, HttpResponse, Resource, web};

use super::doors::{self, Door, a2a, agui, mcp, openai};
use super::problem::{Kind, Problem};
use super::{
    archive, control, events, explain, fork, graph, health, incoming, interactions, log, maintenance, media, memories,
    messages, metrics, migrate, moments, openapi, page, rerun, runs, schedules, session, signals, surroundings,
    threads, usage, workflows,
};

/// Who may ask for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Any client that reaches the server.
    Anybody,
    /// The sender signed the request with a secret that the handler knows. Tokens are ignored.
    Signed,
    /// Who may look.
    Read,
    /// Who may run threads and answer questions.
    Operate,
    /// Who may do what cannot be undone.
    Admin,
}

/// What a token that is bound to labels gets from a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// All: the response contains nothing of a thread.
    All,
    /// The thread that the path names, if it has the labels.
    OfThread,
    /// The part that belongs to threads with the labels: the handler filters.
    Filtered,
    /// Nothing.
    Hidden,
}

/// Something that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    /// In small letters.
    pub(crate) method: &'static str,
    /// With the names of its parts in braces.
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    pub(crate) bound: Bound,
}

macro_rules! routes {
    ($($method:ident $path:literal $access:ident $bound:ident $handler:path;)*) => {
        /// Everything that is served.
        pub(crate) const ROUTES: &[Route] =
            &[$(Route { method: stringify!($method), path: $path, access: Access::$access, bound: Bound::$bound }),*];

        /// Adds the routes to an application.
        pub(crate) fn configure(config: &mut web::ServiceConfig) {
            let mut resources = Vec::new();
            $(add(&mut resources, $path, web::$method().to($handler));)*
            for (_, resource) in resources {
                config.service(resource.default_service(web::to(nothing)));
            }
        }
    };
}

/// Adds a method to its path: another method is not one of a later path whose pattern fits as well.
fn add(resources: &mut Vec<(&'static str, Resource)>, path: &'static str, route: actix_web::Route) {
    let known = resources.iter().position(|(known, _)| *known == path);
    match known {
        Some(at) => {
            let (_, resource) = resources.remove(at);
            resources.insert(at, (path, resource.route(route)));
        }
        None => resources.push((path, web::resource(path).route(route))),
    }
}

routes! {
    get "/v1/workflows" Read Hidden workflows::list;
    post "/v1/workflows" Operate Hidden workflows::put;
    get "/v1/workflows/{name}" Read Hidden workflows::versions;
    get "/v1/definitions/{hash}" Read Hidden workflows::definition;
    get "/v1/threads" Read Filtered threads::list;
    post "/v1/threads" Operate Filtered threads::start;
    get "/v1/threads/{thread}" Read OfThread threads::show;
    delete "/v1/threads/{thread}" Admin OfThread threads::delete;
    get "/v1/threads/{thread}/outcome" Read OfThread threads::outcome;
    get "/v1/threads/{thread}/runs" Read OfThread runs::list;
    post "/v1/threads/{thread}/runs" Operate OfThread runs::create;
    get "/v1/threads/{thread}/runs/{run}/outcome" Read OfThread runs::outcome;
    post "/v1/threads/{thread}/runs/{run}/cancel" Operate OfThread runs::cancel;
    get "/v1/threads/{thread}/messages" Read OfThread messages::list;
    get "/v1/threads/{thread}/state" Read OfThread moments::state;
    get "/v1/threads/{thread}/steps" Read OfThread moments::steps;
    get "/v1/threads/{thread}/family" Read OfThread moments::family;
    get "/v1/threads/{thread}/checkpoints" Read OfThread moments::checkpoints;
    get "/v1/threads/{thread}/graph" Read OfThread graph::graph;
    get "/v1/threads/{thread}/explain" Read OfThread explain::explain;
    get "/v1/threads/{thread}/usage" Read OfThread usage::of_thread;
    get "/v1/threads/{thread}/tree" Read OfThread explain::tree;
    get "/v1/threads/{thread}/events" Read OfThread events::of_thread;
    get "/v1/threads/{thread}/events/{seq}/media/{part}" Read OfThread media::media;
    get "/v1/threads/{thread}/interactions" Read OfThread interactions::of_thread;
    post "/v1/threads/{thread}/checkpoints" Operate OfThread control::checkpoint;
    post "/v1/threads/{thread}/pause" Operate OfThread control::pause;
    post "/v1/threads/{thread}/resume" Operate OfThread control::resume;
    post "/v1/threads/{thread}/waits/{wait}" Operate OfThread control::change_wait;
    post "/v1/threads/{thread}/cancel" Operate OfThread control::cancel;
    post "/v1/threads/{thread}/messages" Operate OfThread control::message;
    post "/v1/threads/{thread}/variables" Operate OfThread control::variables;
    post "/v1/threads/{thread}/fork" Operate OfThread fork::fork;
    post "/v1/threads/{thread}/migrate" Operate OfThread migrate::migrate;
    post "/v1/threads/{thread}/rerun" Read OfThread rerun::rerun;
    get "/v1/interactions" Read Filtered interactions::list;
    post "/v1/interactions/{interaction}/respond" Operate OfThread interactions::respond;
    post "/v1/interactions/{interaction}/cancel" Operate OfThread interactions::cancel;
    post "/v1/signals/{name}" Operate Filtered signals::send;
    post "/v1/incoming/{name}" Signed All incoming::receive;
    get "/v1/schedules" Read Filtered schedules::list;
    get "/v1/schedules/{name}" Read Filtered schedules::show;
    put "/v1/schedules/{name}" Operate Filtered schedules::put;
    delete "/v1/schedules/{name}" Operate Filtered schedules::delete;
    post "/v1/schedules/{name}/pause" Operate Filtered schedules::pause;
    post "/v1/schedules/{name}/resume" Operate Filtered schedules::resume;
    post "/v1/schedules/{name}/backfill" Operate Filtered schedules::backfill;
    get "/v1/memories" Read Filtered memories::list;
    get "/v1/memories/namespaces" Read Filtered memories::namespaces;
    delete "/v1/memories/{memory}" Admin Filtered memories::forget;
    get "/v1/events" Read Filtered events::of_log;
    get "/v1/usage" Read Filtered usage::of_log;
    get "/v1/tools" Read Hidden surroundings::tools;
    get "/v1/profiles" Read Hidden surroundings::profiles;
    get "/v1/info" Read Filtered surroundings::info;
    post "/v1/session" Anybody All session::begin;
    delete "/v1/session" Anybody All session::end;
    get "/v1/openapi.json" Anybody All openapi::document;
    get "/health/live" Anybody All health::live;
    get "/health/ready" Anybody All health::ready;
    get "/metrics" Read Hidden metrics::metrics;
    post "/v1/import" Admin Hidden archive::import;
    get "/v1/log" Read Hidden log::about;
    get "/v1/log/records" Read Hidden log::records;
    get "/v1/log/streams" Read Hidden log::streams;
    get "/v1/log/streams/{thread}" Read Hidden log::stream;
    get "/v1/log/streams/{thread}/records" Read Hidden log::records_of_stream;
    get "/v1/log/blobs/{hash}" Read Hidden log::blob;
    get "/v1/log/values" Read Hidden log::values;
    post "/v1/log/verify" Read Hidden log::verify;
    post "/v1/log/compact" Admin Hidden maintenance::compact;
    get "/v1/log/backup" Admin Hidden maintenance::backup;
    post "/v1/gc" Admin Hidden maintenance::collect;
    get "/v1/models" Read Hidden openai::models::list;
    get "/v1/models/{model}" Read Hidden openai::models::show;
    post "/v1/chat/completions" Operate Filtered openai::chat::create;
    post "/v1/responses" Operate Filtered openai::responses::create;
    get "/v1/responses/{response}" Read Filtered openai::responses::retrieve;
    delete "/v1/responses/{response}" Admin Filtered openai::responses::delete;
    post "/v1/responses/{response}/cancel" Operate Filtered openai::responses::cancel;
    get "/v1/responses/{response}/input_items" Read Filtered openai::responses::input_items::list;
    post "/agui/{workflow}" Operate Filtered agui::create;
    get "/mcp" Read Filtered mcp::handle;
    post "/mcp" Read Filtered mcp::handle;
    delete "/mcp" Read Filtered mcp::handle;
    get "/.well-known/agent-card.json" Read Filtered a2a::card::of_server;
    get "/a2a/{workflow}/.well-known/agent-card.json" Read Filtered a2a::card::of_workflow;
    post "/a2a/{workflow}" Read Filtered a2a::rpc::handle;
    post "/a2a/{workflow}/message:send" Operate Filtered a2a::rest::send;
    post "/a2a/{workflow}/message:stream" Operate Filtered a2a::rest::stream;
    get "/a2a/{workflow}/tasks" Read Filtered a2a::rest::list;
    get "/a2a/{workflow}/tasks/{task}" Read Filtered a2a::rest::of_task;
    post "/a2a/{workflow}/tasks/{task}" Read Filtered a2a::rest::of_task;
    get "/a2a/{workflow}/tasks/{task}/pushNotificationConfigs" Read Filtered a2a::rest::push_notifications;
    post "/a2a/{workflow}/tasks/{task}/pushNotificationConfigs" Operate Filtered a2a::rest::push_notifications;
    get "/a2a/{workflow}/tasks/{task}/pushNotificationConfigs/{config}" Read Filtered a2a::rest::push_notifications;
    delete "/a2a/{workflow}/tasks/{task}/pushNotificationConfigs/{config}" Operate Filtered a2a::rest::push_notifications;
    get "/a2a/{workflow}/extendedAgentCard" Read Filtered a2a::rest::extended_card;
    get "/" Anybody All page::index;
    get "/assets/{file}" Anybody All page::asset;
}

/// The route of a request.
pub(crate) fn find(method: &Method, pattern: Option<&str>) -> Option<&'static Route> {
    let pattern = pattern?;
    ROUTES.iter().find(|route| route.path == pattern && method.as_str().eq_ignore_ascii_case(route.method))
}

/// There is nothing at a path.
pub(crate) fn no_path(path: &str) -> Problem {
    let detail = "there is nothing at this path: GET /v1/openapi.json lists what there is";
    Problem::new(Kind::NotFound, detail).at("path", super::request::cut(path))
}

/// The response for unknown paths.
pub(crate) async fn nothing(request: HttpRequest) -> Result<HttpResponse, Error> {
    let door = request.match_pattern().as_deref().and_then(Door::of);
    Err(doors::error(door, no_route(&request)))
}

fn no_route(request: &HttpRequest) -> Problem {
    let pattern = request.match_pattern();
    let here = ROUTES.iter().filter(|route| Some(route.path) == pattern.as_deref());
    let methods: Vec<_> = here.map(|route| route.method.to_uppercase()).collect();
    if methods.is_empty() {
        return no_path(request.path());
    }
    let allow = methods.join(", ");
    let problem = Problem::new(Kind::MethodNotAllowed, format!("this path takes {allow}"));
    match HeaderValue::from_str(&allow) {
        Ok(value) => problem.header(header::ALLOW, value),
        Err(_) => problem,
    }
}

#[cfg(test)]
mod tests;
