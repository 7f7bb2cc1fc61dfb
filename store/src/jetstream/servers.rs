//! Servers of NATS, and how a client connects to them.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, ServerAddr};

/// Within this time a request is answered or has failed.
pub(super) const REQUEST_MAX: Duration = Duration::from_secs(5);
/// How long a server may take to accept the connection.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Servers of NATS of one cluster, and how a client proves to them who it is.
///
/// Shown, it is the addresses, without what proves who the client is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsServers {
    /// The addresses, for example `nats://127.0.0.1:4222`; separated by commas if there are several. `tls://` requires TLS.
    pub addresses: String,
    /// How the client proves who it is.
    pub credentials: Credentials,
    /// A file of certificates (PEM) that the certificate of a server may be signed by, in place of those of the system.
    pub ca_file: Option<PathBuf>,
    /// A file with the certificate of the client and a file with its key (PEM).
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// Whether a server without TLS is refused.
    pub require_tls: bool,
}

/// How a client proves who it is.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Credentials {
    /// Not at all, or as the first address says that names a user (`nats://USER:PASSWORD@HOST`).
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

/// Why a client is not connected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// An option is wrong.
    #[error("{0}")]
    Options(String),
    /// No server accepted the connection.
    #[error("{0}")]
    Unavailable(String),
}

impl NatsServers {
    /// Servers that ask for no proof.
    pub fn new(addresses: impl Into<String>) -> Self {
        Self {
            addresses: addresses.into(),
            credentials: Credentials::None,
            ca_file: None,
            client_certificate: None,
            require_tls: false,
        }
    }

    /// Connects, within ten seconds. The servers know the client by `name`. A connection that is lost is made again for as
    /// long as the client exists.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect(&self, name: &str) -> Result<Client, ConnectError> {
        let mut servers = Vec::new();
        for server in self.addresses.split(',') {
            let server = server.trim().parse::<ServerAddr>();
            let fault = |error| ConnectError::Options(format!("a server is not named well: {error}"));
            servers.push(server.map_err(fault)?);
        }
        let options = ConnectOptions::new()
            .name(name)
            .connection_timeout(CONNECT_MAX)
            .request_timeout(Some(REQUEST_MAX))
            // What waits for it has limits of its own.
            .max_reconnects(None)
            .reconnect_delay_callback(|n| Duration::from_millis((50 * n as u64).min(1000)))
            .ping_interval(Duration::from_secs(5))
            .require_tls(self.require_tls);
        // The client does not look at those itself.
        let named =
            servers.iter().find_map(|server| Some((server.username()?.to_owned(), server.password()?.to_owned())));
        let mut options = match &self.credentials {
            Credentials::None => match named {
                Some((user, password)) if [&user, &password].iter().all(|part| !part.contains('%')) => {
                    options.user_and_password(user, password)
                }
                Some(_) => {
                    let why = "a name or a password in an address has a character that has to be encoded there: give them as credentials";
                    return Err(ConnectError::Options(why.into()));
                }
                None => options,
            },
            Credentials::Password { user, password } => options.user_and_password(user.clone(), password.clone()),
            Credentials::Token(token) => options.token(token.clone()),
            Credentials::Nkey(seed) => options.nkey(seed.clone()),
            Credentials::File(path) => options
                .credentials_file(path)
                .await
                .map_err(|error| ConnectError::Options(format!("the credentials in {}: {error}", path.display())))?,
        };
        if let Some(ca) = &self.ca_file {
            options = options.add_root_certificates(ca.clone());
        }
        if let Some((certificate, key)) = &self.client_certificate {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        match tokio::time::timeout(CONNECT_MAX, options.connect(servers)).await {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(error)) => {
                let why = with_sources(&error);
                // What a server without TLS sends is no message of TLS.
                let has_no_tls = why.contains("InvalidContentType");
                let advice = if has_no_tls { "; the server may have no TLS, which is required" } else { "" };
                Err(ConnectError::Unavailable(why + advice))
            }
            Err(_) => Err(ConnectError::Unavailable(format!(
                "no server accepted the connection within {} s",
                CONNECT_MAX.as_secs()
            ))),
        }
    }
}

impl fmt::Display for NatsServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, server) in self.addresses.split(',').enumerate() {
            let scheme = server.find("://").map_or(0, |at| at + 3);
            let host = server.rfind('@').map_or(scheme, |at| (at + 1).max(scheme));
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{}{}", &server[..scheme], &server[host..])?;
        }
        Ok(())
    }
}

/// An error with its sources, none of them twice.
pub(super) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut why = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let text = error.to_string();
        if !why.contains(&text) {
            why = format!("{why}: {text}");
        }
        source = error.source();
    }
    why
}
