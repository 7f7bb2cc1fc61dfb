//! A log that is open only while a tool works: a coding agent keeps its MCP servers for hours, and meanwhile the user runs
//! other commands on the same log.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix_web::web;
use rethread::Runtime;
use rethread::operate::LogAccess as _;
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::exit::{CONFLICT, Failure, NOT_FOUND};
use crate::open::OpenArgs;
use crate::serve::doors::Doors;
use crate::serve::doors::mcp::log::Purpose;
use crate::serve::local::Driven;
use crate::serve::problem::{Kind, Problem};
use crate::serve::server::{Server, Settings, Shared};
use crate::serve::tokens::Tokens;
use crate::toolset::{Programs, ToolArgs};

/// How long the log stays open after the last tool.
const IDLE: Duration = Duration::from_millis(200);
/// How long one that reads makes way for one that runs.
const TURN: Duration = Duration::from_millis(10);
/// How many requests may follow a run at once.
const SUBSCRIBERS_MAX: usize = 64;
/// The largest body of a request over HTTP, of which there is none.
const BODY_BYTES_MAX: usize = 1 << 20;
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// A log that is open only while a tool works.
pub(in crate::serve::doors::mcp) struct OnDemand {
    template: Template,
    state: Mutex<State>,
    /// Notified when the last user of an open log has left.
    idle: Notify,
    /// How many wait to run threads. Until they do, no other request begins to read.
    n_waiting: AtomicUsize,
}

/// One that waits to run threads.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn begin(n: &'a AtomicUsize) -> Self {
        n.fetch_add(1, Ordering::Relaxed);
        Self(n)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The options of the command.
struct Template {
    server: Option<String>,
    data_dir: std::path::PathBuf,
    store: Option<String>,
    config: Option<std::path::PathBuf>,
    color: crate::output::Color,
    quiet: bool,
    read_only: bool,
    tools: ToolArgs,
}

#[derive(Default)]
struct State {
    open: Option<Held>,
    n_users: usize,
    /// How often a user has come, so that a timer knows whether one came after it was set.
    n_uses: u64,
    is_closed: bool,
}

/// The log while it is open.
struct Held {
    open: OpenArgs,
    runtime: Runtime,
    server: Shared,
    purpose: Purpose,
    reading: JoinHandle<()>,
}

/// The right to use the log.
pub(in crate::serve::doors::mcp) struct Lease {
    log: Arc<OnDemand>,
    pub(in crate::serve::doors::mcp) server: Shared,
    pub(in crate::serve::doors::mcp) driven: Driven,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let log = self.log.clone();
        tokio::spawn(async move { log.leave().await });
    }
}

impl OnDemand {
    pub(in crate::serve::doors::mcp) fn new(open: &OpenArgs, read_only: bool, tools: ToolArgs) -> Self {
        let template = Template {
            server: open.server.clone(),
            data_dir: open.data_dir.clone(),
            store: open.store.clone(),
            config: open.config.clone(),
            color: open.color,
            quiet: open.quiet,
            read_only,
            tools,
        };
        Self { template, state: Mutex::default(), idle: Notify::new(), n_waiting: AtomicUsize::new(0) }
    }

    /// Opens the log, or uses the one that is open. To run threads, waits until those who only read are done.
    pub(in crate::serve::doors::mcp) async fn open(this: &Arc<Self>, purpose: Purpose) -> Result<Lease, Problem> {
        let _waits = (purpose == Purpose::Run).then(|| Waits::begin(&this.n_waiting));
        loop {
            let mut state = this.state.lock().await;
            if state.is_closed {
                return Err(Problem::stopping());
            }
            let is_wanted = this.n_waiting.load(Ordering::Relaxed) > 0;
            let fits = state.open.as_ref().map(|held| {
                // Others that only read make way for one that runs.
                held.purpose == Purpose::Run || (held.purpose == purpose && !is_wanted)
            });
            match fits {
                Some(true) => {}
                Some(false) if state.n_users > 0 => {
                    let idle = this.idle.notified();
                    drop(state);
                    // It may have become idle before.
                    let _ = tokio::time::timeout(IDLE, idle).await;
                    continue;
                }
                // The one that waits comes first.
                Some(false) if purpose == Purpose::Read => {
                    drop(state);
                    tokio::time::sleep(TURN).await;
                    continue;
                }
                Some(false) => {
                    if let Some(held) = state.open.take() {
                        held.close().await;
                    }
                    continue;
                }
                None => state.open = Some(Held::open(&this.template, purpose).await.map_err(problem)?),
            }
            if let Some(held) = &state.open {
                let (server, driven) = (held.server.clone(), held.open.driven.clone());
                state.n_users += 1;
                state.n_uses += 1;
                return Ok(Lease { log: this.clone(), server, driven });
            }
        }
    }

    async fn leave(self: Arc<Self>) {
        let n_uses = {
            let mut state = self.state.lock().await;
            state.n_users -= 1;
            if state.n_users > 0 {
                return;
            }
            self.idle.notify_waiters();
            state.n_uses
        };
        tokio::time::sleep(IDLE).await;
        let mut state = self.state.lock().await;
        if state.n_users == 0
            && state.n_uses == n_uses
            && let Some(held) = state.open.take()
        {
            held.close().await;
        }
    }

    /// Closes the log for good. Runs in progress stop, and go on with `rethread resume`.
    pub(super) async fn close(&self) {
        let mut state = self.state.lock().await;
        state.is_closed = true;
        if let Some(held) = state.open.take() {
            held.close().await;
        }
    }
}

impl Held {
    async fn open(template: &Template, purpose: Purpose) -> Result<Self, Failure> {
        let Template { server, data_dir, store, config, color, quiet, read_only, tools } = template;
        let open = OpenArgs {
            command: "mcp".into(),
            equipped: Mutex::default(),
            configuration: Default::default(),
            found: Default::default(),
            holder: Default::default(),
            local: Mutex::default(),
            driven: Driven::default(),
            traces: Default::default(),
            shared: Default::default(),
            server: server.clone(),
            data_dir: data_dir.clone(),
            store: store.clone(),
            config: config.clone(),
            color: *color,
            quiet: *quiet,
        };
        let runtime = match purpose {
            Purpose::Read => {
                let runtime = open.open_to_read().await?;
                open.serve_socket_while_reading(&runtime).await;
                runtime
            }
            Purpose::Run if *read_only => {
                return Err(Failure::new(CONFLICT, "`rethread mcp` was started with --read-only, and runs nothing"));
            }
            Purpose::Run => match open.server().await? {
                Some(server) => {
                    let at = server.address();
                    let message = format!(
                        "the server at {at} has taken the log since `rethread mcp` began: start it again, and it works with \
                         that server"
                    );
                    return Err(Failure::new(CONFLICT, message));
                }
                None => {
                    // The workflows are in the log: without one there is nothing to run.
                    open.check_log()?;
                    open.work(tools).await?
                }
            },
        };
        let settings = Settings {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            needs_token: false,
            read_only: *read_only,
            is_shared: false,
            driven: None,
            programs: Programs::None,
            doors: Doors::default(),
            client_tools: Default::default(),
            hosts: Vec::new(),
            origins: Vec::new(),
            workspace: tools.folder(),
            body_bytes_max: BODY_BYTES_MAX,
            subscribers_max: SUBSCRIBERS_MAX,
            silence_max: SILENCE_MAX,
        };
        let tokens = Tokens::beside(data_dir);
        let stopping = CancellationToken::new();
        let server = Server::new(runtime.clone(), settings, tokens, stopping, Vec::new(), Default::default());
        let server = web::Data::new(server);
        let (hub, log) = (server.hub.clone(), runtime.store());
        let reading = tokio::spawn(async move { hub.run(log).await });
        Ok(Self { open, runtime, server, purpose, reading })
    }

    async fn close(self) {
        let Self { open, runtime, server, purpose: _, reading } = self;
        server.stopping.cancel();
        reading.abort();
        open.stop().await;
        // One that only reads is not stopped by that.
        if let Err(error) = runtime.shutdown().await {
            tracing::debug!(%error, "the log was not closed in good order");
        }
    }
}

/// A failure of a command as a problem of a request.
fn problem(failure: Failure) -> Problem {
    let kind = match failure.code {
        NOT_FOUND => Kind::NoSuchPart,
        CONFLICT => Kind::Conflict,
        _ => Kind::Internal,
    };
    Problem::new(kind, failure.message)
}
