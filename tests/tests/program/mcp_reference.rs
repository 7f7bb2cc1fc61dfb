//! The reference servers of the Model Context Protocol: listed, called, cancelled, restarted after a crash.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rethread::tools::mcp::{McpConfig, McpServers};
use rethread::tools::{Registry, ToolContext, ToolOutput, Workspace};
use rethread::{ErrorKind, ExecutionError};
use rethread_tests::needs;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The packages of the servers.
const EVERYTHING: &str = "@modelcontextprotocol/server-everything";
const FILES: &str = "@modelcontextprotocol/server-filesystem";
const MEMORY: &str = "@modelcontextprotocol/server-memory";
const VERSION: &str = "2026.8.31";

/// The program of a server, which node runs.
#[track_caller]
fn server(package: &str) -> Option<PathBuf> {
    let packages = [EVERYTHING, FILES, MEMORY].map(|package| format!("{package}@{VERSION}"));
    let folder = needs::npm(env!("CARGO_TARGET_TMPDIR"), "mcp-servers", &packages.each_ref().map(String::as_str))?;
    Some(folder.join("node_modules").join(package).join("dist/index.js"))
}

struct World {
    folder: tempfile::TempDir,
    registry: Registry,
    servers: McpServers,
    tools: Vec<String>,
}

impl World {
    async fn of(server: &Path, arguments: &[&str], folder: tempfile::TempDir) -> Self {
        let program = server.display().to_string();
        let arguments = [&[program.as_str()], arguments].concat();
        // By default, the server of memory writes beside its program, which it may not.
        let env = json!({ "MEMORY_FILE_PATH": folder.path().join("memory.jsonl") });
        // A checkout below /tmp does not exist for an isolated server, which has a /tmp of its own, unless it is named.
        let isolation = json!({ "writable": [env!("CARGO_TARGET_TMPDIR")] });
        let server = json!({
            "command": "node", "args": arguments, "env": env, "isolation": isolation, "connect_timeout": 120,
        });
        let config = json!({ "mcpServers": { "it": server } });
        let registry = Registry::new();
        let workspace = Arc::new(Workspace::open(folder.path()).unwrap());
        let config = McpConfig::from_value(config).unwrap();
        let (servers, mut reports) = McpServers::connect(config, &registry, &workspace).await;
        let report = reports.remove(0);
        let tools = report.tools.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(report.warnings, Vec::<String>::new());
        Self { folder, registry, servers, tools }
    }

    fn context(&self) -> ToolContext {
        ToolContext::new(Workspace::open(self.folder.path()).unwrap())
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<ToolOutput, ExecutionError> {
        self.registry.call(&format!("it__{tool}"), arguments, self.context()).await
    }

    async fn says(&self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments).await.unwrap_or_else(|error| panic!("{tool}: {error}")).text
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_everything_is_listed_called_and_cancelled() {
    let Some(server) = server(EVERYTHING) else { return };
    let world = World::of(&server, &["stdio"], tempfile::tempdir().unwrap()).await;
    for tool in ["it__echo", "it__get-sum", "it__trigger-long-running-operation"] {
        assert!(world.tools.iter().any(|known| known == tool), "{tool} is not among {:?}", world.tools);
    }
    assert!(world.says("echo", json!({ "message": "hello" })).await.contains("hello"));
    assert!(world.says("get-sum", json!({ "a": 2, "b": 40 })).await.contains("42"));
    let error = world.call("get-sum", json!({ "a": "two", "b": 40 })).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArguments, "{error}");
    let picture = world.call("get-tiny-image", json!({})).await.unwrap();
    assert!(!picture.parts.is_empty(), "a picture came: {picture:?}");

    let cancel = CancellationToken::new();
    let long = json!({ "duration": 3600, "steps": 3600 });
    let called =
        world.registry.call("it__trigger-long-running-operation", long, world.context().cancel(cancel.clone()));
    let (ended, ()) = tokio::join!(called, async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.cancel();
    });
    assert_eq!(ended.unwrap_err().kind, ErrorKind::Cancelled);
    // The connection is as good as before.
    assert!(world.says("echo", json!({ "message": "again" })).await.contains("again"));
    world.servers.shutdown().await;
    assert!(world.registry.list().is_empty());
}

/// The processes that have this among their arguments.
fn processes_with(argument: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = all.filter_map(|entry| entry.file_name().into_string().ok());
    ids.filter(|id| id.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|id| {
            let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(argument)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_filesystem_stays_in_its_folder_and_restarts() {
    let Some(server) = server(FILES) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().display().to_string();
    let world = World::of(&server, &[&path], folder).await;
    let file = format!("{path}/note.txt");
    world.says("write_file", json!({ "path": file, "content": "a note" })).await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "a note");
    assert!(world.says("read_text_file", json!({ "path": file })).await.contains("a note"));
    world.call("read_text_file", json!({ "path": "/etc/hostname" })).await.unwrap_err();

    // It dies between two calls: its processes are those that were given the folder, which no other process knows.
    let processes = processes_with(&path);
    if processes.is_empty() {
        return needs::skipped("there is no /proc in which the server could be found");
    }
    for process in processes {
        let _ = Command::new("kill").args(["-KILL", &process]).stderr(Stdio::null()).status();
    }
    let mut said = world.call("read_text_file", json!({ "path": file })).await;
    if let Err(error) = &said {
        assert!(error.retryable || error.kind == ErrorKind::Connection, "{error}");
        said = world.call("read_text_file", json!({ "path": file })).await;
    }
    assert!(said.unwrap_or_else(|error| panic!("{error}")).text.contains("a note"));
    world.servers.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_memory_stores_and_returns_data() {
    let Some(server) = server(MEMORY) else { return };
    let folder = tempfile::tempdir().unwrap();
    let world = World::of(&server, &[], folder).await;
    let entity = json!({ "name": "Ada-of-the-test", "entityType": "person", "observations": ["writes programs"] });
    world.says("create_entities", json!({ "entities": [entity] })).await;
    assert!(world.says("search_nodes", json!({ "query": "Ada-of-the-test" })).await.contains("writes programs"));
    world.says("delete_entities", json!({ "entityNames": ["Ada-of-the-test"] })).await;
    world.servers.shutdown().await;
}
