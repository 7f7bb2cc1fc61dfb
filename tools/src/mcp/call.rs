//! One call of a server's tool.

use std::collections::BTreeMap;
use std::sync::Arc;

use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::text::with_sources;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam, ClientRequest, ErrorCode,
    InputRequest, InputRequiredResult, RequestId, ServerResult,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::Value;

use super::config::McpTransport;
use super::connection::Connection;
use super::server::Server;
use super::{answer, handler};
use crate::ToolContext;
use crate::schema::Arguments;
use crate::tool::Answer;

/// Where a server finds the idempotency key of a call.
const KEY: &str = "io.rethread/idempotencyKey";

/// How an `idempotent` tool gets its key: in `_meta`, and in an argument where one is configured.
#[derive(Debug, Clone)]
pub(super) struct KeyPlace {
    pub(super) argument: Option<String>,
}

/// The code of the error in place of an answer that cannot be read, one of those that are free for servers.
pub(super) const UNREADABLE: i32 = -32_093;

/// How often a server may ask for more before it answers.
const N_ROUNDS_MAX: usize = 16;

/// Calls a tool under the server's own name, over a new connection when there is none.
pub(super) async fn call(
    server: &Arc<Server>,
    tool: String,
    arguments: Value,
    output: Option<&Arguments>,
    key: Option<KeyPlace>,
    cx: ToolContext,
) -> Answer {
    let (connection, is_new) = tokio::select! {
        // Before the request is sent the server does nothing.
        connection = server.connection() => connection.map_err(|error| cx.not_started(error.into()))?,
        () = cx.cancel.cancelled() => {
            let error = ExecutionError::new(ErrorKind::Cancelled, "the call was cancelled before it was sent");
            return Err(cx.not_started(error));
        }
    };
    if is_new {
        // It may be another program by now, with other tools.
        server.request_relist();
    }
    let Value::Object(mut arguments) = arguments else {
        return Err(ExecutionError::new(ErrorKind::InvalidArguments, "the arguments must be an object"));
    };
    if let Some(KeyPlace { argument: Some(argument) }) = &key {
        arguments.insert(argument.clone(), Value::from(&*cx.key));
    }
    let mut params = CallToolRequestParams::new(tool).with_arguments(arguments);
    if key.is_some() {
        params.meta.get_or_insert_default().insert(KEY.to_owned(), Value::from(&*cx.key));
    }
    if let Some(span) = cx.traceparent {
        // The key of W3C Trace Context, without a prefix (SEP-414).
        params.meta.get_or_insert_default().set_traceparent(span.to_string());
    }
    for _ in 0..N_ROUNDS_MAX {
        match once(server, &connection, params.clone(), &cx).await {
            Ok(Response::Complete(result)) => return answer::from(result, output),
            Ok(Response::InputRequired(asked)) => {
                params.request_state = asked.request_state.clone();
                params.input_responses = Some(responses(server, asked, &cx).await?);
            }
            Err(Ended::Cancelled) => {
                return Err(ExecutionError::new(
                    ErrorKind::Cancelled,
                    "the call was cancelled and the server notified; its effects until then remain",
                ));
            }
            Err(Ended::Failed(error)) => return Err(failed(server, error)),
        }
    }
    Err(ExecutionError::new(ErrorKind::Limit, format!("the server asked {N_ROUNDS_MAX} times and did not answer")))
}

enum Response {
    Complete(CallToolResult),
    InputRequired(InputRequiredResult),
}

enum Ended {
    Cancelled,
    Failed(ServiceError),
}

/// Sends one request and waits for its response. If the call is cancelled or dropped, the server is notified.
async fn once(
    server: &Arc<Server>,
    connection: &Arc<Connection>,
    params: CallToolRequestParams,
    cx: &ToolContext,
) -> Result<Response, Ended> {
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    // Dropped after the entry among the open calls is.
    let mut unanswered = Unanswered { server, connection, request: None };
    let open = connection.calls.open(cx);
    let sent = connection.peer.send_cancellable_request(request, PeerRequestOptions::no_options());
    let handle = tokio::select! {
        handle = sent => handle.map_err(Ended::Failed)?,
        () = cx.cancel.cancelled() => return Err(Ended::Cancelled),
    };
    open.sent(handle.id.clone(), handle.progress_token.clone());
    unanswered.request = Some(handle.id.clone());
    let response = tokio::select! {
        response = handle.await_response() => response,
        () = cx.cancel.cancelled() => return Err(Ended::Cancelled),
    };
    unanswered.request = None;
    match response.map_err(Ended::Failed)? {
        ServerResult::CallToolResult(result) => Ok(Response::Complete(result)),
        ServerResult::InputRequiredResult(result) => Ok(Response::InputRequired(result)),
        _ => Err(Ended::Failed(ServiceError::UnexpectedResponse)),
    }
}

/// Notifies the server that the call was cancelled, unless it has answered, and checks that it still responds.
struct Unanswered<'a> {
    server: &'a Arc<Server>,
    connection: &'a Arc<Connection>,
    request: Option<RequestId>,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else { return };
        let peer = self.connection.peer.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let reason = Some("the call was cancelled".to_owned());
                let _ = peer.notify_cancelled(CancelledNotificationParam::new(Some(request), reason)).await;
            });
        }
        self.server.check_later(self.connection);
    }
}

/// Answers the server's questions before it continues.
async fn responses(
    server: &Server,
    asked: InputRequiredResult,
    cx: &ToolContext,
) -> Result<BTreeMap<String, Value>, ExecutionError> {
    let mut responses = BTreeMap::new();
    for (name, request) in asked.input_requests.unwrap_or_default() {
        cx.check()?;
        let InputRequest::Elicitation(request) = request else {
            return Err(ExecutionError::new(
                ErrorKind::Failed,
                "the server requires something that this client does not support (sampling, or a list of roots)",
            ));
        };
        let result = handler::ask(&server.config.name, request.params, cx, cx.cancel.clone()).await;
        let result = serde_json::to_value(result)
            .map_err(|error| ExecutionError::new(ErrorKind::Internal, format!("a response is not JSON: {error}")))?;
        responses.insert(name, result);
    }
    Ok(responses)
}

/// Why a request failed, without the names of types.
pub(super) fn reason(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) if error.code.0 == UNREADABLE => {
            format!("its answer cannot be read: {}", error.message)
        }
        ServiceError::TransportSend(error) => match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            Some(StreamableHttpError::UnexpectedServerResponse(reason)) => reason.to_string(),
            _ => with_sources(error.error.as_ref()),
        },
        error => with_sources(error),
    }
}

fn failed(server: &Server, error: ServiceError) -> ExecutionError {
    let text = server.config.scrubbed(&reason(&error));
    let call_failed = format!("the call to the server {} failed: {text}", server.config.label());
    let is_http = matches!(server.config.transport, Ok(McpTransport::Http { .. }));
    match error {
        ServiceError::McpError(error) if error.code.0 == UNREADABLE => {
            ExecutionError::new(ErrorKind::MalformedResponse, call_failed)
        }
        ServiceError::McpError(error) => {
            let kind = match error.code {
                ErrorCode::INVALID_PARAMS => ErrorKind::InvalidArguments,
                ErrorCode::METHOD_NOT_FOUND => ErrorKind::UnknownTool,
                _ => ErrorKind::Failed,
            };
            if kind != ErrorKind::Failed {
                // It may have other tools than it had.
                server.request_relist();
            }
            let message = server.config.scrubbed(&error.message);
            ExecutionError::new(kind, format!("the server refused: {message} ({})", error.code.0))
        }
        ServiceError::TransportSend(_) if is_http => {
            server.request_relist();
            ExecutionError::retryable(ErrorKind::Connection, call_failed)
        }
        ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
            server.request_relist();
            ExecutionError::retryable(
                ErrorKind::Connection,
                format!("the connection to the server {} was lost during the call", server.config.label()),
            )
            .caused_by(text)
        }
        ServiceError::Timeout { .. } => ExecutionError::retryable(ErrorKind::Timeout, text),
        ServiceError::Cancelled { .. } => ExecutionError::new(ErrorKind::Cancelled, text),
        _ => ExecutionError::new(ErrorKind::MalformedResponse, format!("the server's response is invalid: {text}")),
    }
}
