//! `/mcp`: requests of actix as requests of the library's HTTP service, and its responses back.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use actix_web::http::{Method, StatusCode, header};
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyDataStream, BodyExt as _, Full};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::Value;

use super::handler::Mcp;
use super::log::Log;
use super::sessions::OpenRequest;
use super::{Error, error};
use crate::serve::doors::caller::Caller;
use crate::serve::feed;
use crate::serve::problem::{Kind, Problem};
use crate::serve::request;
use crate::serve::server::{Shared, SubscriberSlot};

type Body = BoxBody<Bytes, Infallible>;

/// How long the status of a response may wait for its first message.
const EARLY: Duration = Duration::from_millis(500);
/// The same for one that begins a session.
const INITIALIZE_MAX: Duration = Duration::from_secs(60);
const EVENT_STREAM: &str = "text/event-stream";
/// The header that names a session.
const SESSION: &str = "mcp-session-id";

/// The part of a message that says whether it begins a session.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    method: Option<std::borrow::Cow<'a, str>>,
}

/// What a response holds until it is written, or its client has gone.
struct Open {
    _request: Option<OpenRequest>,
    _slot: Option<SubscriberSlot>,
}

/// Answers a message, or follows or ends a session.
pub(crate) async fn handle(server: Shared, request: HttpRequest, payload: web::Payload) -> Result<HttpResponse, Error> {
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    let message = body.clone();
    answer(server, request, body).await.map_err(|error| error.to(&message))
}

async fn answer(server: Shared, request: HttpRequest, body: Bytes) -> Result<HttpResponse, Error> {
    let caller = Caller::of(&server, &request);
    let by = caller.by;
    let id = request.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
    let open = match &id {
        Some(id) => Some(server.mcp.open(id, by)?),
        None => None,
    };
    let (method, mut place) = (request.method().clone(), None);
    if method == Method::POST {
        request::check_is_json(&request)?;
        let message: Message<'_> = serde_json::from_slice(&body).map_err(|error| Error::of_body(&error))?;
        if id.is_none() && message.method.is_some_and(|method| method == "initialize") {
            place = Some(server.mcp.make_room(by).await?);
        }
    }
    // A message is short, or follows a run, which counts then.
    let slot = if method == Method::GET { Some(server.subscribe()?) } else { None };
    let (service, request, of_answer) = (service(&server), translated(&caller, &request, body)?, server.clone());
    let (is_end, ended) = (method == Method::DELETE, id.unwrap_or_default());
    // A session that begins says its id in the head of the response.
    let early = if place.is_some() { INITIALIZE_MAX } else { EARLY };
    let handling = async move {
        let _until_it_has_begun = place;
        let mut answer = service.handle(request).await;
        if is_end && answer.status() == http::StatusCode::ACCEPTED {
            // Clients expect that it has ended, and not that it will.
            *answer.status_mut() = http::StatusCode::NO_CONTENT;
            of_answer.mcp.ended(&ended);
        }
        if let Some(id) = answer.headers().get(SESSION).and_then(|id| id.to_str().ok()) {
            of_answer.mcp.begun(id, by);
        }
        answer
    };
    respond(server, caller, early, handling, Open { _request: open, _slot: slot }).await
}

fn service(
    server: &Shared,
) -> StreamableHttpService<Mcp, impl rmcp::transport::streamable_http_server::SessionManager> {
    // The guard has checked the names of the host and of the page, and the body is limited.
    let mut config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_sse_keep_alive(Some(server.settings.silence_max))
        .with_cancellation_token(server.stopping.child_token())
        .with_max_request_body_bytes(usize::MAX);
    config.json_response = true;
    let log = Log::Served(server.clone());
    StreamableHttpService::new(move || Ok(Mcp::served(log.clone())), server.mcp.manager.clone(), config)
}

/// The request, with its sender.
fn translated(caller: &Caller, request: &HttpRequest, body: Bytes) -> Result<http::Request<Full<Bytes>>, Problem> {
    let invalid = |error: http::Error| Problem::new(Kind::InvalidRequest, error.to_string());
    let mut translated = http::Request::builder().method(request.method().as_str()).uri(request.uri().to_string());
    for (name, value) in request.headers() {
        translated = translated.header(name.as_str(), value.as_bytes());
    }
    let mut translated = translated.body(Full::new(body)).map_err(invalid)?;
    // A client of HTTP/1.0 may leave it out.
    translated.headers_mut().entry(http::header::HOST).or_insert(http::HeaderValue::from_static("localhost"));
    translated.extensions_mut().insert(caller.clone());
    Ok(translated)
}

/// The response, which begins at once: only then it is noticed that the client has gone.
async fn respond(
    server: Shared,
    caller: Caller,
    early: Duration,
    handling: impl Future<Output = http::Response<Body>> + 'static,
    open: Open,
) -> Result<HttpResponse, Error> {
    let mut handling = Box::pin(handling);
    let Ok(answer) = tokio::time::timeout(early, &mut handling).await else {
        let silence_max = server.settings.silence_max;
        let late = futures::stream::unfold(Late::Handling(handling), move |late| late.next(silence_max));
        let late = feed::response(EVENT_STREAM).streaming(readable(server, caller, late, open));
        return Ok(late);
    };
    let (parts, body) = answer.into_parts();
    let status = match StatusCode::from_u16(parts.status.as_u16()) {
        // The media type is right: this is JSON that is no message.
        Ok(StatusCode::UNSUPPORTED_MEDIA_TYPE) => StatusCode::BAD_REQUEST,
        status => status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
    };
    let mut response = HttpResponse::build(status);
    let is_json = is_json(&parts.headers);
    for (name, value) in &parts.headers {
        if name != http::header::CONTENT_LENGTH && name != http::header::CONTENT_TYPE {
            response.append_header((name.as_str(), value.as_bytes()));
        }
    }
    if status.is_client_error() || status.is_server_error() {
        let text = whole(body).await;
        let body = if is_json {
            text.to_vec()
        } else {
            error::body(&error::of_transport(&String::from_utf8_lossy(&text)), &Value::Null)
        };
        return Ok(response.content_type("application/json").body(body));
    }
    if let Some(kind) = parts.headers.get(http::header::CONTENT_TYPE) {
        response.insert_header((header::CONTENT_TYPE, kind.as_bytes()));
        if kind.as_bytes().starts_with(EVENT_STREAM.as_bytes()) {
            response.insert_header(header::ContentEncoding::Identity);
        }
    }
    Ok(response.streaming(readable(server, caller, BodyDataStream::new(body), open)))
}

fn is_json(headers: &http::HeaderMap) -> bool {
    headers.get(http::header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

async fn whole(body: Body) -> Bytes {
    let Ok(body) = body.collect().await;
    body.to_bytes()
}

/// A response that comes after its body has begun.
enum Late<H> {
    Handling(Pin<Box<H>>),
    Body(BodyDataStream<Body>),
    Nothing,
}

impl<H: Future<Output = http::Response<Body>>> Late<H> {
    async fn next(mut self, silence_max: Duration) -> Option<(Result<Bytes, Infallible>, Self)> {
        if let Self::Handling(handling) = &mut self {
            let Ok(answer) = tokio::time::timeout(silence_max, handling).await else {
                return Some((Ok(Bytes::from_static(b": keep-alive\n\n")), self));
            };
            let (parts, body) = answer.into_parts();
            if is_json(&parts.headers) {
                let text = [b"data: ", &whole(body).await[..], b"\n\n"].concat();
                return Some((Ok(text.into()), Self::Nothing));
            }
            self = Self::Body(BodyDataStream::new(body));
        }
        match &mut self {
            Self::Body(body) => body.next().await.map(|piece| (piece, self)),
            Self::Handling(_) | Self::Nothing => None,
        }
    }
}

/// The pieces of a body, as long as its reader may read them.
fn readable(
    server: Shared,
    caller: Caller,
    pieces: impl Stream<Item = Result<Bytes, Infallible>>,
    open: Open,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    pieces.take_while(move |_| {
        let _until_the_end = &open;
        std::future::ready(caller.may_read_on(&server))
    })
}
