//! Which webhooks there are: `--webhook URL`, `--webhook FILE`, and the section `webhooks` of rethread.toml.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rethread_events::event::event_type_named;
use serde::Deserialize;
use url::Url;

use super::super::incoming;
use super::super::signature::{Secret, secret_text};
use crate::config::Config;
use crate::exit::{Failure, INVALID};
use crate::open::OpenArgs;

/// The variable with the secret of a webhook that is given by its address.
const SECRET: &str = "RETHREAD_WEBHOOK_SECRET";
/// The most webhooks.
const WEBHOOKS_MAX: usize = 64;
/// How long an event is tried unless the configuration says otherwise.
const GIVE_UP_AFTER_S: u64 = 24 * 3_600;

/// A webhook, ready to be started.
#[derive(Debug)]
pub(crate) struct Webhook {
    /// The name of its position in the log: another name begins at the start again.
    pub(crate) name: String,
    pub(crate) url: Url,
    pub(crate) secret: Secret,
    /// Documented names of events; all when empty.
    pub(crate) types: Vec<String>,
    /// Whether one that has no place yet begins with the log, and not where it ends.
    pub(crate) from_the_beginning: bool,
    pub(crate) give_up_after: Duration,
}

/// A webhook as a file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    url: String,
    /// The variable that holds the secret.
    secret_env: Option<String>,
    /// The file that holds the secret and nothing else.
    secret_file: Option<PathBuf>,
    #[serde(default)]
    types: Vec<String>,
    #[serde(default)]
    from_the_beginning: bool,
    #[serde(default = "give_up_after_s")]
    give_up_after_s: u64,
}

fn give_up_after_s() -> u64 {
    GIVE_UP_AFTER_S
}

/// All webhooks: those of the command line and those of rethread.toml.
pub(crate) fn read(open: &OpenArgs, given: &[String]) -> Result<Vec<Webhook>, Failure> {
    let mut webhooks = Vec::new();
    for text in given {
        if text.starts_with("http://") || text.starts_with("https://") {
            let hash = rethread::Hash::of(text.as_bytes()).to_string();
            let entry = Entry {
                url: text.clone(),
                secret_env: Some(SECRET.into()),
                secret_file: None,
                types: Vec::new(),
                from_the_beginning: false,
                give_up_after_s: GIVE_UP_AFTER_S,
            };
            webhooks
                .push(entry.check(&hash[..12]).map_err(|what| Failure::new(INVALID, format!("--webhook: {what}")))?);
        } else {
            webhooks.extend(of(&Config::read(Some(Path::new(text))))?);
        }
    }
    webhooks.extend(of(open.config())?);
    let mut names: Vec<_> = webhooks.iter().map(|webhook| webhook.name.as_str()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Failure::new(INVALID, format!("there are two webhooks `{}`: rename one", twice[0])));
    }
    if webhooks.len() > WEBHOOKS_MAX {
        return Err(Failure::new(INVALID, format!("{} webhooks: {WEBHOOKS_MAX} are possible", webhooks.len())));
    }
    Ok(webhooks)
}

/// Checks that each webhook has its secret. Returns how many webhooks there are, incoming ones too.
pub(crate) fn check_secrets(config: &Config) -> Result<usize, Failure> {
    Ok(of(config)?.len() + incoming::read(config)?.len())
}

fn of(config: &Config) -> Result<Vec<Webhook>, Failure> {
    let one = |(name, entry): (&String, &Entry)| {
        entry.check(name).map_err(|what| config.invalid(format!("webhooks.{name}: {what}")))
    };
    config.webhooks.get()?.iter().map(one).collect()
}

impl Entry {
    fn check(&self, name: &str) -> Result<Webhook, String> {
        let url = Url::parse(&self.url).map_err(|error| format!("`url` is not an address: {error}"))?;
        if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() {
            return Err("`url` must begin with https:// or http:// and name a host".into());
        }
        if let Some(unknown) = self.types.iter().find(|name| event_type_named(name).is_none()) {
            return Err(format!("`types`: unknown event type {unknown}; docs/EVENTS.md lists them"));
        }
        if self.give_up_after_s == 0 {
            return Err("`give_up_after_s` must be at least 1".into());
        }
        let secret = secret_text(self.secret_env.as_deref(), self.secret_file.as_deref())?;
        Ok(Webhook {
            name: name.to_owned(),
            url,
            secret: Secret::parse(&secret)?,
            types: self.types.clone(),
            from_the_beginning: self.from_the_beginning,
            give_up_after: Duration::from_secs(self.give_up_after_s),
        })
    }
}
