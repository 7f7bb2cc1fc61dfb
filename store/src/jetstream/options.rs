//! The options of a log in a JetStream stream.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::disk::Options;

/// The options for opening a log in a stream.
#[derive(Debug, Clone)]
pub struct JetStreamOptions {
    /// The addresses of servers of one cluster, for example `nats://127.0.0.1:4222`; separated by commas if there are
    /// several. `tls://` requires TLS.
    pub servers: String,
    /// The name of the stream, which is also the first word of its subjects: 1 to 64 letters, digits, `-` and `_`.
    pub stream: String,
    /// Whether the stream is created if it is not there.
    pub create: bool,
    /// How many servers store the stream, if it is created: 1, 3 or 5. An existing stream keeps its number.
    pub replicas: usize,
    /// How the client proves who it is.
    pub credentials: Credentials,
    /// A file of certificates (PEM) that the certificate of a server may be signed by, in place of those of the system.
    pub ca_file: Option<PathBuf>,
    /// A file with the certificate of the client and a file with its key (PEM).
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// Whether a server without TLS is refused.
    pub require_tls: bool,
    /// How long a write waits for the servers before it fails.
    pub write_timeout: Duration,
    /// How long the lease of a process that ended without closing the log keeps others out, if the log is created:
    /// at least one second.
    pub lease: Duration,
    /// Waits for as long as another process has the lease; otherwise its lease has to run out within one and a half times
    /// its duration.
    pub standby: Option<Standby>,
    /// The options of the replica. Its `sync` is ignored.
    pub replica: Options,
}

/// A process that waits to take the log over from another one. Its replica follows the stream meanwhile. Copies are of the
/// same wait.
#[derive(Debug, Clone, Default)]
pub struct Standby(Arc<Mutex<Wait>>);

#[derive(Debug, Default)]
struct Wait {
    is_ended: bool,
    holder: Option<String>,
}

impl Standby {
    /// Ends the wait: opening the log fails with `Closed` within a second, unless it has the lease already.
    pub fn end(&self) {
        self.0.lock().is_ended = true;
    }

    /// The process that has the log, as far as it is known.
    pub fn holder(&self) -> Option<String> {
        self.0.lock().holder.clone()
    }

    pub(super) fn is_ended(&self) -> bool {
        self.0.lock().is_ended
    }

    pub(super) fn set_holder(&self, holder: String) {
        self.0.lock().holder = Some(holder);
    }
}

/// How a client proves who it is.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Credentials {
    /// Not at all, or as the address says (`nats://USER:PASSWORD@HOST`).
    #[default]
    None,
    /// By name and password.
    Password {
        /// The name.
        user: String,
        /// The password.
        password: String,
    },
    /// By a token.
    Token(String),
    /// By a file with a JWT and the seed of its NKEY, as `nsc` writes it.
    File(PathBuf),
    /// By the seed of an NKEY.
    Nkey(String),
}

/// Secrets are left out.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Password { user, .. } => f.debug_struct("Password").field("user", user).finish_non_exhaustive(),
            Self::Token(_) => f.write_str("Token"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Nkey(_) => f.write_str("Nkey"),
        }
    }
}

impl JetStreamOptions {
    /// The defaults for a stream: one server stores it, writes wait 30 s, a lease lasts 6 s.
    pub fn new(servers: impl Into<String>, stream: impl Into<String>) -> Self {
        Self {
            servers: servers.into(),
            stream: stream.into(),
            create: true,
            replicas: 1,
            credentials: Credentials::None,
            ca_file: None,
            client_certificate: None,
            require_tls: false,
            write_timeout: Duration::from_secs(30),
            lease: Duration::from_secs(6),
            standby: None,
            replica: Options::default(),
        }
    }

    /// The address of the log as people read it, without what proves who the client is.
    pub(super) fn address(&self) -> String {
        let servers = self.servers.split(',').map(|server| match (server.find("://"), server.rfind('@')) {
            (Some(scheme), Some(at)) if at > scheme => format!("{}{}", &server[..scheme + 3], &server[at + 1..]),
            (None, Some(at)) => server[at + 1..].to_owned(),
            _ => server.to_owned(),
        });
        format!("{}/{}", servers.collect::<Vec<_>>().join(","), self.stream)
    }

    /// Checks what needs no server.
    ///
    /// # Errors
    /// Why these options cannot be used.
    pub fn check(&self) -> Result<(), &'static str> {
        self.fault().map_or(Ok(()), Err)
    }

    fn fault(&self) -> Option<&'static str> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if self.stream.is_empty() || self.stream.len() > 64 || !self.stream.chars().all(is_word) {
            return Some("the name of a stream has 1 to 64 letters, digits, `-` and `_`");
        }
        if !matches!(self.replicas, 1 | 3 | 5) {
            return Some("a stream is stored by 1, 3 or 5 servers");
        }
        if self.lease < Duration::from_secs(1) || self.write_timeout.is_zero() {
            return Some("a lease lasts at least one second, and a write waits for some time");
        }
        if self.servers.trim().is_empty() {
            return Some("no server is named");
        }
        None
    }
}
