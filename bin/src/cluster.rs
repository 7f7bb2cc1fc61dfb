//! `cluster`: the servers of a log in a stream, and the processes that have it open.

use std::process::ExitCode;

use clap::Args;
use rethread::errors::RuntimeError;
use rethread::store::{SLOTS, StreamNode, StreamServer, StreamStatus};
use serde_json::json;

use crate::exit::Failure;
use crate::open::OpenArgs;
use crate::{gc, output, stream};

/// Show the servers of a log in a stream of NATS JetStream, and the processes that have it open. Takes no lease.
#[derive(Debug, Args)]
#[command(after_help = "\
A process that was killed is listed until its lease has run out.

Example:
  rethread cluster --store nats://127.0.0.1:4222/agents")]
pub(crate) struct ClusterArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) async fn cluster(open: &OpenArgs, args: ClusterArgs) -> Result<ExitCode, Failure> {
    open.only_here("it asks the servers of NATS")?;
    let options = stream::options(open.store.as_deref(), open.config())?.ok_or_else(|| {
        let message = "the log is in a folder: name a stream with --store, or in the table `store` of rethread.toml";
        Failure::new(2, message)
    })?;
    let address = format!("{}/{}", options.servers, options.stream);
    let status = options.status().await.map_err(RuntimeError::from)?;
    if args.json {
        output::print_json(&as_json(&address, &status))?;
    } else {
        for line in lines(&address, &status) {
            output::print(line)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(address: &str, status: &StreamStatus) -> serde_json::Value {
    let server = |server: &StreamServer| {
        json!({
            "name": server.name,
            "leader": server.is_leader,
            "current": server.is_current,
            "offline": server.is_offline,
            "lag": server.lag,
        })
    };
    let node =
        |node: &StreamNode| json!({ "name": node.name, "has_log": node.has_log, "lag": node.lag, "slots": node.slots });
    json!({
        "log": address,
        "nats_version": status.version,
        "messages": status.n_messages,
        "bytes": status.bytes,
        "last_sequence": status.last_sequence,
        "lease_ms": u64::try_from(status.lease.as_millis()).unwrap_or(u64::MAX),
        "servers": status.servers.iter().map(server).collect::<Vec<_>>(),
        "nodes": status.nodes.iter().map(node).collect::<Vec<_>>(),
    })
}

fn lines(address: &str, status: &StreamStatus) -> Vec<String> {
    let (size, messages) = (gc::size(status.bytes), output::count(status.n_messages, "message", "messages"));
    let name = |name: &str| output::sanitize(name, 200);
    let lag = |lag: u64| if lag == 0 { String::new() } else { format!(", {lag} behind") };
    let mut lines = vec![format!("log     {}: {messages}, {size}; NATS {}", name(address), name(&status.version))];
    lines.extend(status.servers.iter().map(|server| {
        let role = match server {
            StreamServer { is_leader: true, .. } => "leader",
            StreamServer { is_offline: true, .. } => "offline",
            StreamServer { is_current: true, .. } => "current",
            _ => "not current",
        };
        format!("server  {}: {role}{}", name(&server.name), lag(server.lag))
    }));
    lines.extend(status.nodes.iter().map(|node| {
        let role = match node.slots {
            _ if !node.has_log => "waits for the log".to_owned(),
            slots if slots < SLOTS as u64 => format!("has {slots} of {SLOTS} slots"),
            _ => "has the log".to_owned(),
        };
        format!("node    {}: {role}{}", name(&node.name), lag(node.lag))
    }));
    if !status.nodes.iter().any(|node| node.has_log) {
        lines.push("nobody has the log".into());
    }
    lines
}
