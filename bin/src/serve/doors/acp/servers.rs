//! MCP servers that the client passes with a session. Their tools are those of rethread.toml.

use std::path::Path;
use std::sync::Arc;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{EnvVariable, HttpHeader, McpServer};
use rethread::tools::mcp::{McpConfig, McpServers};
use rethread::tools::{Registry, Workspace};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use super::error::invalid;
use crate::open::OpenArgs;
use crate::toolset::{self, MoreArgs};

/// The most servers of a client.
const SERVERS_MAX: usize = 16;

/// The servers that are connected. Sessions that name the same one share it.
#[derive(Default)]
pub(super) struct Servers(Mutex<Vec<Connected>>);

struct Connected {
    name: String,
    config: Value,
    servers: McpServers,
}

impl Servers {
    /// Connects to the servers of a session that are not connected.
    ///
    /// # Errors
    /// For one that cannot be used. Those before it stay connected.
    pub(super) async fn connect(
        &self,
        given: &[McpServer],
        registry: &Registry,
        open: &OpenArgs,
        more: &MoreArgs,
        folder: &Path,
    ) -> Result<(), Error> {
        if given.is_empty() {
            return Ok(());
        }
        let mut connected = self.0.lock().await;
        for server in given {
            let (name, config) = config_of(server)?;
            match connected.iter().find(|known| known.name == name) {
                Some(known) if known.config == config => continue,
                Some(_) => {
                    let detail = format!("another server is called `{name}` in this process");
                    return Err(invalid("mcpServers", detail));
                }
                None if connected.len() >= SERVERS_MAX => {
                    return Err(invalid("mcpServers", format!("{SERVERS_MAX} at most")));
                }
                None => {}
            }
            let parsed = McpConfig::from_value(json!({ "mcpServers": { &*name: &config } }));
            let mut parsed = parsed.map_err(|error| invalid("mcpServers", error))?;
            for server in &mut parsed.servers {
                toolset::isolate(more, server);
            }
            let workspace = toolset::workspace_of(open, Some(folder), more);
            let workspace: Arc<Workspace> = workspace.map_err(|failure| invalid("cwd", failure.message))?;
            let (servers, reports) = McpServers::connect(parsed, registry, &workspace).await;
            if let Some(error) = reports.iter().find_map(|report| report.tools.as_ref().err()) {
                let detail = format!("server `{name}`: {error}");
                servers.shutdown().await;
                return Err(invalid("mcpServers", detail));
            }
            connected.push(Connected { name, config, servers });
        }
        Ok(())
    }

    /// Ends all of them.
    pub(super) async fn shutdown(&self) {
        for Connected { servers, .. } in self.0.lock().await.drain(..) {
            servers.shutdown().await;
        }
    }
}

/// The name of a server, and its entry as in a file with `mcpServers`.
fn config_of(server: &McpServer) -> Result<(String, Value), Error> {
    match server {
        McpServer::Stdio(server) => {
            let env = |EnvVariable { name, value, .. }: &EnvVariable| (name.clone(), json!(value));
            let env: Map<_, _> = server.env.iter().map(env).collect();
            Ok((server.name.clone(), json!({ "command": server.command, "args": server.args, "env": env })))
        }
        McpServer::Http(server) => {
            let header = |HttpHeader { name, value, .. }: &HttpHeader| (name.clone(), json!(value));
            let headers: Map<_, _> = server.headers.iter().map(header).collect();
            Ok((server.name.clone(), json!({ "type": "http", "url": server.url, "headers": headers })))
        }
        _ => Err(invalid("mcpServers", "servers over stdio and streamable HTTP can be used, and no others")),
    }
}
