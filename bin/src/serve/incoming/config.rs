//! The table `incoming` of rethread.toml.

use std::collections::BTreeMap;
use std::path::PathBuf;

use actix_web::http::header::HeaderName;
use rethread::operate::{Labels, SIGNAL_KEEP_MS_MAX};
use rethread_events::workflow::is_signal_name;
use serde::Deserialize;

use super::super::signature::{Secret, secret_text};
use super::scheme::{Encoding, Scheme};
use crate::config::Config;
use crate::exit::Failure;

/// How long a signal is kept unless the configuration says otherwise: a day. A service does not know whether a thread
/// waits already.
const KEEP_FOR_S: u64 = 24 * 3_600;
/// How far the time of a delivery may be from the present unless the configuration says otherwise, as Stripe and Standard
/// Webhooks recommend.
const TOLERANCE_S: u64 = 300;
/// The most that can be configured. Ids are known for longer, so that a copy within this time changes nothing.
const TOLERANCE_S_MAX: u64 = 24 * 3_600;
/// The default limit of the body. The body is in memory before the sender is known.
const BODY_BYTES_MAX: usize = 1 << 20;
/// The placeholder for the name of the event in the name of the signal.
const EVENT: &str = "{event}";

/// A webhook of another service, ready to receive.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(super) scheme: Scheme,
    /// Each of them is accepted, so that a secret can be replaced without a gap.
    pub(super) secrets: Vec<Secret>,
    /// The name of the signal, with [`EVENT`] in it or not.
    signal: String,
    /// Absent if a delivery that no thread waits for is refused.
    pub(super) keep_for_ms: Option<u64>,
    pub(super) body_bytes_max: usize,
    pub(super) labels: Labels,
}

impl Incoming {
    /// Returns the name of the signal for this event; `None` if it needs the name of the event and there is none.
    pub(super) fn signal_for(&self, event: Option<&str>) -> Option<String> {
        if self.signal.contains(EVENT) { Some(self.signal.replace(EVENT, event?)) } else { Some(self.signal.clone()) }
    }
}

/// How deliveries are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Github,
    Stripe,
    Standard,
    Hmac,
}

/// An incoming webhook as a file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    signature: Kind,
    /// The variable that holds the secrets, one in each line.
    secret_env: Option<String>,
    /// The file that holds the secrets, one in each line.
    secret_file: Option<PathBuf>,
    signal: String,
    #[serde(default = "keep_for_s")]
    keep_for_s: u64,
    tolerance_s: Option<u64>,
    #[serde(default = "body_bytes_max")]
    body_bytes_max: usize,
    #[serde(default)]
    labels: Labels,
    header: Option<String>,
    encoding: Option<Encoding>,
    prefix: Option<String>,
    id_header: Option<String>,
}

fn keep_for_s() -> u64 {
    KEEP_FOR_S
}

fn body_bytes_max() -> usize {
    BODY_BYTES_MAX
}

/// The incoming webhooks of a configuration, with their secrets.
///
/// # Errors
/// For what [`check`] refuses, and for a secret that is missing or malformed (exit code 3).
pub(crate) fn read(config: &Config) -> Result<BTreeMap<String, Incoming>, Failure> {
    each(config, |entry, name| Ok((name.to_owned(), entry.ready(name)?)))
}

/// Checks the incoming webhooks of a configuration as far as it can be done without their secrets.
///
/// # Errors
/// For an unknown key and for a value that makes no sense (exit code 3).
pub(crate) fn check(config: &Config) -> Result<(), Failure> {
    each(config, |entry, name| entry.scheme(name).map(drop))
}

fn each<T, C: FromIterator<T>>(config: &Config, of: impl Fn(&Entry, &str) -> Result<T, String>) -> Result<C, Failure> {
    let one = |(name, entry): (&String, &Entry)| {
        of(entry, name).map_err(|what| config.invalid(format!("incoming.{name}: {what}")))
    };
    config.incoming.get()?.iter().map(one).collect()
}

impl Entry {
    /// How deliveries are signed, after a check of all that is not secret.
    fn scheme(&self, name: &str) -> Result<Scheme, String> {
        const CHARACTERS: &str = "1 to 64 of a-z, A-Z, 0-9, `.`, `_` and `-`";
        if !is_signal_name(name) {
            return Err(format!("the name of an incoming webhook, which is part of its address, has {CHARACTERS}"));
        }
        if !is_signal_name(&self.signal.replace(EVENT, "x")) {
            return Err(format!("`signal` has {CHARACTERS}; `{EVENT}` in it is replaced by the name of the event"));
        }
        if self.keep_for_s > SIGNAL_KEEP_MS_MAX / 1_000 {
            return Err(format!("`keep_for_s` is at most {}; 0 keeps nothing", SIGNAL_KEEP_MS_MAX / 1_000));
        }
        if self.body_bytes_max == 0 {
            return Err("`body_bytes_max` must be at least 1".into());
        }
        let tolerance_s = self.tolerance_s.unwrap_or(TOLERANCE_S);
        if !(1..=TOLERANCE_S_MAX).contains(&tolerance_s) {
            return Err(format!("`tolerance_s` is between 1 and {TOLERANCE_S_MAX}"));
        }
        let of_hmac = [
            ("header", self.header.is_some()),
            ("encoding", self.encoding.is_some()),
            ("prefix", self.prefix.is_some()),
            ("id_header", self.id_header.is_some()),
        ];
        if self.signature != Kind::Hmac
            && let Some((key, _)) = of_hmac.iter().find(|(_, is_given)| *is_given)
        {
            return Err(format!("`{key}` is for `signature = \"hmac\"` only: remove it"));
        }
        if self.tolerance_s.is_some() && matches!(self.signature, Kind::Github | Kind::Hmac) {
            return Err("`tolerance_s` is for signatures with a time, `stripe` and `standard`: remove it".into());
        }
        match self.signature {
            Kind::Github => Ok(Scheme::GitHub),
            Kind::Stripe => Ok(Scheme::Stripe { tolerance_s }),
            Kind::Standard => Ok(Scheme::Standard { tolerance_s }),
            Kind::Hmac => self.hmac(),
        }
    }

    fn hmac(&self) -> Result<Scheme, String> {
        if self.signal.contains(EVENT) {
            return Err(format!("with `signature = \"hmac\"` the name of the event is not known: remove `{EVENT}`"));
        }
        let header = self.header.clone().ok_or("`header` is missing: the name of the header with the signature")?;
        let id_header = self.id_header.clone();
        for (key, name) in [("header", Some(&header)), ("id_header", id_header.as_ref())] {
            if name.is_some_and(|name| HeaderName::try_from(name.as_str()).is_err()) {
                return Err(format!("`{key}` must be the name of a header, such as X-Signature"));
            }
        }
        let (encoding, prefix) = (self.encoding.unwrap_or_default(), self.prefix.clone().unwrap_or_default());
        Ok(Scheme::Hmac { header, encoding, prefix, id_header })
    }

    fn ready(&self, name: &str) -> Result<Incoming, String> {
        let scheme = self.scheme(name)?;
        let text = secret_text(self.secret_env.as_deref(), self.secret_file.as_deref())?;
        let secret = if self.signature == Kind::Standard { Secret::parse } else { Secret::of_text };
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let secrets = lines.map(secret).collect::<Result<Vec<_>, _>>()?;
        if secrets.is_empty() {
            return Err("the secret is empty".into());
        }
        Ok(Incoming {
            scheme,
            secrets,
            signal: self.signal.clone(),
            keep_for_ms: Some(self.keep_for_s * 1_000).filter(|ms| *ms > 0),
            body_bytes_max: self.body_bytes_max,
            labels: self.labels.clone(),
        })
    }
}
