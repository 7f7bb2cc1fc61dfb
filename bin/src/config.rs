//! The configuration: a command opens `rethread.toml` once, and each section becomes one typed value.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rethread::Limits;
use rethread::operate::memory::MemoryOptions;
use rethread::tools::mcp::McpConfig;
use rethread::tools::{CommandsConfig, Isolation};
use rethread_events::text::with_sources;
use rethread_llm::Profiles;
use rethread_llm::profiles::{ProfilesConfig, config_fault};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use toml::Value;
use toml::de::{DeTable, ValueDeserializer};

use crate::client_tools::{self, ClientTool};
use crate::definition;
#[cfg(all(feature = "server", feature = "jetstream"))]
use crate::event_stream;
use crate::exit::{Failure, INVALID};
use crate::metrics::MetricsOf;
#[cfg(feature = "server")]
use crate::serve::doors;
use crate::serve::{incoming, webhook};
use crate::{otlp, stream, workers};

/// The largest file of a configuration that is read, in bytes.
const BYTES_MAX: usize = 1 << 20;

/// The sections of parts that are not compiled in, and what compiles them in.
const ABSENT: &[(&str, &str)] = &[
    #[cfg(not(feature = "jetstream"))]
    ("store", stream::WHY),
    #[cfg(not(feature = "jetstream"))]
    ("workers", workers::WHY),
    #[cfg(not(all(feature = "server", feature = "jetstream")))]
    ("events", "events are published by a server with NATS: build with the features `server` and `jetstream`"),
    #[cfg(not(feature = "otlp"))]
    ("telemetry", "OpenTelemetry is not compiled in: build with the feature `otlp`"),
    #[cfg(not(feature = "server"))]
    ("webhooks", crate::serve::WHY),
    #[cfg(not(feature = "server"))]
    ("incoming", crate::serve::WHY),
];

/// A section of the configuration, or its first fault. The fault fails the commands that use the section, and no others: a
/// log can be read while a part of the configuration is wrong.
#[derive(Debug)]
pub(crate) struct Section<T>(Result<T, Failure>);

impl<T> Section<T> {
    /// Returns the section.
    ///
    /// # Errors
    /// For an unknown key, and for a value that is out of range (exit code 3).
    pub(crate) fn get(&self) -> Result<&T, Failure> {
        self.0.as_ref().map_err(Clone::clone)
    }
}

/// The configuration of a command. Each section has the type of the crate or the module that it configures.
#[derive(Debug)]
pub(crate) struct Config {
    /// The file, if there is one.
    pub(crate) file: Option<PathBuf>,
    /// The whole file, for the files that its keys name.
    pub(crate) all: Section<Value>,
    profiles: Section<ProfilesConfig>,
    pub(crate) mcp_servers: Section<Option<McpConfig>>,
    pub(crate) limits: Section<Limits>,
    pub(crate) metrics: Section<MetricsOf>,
    pub(crate) commands: Section<Isolation>,
    pub(crate) memory: Section<Option<MemoryOptions>>,
    #[cfg(feature = "server")]
    pub(crate) doors: Section<doors::Table>,
    pub(crate) client_tools: Section<BTreeMap<String, ClientTool>>,
    pub(crate) webhooks: Section<BTreeMap<String, webhook::Entry>>,
    pub(crate) incoming: Section<BTreeMap<String, incoming::Entry>>,
    pub(crate) telemetry: Section<Option<otlp::Table>>,
    pub(crate) store: Section<stream::Settings>,
    pub(crate) workers: Section<Option<workers::Settings>>,
    #[cfg(all(feature = "server", feature = "jetstream"))]
    pub(crate) events: Section<Option<event_stream::Settings>>,
    #[cfg(not(all(feature = "server", feature = "jetstream")))]
    events: Section<()>,
}

/// `[serve]`, read once for each of its parts: a worker uses the one without the other.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, bound = "D: Deserialize<'de> + Default, T: Deserialize<'de> + Default")]
struct Serve<D, T> {
    doors: D,
    client_tools: T,
}

impl Config {
    /// Reads a file; without one, each section has its default. A file that cannot be read is a fault of every section.
    pub(crate) fn read(file: Option<&Path>) -> Self {
        let text = file.map_or_else(|| Ok(String::new()), |file| definition::read_text(file, BYTES_MAX));
        Self::of(file, &text)
    }

    /// Makes the sections of a text.
    pub(crate) fn of(file: Option<&Path>, text: &io::Result<String>) -> Self {
        let reader = Reader::new(file, text);
        let all = Section(reader.all());
        let mcp_servers = Section(all.get().and_then(|all| reader.checked(all, mcp_servers)));
        Self {
            file: file.map(Path::to_owned),
            all,
            profiles: Section(reader.profiles(text)),
            mcp_servers,
            limits: reader.section("limits", |limits: Limits| limits.check().map(|()| limits)),
            metrics: reader.section("metrics", MetricsOf::checked),
            commands: reader.section("commands", CommandsConfig::isolation),
            memory: reader.section("memory", |memory: Option<MemoryOptions>| {
                memory.iter().try_for_each(MemoryOptions::check).map_err(|what| format!("memory.{what}"))?;
                Ok(memory)
            }),
            #[cfg(feature = "server")]
            doors: reader.section("serve", |Serve { doors, client_tools: IgnoredAny }| doors::Table::checked(doors)),
            client_tools: reader
                .section("serve", |Serve { doors: IgnoredAny, client_tools }| client_tools::checked(client_tools)),
            webhooks: reader.section("webhooks", Ok),
            incoming: reader.section("incoming", Ok),
            telemetry: reader.section("telemetry", Ok),
            store: reader.section("store", Ok),
            workers: reader.section("workers", Ok),
            events: reader.section("events", Ok),
        }
    }

    /// Returns the profiles, after a check of all sections.
    ///
    /// # Errors
    /// For a key or table that is not known, and for a value that is out of range (exit code 3).
    pub(crate) fn profiles(&self) -> Result<Profiles, Failure> {
        let profiles = self.profiles.get()?.profiles().map_err(|error| self.invalid(with_sources(&error)))?;
        self.mcp_servers.get()?;
        self.webhooks.get()?;
        #[cfg(feature = "server")]
        self.doors.get()?;
        self.incoming.get()?;
        #[cfg(feature = "server")]
        incoming::check(self)?;
        self.telemetry.get()?;
        #[cfg(feature = "otlp")]
        otlp::check(self)?;
        // Without the option `--store`: the file alone is checked.
        self.store.get()?;
        #[cfg(feature = "jetstream")]
        stream::options(None, self)?;
        self.limits.get()?;
        self.metrics.get()?;
        self.commands.get()?;
        self.client_tools.get()?;
        workers::tools(None, self)?;
        self.events.get()?;
        #[cfg(all(feature = "server", feature = "jetstream"))]
        event_stream::read(None, self)?;
        self.memory.get()?;
        Ok(profiles)
    }

    /// A fault of the configuration, with its file.
    pub(crate) fn invalid(&self, what: impl std::fmt::Display) -> Failure {
        invalid(self.file.as_deref(), what)
    }
}

fn invalid(file: Option<&Path>, what: impl std::fmt::Display) -> Failure {
    let place = file.map(|file| format!("{}: ", file.display())).unwrap_or_default();
    Failure::new(INVALID, format!("{place}{what}"))
}

/// Reads `mcpServers`. An unknown key there is an error, as everywhere in the configuration.
fn mcp_servers(all: &Value) -> Result<Option<McpConfig>, String> {
    let Some(servers) = all.get("mcpServers").or_else(|| all.get("mcp_servers")) else { return Ok(None) };
    let config =
        McpConfig::from_value(serde_json::json!({ "mcpServers": servers })).map_err(|error| error.to_string())?;
    if let Some(warning) = config.warnings.first() {
        return Err(format!("mcpServers: {warning}"));
    }
    if let Some(server) = config.servers.iter().find(|server| server.is_malformed)
        && let Err(fault) = &server.transport
    {
        return Err(format!("mcpServers: server `{}`: {fault}", server.name));
    }
    Ok(Some(config))
}

/// The text of a configuration while its sections are made.
struct Reader<'a> {
    file: Option<&'a Path>,
    text: &'a str,
    sections: Result<DeTable<'a>, Failure>,
}

impl<'a> Reader<'a> {
    fn new(file: Option<&'a Path>, text: &'a io::Result<String>) -> Self {
        let name = file.unwrap_or(Path::new(""));
        let (text, sections) = match text {
            Ok(text) => (text.as_str(), DeTable::parse(text).map_err(|error| fault(file, text, &error))),
            Err(error) => ("", Err(definition::unreadable(name, error))),
        };
        Self { file, text, sections: sections.map(toml::Spanned::into_inner) }
    }

    fn all(&self) -> Result<Value, Failure> {
        self.sections.as_ref().map_err(Clone::clone)?;
        let table = toml::from_str(self.text).map_err(|error| fault(self.file, self.text, &error))?;
        Ok(Value::Table(table))
    }

    /// The profiles. A table that is not known is a fault of theirs.
    fn profiles(&self, text: &io::Result<String>) -> Result<ProfilesConfig, Failure> {
        let read = match text {
            Ok(text) => ProfilesConfig::from_toml(text).map_err(|error| with_sources(&error)),
            Err(error) => Err(format!("cannot read {}: {error}", self.file.unwrap_or(Path::new("")).display())),
        };
        read.map_err(|what| invalid(self.file, what))
    }

    /// Reads a section, and checks it.
    fn section<T, U>(&self, name: &str, check: impl FnOnce(T) -> Result<U, String>) -> Section<U>
    where
        T: DeserializeOwned + Default,
    {
        Section(self.read(name).and_then(|section| self.checked(section, check)))
    }

    fn read<T: DeserializeOwned + Default>(&self, name: &str) -> Result<T, Failure> {
        let sections = self.sections.as_ref().map_err(Clone::clone)?;
        let Some(section) = sections.get(name).cloned() else { return Ok(T::default()) };
        if let Some((_, why)) = ABSENT.iter().find(|(absent, _)| *absent == name) {
            return Err(invalid(self.file, format!("{name}: {why}")));
        }
        T::deserialize(ValueDeserializer::from(section)).map_err(|error| fault(self.file, self.text, &error))
    }

    fn checked<T, U>(&self, section: T, check: impl FnOnce(T) -> Result<U, String>) -> Result<U, Failure> {
        check(section).map_err(|what| invalid(self.file, what))
    }
}

/// A fault of the text, with its line and column.
fn fault(file: Option<&Path>, text: &str, error: &toml::de::Error) -> Failure {
    invalid(file, config_fault(text, error))
}
