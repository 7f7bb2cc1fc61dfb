//! The option `--store` and the table `store` of rethread.toml: a log in a stream of NATS JetStream.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rethread::RuntimeBuilder;
pub(crate) use rethread::store::Standby;
use rethread::store::{Credentials, JetStreamOptions};
use serde::Deserialize;

use crate::definition;
use crate::exit::{Failure, INVALID};

#[derive(Debug, Deserialize)]
struct File {
    #[serde(default)]
    store: Settings,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    url: Option<String>,
    replicas: Option<usize>,
    user: Option<String>,
    password_env: Option<String>,
    token_env: Option<String>,
    nkey_seed_env: Option<String>,
    credentials_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    certificate_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    require_tls: bool,
    write_timeout_ms: Option<u64>,
    lease_ms: Option<u64>,
}

/// Checks the table of a configuration.
///
/// # Errors
/// For an unknown key, a value that cannot be meant, and a variable that is not set (exit code 3).
pub(crate) fn check(file: &Path) -> Result<(), Failure> {
    options(None, Some(file)).map(drop)
}

/// Whether a configuration names a stream, or may name one: it cannot be read.
pub(crate) fn is_configured(file: &Path) -> bool {
    definition::read_toml::<File>(file).map_or(true, |file| file.store.url.is_some())
}

/// Places the log of a runtime in the stream that the option or the configuration names; leaves it in the data directory
/// if neither does. The stream is created if it is not there and `create` says so.
///
/// # Errors
/// As [`check`], for a URL that names no stream, and for a wait for a log in a folder.
pub(crate) fn place(
    builder: RuntimeBuilder,
    url: Option<&str>,
    file: Option<&Path>,
    create: bool,
    standby: Option<&Standby>,
) -> Result<RuntimeBuilder, Failure> {
    match (options(url, file)?, standby) {
        (Some(options), standby) => {
            Ok(builder.in_stream(JetStreamOptions { create, standby: standby.cloned(), ..options }))
        }
        (None, None) => Ok(builder),
        (None, Some(_)) => {
            let message =
                "--standby is for a log in a stream: name it with --store, or in the table `store` of rethread.toml";
            Err(Failure::new(2, message))
        }
    }
}

fn options(url: Option<&str>, file: Option<&Path>) -> Result<Option<JetStreamOptions>, Failure> {
    let Settings {
        url: configured,
        replicas,
        user,
        password_env,
        token_env,
        nkey_seed_env,
        credentials_file,
        ca_file,
        certificate_file,
        key_file,
        require_tls,
        write_timeout_ms,
        lease_ms,
    } = file.map(definition::read_toml::<File>).transpose()?.map(|file| file.store).unwrap_or_default();
    let invalid = |what: String| {
        let place = file.map(|file| format!("{}: ", file.display())).unwrap_or_default();
        Failure::new(INVALID, format!("{place}store.{what}"))
    };
    let variable = |key: &str, name: String| {
        env::var(&name).map_err(|_| invalid(format!("{key}: the variable {name} is not set")))
    };
    let (servers, stream) = match (url.filter(|url| !url.is_empty()), &configured) {
        (Some(url), _) => servers_and_stream(url).map_err(|what| Failure::new(2, format!("--store: {what}")))?,
        (None, Some(url)) => servers_and_stream(url).map_err(|what| invalid(format!("url: {what}")))?,
        (None, None) => return Ok(None),
    };
    let password = |user: String| match password_env {
        Some(name) => Ok(Credentials::Password { user, password: variable("password_env", name)? }),
        None => Err(invalid("user: `password_env` is missing: name the variable that holds the password".into())),
    };
    let credentials = match (user, token_env, nkey_seed_env, credentials_file) {
        (None, None, None, None) => Credentials::None,
        (Some(user), None, None, None) => password(user)?,
        (None, Some(name), None, None) => Credentials::Token(variable("token_env", name)?),
        (None, None, Some(name), None) => Credentials::Nkey(variable("nkey_seed_env", name)?),
        (None, None, None, Some(file)) => Credentials::File(file),
        _ => {
            let what = "user: only one of `user`, `token_env`, `nkey_seed_env` and `credentials_file` can be given";
            return Err(invalid(what.into()));
        }
    };
    let client_certificate = match (certificate_file, key_file) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate, key)),
        _ => return Err(invalid("certificate_file: it is given together with `key_file`".into())),
    };
    let defaults = JetStreamOptions::new(servers, stream);
    let options = JetStreamOptions {
        replicas: replicas.unwrap_or(defaults.replicas),
        credentials,
        ca_file,
        client_certificate,
        require_tls,
        write_timeout: write_timeout_ms.map_or(defaults.write_timeout, Duration::from_millis),
        lease: lease_ms.map_or(defaults.lease, Duration::from_millis),
        ..defaults
    };
    options.check().map_err(|what| invalid(format!("url: {what}")))?;
    Ok(Some(options))
}

/// The servers, each with its scheme, and the stream of `nats://HOST:PORT,HOST:PORT/STREAM`.
fn servers_and_stream(url: &str) -> Result<(String, String), String> {
    let form = "write nats://HOST:PORT/STREAM, or tls:// in place of nats://";
    let (scheme, rest) = url.split_once("://").ok_or_else(|| format!("no scheme: {form}"))?;
    if scheme != "nats" && scheme != "tls" {
        return Err(format!("the scheme is not `nats` or `tls`: {form}"));
    }
    let (hosts, stream) = rest.rsplit_once('/').ok_or_else(|| format!("no stream is named: {form}"))?;
    if hosts.split(',').any(|host| host.trim().is_empty()) || hosts.contains("://") {
        return Err(format!("a server has no name: {form}"));
    }
    let servers: Vec<_> = hosts.split(',').map(|host| format!("{scheme}://{}", host.trim())).collect();
    Ok((servers.join(","), stream.to_owned()))
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
