//! The routes: one table says what is served, who may ask for it, and who answers.

use actix_web::http::Method;
use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, web};

use super::problem::{Kind, Problem};
use super::{
    archive, control, events, explain, fork, graph, health, interactions, log, maintenance, metrics, moments, openapi,
    page, rerun, session, surroundings, threads, usage, workflows,
};

/// Who may ask for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anybody who reaches the server.
    Anybody,
    /// Who may look.
    Read,
    /// Who may run threads and answer questions.
    Operate,
    /// Who may do what cannot be undone.
    Admin,
}

/// Something that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    /// In small letters.
    pub(crate) method: &'static str,
    /// With the names of its parts in braces.
    pub(crate) path: &'static str,
    pub(crate) access: Access,
}

macro_rules! routes {
    ($($method:ident $path:literal $access:ident $handler:path;)*) => {
        /// Everything that is served.
        pub(crate) const ROUTES: &[Route] =
            &[$(Route { method: stringify!($method), path: $path, access: Access::$access }),*];

        /// Adds the routes to an application.
        pub(crate) fn configure(config: &mut web::ServiceConfig) {
            $(config.route($path, web::$method().to($handler));)*
        }
    };
}

routes! {
    get "/v1/workflows" Read workflows::list;
    post "/v1/workflows" Operate workflows::put;
    get "/v1/workflows/{name}" Read workflows::versions;
    get "/v1/definitions/{hash}" Read workflows::definition;
    get "/v1/threads" Read threads::list;
    post "/v1/threads" Operate threads::start;
    get "/v1/threads/{thread}" Read threads::show;
    delete "/v1/threads/{thread}" Admin threads::delete;
    get "/v1/threads/{thread}/outcome" Read threads::outcome;
    get "/v1/threads/{thread}/state" Read moments::state;
    get "/v1/threads/{thread}/steps" Read moments::steps;
    get "/v1/threads/{thread}/family" Read moments::family;
    get "/v1/threads/{thread}/checkpoints" Read moments::checkpoints;
    get "/v1/threads/{thread}/graph" Read graph::graph;
    get "/v1/threads/{thread}/explain" Read explain::explain;
    get "/v1/threads/{thread}/usage" Read usage::of_thread;
    get "/v1/threads/{thread}/tree" Read explain::tree;
    get "/v1/threads/{thread}/events" Read events::of_thread;
    get "/v1/threads/{thread}/interactions" Read interactions::of_thread;
    post "/v1/threads/{thread}/checkpoints" Operate control::checkpoint;
    post "/v1/threads/{thread}/pause" Operate control::pause;
    post "/v1/threads/{thread}/resume" Operate control::resume;
    post "/v1/threads/{thread}/cancel" Operate control::cancel;
    post "/v1/threads/{thread}/messages" Operate control::message;
    post "/v1/threads/{thread}/variables" Operate control::variables;
    post "/v1/threads/{thread}/fork" Operate fork::fork;
    post "/v1/threads/{thread}/rerun" Read rerun::rerun;
    get "/v1/interactions" Read interactions::list;
    post "/v1/interactions/{interaction}/respond" Operate interactions::respond;
    post "/v1/interactions/{interaction}/cancel" Operate interactions::cancel;
    get "/v1/events" Read events::of_log;
    get "/v1/usage" Read usage::of_log;
    get "/v1/tools" Read surroundings::tools;
    get "/v1/profiles" Read surroundings::profiles;
    get "/v1/info" Read surroundings::info;
    post "/v1/session" Anybody session::begin;
    delete "/v1/session" Anybody session::end;
    get "/v1/openapi.json" Anybody openapi::document;
    get "/health/live" Anybody health::live;
    get "/health/ready" Anybody health::ready;
    get "/metrics" Read metrics::metrics;
    post "/v1/import" Admin archive::import;
    get "/v1/log" Read log::about;
    get "/v1/log/records" Read log::records;
    get "/v1/log/streams" Read log::streams;
    get "/v1/log/streams/{thread}" Read log::stream;
    get "/v1/log/streams/{thread}/records" Read log::records_of_stream;
    get "/v1/log/blobs/{hash}" Read log::blob;
    get "/v1/log/values" Read log::values;
    post "/v1/log/verify" Read log::verify;
    post "/v1/log/compact" Admin maintenance::compact;
    get "/v1/log/backup" Admin maintenance::backup;
    post "/v1/gc" Admin maintenance::collect;
    get "/" Anybody page::index;
    get "/assets/{file}" Anybody page::asset;
}

/// The route of a request.
pub(crate) fn find(method: &Method, pattern: Option<&str>) -> Option<&'static Route> {
    let pattern = pattern?;
    ROUTES.iter().find(|route| route.path == pattern && method.as_str().eq_ignore_ascii_case(route.method))
}

/// What is answered where nothing is served.
pub(crate) async fn nothing(request: HttpRequest) -> Result<HttpResponse, Problem> {
    let pattern = request.match_pattern();
    let here = ROUTES.iter().filter(|route| Some(route.path) == pattern.as_deref());
    let methods: Vec<_> = here.map(|route| route.method.to_uppercase()).collect();
    if methods.is_empty() {
        let detail = "there is nothing at this path: GET /v1/openapi.json lists what there is";
        return Err(Problem::new(Kind::NotFound, detail).at("path", super::request::cut(request.path())));
    }
    let allow = methods.join(", ");
    let problem = Problem::new(Kind::MethodNotAllowed, format!("this path takes {allow}"));
    Err(match HeaderValue::from_str(&allow) {
        Ok(value) => problem.header(header::ALLOW, value),
        Err(_) => problem,
    })
}

#[cfg(test)]
mod tests;
