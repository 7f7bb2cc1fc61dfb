//! HTTP requests to a server, with the trace context of a call as a header as well: proxies and servers that know the header
//! do not read messages.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

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
        let headers = traced(&message, headers);
        self.0.post_message(uri, message, session, auth, headers).await
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
        self.0.post_message_with_max_sse_event_size(uri, message, session, auth, headers, bytes_max).await
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
        self.0.get_stream(uri, session, last_event, auth, headers).await
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
        self.0.get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, bytes_max).await
    }
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
