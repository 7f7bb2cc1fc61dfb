//! `mcpServers` files, as everyone writes them.

mod expand;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rethread_events::expression::nearest;
use rethread_events::tool::{McpPlace, Recovery};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use expand::expand;

use crate::{Isolation, NamedFiles};

/// The bytes of a file.
const FILE_BYTES_MAX: usize = 1024 * 1024;
/// How many servers a file may have.
const N_SERVERS_MAX: usize = 100;
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Keys of a server, with their other names.
const KEYS: [&str; 29] = [
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "httpUrl",
    "headers",
    "type",
    "transport",
    "enabled",
    "disabled",
    "timeout",
    "timeoutMs",
    "timeout_ms",
    "execute_timeout",
    "connect_timeout",
    "connectTimeoutMs",
    "connect_timeout_ms",
    "allowedTools",
    "allowed_tools",
    "includeTools",
    "disabledTools",
    "disabled_tools",
    "excludeTools",
    "recovery",
    "idempotencyArgument",
    "idempotency_argument",
    "approval",
    "isolation",
];
/// Keys of `isolation`.
const ISOLATION_KEYS: [&str; 2] = ["network", "writable"];
/// Keys of a server that say something to other programs, and nothing here.
const IGNORED_KEYS: [&str; 9] = [
    "description",
    "autoApprove",
    "alwaysAllow",
    "trust",
    "icon",
    "sse_read_timeout",
    "disabledReason",
    "version",
    "name",
];

/// The servers of a file.
#[derive(Debug, Clone, Default)]
pub struct McpConfig {
    /// The servers, sorted by name.
    pub servers: Vec<McpServerConfig>,
    /// Unknown keys that were skipped, each with its place.
    pub warnings: Vec<String>,
}

/// One server.
#[derive(Clone)]
pub struct McpServerConfig {
    /// Its name, the first part of its tools' names.
    pub name: String,
    /// How it is reached; or why it cannot be, in words.
    pub transport: Result<McpTransport, String>,
    /// Whether `transport` is a fault of the file, and not a variable of the environment that is not set.
    pub is_malformed: bool,
    /// Whether it is used.
    pub enabled: bool,
    /// How long a call of one of its tools may take. 60 s unless set.
    pub timeout: Duration,
    /// How long it may take to be connected and to list its tools. 30 s unless set.
    pub connect_timeout: Duration,
    /// The only tools that are offered, by the server's own names, when there is such a list.
    pub allowed_tools: Option<Vec<String>>,
    /// Tools that are not offered.
    pub disabled_tools: Vec<String>,
    /// What recovery may do with calls whose answer was lost, by the server's own names of tools; `*` is all others.
    pub recovery: BTreeMap<String, Recovery>,
    /// The argument that gets the idempotency key of a call, by the server's own names of tools that are `idempotent`; `*`
    /// is all others. The model neither sees nor sets it. `_meta` has the key in any case.
    pub idempotency_argument: BTreeMap<String, String>,
    /// Tools whose calls a person approves, by the server's own names; `*` is all.
    pub approval: Vec<String>,
    /// The isolation of its process. As for commands, with the network, unless set.
    pub isolation: Isolation,
    /// Values that must not be seen in errors.
    pub(super) secrets: Vec<String>,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// A process, on its standard streams.
    Process {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables of its environment, beside the usual ones.
        env: BTreeMap<String, String>,
        /// The folder it runs in; the one of this process unless set.
        cwd: Option<String>,
    },
    /// An address, by streamable HTTP.
    Http {
        /// The address.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
    },
}

impl McpTransport {
    /// Where the server is, for traces.
    pub(super) fn place(&self) -> Option<McpPlace> {
        match self {
            Self::Process { .. } => Some(McpPlace::Process),
            Self::Http { url, .. } => {
                let url = reqwest::Url::parse(url).ok()?;
                // An address of version 6 is in brackets there.
                let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
                Some(McpPlace::Http { host, port: url.port_or_known_default()? })
            }
        }
    }

    /// The address, for errors; without its user and its query, which may be secret.
    fn address(&self) -> Option<String> {
        let Self::Http { url, .. } = self else { return None };
        let url = reqwest::Url::parse(url).ok()?;
        Some(format!("{}{}", url.origin().ascii_serialization(), url.path()))
    }
}

impl McpTransport {
    /// Returns the files that it names, see [`NamedFiles::of`]. Blocks on the file system.
    pub fn named_files(&self) -> NamedFiles {
        let Self::Process { command, args, env, cwd } = self else { return NamedFiles::default() };
        let folder = cwd.as_deref().map_or_else(std::env::current_dir, std::path::absolute);
        folder.map(|folder| NamedFiles::of(command, args, env, &folder)).unwrap_or_default()
    }
}

/// A file that is no `mcpServers` file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpConfigError {
    /// It is not JSON.
    #[error("not JSON: {0}")]
    Json(String),
    /// It has another shape.
    #[error("{0}")]
    Shape(String),
}

impl McpConfig {
    /// Reads a file: `{"mcpServers": {NAME: {…}}}`, or `servers` in its place. Variables of the environment are put in
    /// for `${NAME}`, `${env:NAME}` and `${NAME:-default}`. A server with a fault is kept, with the fault in its
    /// `transport`; unknown keys are warned of.
    ///
    /// Of `timeout`, which is in seconds in some files and in milliseconds in others, a number below 1000 is taken as
    /// seconds.
    pub fn parse(text: &str) -> Result<Self, McpConfigError> {
        Self::parse_with(text, &|name| std::env::var(name).ok())
    }

    pub(super) fn parse_with(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, McpConfigError> {
        if text.len() > FILE_BYTES_MAX {
            return Err(McpConfigError::Shape(format!("over {FILE_BYTES_MAX} bytes")));
        }
        let value: Value = serde_json::from_str(text).map_err(|error| McpConfigError::Json(error.to_string()))?;
        Self::from_value_with(value, variable)
    }

    /// The same from a value, for files that are not JSON.
    pub fn from_value(value: Value) -> Result<Self, McpConfigError> {
        Self::from_value_with(value, &|name| std::env::var(name).ok())
    }

    fn from_value_with(value: Value, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, McpConfigError> {
        let Value::Object(mut file) = value else {
            return Err(McpConfigError::Shape("the file must be an object with `mcpServers`".to_owned()));
        };
        let mut warnings = Vec::new();
        let servers = match (file.remove("mcpServers"), file.remove("servers")) {
            (Some(Value::Object(servers)), None) | (None, Some(Value::Object(servers))) => servers,
            (Some(Value::Object(servers)), Some(_)) => {
                warnings.push("`servers` is ignored, because there is `mcpServers`".to_owned());
                servers
            }
            (None, None) => return Err(McpConfigError::Shape("there is no `mcpServers`".to_owned())),
            _ => return Err(McpConfigError::Shape("`mcpServers` must be an object".to_owned())),
        };
        if servers.len() > N_SERVERS_MAX {
            return Err(McpConfigError::Shape(format!("there are over {N_SERVERS_MAX} servers")));
        }
        // Other fields of VS Code, and schemas for editors.
        file.retain(|key, _| key != "inputs" && key != "$schema");
        warnings.extend(file.keys().map(|key| format!("unknown key `{key}`")));
        let mut servers: Vec<_> =
            servers.into_iter().map(|(name, value)| server(name, value, variable, &mut warnings)).collect();
        servers.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { servers, warnings })
    }
}

fn server(
    name: String,
    value: Value,
    variable: &dyn Fn(&str) -> Option<String>,
    warnings: &mut Vec<String>,
) -> McpServerConfig {
    let mut server = McpServerConfig {
        name: name.clone(),
        transport: Err(String::new()),
        is_malformed: false,
        enabled: true,
        timeout: TIMEOUT_DEFAULT,
        connect_timeout: CONNECT_TIMEOUT_DEFAULT,
        allowed_tools: None,
        disabled_tools: Vec::new(),
        recovery: BTreeMap::new(),
        idempotency_argument: BTreeMap::new(),
        approval: Vec::new(),
        isolation: Isolation { network: true, ..Isolation::default() },
        secrets: Vec::new(),
    };
    let Value::Object(map) = value else {
        server.transport = Err("it must be an object".to_owned());
        server.is_malformed = true;
        return server;
    };
    let mut keys = Keys { map, variable, fault: None, lacks_variable: false, secrets: Vec::new() };
    server.enabled = keys.flag("enabled").unwrap_or(true) && !keys.flag("disabled").unwrap_or(false);
    if let Some(timeout) = keys.duration(&["timeoutMs", "timeout_ms"], &["timeout"], &["execute_timeout"]) {
        server.timeout = timeout;
    }
    if let Some(timeout) = keys.duration(&["connectTimeoutMs", "connect_timeout_ms"], &[], &["connect_timeout"]) {
        server.connect_timeout = timeout;
    }
    server.allowed_tools = keys.texts(&["allowedTools", "allowed_tools", "includeTools"]);
    server.disabled_tools = keys.texts(&["disabledTools", "disabled_tools", "excludeTools"]).unwrap_or_default();
    server.recovery = keys.by_tool("recovery", "`safe`, `idempotent` or `at_most_once`");
    server.idempotency_argument = ["idempotencyArgument", "idempotency_argument"]
        .into_iter()
        .flat_map(|key| keys.by_tool::<String>(key, "the name of an argument"))
        .collect();
    server.approval = keys.approval();
    keys.isolation(&mut server.isolation);
    let transport = keys.transport();
    server.secrets = std::mem::take(&mut keys.secrets);
    server.transport = match keys.fault.take() {
        Some(fault) => Err(fault),
        None => transport,
    };
    server.is_malformed = server.transport.is_err() && !keys.lacks_variable;
    let unknown = keys.map.keys().filter(|key| !IGNORED_KEYS.contains(&key.as_str()));
    let known = KEYS.map(|key| format!("`{key}`")).join(", ");
    warnings.extend(unknown.map(|key| {
        let meant = nearest(key, KEYS).map(|meant| format!(" (did you mean `{meant}`?)")).unwrap_or_default();
        format!("server `{name}`: unknown key `{key}`, expected one of {known}{meant}")
    }));
    server
}

/// The keys of a server, taken out one by one. The first fault is kept.
struct Keys<'a> {
    map: Map<String, Value>,
    variable: &'a dyn Fn(&str) -> Option<String>,
    fault: Option<String>,
    /// Whether the fault is a variable that is not set.
    lacks_variable: bool,
    secrets: Vec<String>,
}

impl Keys<'_> {
    fn fail(&mut self, fault: String) {
        self.fault.get_or_insert(fault);
    }

    fn take<T>(&mut self, key: &str, what: &str, read: impl FnOnce(&Value) -> Option<T>) -> Option<T> {
        let value = self.map.remove(key).filter(|value| !value.is_null())?;
        let found = read(&value);
        if found.is_none() {
            self.fail(format!("`{key}` must be {what}"));
        }
        found
    }

    fn flag(&mut self, key: &str) -> Option<bool> {
        self.take(key, "true or false", Value::as_bool)
    }

    fn duration(&mut self, ms: &[&str], either: &[&str], seconds: &[&str]) -> Option<Duration> {
        let mut found = None;
        let number = |value: &Value| value.as_f64().filter(|number| *number > 0.0 && *number < 1e9);
        for key in ms {
            found = found.or(self.take(key, "a number of milliseconds", number).map(|ms| ms / 1000.0));
        }
        for key in either {
            let read = self.take(key, "a number of seconds or milliseconds", number);
            found = found.or(read.map(|given| if given < 1000.0 { given } else { given / 1000.0 }));
        }
        for key in seconds {
            found = found.or(self.take(key, "a number of seconds", number));
        }
        found.map(Duration::from_secs_f64)
    }

    fn texts(&mut self, keys: &[&str]) -> Option<Vec<String>> {
        let list = |value: &Value| {
            let texts: Option<Vec<_>> = value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect();
            texts
        };
        let mut found = None;
        for key in keys {
            found = found.or(self.take(key, "a list of texts", list));
        }
        found
    }

    /// A value for all tools, or values by tool.
    fn by_tool<T: DeserializeOwned>(&mut self, key: &str, what: &str) -> BTreeMap<String, T> {
        let read = |value: &Value| match value {
            Value::String(_) => Some(BTreeMap::from([("*".to_owned(), serde_json::from_value(value.clone()).ok()?)])),
            _ => serde_json::from_value(value.clone()).ok(),
        };
        self.take(key, &format!("{what}, or an object of these by tool"), read).unwrap_or_default()
    }

    fn approval(&mut self) -> Vec<String> {
        let read = |value: &Value| match value {
            Value::Bool(all) => Some(if *all { vec!["*".to_owned()] } else { Vec::new() }),
            _ => serde_json::from_value(value.clone()).ok(),
        };
        self.take("approval", "true, false or a list of tools", read).unwrap_or_default()
    }

    /// `false`, `true`, or an object with `network` and `writable`.
    fn isolation(&mut self, isolation: &mut Isolation) {
        let read = |value: &Value| match value {
            Value::Bool(_) | Value::Object(_) => Some(value.clone()),
            _ => None,
        };
        let Some(value) = self.take("isolation", "true, false or an object", read) else { return };
        let Value::Object(mut map) = value else {
            if value == Value::Bool(false) {
                *isolation = Isolation::off();
            }
            return;
        };
        if let Some(unknown) = map.keys().find(|key| !ISOLATION_KEYS.contains(&key.as_str())) {
            let meant = nearest(unknown, ISOLATION_KEYS).map(|meant| format!(" (did you mean `{meant}`?)"));
            return self.fail(format!(
                "unknown key `isolation.{unknown}`, expected `network` or `writable`{}",
                meant.unwrap_or_default()
            ));
        }
        match map.remove("network") {
            None => {}
            Some(Value::Bool(network)) => isolation.network = network,
            Some(_) => self.fail("`isolation.network` must be true or false".to_owned()),
        }
        match map.remove("writable").map(serde_json::from_value::<Vec<String>>) {
            None => {}
            Some(Ok(folders)) => {
                let folders = folders.iter().filter_map(|folder| self.expanded("isolation.writable", folder));
                isolation.writable = folders.map(Into::into).collect();
            }
            Some(Err(_)) => self.fail("`isolation.writable` must be a list of texts".to_owned()),
        }
    }

    fn text(&mut self, key: &str) -> Option<String> {
        let text = self.take(key, "a text", |value| value.as_str().map(str::to_owned))?;
        self.expanded(key, &text)
    }

    fn expanded(&mut self, key: &str, text: &str) -> Option<String> {
        match expand(text, self.variable) {
            Ok((text, put_in)) => {
                self.secrets.extend(put_in);
                Some(text)
            }
            Err(variable) => {
                self.lacks_variable |= self.fault.is_none();
                self.fail(format!("`{key}` needs the environment variable {variable}, which is not set"));
                None
            }
        }
    }

    fn table(&mut self, key: &str) -> BTreeMap<String, String> {
        let table = |value: &Value| -> Option<Vec<(String, String)>> {
            let text = |value: &Value| match value {
                Value::String(text) => Some(text.clone()),
                Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
                _ => None,
            };
            value.as_object()?.iter().map(|(name, value)| Some((name.clone(), text(value)?))).collect()
        };
        let mut found = BTreeMap::new();
        for (name, text) in self.take(key, "an object of texts", table).unwrap_or_default() {
            if let Some(text) = self.expanded(&format!("{key}.{name}"), &text) {
                self.secrets.push(text.clone());
                found.insert(name, text);
            }
        }
        found
    }

    fn transport(&mut self) -> Result<McpTransport, String> {
        let kind = self.text("type").or(self.text("transport"));
        let (command, url) = (self.text("command"), self.text("url").or(self.text("httpUrl")));
        let args = self.texts(&["args"]).unwrap_or_default();
        let args = args.iter().filter_map(|arg| self.expanded("args", arg)).collect();
        let (env, headers, cwd) = (self.table("env"), self.table("headers"), self.text("cwd"));
        let kind = kind.map(|kind| kind.to_ascii_lowercase().replace(['-', '_'], ""));
        match (kind.as_deref(), command, url) {
            (Some("stdio" | "local") | None, Some(command), None) if !command.trim().is_empty() => {
                Ok(McpTransport::Process { command, args, env, cwd })
            }
            (Some("http" | "streamablehttp" | "remote") | None, None, Some(url)) => {
                if url.starts_with("http://") || url.starts_with("https://") {
                    Ok(McpTransport::Http { url, headers })
                } else {
                    Err("`url` must begin with http:// or https://".to_owned())
                }
            }
            (Some("sse"), ..) => Err("the transport `sse` is deprecated and not supported; use the server's \
                                      address for streamable HTTP with `type` `http`"
                .to_owned()),
            (_, None, None) => Err("there must be a `command` or a `url`".to_owned()),
            (_, Some(_), Some(_)) => Err("there must be a `command` or a `url`, not both".to_owned()),
            (Some("stdio" | "local") | None, Some(_), None) => Err("`command` is empty".to_owned()),
            (Some(kind), ..) => Err(format!(
                "`type` `{kind}` does not fit; it is `stdio` with a `command`, or `http` \
                                             with a `url`"
            )),
        }
    }
}

impl McpServerConfig {
    /// The name, and the address if there is one, for errors.
    pub(super) fn label(&self) -> String {
        let at = self.address().map(|address| format!(" at {address}"));
        format!("`{}`{}", self.name, at.unwrap_or_default())
    }

    /// A text of an error without secrets, and the address if there is one.
    pub(super) fn located(&self, text: &str) -> String {
        let at = self.address().map(|address| format!(" ({address})"));
        self.scrubbed(text) + &at.unwrap_or_default()
    }

    fn address(&self) -> Option<String> {
        let address = self.transport.as_ref().ok().and_then(McpTransport::address)?;
        Some(self.scrubbed(&address))
    }

    /// A text without the values of the configuration that may be secret.
    pub(super) fn scrubbed(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in self.secrets.iter().filter(|secret| secret.len() >= 6) {
            text = text.replace(secret.as_str(), "***");
            // `Authorization: Bearer …` is seen without its first word too.
            if let Some(token) = secret.split_whitespace().last().filter(|token| token.len() >= 6) {
                text = text.replace(token, "***");
            }
        }
        text
    }
}

impl fmt::Debug for McpServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServerConfig")
            .field("name", &self.name)
            .field("transport", &self.transport)
            .field("enabled", &self.enabled)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for McpTransport {
    /// Without the values of variables and headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { command, env, cwd, .. } => f
                .debug_struct("Process")
                .field("command", command)
                .field("env", &env.keys().collect::<Vec<_>>())
                .field("cwd", cwd)
                .finish_non_exhaustive(),
            Self::Http { headers, .. } => {
                f.debug_struct("Http").field("headers", &headers.keys().collect::<Vec<_>>()).finish_non_exhaustive()
            }
        }
    }
}

#[cfg(test)]
mod tests;
