//! The option `--store` and the table `store` of rethread.toml: a log in a stream of NATS JetStream.

use std::time::Duration;

use rethread::RuntimeBuilder;
use rethread::errors::RuntimeError;
use rethread::store::{Access, JetStreamOptions, NatsServers};
use serde::Deserialize;

use crate::config::Config;
use crate::exit::{Failure, NOT_FOUND};
use crate::nats::{self, Connection, Rest, Table};

/// `[store]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    #[serde(flatten)]
    connection: Connection,
    replicas: Option<usize>,
    write_timeout_ms: Option<u64>,
    lease_ms: Option<u64>,
    #[serde(flatten)]
    rest: Rest,
}

/// The keys besides those of the connection.
const KEYS: [&str; 3] = ["replicas", "write_timeout_ms", "lease_ms"];

/// Whether a configuration names a stream, or may name one: it cannot be read.
pub(crate) fn is_configured(config: &Config) -> bool {
    config.store.get().map_or(true, |settings| settings.connection.url.is_some())
}

/// Places the log of a runtime in the stream that the option or the configuration names; leaves it in the data directory
/// if neither does. The stream is created if it is not there and `create` says so. With `reads` it is read beside the processes
/// that write it.
///
/// # Errors
/// As [`options`], and for a log in a folder that others are to have as well.
pub(crate) fn place(
    builder: RuntimeBuilder,
    url: Option<&str>,
    config: &Config,
    create: bool,
    is_shared: bool,
    reads: bool,
) -> Result<RuntimeBuilder, Failure> {
    let options = options(url, config)?;
    let access = match (is_shared, reads) {
        (true, _) => Access::Shared,
        (false, true) => Access::Read,
        (false, false) => Access::Alone,
    };
    match options {
        Some(options) => Ok(builder.in_stream(JetStreamOptions { create, access, ..options })),
        None if !is_shared => Ok(builder),
        None => {
            let message =
                "--shared is for a log in a stream: name it with --store, or in the table `store` of rethread.toml";
            Err(Failure::new(2, message))
        }
    }
}

/// Whether a process has the log in a stream.
///
/// # Errors
/// As [`options`]. A stream that cannot be looked at is an error where it is opened.
pub(crate) async fn is_written(url: Option<&str>, config: &Config) -> Result<bool, Failure> {
    let Some(options) = options(url, config)? else { return Ok(false) };
    Ok(options.status().await.is_ok_and(|status| status.nodes.iter().any(|node| node.has_log)))
}

/// The options of the log in a stream that the option or the configuration names.
///
/// # Errors
/// For an unknown key, a value that cannot be meant, a variable that is not set, and a URL that names no stream (exit code 3).
pub(crate) fn options(url: Option<&str>, config: &Config) -> Result<Option<JetStreamOptions>, Failure> {
    let Settings { connection, replicas, write_timeout_ms, lease_ms, rest } = config.store.get()?.clone();
    let table = Table { config, name: "store" };
    table.check_keys(&rest, &KEYS)?;
    let (addresses, stream) = match (url.filter(|url| !url.is_empty()), &connection.url) {
        (Some(url), _) => servers_and_stream(url).map_err(|what| Failure::new(2, format!("--store: {what}")))?,
        (None, Some(url)) => servers_and_stream(url).map_err(|what| table.invalid(format!("url: {what}")))?,
        (None, None) => return Ok(None),
    };
    let defaults = JetStreamOptions::new("", stream);
    let options = JetStreamOptions {
        servers: connection.servers(table, addresses)?,
        replicas: replicas.unwrap_or(defaults.replicas),
        write_timeout: write_timeout_ms.map_or(defaults.write_timeout, Duration::from_millis),
        lease: lease_ms.map_or(defaults.lease, Duration::from_millis),
        ..defaults
    };
    options.check().map_err(|what| table.invalid(format!("url: {what}")))?;
    Ok(Some(options))
}

/// The servers of the log, if it is in a stream.
///
/// # Errors
/// As [`options`].
pub(crate) fn servers(url: Option<&str>, config: &Config) -> Result<Option<NatsServers>, Failure> {
    Ok(options(url, config)?.map(|options| options.servers))
}

/// Looks at the servers of the log, if it is in a stream. Returns what was found, for people.
pub(crate) async fn look(url: Option<&str>, config: &Config) -> Option<Result<String, Failure>> {
    let options = options(url, config).transpose()?;
    let look = async {
        let status = options?.status().await.map_err(RuntimeError::from)?;
        let n_missing = status.servers.iter().filter(|server| server.is_offline || !server.is_current).count();
        let servers = match (status.servers.len(), n_missing) {
            (0 | 1, 0) => "one server".to_owned(),
            (n, 0) => format!("{n} servers"),
            (n, n_missing) => format!("{n} servers, {n_missing} of which are not current"),
        };
        let holder = status.nodes.iter().find(|node| node.has_log).map_or("nobody", |node| &node.name);
        Ok::<_, Failure>(format!("NATS {}, {servers}; {holder} has the log", status.version))
    };
    match look.await {
        // The first process creates it.
        Err(failure) if failure.code == NOT_FOUND => Some(Ok("the stream does not exist yet".into())),
        found => Some(found),
    }
}

/// The servers, each with its scheme, and the stream of `nats://HOST:PORT,HOST:PORT/STREAM`.
fn servers_and_stream(url: &str) -> Result<(String, String), String> {
    const FORM: &str = "write nats://HOST:PORT/STREAM, or tls:// in place of nats://";
    let (servers, stream) = nats::parse(url).map_err(|what| format!("{what}: {FORM}"))?;
    let stream = stream.ok_or_else(|| format!("no stream is named: {FORM}"))?;
    Ok((servers, stream))
}

#[cfg(test)]
mod tests {
    use super::servers_and_stream;

    #[test]
    fn servers_and_stream_of_a_url() {
        let parsed = |url| servers_and_stream(url).unwrap();
        assert_eq!(parsed("nats://127.0.0.1:4222/agents"), ("nats://127.0.0.1:4222".into(), "agents".into()));
        assert_eq!(parsed("tls://a:1,u:p@b:2/x"), ("tls://a:1,tls://u:p@b:2".into(), "x".into()));
        for url in
            ["", "agents", "nats://", "nats://host", "http://host/agents", "nats://a,,b/agents", "nats:///agents"]
        {
            assert!(servers_and_stream(url).is_err(), "{url}");
        }
    }
}
