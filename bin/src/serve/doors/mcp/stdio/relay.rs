//! Messages between stdin and stdout and the door of a server.

use std::process::ExitCode;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::async_rw::AsyncRwTransport;
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
    let mut there = StreamableHttpClientTransport::with_client(client, config);
    let (mut sent, mut has_begun) = (FuturesUnordered::new(), false);
    let ended = loop {
        tokio::select! {
            message = here.receive() => {
                let Some(message) = message else { break Ok(ExitCode::SUCCESS) };
                let id = match &message {
                    ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
                    _ => None,
                };
                has_begun = true;
                let sending = there.send(message);
                let mut sending = async move { sending.await.map_err(|error| (id, error.to_string())) }.boxed();
                // Begun here, so that messages keep their order.
                match futures::poll!(&mut sending) {
                    std::task::Poll::Ready(done) => sent.push(std::future::ready(done).boxed()),
                    std::task::Poll::Pending => sent.push(sending),
                }
            }
            message = there.receive() => match message {
                Some(message) => here.send(message).await?,
                None => break Err(Failure::other(format!("the server at {} has ended the connection", server.address()))),
            },
            Some(done) = sent.next() => {
                if let Err((id, error)) = done {
                    let error = format!("the server at {} did not take the request: {error}", server.address());
                    match id {
                        Some(id) => {
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
    // Ends the session. Before the first message there is none, and the end of it would not come.
    if has_begun {
        let _ = tokio::time::timeout(CLOSE_MAX, there.close()).await;
    }
    ended
}
