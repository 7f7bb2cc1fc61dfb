//! Tools of MCP servers: processes that speak the protocol on their standard streams, and HTTP addresses.

mod answer;
mod call;
mod config;
mod connection;
mod handler;
mod names;
mod page;
mod server;

use std::sync::Arc;

use futures_util::future::join_all;

pub use config::{McpConfig, McpConfigError, McpServerConfig, McpTransport};
pub use names::prefix;
pub use server::McpError;

use crate::{Registry, Workspace};
use server::Server;

/// MCP servers whose tools are in a registry. Cheap to clone, and every clone is the same.
///
/// A tool is registered as `server__tool`. It is `at_most_once` unless its configuration says otherwise: what a server
/// says about its tools (annotations) is a hint of a stranger, and does not change what recovery may do. When a server
/// says that its list has changed, and after every new connection, the tools are listed again and the registry follows.
///
/// A server whose connection is lost fails the calls that were open, with an error that may be retried, and is
/// connected again by the next call. Server processes lead process groups of their own, see only the usual variables
/// of the environment and those that their configuration names, and are killed, whole, on [`McpServers::shutdown`] and
/// when the last clone and the registry are dropped.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use rethread_tools::{Registry, Workspace};
/// use rethread_tools::mcp::{McpConfig, McpServers};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let text = r#"{ "mcpServers": { "time": { "command": "uvx", "args": ["mcp-server-time"] } } }"#;
/// let registry = Registry::new();
/// let workspace = Arc::new(Workspace::open(".")?);
/// let (servers, reports) = McpServers::connect(McpConfig::parse(text)?, &registry, &workspace).await;
/// for report in &reports {
///     match &report.tools {
///         Ok(tools) => println!("{}: {}", report.server, tools.join(", ")),
///         Err(error) => eprintln!("{}: {error}", report.server),
///     }
/// }
/// servers.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct McpServers(Arc<[Arc<Server>]>);

/// How it went with one server.
#[derive(Debug)]
pub struct ServerReport {
    /// Its name in the configuration.
    pub server: String,
    /// The names under which its tools are registered, sorted; or why there are none.
    pub tools: Result<Vec<String>, McpError>,
    /// What was passed over: tools that cannot be registered.
    pub warnings: Vec<String>,
}

impl McpServers {
    /// Connects to all servers of a configuration at once and registers their tools. One that fails stops nothing;
    /// its report says why. Ends at the latest when the slowest server's `connect_timeout` is over. What servers need
    /// in the background runs on the tokio runtime that this is called on.
    ///
    /// Servers that are isolated write in `workspace` and do not see what is reserved there, see
    /// [`McpServerConfig::isolation`].
    pub async fn connect(
        config: McpConfig,
        registry: &Registry,
        workspace: &Arc<Workspace>,
    ) -> (Self, Vec<ServerReport>) {
        let runtime = tokio::runtime::Handle::current();
        let servers: Arc<[_]> = config
            .servers
            .into_iter()
            .filter(|server| server.enabled)
            .map(|server| Server::new(server, registry, workspace, runtime.clone()))
            .collect();
        let servers = Self(servers);
        let reports = servers.refresh().await;
        (servers, reports)
    }

    /// Lists the tools of all servers again, after connecting to those that are not connected.
    pub async fn refresh(&self) -> Vec<ServerReport> {
        join_all(self.0.iter().map(|server| async move {
            let mut warnings = Vec::new();
            let tools = server.refresh(&mut warnings).await;
            ServerReport { server: server.config.name.clone(), tools, warnings }
        }))
        .await
    }

    /// Takes the tools out of the registry, closes all connections and ends their processes, at most two
    /// seconds each.
    pub async fn shutdown(&self) {
        join_all(self.0.iter().map(|server| server.shutdown())).await;
    }
}

#[cfg(test)]
mod tests;
