//! The table `workers` of rethread.toml: tools that workers run, over NATS.

use std::collections::BTreeMap;
use std::time::Duration;

use rethread::store::NatsServers;
use rethread::tools::workers::{CallerOptions, Pool, Workers};
use rethread::{Recovery, Tool};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::Config;
use crate::exit::Failure;
use crate::nats::{self, Connection, Rest, Table};
use crate::output;
use crate::stream;

/// The most tools.
const TOOLS_MAX: usize = 1024;
/// How often a call is tried again, where it may be.
const RETRIES: u32 = 3;

/// `[workers]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    #[serde(flatten)]
    connection: Connection,
    prefix: Option<String>,
    wait_ms: Option<u64>,
    heartbeat_ms: Option<u64>,
    lost_after_ms: Option<u64>,
    tools: BTreeMap<String, WorkerTool>,
    #[serde(flatten)]
    rest: Rest,
}

/// The keys besides those of the connection.
const KEYS: [&str; 5] = ["prefix", "wait_ms", "heartbeat_ms", "lost_after_ms", "tools"];

/// A tool as the configuration describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkerTool {
    description: String,
    #[serde(default = "any_object")]
    parameters: Value,
    #[serde(default)]
    recovery: Recovery,
    #[serde(default)]
    approval: bool,
    pool: Option<String>,
    pool_label: Option<String>,
    timeout_ms: Option<u64>,
    retries: Option<u32>,
    retry_delay_ms: Option<u64>,
    concurrency_max: Option<usize>,
}

fn any_object() -> Value {
    json!({ "type": "object" })
}

/// The name of the pool that is meant unless one is named.
pub(crate) const POOL: &str = "default";

/// The tools that workers run.
///
/// # Errors
/// For an unknown key, a value that cannot be meant, and a variable that is not set (exit code 3).
pub(crate) fn tools(store: Option<&str>, config: &Config) -> Result<Vec<Tool>, Failure> {
    Ok(read(store, config)?.map(|found| found.tools).unwrap_or_default())
}

/// The servers over which a worker receives calls, and their prefix.
///
/// # Errors
/// As [`tools`], and if no servers are named (exit code 2).
pub(crate) fn servers(
    url: Option<&str>,
    store: Option<&str>,
    config: &Config,
) -> Result<(NatsServers, String), Failure> {
    let configured = read(store, config)?;
    let prefix = configured.as_ref().map_or_else(|| CallerOptions::default().prefix, |found| found.prefix.clone());
    let named = configured.and_then(|found| found.servers);
    let servers = match url {
        Some(url) => {
            let addresses = nats::addresses(url).map_err(|what| Failure::new(2, format!("--url: {what}")))?;
            Some(NatsServers { addresses, ..named.unwrap_or_else(|| NatsServers::new("")) })
        }
        None => named.map_or_else(|| stream::servers(store, config), |servers| Ok(Some(servers)))?,
    };
    let absent = "no server of NATS is named: give --url nats://HOST:PORT, or set `workers.url` in rethread.toml";
    servers.map(|servers| (servers, prefix)).ok_or_else(|| Failure::new(2, absent))
}

/// Connects to the servers over which workers are called, if there are such tools. Returns what was found, for people.
pub(crate) async fn look(store: Option<&str>, config: &Config) -> Option<Result<String, Failure>> {
    let Configured { servers, tools, .. } = match read(store, config) {
        Ok(configured) => configured?,
        Err(failure) => return Some(Err(failure)),
    };
    let servers = servers.filter(|_| !tools.is_empty())?;
    let client = match servers.connect("rethread doctor").await {
        Ok(client) => client,
        Err(error) => return Some(Err(Failure::other(format!("{servers}: {error}")))),
    };
    let version = client.server_info().version;
    let tools = output::count(tools.len(), "tool", "tools");
    Some(Ok(format!("NATS {version} at {servers}, for {tools}")))
}

struct Configured {
    servers: Option<NatsServers>,
    prefix: String,
    tools: Vec<Tool>,
}

fn read(store: Option<&str>, config: &Config) -> Result<Option<Configured>, Failure> {
    let Some(settings) = config.workers.get()?.clone() else { return Ok(None) };
    let Settings { connection, prefix, wait_ms, heartbeat_ms, lost_after_ms, tools, rest } = settings;
    let table = Table { config, name: "workers" };
    table.check_keys(&rest, &KEYS)?;
    let servers = match connection.url.clone() {
        Some(url) => {
            let addresses = nats::addresses(&url).map_err(|what| table.invalid(format!("url: {what}")))?;
            Some(connection.servers(table, addresses)?)
        }
        None => stream::servers(store, config)?,
    };
    let defaults = CallerOptions::default();
    let options = CallerOptions {
        prefix: prefix.unwrap_or(defaults.prefix),
        wait: wait_ms.map_or(defaults.wait, Duration::from_millis),
        heartbeat: heartbeat_ms.map_or(defaults.heartbeat, Duration::from_millis),
        lost_after: lost_after_ms.map_or(defaults.lost_after, Duration::from_millis),
    };
    options.check().map_err(|what| table.invalid(what))?;
    if stream::options(store, config)?.is_some_and(|log| log.stream == options.prefix) {
        let prefix = &options.prefix;
        let what =
            format!("prefix: `{prefix}` is the stream of the log, which would store calls: choose another prefix");
        return Err(table.invalid(what));
    }
    if tools.len() > TOOLS_MAX {
        return Err(table.invalid(format!("tools: {TOOLS_MAX} at most")));
    }
    let prefix = options.prefix.clone();
    let workers = servers.clone().map(|servers| workers(servers, options));
    let workers = || {
        workers.as_ref().ok_or_else(|| {
            table.invalid("url: no server of NATS is named; it can be left out only if the log is in a stream")
        })
    };
    let mut offered = Vec::new();
    for (name, tool) in tools {
        let fault = |what: String| table.invalid(format!("tools.{name}.{what}"));
        offered.push(described(workers()?, &name, tool).map_err(fault)?);
    }
    Ok(Some(Configured { servers, prefix, tools: offered }))
}

fn workers(servers: NatsServers, options: CallerOptions) -> Workers {
    let connect = move || {
        let servers = servers.clone();
        async move {
            let connected = servers.connect("rethread, calls of workers").await;
            connected.map_err(|error| format!("{error} ({servers})"))
        }
    };
    Workers::new(connect, options)
}

fn described(workers: &Workers, name: &str, tool: WorkerTool) -> Result<Tool, String> {
    let pool = match (tool.pool, tool.pool_label) {
        (None, None) => Pool::Named(POOL.into()),
        (Some(pool), None) => Pool::Named(pool),
        (None, Some(label)) => Pool::OfLabel(label),
        (Some(_), Some(_)) => return Err("pool: only one of `pool` and `pool_label` can be given".into()),
    };
    pool.check()?;
    let defaults = rethread::tools::ToolOptions::default();
    let options = rethread::tools::ToolOptions {
        timeout_ms: tool.timeout_ms.unwrap_or(defaults.timeout_ms),
        retries: tool.retries.unwrap_or(RETRIES),
        retry_delay_ms: tool.retry_delay_ms.unwrap_or(defaults.retry_delay_ms),
        concurrency_max: tool.concurrency_max.unwrap_or(defaults.concurrency_max),
        ..defaults
    };
    let made = workers.tool(name, tool.description, tool.parameters, pool).recovery(tool.recovery).options(options);
    Ok(if tool.approval { made.with_approval() } else { made })
}
