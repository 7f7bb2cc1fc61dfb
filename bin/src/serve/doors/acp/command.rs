//! `acp`: the agent of an editor, on the log of a folder or in front of a server.

use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::v1::schema::{CancelNotification, ClientRequest};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Agent as AgentRole, Channel, Client, on_receive_notification, on_receive_request};
use clap::Args;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use super::agent::{Agent, Definition};
use super::editor::Editor;
use super::error;
use super::sessions::Sessions;
use super::stdio;
use crate::agent::AgentArgs;
use crate::exit::{Failure, INTERRUPTED};
use crate::interrupt::{self, interrupted};
use crate::label_args::LabelArgs;
use crate::open::{self, OpenArgs};
use crate::toolset::ToolArgs;

/// The most requests in progress.
const REQUESTS_MAX: usize = 128;
/// How many messages wait until they are taken.
const WAITING_MAX: usize = 16;
/// How long requests in progress have to end after the client has closed stdin.
const END_MAX: Duration = Duration::from_secs(1);

/// Serve an agent to an editor that speaks the Agent Client Protocol, over stdin and stdout.
#[derive(Debug, Args)]
#[command(after_help = "\
Sessions are threads, and prompts are runs of them. The log is open from the first session on; other commands read through
this one meanwhile. If a server holds the log, or is named with --server, the threads run there, with its tools.

Example, as editors configure it:
  {\"command\": \"rethread\", \"args\": [\"acp\", \"--data-dir\", \"/path/to/.rethread\", \"--config\", \"/path/to/rethread.toml\"]}")]
pub(crate) struct AcpArgs {
    /// The workflow file, YAML or JSON; without one, an agent with the tools that are offered
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    agent: AgentArgs,
    #[command(flatten)]
    labels: LabelArgs,
    #[command(flatten)]
    tools: ToolArgs,
}

/// A message of the client.
enum Message {
    Request(Box<ClientRequest>, Responder<Value>),
    Cancel(CancelNotification),
    /// Stdin is closed, and all before it was taken.
    Closed,
}

/// Serves until stdin is closed.
pub(crate) async fn acp(open: &OpenArgs, args: AcpArgs) -> Result<ExitCode, Failure> {
    interrupt::catch();
    let definition = Definition::of(args.file.as_deref(), &args.agent)?;
    // What is wrong with the configuration is said now, and not with the first session.
    open.profiles()?;
    definition.file(open)?;
    let agent = Agent {
        open,
        definition,
        labels: args.labels.all()?,
        tools: args.tools,
        editor: Arc::new(Editor::new()),
        sessions: Arc::new(Sessions::default()),
        servers: Default::default(),
        log: Default::default(),
    };
    let served = serve(&agent).await;
    agent.servers.shutdown().await;
    if let Some(log) = agent.log.get() {
        open.end_work(&log.runtime).await;
        let closed = open::close(log.runtime.clone()).await;
        served.and_then(|code| closed.map(|()| code).map_err(Failure::from))
    } else {
        served
    }
}

async fn serve(agent: &Agent<'_>) -> Result<ExitCode, Failure> {
    let (into, mut messages) = mpsc::channel(WAITING_MAX);
    let (ours, theirs) = Channel::duplex();
    let (requests, notifications) = (into.clone(), into.clone());
    let editor = agent.editor.clone();
    let done = CancellationToken::new();
    let all_answered = done.clone();
    let connection = AgentRole
        .v1()
        .name("rethread")
        .on_receive_request(
            async move |request: ClientRequest, responder: Responder<Value>, connection: ConnectionTo<Client>| {
                editor.connected(&connection);
                // The other end is there as long as the connection.
                let _ = requests.send(Message::Request(Box::new(request), responder)).await;
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |cancel: CancelNotification, _: ConnectionTo<Client>| {
                let _ = notifications.send(Message::Cancel(cancel)).await;
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_close(async move |_| {
            let _ = into.send(Message::Closed).await;
            all_answered.cancelled().await;
            Ok(())
        })
        .connect_to(ours);
    let mut connection = std::pin::pin!(connection);
    let mut pump = std::pin::pin!(stdio::pump(theirs, agent.editor.updates()));
    let mut in_progress = FuturesUnordered::new();
    let mut ending = std::pin::pin!(None);
    loop {
        let is_done = in_progress.is_empty();
        tokio::select! {
            Some(message) = messages.recv() => match message {
                Message::Closed => ending.set(Some(tokio::time::sleep(END_MAX))),
                Message::Cancel(cancel) => {
                    let mut cancelling = async move { agent.cancel(&cancel.session_id).await }.boxed_local();
                    // Begun here, so that the next prompt comes after it.
                    if futures::poll!(&mut cancelling).is_pending() {
                        in_progress.push(cancelling);
                    }
                }
                Message::Request(_, responder) if in_progress.len() >= REQUESTS_MAX => {
                    let detail = format!("{REQUESTS_MAX} requests are in progress, which is the limit");
                    let _ = responder.respond_with_error(error::refused(detail));
                }
                Message::Request(request, responder) => {
                    let mut answer = agent.answer(*request, responder).boxed_local();
                    // Begun here, so that a cancellation comes after the prompt that it cancels.
                    if futures::poll!(&mut answer).is_pending() {
                        in_progress.push(answer);
                    }
                }
            },
            Some(()) = in_progress.next() => {}
            () = end(ending.as_mut(), is_done), if ending.is_some() && !done.is_cancelled() => done.cancel(),
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::warn!(error = %error.message, "the connection has failed");
                }
                break;
            }
            done = &mut pump => {
                // The client has gone.
                if let Err(error) = done {
                    tracing::debug!(%error, "stdin or stdout cannot be used");
                }
                return Ok(ExitCode::SUCCESS);
            }
            () = interrupted() => return Ok(ExitCode::from(INTERRUPTED)),
        }
    }
    // Stdin is closed. What was answered is written; runs in progress stop, and go on when their session is loaded.
    let _ = tokio::time::timeout(END_MAX, pump).await;
    Ok(ExitCode::SUCCESS)
}

/// Waits until no request is in progress, or its time is over.
async fn end(ending: Pin<&mut Option<Sleep>>, is_done: bool) {
    if let (false, Some(sleep)) = (is_done, ending.as_pin_mut()) {
        sleep.await;
    }
}
