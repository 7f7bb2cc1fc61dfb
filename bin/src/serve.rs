//! `serve`: the log and its threads over HTTP.

mod archive;
mod beginning;
mod control;
mod counters;
pub(crate) mod doors;
mod event_filter;
mod events;
mod explain;
mod extract;
mod feed;
mod fork;
mod graph;
mod guard;
mod health;
mod idempotency;
pub(crate) mod incoming;
mod interactions;
mod large;
pub(crate) mod local;
mod log;
mod maintenance;
mod media;
mod memories;
mod messages;
mod metrics;
mod migrate;
mod moments;
mod openapi;
mod page;
mod problem;
mod request;
mod rerun;
mod routes;
mod runs;
mod schedules;
pub(crate) mod schemas;
mod server;
mod session;
mod signals;
mod signature;
mod surroundings;
mod threads;
pub(crate) mod tokens;
mod usage;
pub(crate) mod webhook;
mod workflows;
mod written;

use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::process::ExitCode;
use std::time::Duration;

use actix_web::http::KeepAlive;
use actix_web::middleware::{Compress, NormalizePath, from_fn};
use actix_web::{App, HttpServer, web};
use clap::Args;
use rethread::Runtime;
use rethread::operate::LogAccess as _;
use rethread::store::StoreError;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "acp")]
pub(crate) use self::doors::acp::command as acp;
pub(crate) use self::doors::mcp::stdio as mcp;
use self::idempotency::blocking;
use self::server::{Server, Settings};
use self::tokens::Tokens;
#[cfg(feature = "jetstream")]
use crate::event_stream;
use crate::exit::{CONFLICT, Failure, INVALID};
use crate::interrupt::{self, interrupted};
use crate::open::{self, OpenArgs};
#[cfg(feature = "otlp")]
use crate::otlp;
use crate::output;
use crate::remote::TOKEN;
use crate::toolset::{Programs, ToolArgs};

/// How long a stop waits for answers that are being written.
const STOP_MAX_S: u64 = 10;
/// How long a client may take to send the head of a request.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// How long a connection without a request is kept.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// How often it looks whether another process has taken over the log.
const LOOK: Duration = Duration::from_secs(1);
/// How often idempotency keys that are old are forgotten.
const SWEEP: Duration = Duration::from_secs(3_600);

/// Serve the log and its threads over HTTP. /v1/openapi.json describes the API.
#[derive(Debug, Args)]
#[command(after_help = "\
On a loopback address each request needs a token if tools run commands or MCP servers, which could approve their own calls.
If no token exists, the server creates one for this start and prints it with its address. Without such tools, every program
that reaches the address can do everything, unless --require-token is given.
On another address each request needs a token: rethread token create --scope operate

Ctrl-C or SIGTERM stops the server gracefully; a second one stops it at once.")]
pub(crate) struct ServeArgs {
    /// The address to listen on; port 0 for any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7117")]
    listen: String,
    /// Only read: run no thread and change nothing
    #[arg(long)]
    read_only: bool,
    /// Have the log together with other servers, each of which runs a part of the threads. Only for a log in a stream (--store)
    #[arg(long, conflicts_with = "read_only")]
    shared: bool,
    /// Require a token on a loopback address too
    #[arg(long)]
    require_token: bool,
    /// Require no token on a loopback address; unsafe: commands and MCP servers can approve their own calls
    #[arg(long, conflicts_with = "require_token")]
    no_token: bool,
    /// Accept requests to this host name, in addition to the server's address and localhost
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Accept requests from pages of this origin, such as https://example.org
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// The maximum number of connections
    #[arg(long, value_name = "N", default_value_t = 4_096, value_parser = clap::value_parser!(u32).range(1..))]
    connections_max: u32,
    /// The maximum number of followers of the log
    #[arg(long, value_name = "N", default_value_t = 2_048, value_parser = clap::value_parser!(u32).range(1..))]
    subscribers_max: u32,
    /// The largest request body, in bytes
    #[arg(long, value_name = "N", default_value_t = 16 << 20, value_parser = clap::value_parser!(u32).range(1..))]
    body_bytes_max: u32,
    /// The time between keep-alive comments in streams, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 15_000, value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    keep_alive_ms: u64,
    /// The time between a stop request and the stop, with 503 at /health/ready for load balancers, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=600_000))]
    drain_ms: u64,
    /// Post events to this address, or to the addresses in this file (`[webhooks.NAME]`), in addition to rethread.toml
    #[arg(long, value_name = "URL|FILE")]
    webhook: Vec<String>,
    #[command(flatten)]
    tools: ToolArgs,
}

/// Serves until a signal asks it to stop.
///
/// The HTTP server's workers are threads with event loops of their own, so it needs no actix system and runs under this
/// program's runtime, whose one worker only listens for signals and sweeps. The threads of workflows run on the
/// arbiters of the `Runtime`, as everywhere: a slow answer and a busy thread do not wait for each other.
pub(crate) async fn serve(open: &OpenArgs, args: ServeArgs) -> Result<ExitCode, Failure> {
    open.only_here("a server serves a log of this machine")?;
    interrupt::catch();
    // Before any tool can run, which could create tokens.
    open.profiles()?;
    let programs = Programs::of(open, &args.tools)?;
    let mut tokens = Tokens::beside(&open.data_dir);
    let webhooks = webhook::read(open, &args.webhook)?;
    if args.read_only && !webhooks.is_empty() {
        let message = "--read-only and webhooks do not go together: a webhook stores its position in the log";
        return Err(Failure::new(INVALID, message));
    }
    #[cfg(feature = "jetstream")]
    let published = match event_stream::read(open.store.as_deref(), open.config())? {
        Some(_) if args.read_only => {
            let message = "--read-only and [events] do not go together: what is published is noted in the log";
            return Err(Failure::new(INVALID, message));
        }
        published => published,
    };
    #[cfg(feature = "otlp")]
    let mut telemetry = match otlp::read(open.config(), &otlp::variable)? {
        Some(_) if args.read_only => {
            let message = "--read-only and [telemetry] do not go together: the export of traces stores its position in \
                           the log";
            return Err(Failure::new(INVALID, message));
        }
        telemetry => telemetry,
    };
    // A read-only server refuses deliveries before it reads them, so it needs no secrets of theirs.
    let incoming = if args.read_only { Default::default() } else { incoming::read(open.config())? };
    let listener = listen(&args, &tokens)?;
    let address = listener.local_addr()?;
    let doors = open.config().doors.get()?.clone().doors(address.ip().is_loopback());
    let url = format!("http://{address}");
    // Where nothing is changed, no call is approved.
    let runs_programs = programs != Programs::None && !args.read_only && !args.no_token;
    let token = if runs_programs { token_for(open, &args, programs, &mut tokens)? } else { None };
    let opening = open.serve(&args.tools, &url, args.read_only);
    if args.shared {
        open.share();
        #[cfg(feature = "otlp")]
        if let Some(telemetry) = &mut telemetry {
            telemetry.target.tell_apart(&url);
        }
    }
    let runtime = opening.await?;
    let lower = |names: &[String]| names.iter().map(|name| name.trim_end_matches('/').to_ascii_lowercase()).collect();
    let settings = Settings {
        address,
        needs_token: args.require_token || runs_programs || !address.ip().is_loopback(),
        read_only: args.read_only,
        is_shared: args.shared,
        driven: None,
        programs,
        doors,
        client_tools: open.config().client_tools.get()?.keys().cloned().collect(),
        hosts: lower(&args.allow_host),
        origins: lower(&args.allow_origin),
        workspace: args.tools.folder(),
        body_bytes_max: args.body_bytes_max as usize,
        subscribers_max: args.subscribers_max as usize,
        silence_max: Duration::from_millis(args.keep_alive_ms),
    };
    let stopping = CancellationToken::new();
    let webhooks = webhook::start(webhooks, &runtime, &stopping).await?;
    #[cfg(feature = "jetstream")]
    let publishing = match published {
        Some(published) => Some(event_stream::start(published, &runtime, &stopping).await?),
        None => None,
    };
    #[cfg(feature = "otlp")]
    let exporting = match telemetry {
        Some(telemetry) => Some(otlp::start(telemetry, &runtime, &stopping).await?),
        None => None,
    };
    let deeds = webhooks.iter().map(|webhook| (webhook.name.clone(), webhook.deeds.clone())).collect();
    let server = Server::new(runtime.clone(), settings, tokens, stopping, deeds, incoming);
    #[cfg(feature = "jetstream")]
    let server = server.with_publisher(publishing.as_ref().map(|publishing| publishing.stats.clone()));
    #[cfg(feature = "otlp")]
    let server = server.with_export(exporting.as_ref().map(|exporting| exporting.stats.clone()));
    let server = web::Data::new(server);
    let of_app = server.clone();
    let n_workers = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
    let http = HttpServer::new(move || {
        App::new()
            .app_data(of_app.clone())
            .wrap(Compress::default())
            .wrap(from_fn(guard::guard))
            .wrap(NormalizePath::trim())
            .configure(routes::configure)
            .default_service(web::to(routes::nothing))
    })
    .workers(n_workers)
    .max_connections((args.connections_max as usize).div_ceil(n_workers))
    .client_request_timeout(HEAD_MAX)
    .keep_alive(KeepAlive::Timeout(KEEP_ALIVE))
    .tcp_nodelay(true)
    .disable_signals()
    .shutdown_timeout(STOP_MAX_S)
    .listen(listener)?
    .run();
    let handle = http.handle();
    let http = tokio::spawn(http);
    if open.prints_messages() {
        // Browsers do not send what follows the `#`.
        let with_token = token.as_ref().map(|token| format!("{url}/#token={token}"));
        output::print_message(&format!(
            "serving {} at {}",
            open.data_dir.display(),
            with_token.as_ref().unwrap_or(&url)
        ));
        if token.is_some() {
            output::print_message(&format!(
                "each request needs the token in this address; commands take it from {TOKEN}"
            ));
        }
        if args.read_only {
            output::print_message("read-only: nothing runs and nothing is changed");
        }
    }
    let sweeping = tokio::spawn(sweep(server.clone()));
    let (hub, log) = (server.hub.clone(), runtime.store());
    let reading = tokio::spawn(async move { hub.run(log).await });
    let lost = tokio::select! {
        () = interrupted() => None,
        error = lost(&runtime) => Some(error),
    };
    if open.prints_messages() && lost.is_none() {
        output::print_message("stopping: finishing open requests; a second signal stops at once");
    }
    server.stopping.cancel();
    if args.drain_ms > 0 && lost.is_none() {
        // A second signal ends the program at once, here as everywhere.
        tokio::time::sleep(Duration::from_millis(args.drain_ms)).await;
    }
    sweeping.abort();
    reading.abort();
    handle.stop(true).await;
    let served = http.await;
    for webhook in webhooks {
        webhook.ended().await;
    }
    #[cfg(feature = "jetstream")]
    if let Some(publishing) = publishing {
        publishing.ended().await;
    }
    #[cfg(feature = "otlp")]
    if let Some(exporting) = exporting {
        exporting.ended().await;
    }
    let closed = open::close(runtime).await;
    if let Some(error) = lost {
        return Err(match error {
            StoreError::Locked { holder, .. } => {
                Failure::new(CONFLICT, format!("{holder} has taken over the log, so this server ends: start it again"))
            }
            StoreError::Stopped { log, why } => Failure::other(format!(
                "the copy of the log {log} has stopped ({why}), so this server ends: start it again"
            )),
            error => Failure::other(error),
        });
    }
    closed?;
    match served {
        Ok(Ok(())) => Ok(ExitCode::SUCCESS),
        Ok(Err(error)) => Err(error.into()),
        Err(error) => Err(Failure::other(format!("the server failed: {error}"))),
    }
}

/// Returns when this process cannot go on with the log: another one has taken it over, or its copy has stopped.
async fn lost(runtime: &Runtime) -> StoreError {
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let store = runtime.store();
        if let Ok(Err(error @ (StoreError::Locked { .. } | StoreError::Stopped { .. }))) =
            blocking(move || store.check_writable()).await
        {
            return error;
        }
    }
}

fn listen(args: &ServeArgs, tokens: &Tokens) -> Result<TcpListener, Failure> {
    let text = &args.listen;
    let addresses: Vec<SocketAddr> = text
        .to_socket_addrs()
        .map_err(|error| {
            Failure::new(2, format!("--listen {text}: expected an address such as 127.0.0.1:7117 ({error})"))
        })?
        .collect();
    let is_elsewhere = addresses.iter().any(|address| !address.ip().is_loopback());
    if is_elsewhere && args.no_token {
        let message =
            format!("--no-token is for loopback addresses, and {text} is not a loopback address: leave it out");
        return Err(Failure::new(2, message));
    }
    if is_elsewhere || args.require_token {
        let known = tokens.list().map_err(|error| Failure::new(INVALID, error))?;
        if known.is_empty() {
            let why = if is_elsewhere { "is not a loopback address" } else { "needs tokens" };
            let message = format!(
                "--listen {text} {why}, and there is no token yet: create one with \
                 `rethread token create --scope operate`, or listen on 127.0.0.1"
            );
            return Err(Failure::new(INVALID, message));
        }
    }
    TcpListener::bind(&addresses[..]).map_err(|error| {
        let message =
            format!("cannot listen at {text}: {error}; choose another with --listen, or port 0 for any that is free");
        Failure::other(message)
    })
}

/// Settles the tokens of a server whose tools run programs. Gives the one that is made if none exists on a loopback
/// address.
///
/// # Errors
/// When a token would have to be made and stderr is a file or a log, which tools can read (exit code 3).
fn token_for(
    open: &OpenArgs,
    args: &ServeArgs,
    programs: Programs,
    tokens: &mut Tokens,
) -> Result<Option<String>, Failure> {
    let failed = |error| Failure::new(INVALID, error);
    if programs == Programs::Unconfined {
        tokens.trust_present().map_err(failed)?;
    }
    if !tokens.list().map_err(failed)?.is_empty() {
        return Ok(None);
    }
    if !open.prints_messages() || !output::stderr_is_terminal_or_pipe() {
        let message = format!(
            "--listen {}: tools run commands or MCP servers, so a token is needed, and it is printed only on a terminal or \
             a pipe: create one with `rethread token create --scope operate`, or accept that tools can approve their own \
             calls (--no-token)",
            args.listen
        );
        return Err(Failure::new(INVALID, message));
    }
    tokens.make_for_process().map(Some).map_err(failed)
}

/// Forgets old idempotency keys, now and every hour.
async fn sweep(server: web::Data<Server>) {
    loop {
        if !server.settings.read_only
            && let Err(problem) = server.keys.sweep().await
        {
            tracing::warn!(%problem, "cannot remove old idempotency keys");
        }
        tokio::time::sleep(SWEEP).await;
    }
}
