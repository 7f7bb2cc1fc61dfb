//! One connection to a server: how it is made and how it ends.

mod lines;
mod readable;
mod traced_http;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::header::{HeaderName, HeaderValue};
use rethread_events::text::{is_loopback, with_sources};
use rmcp::RoleClient;
use rmcp::model::{ClientRequest, PingRequest, ProtocolVersion};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, Peer, RunningService, RunningServiceCancellationToken, ServiceError,
    serve_client_with_lifecycle,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::io::{AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr};
use tokio::time::timeout;

use super::config::McpTransport;
use super::handler::{Calls, Handler};
use super::server::Server;
use crate::NamedFiles;
use crate::command::Launch;
use crate::process::{Group, environment};
use lines::Lines;
use traced_http::TracedHttp;

/// The bytes of one message of a server.
const MESSAGE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// How much of what a server says on standard error is kept, for the error that says why it does not work.
const STDERR_BYTES_MAX: usize = 2 * 1024;
/// How long that is waited for when it does not work.
const STDERR_WAIT: Duration = Duration::from_millis(300);
/// How long the output of a process that has ended is read.
const READ_MAX: Duration = Duration::from_millis(300);
/// How long `rmcp` waits for an answer in the newest version of the protocol before it asks in an older one.
const DISCOVER_MAX: Duration = Duration::from_secs(10);
/// How long a server has to end by itself when its input is closed, and again when it is asked to.
const END: Duration = Duration::from_millis(800);

/// An open connection. Dropping it closes it and kills its process.
pub(super) struct Connection {
    /// Dropped first, so that a process sees its input end before it is killed.
    service: tokio::sync::Mutex<Option<RunningService<RoleClient, Handler>>>,
    pub(super) peer: Peer<RoleClient>,
    pub(super) calls: Arc<Calls>,
    process: Arc<Mutex<Option<Process>>>,
    /// Whether a call was given up since the last response.
    is_suspect: AtomicBool,
}

struct Process {
    group: Group,
    /// Waited for by the runtime when it is dropped; by then the group has been killed.
    child: Child,
}

impl Connection {
    /// Connects. The error says what went wrong, secrets left out.
    pub(super) async fn open(server: &Arc<Server>) -> Result<Self, String> {
        let config = &server.config;
        let transport = config.transport.as_ref().map_err(Clone::clone)?;
        let opened = timeout(config.connect_timeout, async {
            match transport {
                McpTransport::Process { command, args, env, cwd } => {
                    Self::start(server, command, args, env, cwd.as_deref()).await
                }
                McpTransport::Http { url, headers } => Self::connect_http(server, url, headers).await,
            }
        });
        let opened = opened.await.unwrap_or_else(|_| {
            let waited = config.connect_timeout;
            let more = match waited <= DISCOVER_MAX {
                true => "; one that ignores unknown methods answers after 10 s: raise connect_timeout",
                false => "",
            };
            Err(format!("it did not answer within {} ms{more}", waited.as_millis()))
        });
        opened.map_err(|error| config.located(&error))
    }

    async fn start(
        server: &Arc<Server>,
        command: &str,
        args: &[String],
        env: &BTreeMap<String, String>,
        cwd: Option<&str>,
    ) -> Result<Self, String> {
        let mut environment = environment::allowed(&[]);
        environment.extend(env.iter().map(|(name, value)| (name.into(), value.into())));
        let folder = cwd.map_or_else(std::env::current_dir, std::path::absolute);
        let folder = folder.map_err(|error| format!("its folder cannot be found: {error}"))?;
        let arguments = args.iter().map(Into::into).collect();
        let named = NamedFiles::of(command, args, env, &folder);
        let own_files = named.programs.into_iter().chain(named.files).collect();
        let launch = Launch { program: command.into(), arguments, environment, folder, has_input: true, own_files };
        let isolation = &server.config.isolation;
        let spawned = isolation.spawn(launch, &server.workspace).await;
        let (mut child, group) = spawned.map_err(|error| error.message)?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("the process has no standard streams".to_owned());
        };
        let stderr_text = Arc::new(Mutex::new(Vec::new()));
        let listening = tokio::spawn(listen(stderr, server.config.name.clone(), Arc::clone(&stderr_text)));
        let stdout = BufReader::new(Lines::new(stdout, MESSAGE_BYTES_MAX));
        let (handler, calls) = Handler::new(server);
        let process_ended = group.leader_ends();
        // A child of a server that has ended may hold its output open.
        let served = tokio::select! {
            served = serve_client_with_lifecycle(handler, (stdout, stdin), lifecycle()) => served.map_err(Some),
            () = lost(&group) => Err(None),
        };
        let service = match served {
            Ok(service) => service,
            Err(error) => {
                // What it said last may still be on its way, and is mostly the reason.
                let _ = timeout(STDERR_WAIT, listening).await;
                // That a pipe is closed follows from its end, and may be seen before it.
                let has_ended = timeout(STDERR_WAIT, group.leader_ended()).await.is_ok();
                let reason = match &error {
                    Some(error) if !(has_ended && is_lost(error)) => describe(error),
                    _ => "its process ended before it answered".to_owned(),
                };
                let stderr_text = stderr_text.lock();
                let stderr_text = String::from_utf8_lossy(&stderr_text);
                let stderr_text = if stderr_text.trim().is_empty() {
                    String::new()
                } else {
                    format!("; its stderr: {}", stderr_text.trim())
                };
                let advice = match isolation.holds() && !stderr_text.is_empty() {
                    true => {
                        "; it runs isolated: name folders that it writes in `isolation.writable`, or set `isolation` to \
                             false"
                    }
                    false => "",
                };
                return Err(format!("{reason}{stderr_text}{advice}"));
            }
        };
        let stop = service.cancellation_token();
        let connection = Self::new(service, calls, Some(Process { group, child }));
        tokio::spawn(watch(process_ended, Arc::downgrade(&connection.process), stop));
        Ok(connection)
    }

    async fn connect_http(server: &Arc<Server>, url: &str, headers: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut custom = HashMap::new();
        for (name, value) in headers {
            let header: HeaderName = name.parse().map_err(|_| format!("`{name}` is not a valid header name"))?;
            let mut value: HeaderValue =
                value.parse().map_err(|_| format!("the value of the header `{name}` cannot be sent"))?;
            value.set_sensitive(true);
            custom.insert(header, value);
        }
        let mut config = StreamableHttpClientTransportConfig::with_uri(url);
        config.custom_headers = custom;
        config.max_sse_event_size = MESSAGE_BYTES_MAX;
        // A redirect could carry the headers to another host.
        let is_own = reqwest::Url::parse(url).is_ok_and(|url| url.host_str().is_some_and(is_loopback));
        let client = reqwest::Client::builder();
        // A proxy of the environment does not reach this machine's own addresses.
        let client = if is_own { client.no_proxy() } else { client };
        let client = client
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(server.config.connect_timeout)
            .build()
            .map_err(|error| error.to_string())?;
        let transport = StreamableHttpClientTransport::with_client(TracedHttp(client), config);
        let (handler, calls) = Handler::new(server);
        let service =
            serve_client_with_lifecycle(handler, transport, lifecycle()).await.map_err(|error| describe(&error))?;
        Ok(Self::new(service, calls, None))
    }

    fn new(service: RunningService<RoleClient, Handler>, calls: Arc<Calls>, process: Option<Process>) -> Self {
        let peer = service.peer().clone();
        Self {
            service: tokio::sync::Mutex::new(Some(service)),
            peer,
            calls,
            process: Arc::new(Mutex::new(process)),
            is_suspect: AtomicBool::new(false),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// A call was given up: perhaps nothing is answered any more.
    pub(super) fn mark_suspect(&self) {
        self.is_suspect.store(true, Ordering::Release);
    }

    pub(super) fn is_suspect(&self) -> bool {
        self.is_suspect.load(Ordering::Acquire)
    }

    /// Whether any answer arrives in time, even an error.
    pub(super) async fn responds(&self, wait: Duration) -> bool {
        let ping = self.peer.send_request(ClientRequest::PingRequest(PingRequest::default()));
        let answers = matches!(timeout(wait, ping).await, Ok(Ok(_) | Err(ServiceError::McpError(_))));
        if answers {
            self.is_suspect.store(false, Ordering::Release);
        }
        answers
    }

    /// Closes it in good order: a process sees the end of its input, then SIGTERM, then SIGKILL.
    pub(super) async fn close(&self) {
        if let Some(mut service) = self.service.lock().await.take() {
            let _ = service.close_with_timeout(END).await;
        }
        let process = self.process.lock().take();
        if let Some(mut process) = process {
            if timeout(END, process.group.leader_ended()).await.is_err() {
                process.group.terminate();
                let _ = timeout(END, process.group.leader_ended()).await;
            }
            process.group.kill();
            process.group.wait_until_gone().await;
            let _ = process.child.wait().await;
        }
    }
}

/// Ends a connection when its process has ended: a child of the process may hold its output open, and no call would end.
/// What the process wrote before is read.
async fn watch(
    ended: impl Future<Output = ()>,
    process: Weak<Mutex<Option<Process>>>,
    stop: RunningServiceCancellationToken,
) {
    ended.await;
    if let Some(process) = process.upgrade()
        && let Some(process) = process.lock().as_mut()
    {
        process.group.kill();
    }
    tokio::time::sleep(READ_MAX).await;
    stop.cancel();
}

/// Returns when the process has ended, and all that it wrote can have been read.
async fn lost(group: &Group) {
    group.leader_ended().await;
    tokio::time::sleep(READ_MAX).await;
}

/// The newest generation of the protocol with those that speak it, the older one with the others.
fn lifecycle() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto { preferred_versions: vec![ProtocolVersion::V_2026_07_28], legacy_version: None }
}

/// Reads what a process says beside the protocol: for the log, and the last of it for errors.
async fn listen(mut stderr: ChildStderr, server: String, stderr_text: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; 4096];
    while let Ok(n_read @ 1..) = stderr.read(&mut buffer).await {
        let text = String::from_utf8_lossy(&buffer[..n_read]);
        tracing::debug!(server, text = %text.trim_end(), "stderr of an MCP server");
        let mut stderr_text = stderr_text.lock();
        stderr_text.extend_from_slice(&buffer[..n_read]);
        let n_over = stderr_text.len().saturating_sub(STDERR_BYTES_MAX);
        stderr_text.drain(..n_over);
    }
}

/// Whether the connection ended without an answer.
fn is_lost(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::TransportError { .. } | ClientInitializeError::ConnectionClosed(_) => true,
        ClientInitializeError::LegacyFallbackFailed { discover, fallback } => is_lost(discover) && is_lost(fallback),
        _ => false,
    }
}

/// Why a connection did not come about, without the names of types.
fn describe(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, context } => {
            format!("{} ({context})", with_sources(error.error.as_ref()))
        }
        ClientInitializeError::ConnectionClosed(context) => format!("it closed the connection ({context})"),
        ClientInitializeError::LegacyFallbackFailed { discover, fallback } => {
            let (new, old) = (describe(discover), describe(fallback));
            if new == old { old } else { format!("{old}; by the newer protocol: {new}") }
        }
        other => with_sources(other),
    }
}
