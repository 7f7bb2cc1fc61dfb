//! `mcp`: the door over stdin and stdout, on the log of this folder or in front of a server.

pub(super) mod on_demand;
mod relay;

use std::io;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use clap::Args;
use rmcp::service::{QuitReason, serve_server};
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

use self::on_demand::OnDemand;
use super::handler::Mcp;
use super::log::Log;
use crate::exit::{Failure, INTERRUPTED};
use crate::interrupt::{self, interrupted};
use crate::open::OpenArgs;
use crate::serve::doors::caller::Caller;
use crate::toolset::ToolArgs;

/// Serve workflows and debugging commands to an MCP client over stdin and stdout.
#[derive(Debug, Args)]
#[command(after_help = "\
The log is open only while a tool works, so that other commands can use it. If a server holds it, or is named with --server,
the requests go to its /mcp with the token in RETHREAD_TOKEN.

Example, as clients configure it:
  {\"mcpServers\": {\"rethread\": {\"command\": \"rethread\", \"args\": [\"mcp\", \"--data-dir\", \"/path/to/.rethread\"]}}}")]
pub(crate) struct McpArgs {
    /// Only read: offer the debugging tools, and run no workflow
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    tools: ToolArgs,
}

/// Serves until stdin is closed.
pub(crate) async fn mcp(open: &OpenArgs, args: McpArgs) -> Result<ExitCode, Failure> {
    interrupt::catch();
    if let Some(server) = open.server().await? {
        if args.read_only {
            let at = server.address();
            let message =
                format!("--read-only: the tools are those of {at}: give it a token of the scope `read` instead");
            return Err(Failure::new(2, message));
        }
        let is_given = args.tools.allow_write || args.tools.allow_commands || args.tools.more.first().is_some();
        if is_given {
            server.can_run(open, &args.tools).await?;
        }
        server.can_continue(&args.tools)?;
        return relay::relay(server).await;
    }
    // What is wrong with the configuration is said now, and not with the first request.
    open.profiles()?;
    let log = Arc::new(OnDemand::new(open, args.read_only, args.tools));
    let (stdin, stdout) = rmcp::transport::stdio();
    let stdin = UntilClosed { reader: stdin, closed: CancellationToken::new() };
    let mcp = Mcp::of(Caller::command(), Log::OnDemand(log.clone()), stdin.closed.clone());
    let serving = async {
        let served = serve_server(mcp, (stdin, stdout)).await;
        match served {
            Ok(service) => match service.waiting().await {
                Ok(QuitReason::JoinError(error)) | Err(error) => {
                    Err(Failure::other(format!("the server failed: {error}")))
                }
                Ok(_) => Ok(ExitCode::SUCCESS),
            },
            // The client left before it said anything.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(ExitCode::SUCCESS),
            Err(error) => Err(Failure::other(format!("the client did not begin as MCP asks for: {error}"))),
        }
    };
    let served = tokio::select! {
        served = serving => served,
        () = interrupted() => Ok(ExitCode::from(INTERRUPTED)),
    };
    log.close().await;
    served
}

/// A reader that says when it is at its end. Requests that wait for a run end then: otherwise the transport waits for them for
/// some seconds before it ends.
struct UntilClosed<R> {
    reader: R,
    closed: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for UntilClosed<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (n_before, has_room) = (buf.filled().len(), buf.remaining() > 0);
        let read = ready!(Pin::new(&mut self.reader).poll_read(cx, buf));
        if read.is_err() || has_room && buf.filled().len() == n_before {
            self.closed.cancel();
        }
        Poll::Ready(read)
    }
}
