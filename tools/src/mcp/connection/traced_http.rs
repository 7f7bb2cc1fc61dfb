//! HTTP requests to a server, whose answers are read tolerantly, with the trace context of a call as a header as well: proxies and servers that know the header
//! do not read messages.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt as _};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{RequestBuilder, StatusCode};
use rethread_events::text::shortened;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, JsonRpcRequest, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use super::{MESSAGE_BYTES_MAX, readable};

/// The characters of a body in an error.
const BODY_CHARS_MAX: usize = 300;
/// The characters of a content type in an error.
const KIND_CHARS_MAX: usize = 100;
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// A client that sends `_meta.traceparent` of a call as the header `traceparent`, too.
#[derive(Clone)]
pub(super) struct TracedHttp(pub(super) reqwest::Client);

type Headers = HashMap<HeaderName, HeaderValue>;
type Failure = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

impl StreamableHttpClient for TracedHttp {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.post_message_with_max_sse_event_size(uri, message, session, auth, headers, MESSAGE_BYTES_MAX).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
        bytes_max: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let headers = traced(&message, headers);
        let JsonRpcMessage::Request(JsonRpcRequest {
            id,
            request: ClientRequest::CallToolRequest(_) | ClientRequest::ListToolsRequest(_),
            ..
        }) = &message
        else {
            let posted = self.0.post_message_with_max_sse_event_size(uri, message, session, auth, headers, bytes_max);
            return posted.await.map_err(without_address).map(|response| match response {
                StreamableHttpPostResponse::Sse(events, session) => {
                    StreamableHttpPostResponse::Sse(readable_events(events), session)
                }
                other => other,
            });
        };
        let mut request = self.0.post(&*uri).header(ACCEPT, "text/event-stream, application/json");
        if let Some(auth) = auth {
            request = request.bearer_auth(auth);
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(session) = &session {
            request = request.header(SESSION, &**session);
        }
        post_call(request.json(&message), id, session.is_some(), bytes_max).await.map_err(without_address)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        self.0.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<Events, Failure> {
        self.0.get_stream(uri, session, last_event, auth, headers).await.map(readable_events)
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: Headers,
        bytes_max: usize,
    ) -> Result<Events, Failure> {
        let events = self.0.get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, bytes_max);
        events.await.map(readable_events)
    }
}

/// Posts a request for tools or of one. The library reads an answer strictly, and does not show one that it cannot read.
async fn post_call(
    request: RequestBuilder,
    id: &RequestId,
    has_session: bool,
    bytes_max: usize,
) -> Result<StreamableHttpPostResponse, Failure> {
    let response = request.send().await?;
    let status = response.status();
    if status == StatusCode::NOT_FOUND && has_session {
        return Err(Failure::SessionExpired);
    }
    let word = |name: HeaderName| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
    let (kind, session) = (word(CONTENT_TYPE), word(SESSION));
    let is = |wanted: &str| kind.as_deref().is_some_and(|kind| kind.starts_with(wanted));
    if status.is_success() && is("text/event-stream") {
        let events = SseStream::from_bytes_stream(bounded(response, bytes_max)).boxed();
        return Ok(StreamableHttpPostResponse::Sse(readable_events(events), session));
    }
    let (is_json, kind) = (is("application/json"), kind.clone().unwrap_or_default());
    let body = body(response, bytes_max).await?;
    let unexpected = |what: &str| Err(unexpected(status, what, &body));
    if body.trim_ascii().is_empty() {
        return unexpected(" with an empty body");
    }
    if status.is_success() && !is_json {
        return unexpected(&format!(" with `{}` in place of a message", shortened(&kind, KIND_CHARS_MAX)));
    }
    match answer(&body, id, status) {
        Ok(answer) if status.is_success() || is_json && matches!(answer, JsonRpcMessage::Error(_)) => {
            Ok(StreamableHttpPostResponse::Json(answer, session))
        }
        Err(fault) if status.is_success() => unexpected(&format!(" with {fault}")),
        Ok(_) | Err(_) => unexpected(""),
    }
}

/// Reads the answer to a request. The error says what the body has in its place.
fn answer(body: &[u8], id: &RequestId, status: StatusCode) -> Result<ServerJsonRpcMessage, String> {
    let readable = readable::message(body);
    let text = readable.as_deref().map_or(body, str::as_bytes);
    let mut fault = "no message".to_owned();
    // One message, or one for each answer of a batch.
    for message in serde_json::Deserializer::from_slice(text).into_iter() {
        let message = message.map_err(|error| format!("a message that cannot be read ({error})"))?;
        let answered = match &message {
            JsonRpcMessage::Response(response) => &response.id,
            // An error that names no request, or that is the body of a status, is of this request.
            JsonRpcMessage::Error(error) => error.id.as_ref().filter(|_| status.is_success()).unwrap_or(id),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {
                fault = "a request or a notification in place of an answer".to_owned();
                continue;
            }
        };
        if !is_same(answered, id) {
            fault = format!("the answer to request {answered} in place of {id}");
            continue;
        }
        return Ok(match message {
            JsonRpcMessage::Error(error) => ServerJsonRpcMessage::error(error.error, Some(id.clone())),
            message => message,
        });
    }
    Err(fault)
}

/// Whether two ids are the same. Some servers answer with the text of a number.
fn is_same(one: &RequestId, other: &RequestId) -> bool {
    one.to_string() == other.to_string()
}

/// The library's own texts of errors include the address with its query, which may be secret.
fn without_address(failure: Failure) -> Failure {
    match failure {
        Failure::Client(error) => Failure::Client(error.without_url()),
        other => other,
    }
}

/// The status, what came in place of an answer, and the beginning of the body.
fn unexpected(status: StatusCode, what: &str, body: &[u8]) -> Failure {
    let body = String::from_utf8_lossy(body);
    let body = shortened(body.trim(), BODY_CHARS_MAX);
    let colon = if body.is_empty() { "" } else { ": " };
    Failure::UnexpectedServerResponse(format!("HTTP {status}{what}{colon}{body}").into())
}

async fn body(mut response: reqwest::Response, bytes_max: usize) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await? {
        if body.len() + piece.len() > bytes_max {
            return Err(Failure::ResponseBodyTooLarge { max_size: bytes_max });
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// The bytes of a stream, none of whose lines is longer than the limit.
fn bounded(
    response: reqwest::Response,
    bytes_max: usize,
) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static {
    let mut n_line_bytes = 0_usize;
    response.bytes_stream().map(move |piece| {
        let piece = piece.map_err(|error| std::io::Error::other(error.without_url()))?;
        for line in piece.split_inclusive(|byte| *byte == b'\n') {
            n_line_bytes += line.len();
            if n_line_bytes > bytes_max {
                return Err(std::io::Error::from(std::io::ErrorKind::FileTooLarge));
            }
            if line.ends_with(b"\n") {
                n_line_bytes = 0;
            }
        }
        Ok(piece)
    })
}

/// The events, those that the library cannot read as [`readable::message`] makes them.
fn readable_events(events: Events) -> Events {
    let readable = |event: Result<Sse, SseError>| {
        event.map(|mut event| {
            if let Some(message) = event.data.as_ref().and_then(|data| readable::message(data.as_bytes())) {
                event.data = Some(message);
            }
            event
        })
    };
    events.map(readable).boxed()
}

/// The headers of a message. What the configuration says about the header takes precedence.
fn traced(message: &ClientJsonRpcMessage, mut headers: Headers) -> Headers {
    if let JsonRpcMessage::Request(request) = message
        && let ClientRequest::CallToolRequest(call) = &request.request
        && let Some(span) = call.params.meta.as_ref().and_then(|meta| meta.get_traceparent())
        && let Ok(span) = HeaderValue::from_str(span)
    {
        headers.entry(TRACEPARENT).or_insert(span);
    }
    headers
}

#[cfg(test)]
mod tests {
    use rmcp::model::CallToolRequestParams;

    use super::*;

    const SPAN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn call(traceparent: Option<&str>) -> ClientJsonRpcMessage {
        let mut params = CallToolRequestParams::new("pay");
        if let Some(span) = traceparent {
            params.meta.get_or_insert_default().set_traceparent(span.to_owned());
        }
        let request = ClientRequest::CallToolRequest(rmcp::model::CallToolRequest::new(params));
        ClientJsonRpcMessage::request(request, rmcp::model::RequestId::Number(1))
    }

    #[test]
    fn call_has_its_span_as_a_header() {
        assert_eq!(traced(&call(Some(SPAN)), Headers::new())[&TRACEPARENT], SPAN);
        assert!(traced(&call(None), Headers::new()).is_empty());
        assert!(traced(&call(Some("a\nb")), Headers::new()).is_empty());
        let configured = Headers::from([(TRACEPARENT, HeaderValue::from_static("mine"))]);
        assert_eq!(traced(&call(Some(SPAN)), configured)[&TRACEPARENT], "mine");
    }
}
