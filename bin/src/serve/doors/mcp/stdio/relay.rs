//! Messages between stdin and stdout and the door of a server.

use std::collections::{HashMap, HashSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use http::{HeaderName, HeaderValue};
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use rmcp::transport::{StreamableHttpClientTransport, Transport};

use crate::exit::Failure;
use crate::interrupt::interrupted;
use crate::remote::Client;

/// How long the end of a session may take.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// Passes on messages until the client or the server has gone.
pub(super) async fn relay(server: &Client) -> Result<ExitCode, Failure> {
    let (stdin, stdout) = rmcp::transport::stdio();
    let mut here = AsyncRwTransport::<RoleServer, _, _>::new(stdin, stdout);
    let (client, config) = server.mcp()?;
    let mut there = StreamableHttpClientTransport::with_client(Naming(client), config);
    let (mut sent, mut has_begun) = (FuturesUnordered::new(), false);
    // The requests without an answer.
    let mut open = HashSet::new();
    let ended = loop {
        tokio::select! {
            message = here.receive() => {
                let Some(message) = message else { break Ok(ExitCode::SUCCESS) };
                let id = match &message {
                    ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
                    _ => None,
                };
                has_begun = true;
                open.extend(id.clone());
                let sending = there.send(message);
                let mut sending = async move { sending.await.map_err(|error| (id, error.to_string())) }.boxed();
                // Begun here, so that messages keep their order.
                match futures::poll!(&mut sending) {
                    std::task::Poll::Ready(done) => sent.push(std::future::ready(done).boxed()),
                    std::task::Poll::Pending => sent.push(sending),
                }
            }
            message = there.receive() => match message {
                Some(message) => {
                    match &message {
                        ServerJsonRpcMessage::Response(response) => drop(open.remove(&response.id)),
                        ServerJsonRpcMessage::Error(error) => drop(error.id.as_ref().map(|id| open.remove(id))),
                        _ => {}
                    }
                    here.send(message).await?;
                }
                // Each request has an answer, also then.
                None => break Err(Failure::other(format!("the server at {} has ended the connection", server.address()))),
            },
            Some(done) = sent.next() => {
                if let Err((id, error)) = done {
                    let error = format!("the server at {} did not take the request: {error}", server.address());
                    match id {
                        Some(id) => {
                            open.remove(&id);
                            let error = ErrorData::internal_error(error, None);
                            here.send(ServerJsonRpcMessage::error(error, Some(id))).await?;
                        }
                        None => tracing::warn!(%error, "a message is lost"),
                    }
                }
            }
            () = interrupted() => break Ok(ExitCode::SUCCESS),
        }
    };
    if let Err(failure) = &ended {
        while let Some(Some(Err((Some(id), error)))) = sent.next().now_or_never() {
            let error = format!("the server at {} did not take the request: {error}", server.address());
            open.remove(&id);
            here.send(ServerJsonRpcMessage::error(ErrorData::internal_error(error, None), Some(id))).await?;
        }
        for id in open {
            let error = ErrorData::internal_error(failure.message.clone(), None);
            here.send(ServerJsonRpcMessage::error(error, Some(id))).await?;
        }
    }
    // Ends the session. Before the first message there is none, and the end of it would not come.
    if has_begun {
        let _ = tokio::time::timeout(CLOSE_MAX, there.close()).await;
    }
    ended
}

/// Sends messages; an error that names no request is the answer to the message that was sent.
#[derive(Clone)]
struct Naming(reqwest::Client);

type Headers = HashMap<HeaderName, HeaderValue>;
type Failed = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<sse_stream::Sse, SseError>>;

impl StreamableHttpClient for Naming {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let id = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let posted = self.0.post_message(uri, message, session_id, auth_header, custom_headers).await;
        Ok(match posted? {
            StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(mut error), session) => {
                error.id = error.id.or(id);
                StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), session)
            }
            posted => posted,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), Failed> {
        self.0.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<Events, Failed> {
        self.0.get_stream(uri, session_id, last_event_id, auth_header, custom_headers).await
    }
}
