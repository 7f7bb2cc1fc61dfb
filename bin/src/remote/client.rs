//! Requests to a server.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use rethread::ThreadId;
use rethread::store::{Damage, StoreError};
use rethread_events::trace_context::TraceParent;
#[cfg(feature = "server")]
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use url::Url;

use super::socket::Socket;
use crate::exit::{CONFLICT, DAMAGED, FAILED, Failure, INVALID, NOT_FOUND};
use crate::output;

/// The variable with the token.
pub(crate) const TOKEN: &str = "RETHREAD_TOKEN";
/// How long it may take to reach the server.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long an answer may take; the server gives up before that.
const ANSWER_MAX: Duration = Duration::from_secs(90);
/// As above, for requests that read or write much of the log.
const LONG_ANSWER_MAX: Duration = Duration::from_secs(1_900);
/// How their paths end.
const LONG: [&str; 5] = ["/v1/log/verify", "/v1/log/compact", "/v1/gc", "/v1/import", "/rerun"];
/// How many pieces of a large answer wait for who reads them.
const PIECES: usize = 8;
/// The largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Requests run here, so that code without an event loop of its own can wait for one.
fn loop_of_requests() -> Result<&'static tokio::runtime::Runtime, RemoteError> {
    static LOOP: OnceLock<Option<tokio::runtime::Runtime>> = OnceLock::new();
    let made =
        LOOP.get_or_init(|| tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().ok());
    made.as_ref().ok_or_else(|| RemoteError::unreachable("cannot start a thread for requests"))
}

/// A request was not done.
#[derive(Debug, Clone)]
pub(crate) struct RemoteError {
    /// The problem type, as docs/HTTP.md lists them; absent if there was no answer.
    pub(crate) kind: Option<String>,
    pub(crate) message: String,
}

impl RemoteError {
    fn unreachable(message: impl Into<String>) -> Self {
        Self { kind: None, message: message.into() }
    }

    /// The answer of the server is not the one that was expected.
    pub(super) fn unreadable(expected: &str) -> Self {
        Self::unreachable(format!("the answer of the server is not {expected}"))
    }

    fn of(answer: &Value, status: u16, at: &str) -> Self {
        let kind = answer["type"].as_str().and_then(|kind| kind.rsplit(':').next()).unwrap_or("internal");
        let detail = answer["detail"].as_str().map_or_else(
            || format!("{at} answered {status}, which is no answer of rethread: check the address and the proxy"),
            str::to_owned,
        );
        let faults: Vec<_> = answer["faults"].as_array().into_iter().flatten().map(fault).collect();
        let mut message = if faults.is_empty() { detail } else { faults.join("\n") };
        if kind == "unauthorized" {
            message = format!("{message}; give the token in the variable {TOKEN}");
        }
        Self { kind: Some(kind.to_owned()), message }
    }
}

/// A fault of a workflow, as `validate` says it.
fn fault(fault: &Value) -> String {
    let text = |name: &str| fault[name].as_str().unwrap_or_default();
    let place = match (fault["place"]["line"].as_u64(), fault["place"]["column"].as_u64()) {
        (Some(line), Some(column)) => format!("{line}:{column}: "),
        _ => String::new(),
    };
    let path = if text("path").is_empty() { String::new() } else { format!("{}: ", text("path")) };
    let hint = if text("hint").is_empty() { String::new() } else { format!(" ({})", text("hint")) };
    format!("{place}{path}{}{hint}", text("message"))
}

impl From<RemoteError> for Failure {
    fn from(error: RemoteError) -> Self {
        let code = match error.kind.as_deref() {
            Some("invalid-request") => 2,
            Some("invalid-workflow" | "invalid-input") => INVALID,
            Some(
                "not-found" | "no-thread" | "no-moment" | "no-interaction" | "no-workflow" | "no-schedule"
                | "no-memory" | "no-such-part",
            ) => NOT_FOUND,
            Some("conflict" | "interaction-closed" | "in-use" | "unusable" | "key-reused" | "key-in-progress") => {
                CONFLICT
            }
            Some("damaged") => DAMAGED,
            _ => FAILED,
        };
        Self::new(code, error.message)
    }
}

/// Sends requests to one server.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    base: Url,
    token: Option<Arc<SecretString>>,
    http: reqwest::Client,
    /// The command that is reached over a socket, in place of a server.
    command: Option<Arc<Command>>,
    /// The span that runs which it starts are part of.
    caller: Option<TraceParent>,
}

/// A command that holds a log.
#[derive(Debug)]
struct Command {
    name: String,
    _socket: Socket,
    /// Whether it did not answer any more.
    is_gone: AtomicBool,
}

impl Client {
    /// For the server at this address; the token comes from the environment.
    pub(crate) fn new(base: &str) -> Result<Self, Failure> {
        let shown = output::sanitize(without_user(base), 400);
        let invalid = |what: &str| Failure::new(2, format!("the server `{shown}` {what}: expected http://HOST:PORT"));
        let base = Url::parse(base).map_err(|_| invalid("is no address"))?;
        if !["http", "https"].contains(&base.scheme()) || base.host_str().is_none() {
            return Err(invalid("has another scheme, or no host"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            let what = format!("is named with a user or a password, which is not sent (set the token in {TOKEN})");
            return Err(invalid(&what));
        }
        // A path would be lost on the way, and the token be sent to another server.
        if base.path() != "/" || base.query().is_some() || base.fragment().is_some() {
            return Err(invalid("is named with more than a host and a port"));
        }
        let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
        let token = token.map(|token| Arc::new(SecretString::from(token)));
        let http = rethread_llm::http::shared(&base, CONNECT_MAX).map_err(Failure::other)?;
        Ok(Self { base, token, http, command: None, caller: None })
    }

    /// For a command that answers on a socket. No token is sent: access to the socket is the permission.
    pub(super) fn at_socket(socket: Socket, name: String) -> Result<Self, Failure> {
        let base = Url::parse("http://localhost/").map_err(Failure::other)?;
        let http = reqwest::Client::builder().unix_socket(socket.path()).no_proxy().build().map_err(Failure::other)?;
        let command = Some(Arc::new(Command { name, _socket: socket, is_gone: AtomicBool::new(false) }));
        Ok(Self { base, token: None, http, command, caller: None })
    }

    /// Whether the command that was asked over a socket has ended meanwhile.
    pub(crate) fn is_gone(&self) -> bool {
        self.command.as_ref().is_some_and(|command| command.is_gone.load(Ordering::Relaxed))
    }

    /// As above, for an address that is not verified to be the server: no token is sent.
    pub(super) fn without_token(&self) -> Self {
        Self { token: None, ..self.clone() }
    }

    /// Where the server is; the name of a command that is reached over a socket.
    pub(crate) fn address(&self) -> &str {
        if let Some(command) = &self.command {
            return &command.name;
        }
        self.base.as_str().trim_end_matches('/')
    }

    /// Whether the server is on this machine, so that paths mean the same there.
    pub(crate) fn is_here(&self) -> bool {
        rethread_llm::http::is_of_this_machine(&self.base)
    }

    /// Whether a token is sent, which may not allow everything.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// What sends messages to its MCP door.
    #[cfg(feature = "server")]
    pub(crate) fn mcp(&self) -> Result<(reqwest::Client, StreamableHttpClientTransportConfig), Failure> {
        let address = self.base.join("mcp").map_err(Failure::other)?;
        let mut config = StreamableHttpClientTransportConfig::with_uri(address.as_str());
        if let Some(token) = &self.token {
            config = config.auth_header(token.expose_secret());
        }
        Ok((self.http.clone(), config))
    }

    /// Returns the error for a request without an answer.
    fn failed(&self, error: &reqwest::Error) -> RemoteError {
        let at = self.address();
        let mut text = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            text = cause.to_string();
            source = cause.source();
        }
        match &self.command {
            Some(command) => {
                command.is_gone.store(true, Ordering::Relaxed);
                RemoteError::unreachable(format!("{at} held the log and has ended: try again"))
            }
            None => RemoteError::unreachable(format!("the server at {at} cannot be reached: {text}")),
        }
    }

    /// Returns a client whose requests name this span as their caller.
    pub(crate) fn with_caller(&self, caller: Option<TraceParent>) -> Self {
        Self { caller, ..self.clone() }
    }

    fn request(&self, method: Method, path: &str) -> Result<reqwest::RequestBuilder, RemoteError> {
        let url = self.base.join(path).map_err(|error| RemoteError::unreachable(error.to_string()))?;
        let mut request = self.http.request(method, url);
        if let Some(caller) = self.caller {
            request = request.header("traceparent", caller.to_string());
        }
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        })
    }

    async fn send(
        self,
        method: Method,
        path: String,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<Vec<u8>, RemoteError> {
        let limit = if LONG.iter().any(|end| path.ends_with(end)) { LONG_ANSWER_MAX } else { ANSWER_MAX };
        let mut request = self.request(method, &path)?.timeout(limit);
        if let Some((media_type, body)) = body {
            request = request.header("Content-Type", media_type).body(body);
        }
        let response = request.send().await.map_err(|error| self.failed(&error))?;
        self.whole(response).await
    }

    /// The whole of a short answer; an error for any that is not a success.
    async fn whole(&self, mut response: reqwest::Response) -> Result<Vec<u8>, RemoteError> {
        let status = response.status();
        let mut bytes = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| self.failed(&error))? {
            if bytes.len() + piece.len() > ANSWER_BYTES_MAX {
                return Err(RemoteError::unreachable(format!(
                    "an answer of the server is larger than {ANSWER_BYTES_MAX} bytes"
                )));
            }
            bytes.extend_from_slice(&piece);
        }
        if status.is_success() {
            return Ok(bytes);
        }
        if status == reqwest::StatusCode::SERVICE_UNAVAILABLE
            && let Some(command) = &self.command
        {
            // It is stopping.
            command.is_gone.store(true, Ordering::Relaxed);
        }
        Err(RemoteError::of(&serde_json::from_slice(&bytes).unwrap_or_default(), status.as_u16(), self.address()))
    }

    /// Asks and waits without holding up an event loop.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<Vec<u8>, RemoteError> {
        let sent = loop_of_requests()?.spawn(self.clone().send(method, path.to_owned(), body));
        sent.await.unwrap_or_else(|_| Err(RemoteError::unreachable("the request was interrupted")))
    }

    /// Asks for something large, which is read while it comes. An answer that is cut is an error of the reader.
    pub(crate) async fn read(&self, path: &str) -> Result<Pieces, RemoteError> {
        let (to, from) = mpsc::channel(PIECES);
        let (client, path) = (self.clone(), path.to_owned());
        let (tell, begun) = oneshot::channel();
        loop_of_requests()?.spawn(async move {
            let begun = async {
                let sent = timeout(LONG_ANSWER_MAX, client.request(Method::GET, &path)?.send()).await;
                let response = sent.map_err(|_| RemoteError::unreachable("the server does not answer"))?;
                let response = response.map_err(|error| client.failed(&error))?;
                if response.status().is_success() {
                    return Ok(response);
                }
                client.whole(response).await?;
                Err(RemoteError::unreachable("the server has no answer"))
            };
            let mut response = match begun.await {
                Ok(response) => response,
                Err(error) => return drop(tell.send(Err(error))),
            };
            let _ = tell.send(Ok(()));
            loop {
                let piece = match timeout(ANSWER_MAX, response.chunk()).await {
                    Ok(Ok(Some(piece))) => Ok(piece),
                    Ok(Ok(None)) => return,
                    Ok(Err(error)) => Err(io::Error::other(client.failed(&error).message)),
                    Err(_) => Err(io::ErrorKind::TimedOut.into()),
                };
                let is_last = piece.is_err();
                if to.send(piece).await.is_err() || is_last {
                    return;
                }
            }
        });
        begun.await.unwrap_or_else(|_| Err(RemoteError::unreachable("the request was interrupted")))?;
        Ok(Pieces { from, piece: Bytes::new() })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, RemoteError> {
        json(&self.ask(Method::GET, path, None).await?)
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, RemoteError> {
        json(&self.ask(Method::POST, path, Some(("application/json", body.to_string().into_bytes()))).await?)
    }

    /// Asks and blocks until the answer is there.
    pub(crate) fn ask_blocking(&self, method: Method, path: &str) -> Result<Vec<u8>, RemoteError> {
        let (sender, answer) = std::sync::mpsc::channel();
        let sent = self.clone().send(method, path.to_owned(), None);
        loop_of_requests()?.spawn(async move { sender.send(sent.await) });
        answer.recv().unwrap_or_else(|_| Err(RemoteError::unreachable("the request was interrupted")))
    }

    pub(crate) fn get_blocking(&self, path: &str) -> Result<Value, RemoteError> {
        json(&self.ask_blocking(Method::GET, path)?)
    }
}

/// The bytes of an answer, for a thread that may block.
pub(crate) struct Pieces {
    from: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
}

impl io::Read for Pieces {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.from.blocking_recv() {
                Some(piece) => self.piece = piece?,
                None => return Ok(0),
            }
        }
        let n = to.len().min(self.piece.len());
        to[..n].copy_from_slice(&self.piece.split_to(n));
        Ok(n)
    }
}

/// An address as it may be shown: before an `@` there may be a password.
pub(crate) fn without_user(address: &str) -> &str {
    address.rsplit_once('@').map_or(address, |(_, host)| host)
}

fn json(bytes: &[u8]) -> Result<Value, RemoteError> {
    serde_json::from_slice(bytes)
        .map_err(|error| RemoteError::unreachable(format!("an answer of the server is not JSON: {error}")))
}

impl RemoteError {
    /// As above, as the error of a store operation on `what`.
    pub(crate) fn of_store(self, client: &Client, what: &'static str, name: impl ToString) -> StoreError {
        match self.kind.as_deref() {
            Some("no-thread" | "no-such-part") => StoreError::NotFound { what, name: name.to_string() },
            Some("damaged") => {
                let thread = name.to_string().parse::<ThreadId>().ok();
                StoreError::Damaged(Damage { thread, what: self.message, ..Damage::default() })
            }
            _ => {
                StoreError::Io { path: client.address().into(), source: Arc::new(std::io::Error::other(self.message)) }
            }
        }
    }
}
