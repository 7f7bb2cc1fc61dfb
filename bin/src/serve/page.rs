//! The inspector: a page that this binary serves, with nothing from elsewhere. Its parts are files as they were written,
//! in `page/`: the browser reads them as modules, and nothing builds them. Without the feature `inspector` there are none.

use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};
use rethread::Hash;

use super::problem::{Kind, Problem};
use super::request;

/// The content security policy of the page: it may use what comes from this server, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      media-src data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A part of the page.
#[derive(Debug)]
struct Part {
    name: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
}

#[cfg(feature = "inspector")]
macro_rules! parts {
    ($($media_type:ident $name:literal;)*) => {
        &[$(Part {
            name: $name,
            media_type: media_type::$media_type,
            bytes: include_bytes!(concat!("page/", $name)),
        }),*]
    };
}

#[cfg(feature = "inspector")]
mod media_type {
    pub(super) const PAGE: &str = "text/html; charset=utf-8";
    pub(super) const SCRIPT: &str = "text/javascript; charset=utf-8";
    pub(super) const STYLE: &str = "text/css; charset=utf-8";
    pub(super) const PICTURE: &str = "image/svg+xml";
}

#[cfg(not(feature = "inspector"))]
const PARTS: &[Part] = &[];

#[cfg(feature = "inspector")]
const PARTS: &[Part] = parts! {
    PAGE "index.html";
    SCRIPT "answers.mjs";
    SCRIPT "api.mjs";
    SCRIPT "app.mjs";
    SCRIPT "commands.mjs";
    SCRIPT "conversation.mjs";
    SCRIPT "describe.mjs";
    SCRIPT "dialog.mjs";
    SCRIPT "diff.mjs";
    SCRIPT "dom.mjs";
    SCRIPT "events_tab.mjs";
    SCRIPT "exact.mjs";
    SCRIPT "fork_dialog.mjs";
    SCRIPT "format.mjs";
    SCRIPT "graph_tab.mjs";
    PICTURE "icon.svg";
    SCRIPT "inbox_model.mjs";
    SCRIPT "inbox_view.mjs";
    SCRIPT "json_view.mjs";
    SCRIPT "keys.mjs";
    SCRIPT "layout.mjs";
    SCRIPT "live.mjs";
    SCRIPT "marks.mjs";
    SCRIPT "messages_tab.mjs";
    SCRIPT "question.mjs";
    SCRIPT "route.mjs";
    SCRIPT "sign_in.mjs";
    SCRIPT "sse.mjs";
    SCRIPT "start_dialog.mjs";
    SCRIPT "state_tab.mjs";
    SCRIPT "streamed.mjs";
    STYLE "style.css";
    STYLE "thread.css";
    SCRIPT "thread_model.mjs";
    SCRIPT "thread_view.mjs";
    SCRIPT "threads_model.mjs";
    SCRIPT "threads_view.mjs";
    SCRIPT "timeline.mjs";
    SCRIPT "timeline_tab.mjs";
    SCRIPT "token.mjs";
    SCRIPT "virtual.mjs";
    SCRIPT "window.mjs";
};

pub(crate) async fn index(request: HttpRequest) -> Result<HttpResponse, Problem> {
    part(&request, "index.html")
}

pub(crate) async fn asset(request: HttpRequest) -> Result<HttpResponse, Problem> {
    part(&request, &request::named(&request, "file"))
}

fn part(request: &HttpRequest, name: &str) -> Result<HttpResponse, Problem> {
    let Some(part) = PARTS.iter().find(|part| part.name == name) else {
        let why = match PARTS {
            [] => "the inspector is not compiled in: build the server with the feature `inspector`",
            _ => "the page has no such part: load it again",
        };
        return Err(Problem::new(Kind::NotFound, why).at("path", request::cut(request.path())));
    };
    // A cached version of the browser is not sent again.
    let tag = format!("\"{}\"", Hash::of(part.bytes));
    let is_known = request.headers().get(header::IF_NONE_MATCH).is_some_and(|known| is_among(&tag, known));
    let mut response = if is_known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    response
        .insert_header(("Content-Security-Policy", POLICY))
        .insert_header(("Cache-Control", "no-cache"))
        .insert_header(("ETag", tag));
    Ok(if is_known { response.finish() } else { response.content_type(part.media_type).body(part.bytes) })
}

fn is_among(tag: &str, known: &HeaderValue) -> bool {
    known.to_str().unwrap_or_default().split(',').any(|one| one.trim() == tag)
}

#[cfg(test)]
mod tests;
