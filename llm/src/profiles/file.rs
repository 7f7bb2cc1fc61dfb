//! Profiles from a `rethread.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{ProfileError, Profiles, check, read_small};
use crate::error::with_nearest;
use crate::models::ModelTable;
use crate::profile::Profile;

/// The part of a `rethread.toml` that says which models there are: `default_profile`, `profiles` and `models`. It knows the
/// names of the tables that configure other crates, so that any other table is an error.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfilesConfig {
    #[serde(default)]
    default_profile: Option<String>,
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
    #[serde(default)]
    models: ModelsSection,
    #[serde(default, rename = "mcpServers")]
    _mcp_servers: IgnoredAny,
    #[serde(default, rename = "mcp_servers")]
    _mcp_servers_too: IgnoredAny,
    #[serde(default, rename = "webhooks")]
    _webhooks: IgnoredAny,
    #[serde(default, rename = "incoming")]
    _incoming: IgnoredAny,
    #[serde(default, rename = "limits")]
    _limits: IgnoredAny,
    #[serde(default, rename = "metrics")]
    _metrics: IgnoredAny,
    #[serde(default, rename = "commands")]
    _commands: IgnoredAny,
    #[serde(default, rename = "memory")]
    _memory: IgnoredAny,
    #[serde(default, rename = "store")]
    _store: IgnoredAny,
    #[serde(default, rename = "events")]
    _events: IgnoredAny,
    #[serde(default, rename = "serve")]
    _serve: IgnoredAny,
    #[serde(default, rename = "telemetry")]
    _telemetry: IgnoredAny,
    #[serde(default, rename = "workers")]
    _workers: IgnoredAny,
}

/// The table `models`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelsSection {
    /// A table of models in place of the built-in one; a relative path is taken from the current folder.
    table: Option<PathBuf>,
}

impl ProfilesConfig {
    /// Reads the text of a `rethread.toml`.
    ///
    /// # Errors
    /// [`ProfileError::Syntax`] with the line and column, also for a key or a table that is not known.
    pub fn from_toml(text: &str) -> Result<Self, ProfileError> {
        toml::from_str(text).map_err(|e| ProfileError::Syntax(config_fault(text, &e)))
    }

    /// Makes the profiles. Reads the table of models, if the configuration names one.
    ///
    /// # Errors
    /// [`ProfileError::Value`] for a number that cannot be meant, and for what is not compiled in; [`ProfileError::Unknown`]
    /// for a fallback or default that does not exist; [`ProfileError::Table`].
    pub fn profiles(&self) -> Result<Profiles, ProfileError> {
        for (name, profile) in &self.profiles {
            check::numbers(name, profile)?;
            check::features(name, profile)?;
        }
        let mut profiles = Profiles::new(self.profiles.clone(), self.default_profile.clone());
        if let Some(path) = &self.models.table {
            profiles = profiles.with_models(Arc::new(ModelTable::from_file(path)?));
        }
        let named = profiles.profiles.values().flat_map(|p| &p.fallback).chain(&profiles.default);
        for name in named {
            profiles.get(name)?;
        }
        Ok(profiles)
    }
}

impl Profiles {
    /// The profiles of a `rethread.toml`.
    ///
    /// # Errors
    /// As [`ProfilesConfig::from_toml`] and [`ProfilesConfig::profiles`].
    pub fn from_toml(text: &str) -> Result<Self, ProfileError> {
        ProfilesConfig::from_toml(text)?.profiles()
    }

    /// The profiles of a file.
    ///
    /// # Errors
    /// As [`Profiles::from_toml`], and [`ProfileError::File`].
    pub fn from_file(path: &Path) -> Result<Self, ProfileError> {
        Self::from_toml(&read_small(path)?)
    }
}

/// The fault of a configuration in TOML, with its line and column. The text there is not part of it: it may be a
/// key that was put in the wrong place.
pub fn config_fault(text: &str, error: &toml::de::Error) -> String {
    let message = with_nearest(without_value(error.message()));
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else { return message };
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("line {line}, column {column}: {message}")
}

/// The message of a deserializer without the value that it quotes.
fn without_value(message: &str) -> String {
    let cut = |begin: &str, end: &str| {
        let (kind, rest) = message.split_once(begin)?;
        let (_, expected) = rest.rsplit_once(end)?;
        Some((kind.to_owned(), expected.to_owned()))
    };
    if let Some((kind, expected)) = cut(": string \"", "\", expected ") {
        return format!("{kind}: a text, expected {expected}");
    }
    match message.strip_prefix("unknown variant `").and_then(|rest| rest.split_once("`, expected ")) {
        Some((_, expected)) => format!("unknown value, expected {expected}"),
        None => message.to_owned(),
    }
}
