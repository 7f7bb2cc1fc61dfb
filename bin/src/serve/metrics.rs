//! `/metrics`: what the runtime and the server count, in the text format of Prometheus.

use std::fmt::Write as _;

use actix_web::HttpResponse;

use super::problem::Problem;
use super::server::Shared;

/// What the runtime and the server count, in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "operation", operation_id = "metrics",
    responses((status = 200, description = "The metrics", body = String, content_type = "text/plain; version=0.0.4")))]
pub(crate) async fn metrics(server: Shared) -> Result<HttpResponse, Problem> {
    let mut text = String::new();
    requests(&mut text, &server);
    Ok(HttpResponse::Ok().content_type("text/plain; version=0.0.4; charset=utf-8").body(text))
}

fn requests(text: &mut String, server: &Shared) {
    let requests = server.counters.requests();
    head(text, "rethread_http_requests_total", "counter", "HTTP requests, by route, method and status");
    for (route, method, status, sum) in &requests {
        let _ = writeln!(
            text,
            "rethread_http_requests_total{{route=\"{route}\",method=\"{method}\",status=\"{status}\"}} {}",
            sum.n
        );
    }
    head(text, "rethread_http_request_seconds_total", "counter", "Time until the answers to them began, in seconds");
    for (route, method, status, sum) in &requests {
        let seconds = sum.took.as_secs_f64();
        let _ = writeln!(
            text,
            "rethread_http_request_seconds_total{{route=\"{route}\",method=\"{method}\",status=\"{status}\"}} {seconds}"
        );
    }
    head(text, "rethread_subscribers", "gauge", "Those who follow the log over HTTP now");
    let _ = writeln!(text, "rethread_subscribers {}", server.n_subscribers());
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}
