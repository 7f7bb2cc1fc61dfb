//! The inspector: a page that this binary serves, with nothing from elsewhere.

use actix_web::{HttpRequest, HttpResponse};

use super::problem::{Kind, Problem};
use super::request;

/// What the page may do: use what comes from this server, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page itself.
const INDEX: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>rethread</title>\
                     <h1>rethread</h1><p>The API is described at <a href=\"/v1/openapi.json\">/v1/openapi.json</a>.</p></html>\n";

/// What the page is made of besides: name, media type, bytes.
const ASSETS: [(&str, &str, &[u8]); 0] = [];

pub(crate) async fn index() -> HttpResponse {
    HttpResponse::Ok()
        .content_type("text/html; charset=utf-8")
        .insert_header(("Content-Security-Policy", POLICY))
        .insert_header(("Cache-Control", "no-cache"))
        .body(INDEX)
}

pub(crate) async fn asset(request: HttpRequest) -> Result<HttpResponse, Problem> {
    let name = request::named(&request, "file");
    let Some((_, media_type, bytes)) = ASSETS.iter().find(|(known, _, _)| *known == name) else {
        return Err(Problem::new(Kind::NotFound, "the page has no such part: load it again")
            .at("path", request::cut(request.path())));
    };
    Ok(HttpResponse::Ok()
        .content_type(*media_type)
        .insert_header(("Content-Security-Policy", POLICY))
        .insert_header(("Cache-Control", "no-cache"))
        .body(*bytes))
}
