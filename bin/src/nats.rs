//! How this process connects to servers of NATS, as tables of rethread.toml say: `store`, `workers` and `events`.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;

use rethread::store::{Credentials, NatsServers};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::config::Config;
use crate::exit::Failure;

/// The keys for a connection, part of a table.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Connection {
    pub(crate) url: Option<String>,
    user: Option<String>,
    password_env: Option<String>,
    token_env: Option<String>,
    nkey_seed_env: Option<String>,
    credentials_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    certificate_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    require_tls: bool,
}

/// These keys, for the error about another one.
const KEYS: [&str; 10] = [
    "url",
    "user",
    "password_env",
    "token_env",
    "nkey_seed_env",
    "credentials_file",
    "ca_file",
    "certificate_file",
    "key_file",
    "require_tls",
];

/// The keys that a table of a file does not have.
pub(crate) type Rest = BTreeMap<String, IgnoredAny>;

/// A table of the configuration, for errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table<'a> {
    pub(crate) config: &'a Config,
    pub(crate) name: &'a str,
}

impl Table<'_> {
    pub(crate) fn invalid(self, what: impl std::fmt::Display) -> Failure {
        self.config.invalid(format!("{}.{what}", self.name))
    }

    /// Refuses what is no key of the table, whose own ones are these.
    ///
    /// # Errors
    /// If there is one (exit code 3).
    pub(crate) fn check_keys(self, rest: &Rest, own: &[&str]) -> Result<(), Failure> {
        let Some(unknown) = rest.keys().next() else { return Ok(()) };
        let known: Vec<_> = KEYS.iter().chain(own).map(|key| format!("`{key}`")).collect();
        Err(self.invalid(format!("{unknown}: unknown field `{unknown}`, expected one of {}", known.join(", "))))
    }
}

impl Connection {
    /// The servers at these addresses.
    ///
    /// # Errors
    /// For keys that do not go together, and a variable that is not set (exit code 3).
    pub(crate) fn servers(self, table: Table<'_>, addresses: String) -> Result<NatsServers, Failure> {
        let Self {
            url: _,
            user,
            password_env,
            token_env,
            nkey_seed_env,
            credentials_file,
            ca_file,
            certificate_file,
            key_file,
            require_tls,
        } = self;
        let variable = |key: &str, name: String| {
            env::var(&name).map_err(|_| table.invalid(format!("{key}: the variable {name} is not set")))
        };
        let password = |user: String| match password_env {
            Some(name) => Ok(Credentials::Password { user, password: variable("password_env", name)? }),
            None => Err(table.invalid("user: `password_env` is missing: name the variable that holds the password")),
        };
        let credentials = match (user, token_env, nkey_seed_env, credentials_file) {
            (None, None, None, None) => Credentials::None,
            (Some(user), None, None, None) => password(user)?,
            (None, Some(name), None, None) => Credentials::Token(variable("token_env", name)?),
            (None, None, Some(name), None) => Credentials::Nkey(variable("nkey_seed_env", name)?),
            (None, None, None, Some(file)) => Credentials::File(file),
            _ => {
                let what = "user: only one of `user`, `token_env`, `nkey_seed_env` and `credentials_file` can be given";
                return Err(table.invalid(what));
            }
        };
        let client_certificate = match (certificate_file, key_file) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            _ => return Err(table.invalid("certificate_file: it is given together with `key_file`")),
        };
        Ok(NatsServers { addresses, credentials, ca_file, client_certificate, require_tls })
    }
}

/// The addresses of `nats://HOST:PORT,HOST:PORT` with the scheme at each, and what follows a `/`.
pub(crate) fn parse(url: &str) -> Result<(String, Option<String>), &'static str> {
    let (scheme, rest) = url.split_once("://").ok_or("no scheme")?;
    if scheme != "nats" && scheme != "tls" {
        return Err("the scheme is not `nats` or `tls`");
    }
    let (hosts, path) = match rest.rsplit_once('/') {
        Some((hosts, path)) => (hosts, Some(path.to_owned())),
        None => (rest, None),
    };
    if hosts.split(',').any(|host| host.trim().is_empty()) || hosts.contains("://") {
        return Err("a server has no name");
    }
    let servers: Vec<_> = hosts.split(',').map(|host| format!("{scheme}://{}", host.trim())).collect();
    Ok((servers.join(","), path))
}

/// The addresses of `nats://HOST:PORT,HOST:PORT`, which names no stream.
pub(crate) fn addresses(url: &str) -> Result<String, String> {
    const FORM: &str = "write nats://HOST:PORT, or tls:// in place of nats://";
    match parse(url) {
        Ok((addresses, None)) => Ok(addresses),
        Ok((addresses, Some(path))) if path.is_empty() => Ok(addresses),
        Ok((_, Some(_))) => Err(format!("a stream is named: {FORM}")),
        Err(what) => Err(format!("{what}: {FORM}")),
    }
}
