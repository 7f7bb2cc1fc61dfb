//! The API on a socket in the data directory, for as long as a command holds the log: `rethread threads` and the like
//! read through it, and what the threads of the command ask can be answered.

use std::collections::HashSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::{ServerHandle, ServiceRequest};
use actix_web::middleware::{NormalizePath, from_fn};
use actix_web::{App, HttpServer, web};
use parking_lot::Mutex;
use rethread::operate::LogAccess as _;
use rethread::{CallId, Runtime, ThreadId};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::doors::Doors;
use super::problem::{Kind, Problem};
use super::server::{Server, Settings};
use super::tokens::Tokens;
use super::{guard, routes};
use crate::family;
use crate::remote::Socket;
use crate::toolset::Programs;

/// The seconds that a stop waits for answers that are being written.
const STOP_MAX_S: u64 = 5;
/// The largest body of a request, in bytes.
const BODY_BYTES_MAX: usize = 16 << 20;
/// The most subscribers at once.
const SUBSCRIBERS_MAX: usize = 64;
/// The most connections at once.
const CONNECTIONS_MAX: usize = 64;
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// How the paths end of the only requests that may change a thread, beside those that reschedule a wait.
const CHANGES: [&str; 3] = ["/pause", "/cancel", "/respond"];

/// The threads that the command runs, without their branches.
#[derive(Debug, Clone, Default)]
pub(crate) struct Driven(Arc<Mutex<HashSet<ThreadId>>>);

impl Driven {
    pub(crate) fn add(&self, thread: ThreadId) {
        self.0.lock().insert(thread);
    }

    fn has(&self, thread: ThreadId) -> bool {
        self.0.lock().contains(&thread)
    }
}

/// The running server.
pub(crate) struct Local {
    server: web::Data<Server>,
    handle: ServerHandle,
    serving: JoinHandle<io::Result<()>>,
    reading: JoinHandle<()>,
    socket: Socket,
}

impl std::fmt::Debug for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Local").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Local {
    /// Serves the log of a runtime in `data_dir`. The caller holds the lock of that log, so a socket that is there
    /// already belongs to a process that has ended. `programs` are those that the tools of the runtime start.
    ///
    /// # Errors
    /// When there can be no socket in the folder.
    pub(crate) fn start(runtime: &Runtime, data_dir: &Path, driven: Driven, programs: Programs) -> io::Result<Self> {
        let socket = Socket::make(data_dir)?;
        let listener = UnixListener::bind(socket.path())?;
        let settings = Settings {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            // The folder of the socket lets in this user and no other.
            needs_token: false,
            read_only: false,
            is_shared: false,
            driven: Some(driven),
            programs,
            doors: Doors::default(),
            client_tools: Default::default(),
            hosts: Vec::new(),
            origins: Vec::new(),
            workspace: None,
            body_bytes_max: BODY_BYTES_MAX,
            subscribers_max: SUBSCRIBERS_MAX,
            silence_max: SILENCE_MAX,
        };
        let tokens = Tokens::beside(data_dir);
        let server = web::Data::new(Server::new(
            runtime.clone(),
            settings,
            tokens,
            CancellationToken::new(),
            Vec::new(),
            Default::default(),
        ));
        let of_app = server.clone();
        let http = HttpServer::new(move || {
            App::new()
                .app_data(of_app.clone())
                .wrap(from_fn(guard::guard))
                .wrap(NormalizePath::trim())
                .configure(routes::configure)
                .default_service(web::to(routes::nothing))
        })
        .workers(1)
        .max_connections(CONNECTIONS_MAX)
        .disable_signals()
        .shutdown_timeout(STOP_MAX_S)
        .listen_uds(listener)?
        .run();
        let (hub, log) = (server.hub.clone(), runtime.store());
        Ok(Self {
            server,
            handle: http.handle(),
            serving: tokio::spawn(http),
            reading: tokio::spawn(async move { hub.run(log).await }),
            socket,
        })
    }

    /// Finishes the answers that are being written, and removes the socket.
    pub(crate) async fn stop(self) {
        let Self { server, handle, serving, reading, socket } = self;
        // First, so that no request comes that is not answered.
        socket.remove();
        server.stopping.cancel();
        handle.stop(true).await;
        let _ = serving.await;
        reading.abort();
    }
}

/// Checks that no tool of the command can have sent a request that changes something, and that it is about a thread that
/// the command runs: any other thread would begin to run here and be cut off when the command ends.
pub(super) async fn check_change(server: &Server, request: &ServiceRequest, driven: &Driven) -> Result<(), Problem> {
    let pid = std::process::id();
    if server.settings.programs == Programs::Unconfined {
        let detail = format!(
            "this cannot be done now: the command that holds the log (pid {pid}) runs commands or MCP servers \
             that are not isolated, and could have sent the same request: answer in its terminal, wait until it has ended, \
             or start it with --isolate-commands"
        );
        return Err(Problem::new(Kind::Conflict, detail));
    }
    let refuse = |what: String| {
        let detail = format!("{what}: a command (pid {pid}) holds the log; try again when it has ended");
        Err(Problem::new(Kind::Conflict, detail))
    };
    // The route's own parts are not known before it is chosen.
    let parts: Vec<_> = request.path().split('/').collect();
    let is_of_wait = matches!(parts[..], ["", "v1", "threads", _, "waits", _]);
    if !is_of_wait && !CHANGES.iter().any(|end| request.path().ends_with(end)) {
        return refuse("this cannot be done now".into());
    }
    let thread = match parts[..] {
        ["", "v1", "threads", thread, _] | ["", "v1", "threads", thread, "waits", _] => thread.parse().ok(),
        ["", "v1", "interactions", key, _] => CallId::parse_key(key).ok().map(|(thread, _)| thread),
        _ => None,
    };
    let Some(thread) = thread else { return refuse("the thread is not named by its id".into()) };
    let root = family::root_of(&server.runtime, &server.runtime.thread(thread)).await?;
    if driven.has(root.id()) { Ok(()) } else { refuse(format!("thread {thread} does not run in that process")) }
}
