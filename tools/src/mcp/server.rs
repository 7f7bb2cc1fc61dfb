//! One server: its connection, which comes and goes, and its tools, which stay registered meanwhile.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::text::with_sources;
use rethread_events::tool::Recovery;
use rmcp::model::Tool as RemoteTool;
use rmcp::model::{PaginatedRequestParams, ServerNotification, SubscriptionFilter};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::call::{self, KeyPlace};
use super::config::{McpServerConfig, McpTransport};
use super::connection::Connection;
use super::{names, page};
use crate::registry::WeakRegistry;
use crate::schema::Arguments;
use crate::{Registry, Tool, Workspace};

/// How many tools of one server are taken.
const N_TOOLS_MAX: usize = 512;
/// How many pages of its list are read.
const N_PAGES_MAX: usize = 64;
/// The bytes of a description, which weighs on every request to a model.
const DESCRIPTION_BYTES_MAX: usize = 4 * 1024;
/// How long a server that let a call wait in vain has to show that it lives.
const PING: Duration = Duration::from_secs(5);
/// How long changes of a list are collected before it is read again.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// Why a server's tools are not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// Its part of the configuration cannot be used.
    #[error("its configuration cannot be used: {0}")]
    Configuration(String),
    /// It cannot be connected to.
    #[error("it cannot be connected to: {0}")]
    Connection(String),
    /// It does not list its tools.
    #[error("it does not list its tools: {0}")]
    List(String),
    /// It was shut down.
    #[error("it was shut down")]
    Closed,
}

impl From<McpError> for ExecutionError {
    fn from(error: McpError) -> Self {
        let text = error.to_string();
        match error {
            McpError::Configuration(_) => Self::new(ErrorKind::Configuration, text),
            // No request was sent to it, so a later retry does no harm.
            McpError::Connection(_) | McpError::List(_) => Self::retryable(ErrorKind::Connection, text),
            McpError::Closed => Self::new(ErrorKind::Cancelled, text),
        }
    }
}

pub(super) struct Server {
    pub(super) config: McpServerConfig,
    /// Where it may write, if it is isolated.
    pub(super) workspace: Arc<Workspace>,
    /// Weak, because the tools in it hold this.
    registry: WeakRegistry,
    /// The runtime on which all connections run.
    runtime: Handle,
    /// Locked while a connection is made, so that only one is made.
    connection: tokio::sync::Mutex<Option<Arc<Connection>>>,
    /// The server's own names of its tools, by the names they are registered under.
    registered: Mutex<BTreeMap<String, String>>,
    /// Locked while the list is read, so that an older one does not replace a newer one.
    listing: tokio::sync::Mutex<()>,
    relist: Arc<tokio::sync::Notify>,
    closed: CancellationToken,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

impl Server {
    pub(super) fn new(
        config: McpServerConfig,
        registry: &Registry,
        workspace: &Arc<Workspace>,
        runtime: Handle,
    ) -> Arc<Self> {
        let server = Arc::new(Self {
            config,
            workspace: Arc::clone(workspace),
            registry: registry.downgrade(),
            runtime,
            connection: tokio::sync::Mutex::new(None),
            registered: Mutex::new(BTreeMap::new()),
            listing: tokio::sync::Mutex::new(()),
            relist: Arc::default(),
            closed: CancellationToken::new(),
        });
        server.runtime.spawn(relist(Arc::downgrade(&server), Arc::clone(&server.relist), server.closed.clone()));
        server
    }

    /// Returns the connection, made if there is none, and whether it was made now.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<(Arc<Connection>, bool), McpError> {
        if self.closed.is_cancelled() {
            return Err(McpError::Closed);
        }
        if let Err(fault) = &self.config.transport {
            return Err(McpError::Configuration(fault.clone()));
        }
        let mut current = self.connection.lock().await;
        if let Some(connection) = current.as_ref()
            && self.is_usable(connection).await
        {
            return Ok((Arc::clone(connection), false));
        }
        // The old one, if there is one, ends with its process before the new one begins.
        if let Some(old) = current.take() {
            old.close().await;
        }
        let server = Arc::clone(self);
        let opened = self.runtime.spawn(async move { Connection::open(&server).await });
        let opened = opened.await.unwrap_or_else(|error| Err(format!("internal error: {error}")));
        let connection = Arc::new(opened.map_err(McpError::Connection)?);
        *current = Some(Arc::clone(&connection));
        self.runtime.spawn(follow(Arc::downgrade(self), connection.peer.clone(), self.closed.clone()));
        Ok((connection, true))
    }

    /// Whether calls can be made over a connection. One on which a call was given up has to show that it lives; as long
    /// as other calls are open on it, it stays, since a server may be busy with one of them.
    async fn is_usable(&self, connection: &Connection) -> bool {
        if connection.is_closed() {
            return false;
        }
        if !connection.is_suspect() || !connection.calls.is_empty() {
            return true;
        }
        let answers = tokio::select! {
            answers = connection.responds(self.config.connect_timeout.min(PING)) => answers,
            () = self.closed.cancelled() => return true,
        };
        if !answers && connection.calls.is_empty() {
            tracing::warn!(server = self.config.name, "an MCP server does not respond: reconnecting");
            return false;
        }
        true
    }

    /// Checks whether a connection on which a call was given up can still be used. Calls that arrive meanwhile wait.
    pub(super) fn check_later(self: &Arc<Self>, connection: &Arc<Connection>) {
        connection.mark_suspect();
        let (server, connection) = (Arc::clone(self), Arc::clone(connection));
        self.runtime.spawn(async move {
            let mut current = server.connection.lock().await;
            let is_current = current.as_ref().is_some_and(|current| Arc::ptr_eq(current, &connection));
            if is_current && !server.is_usable(&connection).await {
                *current = None;
                connection.close().await;
            }
        });
    }

    /// Has the list read again, soon.
    pub(super) fn request_relist(&self) {
        self.relist.notify_one();
    }

    /// Reads the list of tools and has the registry follow it. Gives the names, sorted.
    pub(super) async fn refresh(self: &Arc<Self>, warnings: &mut Vec<String>) -> Result<Vec<String>, McpError> {
        let _listing = self.listing.lock().await;
        let (connection, _) = self.connection().await?;
        let listed = timeout(self.config.connect_timeout, list(&connection, warnings)).await;
        let tools = match listed {
            Ok(Ok(tools)) => tools,
            Ok(Err(error)) => return Err(McpError::List(self.config.located(&error))),
            Err(_) => {
                let ms = self.config.connect_timeout.as_millis();
                return Err(McpError::List(self.config.located(&format!("no answer within {ms} ms"))));
            }
        };
        Ok(self.register(tools, warnings))
    }

    fn register(self: &Arc<Self>, tools: Vec<RemoteTool>, warnings: &mut Vec<String>) -> Vec<String> {
        let Some(registry) = self.registry.upgrade() else { return Vec::new() };
        let mut registered = self.registered.lock();
        let mut now = BTreeMap::new();
        let own: HashSet<String> = registered.keys().cloned().collect();
        let mut taken: HashSet<String> =
            registry.list().iter().map(|tool| tool.name().to_owned()).filter(|name| !own.contains(name)).collect();
        for (number, tool) in (1..).zip(tools).filter(|(_, tool)| self.is_offered(&tool.name)) {
            let remote = tool.name.to_string();
            if let Some(reason) = page::left_out(&tool) {
                warnings.push(match remote.as_str() {
                    "" => format!("tool number {number} of the list is left out: {reason}"),
                    _ => format!("the tool `{}` is left out: {}", shown(&remote), shown(reason)),
                });
                continue;
            }
            if let Some(fields) = page::removed(tool.meta.as_ref()) {
                let (name, fields) = (shown(&remote), shown(fields));
                warnings.push(format!("fields of the tool `{name}` cannot be read and are ignored: {fields}"));
            }
            if now.values().any(|known| *known == remote) {
                warnings.push(format!("the tool `{}` is listed twice", shown(&remote)));
                continue;
            }
            let name = names::unique(&self.config.name, &remote, &taken);
            match registry.replace(self.tool(name.clone(), tool)) {
                Ok(()) => {
                    taken.insert(name.clone());
                    now.insert(name, remote);
                }
                Err(error) => {
                    warnings.push(format!("the tool `{}` is left out: {}", shown(&remote), with_sources(&error)))
                }
            }
        }
        for gone in registered.keys().filter(|name| !now.contains_key(*name)) {
            registry.unregister(gone);
        }
        *registered = now;
        registered.keys().cloned().collect()
    }

    fn is_offered(&self, name: &str) -> bool {
        self.config.allowed_tools.as_ref().is_none_or(|allowed| allowed.iter().any(|allowed| allowed == name))
            && !self.config.disabled_tools.iter().any(|disabled| disabled == name)
    }

    fn tool(self: &Arc<Self>, name: String, remote: RemoteTool) -> Tool {
        let mut schema = Value::Object((*remote.input_schema).clone());
        if let Some(schema) = schema.as_object_mut() {
            // Arguments are an object; some servers leave that unsaid.
            schema.entry("type").or_insert_with(|| json!("object"));
            schema.entry("properties").or_insert_with(|| json!({}));
        }
        let mut description = remote.description.as_deref().unwrap_or_default().to_owned();
        description.truncate(description.floor_char_boundary(DESCRIPTION_BYTES_MAX));
        let output = remote.output_schema.as_ref();
        let output =
            output.and_then(|schema| Arguments::compile(&Value::Object((**schema).clone())).ok()).map(Arc::new);
        let config = &self.config;
        let recovery = config.recovery.get(&*remote.name).or(config.recovery.get("*")).copied();
        let argument = config.idempotency_argument.get(&*remote.name).or(config.idempotency_argument.get("*"));
        let key = (recovery == Some(Recovery::Idempotent)).then(|| KeyPlace { argument: argument.cloned() });
        if let Some(KeyPlace { argument: Some(argument) }) = &key {
            remove_argument(&mut schema, argument);
        }
        let is_approved = self.config.approval.iter().any(|tool| *tool == remote.name || tool == "*");
        let server = Arc::clone(self);
        let remote = remote.name.to_string();
        let tool = Tool::new(name, description, schema, move |arguments, cx| {
            let (server, remote, output, key) = (Arc::clone(&server), remote.clone(), output.clone(), key.clone());
            async move { call::call(&server, remote, arguments, output.as_deref(), key, cx).await }
        })
        .of_mcp(config.transport.as_ref().ok().and_then(McpTransport::place))
        .recovery(recovery.unwrap_or(Recovery::AtMostOnce))
        .timeout_ms(u64::try_from(self.config.timeout.as_millis()).unwrap_or(u64::MAX));
        if is_approved { tool.with_approval() } else { tool }
    }

    pub(super) async fn shutdown(&self) {
        self.closed.cancel();
        let registered = std::mem::take(&mut *self.registered.lock());
        if let Some(registry) = self.registry.upgrade() {
            for name in registered.keys() {
                registry.unregister(name);
            }
        }
        if let Some(connection) = self.connection.lock().await.take() {
            connection.close().await;
        }
    }
}

/// All pages of a server's list.
async fn list(connection: &Connection, warnings: &mut Vec<String>) -> Result<Vec<RemoteTool>, String> {
    let mut tools = Vec::new();
    let mut cursor = None;
    let mut cursors = HashSet::new();
    loop {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = connection.peer.list_tools(Some(params)).await.map_err(|error| call::reason(&error))?;
        if let Some(fields) = page::removed(page.meta.as_ref()) {
            let rest = if fields.contains("`nextCursor`") { "; the list ends here" } else { "" };
            warnings
                .push(format!("fields of the list of tools cannot be read and are ignored: {}{rest}", shown(fields)));
        }
        tools.extend(page.tools);
        // Some servers write an empty text for no further page.
        cursor = page.next_cursor.filter(|cursor| !cursor.is_empty());
        let Some(next) = &cursor else { break };
        if !cursors.insert(next.clone()) {
            warnings.push("the list of tools names a page that it named before: the rest is ignored".to_owned());
            break;
        }
        if tools.len() > N_TOOLS_MAX || cursors.len() >= N_PAGES_MAX {
            warnings.push(format!(
                "the list of tools has over {N_PAGES_MAX} pages or {N_TOOLS_MAX} tools: the rest is ignored"
            ));
            break;
        }
    }
    tools.truncate(N_TOOLS_MAX);
    Ok(tools)
}

/// Reads the list again whenever the server reports a change.
async fn relist(server: Weak<Server>, asked: Arc<tokio::sync::Notify>, closed: CancellationToken) {
    loop {
        tokio::select! {
            () = asked.notified() => (),
            () = closed.cancelled() => return,
        }
        tokio::time::sleep(DEBOUNCE).await;
        let Some(server) = server.upgrade() else { return };
        let name = &server.config.name;
        let mut warnings = Vec::new();
        if let Err(error) = server.refresh(&mut warnings).await {
            tracing::warn!(server = name, %error, "the tools of an MCP server could not be listed again");
        }
        for warning in warnings {
            tracing::warn!(server = name, warning, "a tool of an MCP server");
        }
    }
}

/// Servers of newer protocol versions notify only subscribers of changes.
async fn follow(server: Weak<Server>, peer: rmcp::service::Peer<rmcp::RoleClient>, closed: CancellationToken) {
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    let followed = async {
        // Older protocol versions have no subscriptions, and always notify.
        let Ok(mut subscription) = peer.listen(filter).await else { return };
        while let Ok(Some(notification)) = subscription.next().await {
            if let ServerNotification::ToolListChangedNotification(_) = notification
                && let Some(server) = server.upgrade()
            {
                server.request_relist();
            }
        }
    };
    tokio::select! {
        () = followed => (),
        () = closed.cancelled() => (),
    }
}

fn shown(name: &str) -> String {
    name.chars().take(80).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Removes an argument from a schema that is shown to a model.
fn remove_argument(schema: &mut Value, argument: &str) {
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.remove(argument);
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name.as_str() != Some(argument));
    }
}
