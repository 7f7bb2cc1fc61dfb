//! `worker`: runs tools for servers and commands of rethread elsewhere, over NATS.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use rethread::tools::workers::{Served, WorkerOptions, serve};
use rethread::tools::{Registry, Tool};
use rethread_events::tool::PersonRole;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::exit::{Failure, NOT_FOUND};
use crate::interrupt::interrupted;
use crate::open::OpenArgs;
use crate::output;
use crate::toolset::{self, ALLOWED_BY, ToolArgs, Toolset};
use crate::workers::{self, POOL};

/// Run tools for servers of rethread elsewhere, over NATS.
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// The tools that it runs, as `tools list` prints them
    #[arg(value_name = "TOOL", required = true)]
    tools: Vec<String>,
    /// Print the tables for the rethread.toml of the callers, and end
    #[arg(long)]
    describe: bool,
    /// The servers of NATS, such as nats://127.0.0.1:4222 (default: `workers.url` of the configuration, else those of the log)
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The pool that it is part of
    #[arg(long, default_value = POOL, value_name = "NAME")]
    pool: String,
    /// Its name, in messages of its callers (default: the process)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How many calls run at once
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    concurrency: u32,
    /// How long calls may go on after SIGTERM, in milliseconds
    #[arg(long, default_value_t = 10_000, value_name = "MS")]
    drain_ms: u64,
    #[command(flatten)]
    args: ToolArgs,
}

/// Runs the command. Exit code 0 after SIGTERM or Ctrl-C, 5 when there is no such tool.
pub(crate) async fn run(open: &OpenArgs, args: WorkerArgs) -> Result<ExitCode, Failure> {
    let WorkerArgs { tools, describe, url, pool, name, concurrency, drain_ms, args } = args;
    open.only_here("a worker runs tools on this machine")?;
    let kit = Toolset::of_worker(open, &args).await?;
    let done = async {
        check(&kit.registry, &tools)?;
        if describe {
            for tool in tools.iter().filter_map(|tool| kit.registry.get(tool)) {
                output::print(table(&tool, &pool)?)?;
            }
            return Ok(());
        }
        let (servers, prefix) = workers::servers(url.as_deref(), open.store.as_deref(), open.config())?;
        let name = name.unwrap_or_else(|| format!("rethread worker, pid {}", std::process::id()));
        let client = servers.connect(&name).await.map_err(|error| Failure::other(format!("{servers}: {error}")))?;
        let workspace = toolset::workspace_of(open, args.workspace.as_deref(), &args.more)?;
        let options = WorkerOptions {
            prefix,
            pool: pool.clone(),
            name: name.clone(),
            concurrency_max: concurrency as usize,
            drain: Duration::from_millis(drain_ms),
        };
        let stop = CancellationToken::new();
        let _stopping = {
            let stop = stop.clone();
            tokio::spawn(async move {
                interrupted().await;
                stop.cancel();
            })
        };
        let is_quiet = !open.prints_messages();
        let served = move |served: Served| {
            if !is_quiet {
                output::print_message(&line(&served));
            }
        };
        if open.prints_messages() {
            output::print_message(&format!("{name} runs {} for pool {pool} at {servers}", tools.join(", ")));
        }
        serve(client, &kit.registry, &tools, workspace, options, stop, served)
            .await
            .map_err(|error| Failure::new(2, error.to_string()))
    };
    let done: Result<(), Failure> = done.await;
    kit.stop().await;
    done.map(|()| ExitCode::SUCCESS)
}

/// Refuses what it cannot run.
fn check(registry: &Registry, tools: &[String]) -> Result<(), Failure> {
    for name in tools {
        let Some(tool) = registry.get(name) else {
            let allowed = ALLOWED_BY.iter().find(|(tool, _)| tool == name);
            let advice = allowed.map_or_else(
                || "`rethread tools list` prints all".to_owned(),
                |(_, option)| format!("it is offered with {option}"),
            );
            let name = output::sanitize(name, 80);
            return Err(Failure::new(NOT_FOUND, format!("there is no tool `{name}` here; {advice}")));
        };
        if tool.person_role() != PersonRole::None {
            let message = format!("`{name}` is answered by a person or a client, and runs nowhere");
            return Err(Failure::new(2, message));
        }
    }
    Ok(())
}

/// A tool as the configuration of a caller describes it.
fn table(tool: &Tool, pool: &str) -> Result<String, Failure> {
    let spec = tool.spec();
    let mut parameters = spec.parameters.0.as_ref().clone();
    without_null(&mut parameters);
    let described = json!({ "workers": { "tools": { tool.name(): {
        "description": spec.description.clone().unwrap_or_default(),
        "pool": pool,
        "recovery": tool.declared_recovery(),
        "timeout_ms": tool.limits().timeout_ms,
        "parameters": parameters,
    } } } });
    let cannot = |error| Failure::other(format!("`{}` cannot be described in TOML: {error}", tool.name()));
    toml::to_string(&described).map_err(cannot)
}

/// Removes defaults that are `null`, which TOML does not have: they say what no default says.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Object(keys) => {
            keys.retain(|key, value| key != "default" || !value.is_null());
            keys.values_mut().for_each(without_null);
        }
        Value::Array(all) => all.iter_mut().for_each(without_null),
        _ => {}
    }
}

/// What a person reads of a call that has run.
fn line(served: &Served) -> String {
    let Served { tool, thread, attempt, took, error, is_received } = served;
    let thread = thread.map_or_else(String::new, |thread| format!(" for {thread}"));
    let attempt = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
    let ended = error.map_or_else(|| "done".to_owned(), |error| error.to_string());
    let received = if *is_received { "" } else { "; the caller did not take the result" };
    format!("{tool}{thread}{attempt}: {ended} after {} ms{received}", took.as_millis())
}
