//! `doctor`: what is missing or wrong on this machine, before a workflow finds out.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures::StreamExt as _;
use rethread::tools::mcp::McpServers;
use rethread::tools::{Isolation, Registry, Workspace};
use rethread_events::event::RequestChange;
use rethread_events::message::{Message, Role, ToolSpec};
use rethread_llm::{CallContext, Listener, Profiles, Provider, Request};
use serde::Serialize;
use serde_json::json;

use crate::config::Config;
use crate::exit::{FAILED, Failure};
use crate::open::OpenArgs;
use crate::serve::webhook;
use crate::toolset::{self, MoreArgs};
use crate::{output, remote, stream, workers};

/// How long a provider may take to answer.
const PROVIDER_MAX: Duration = Duration::from_secs(15);
/// How long a small call of a model may take.
const CALL_MAX: Duration = Duration::from_secs(60);
/// How many providers are asked at once.
const PROVIDERS_AT_ONCE: usize = 8;
/// Below so much free space a full disk is near.
const FREE_BYTES_WARNING: u64 = 1 << 30;
/// Below so much a log cannot work for long.
const FREE_BYTES_MIN: u64 = 64 << 20;

/// Check keys, providers, MCP servers, folders and disk of this machine.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 all checks passed, perhaps with warnings; 1 a check failed.
Makes two small calls of each profile's model, with its parameters, without and with a tool, and prints what they cost.
Of the model that `embeddings` in [memory] names, it asks for the vector of a word instead.
Prints no key.")]
pub(crate) struct DoctorArgs {
    /// Contact no provider and start no MCP server
    #[arg(long)]
    offline: bool,
    /// Call no model: only ask providers for their list of models
    #[arg(long)]
    no_calls: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    more: MoreArgs,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Ok,
    Warning,
    Error,
    Skipped,
}

/// One check.
#[derive(Debug, Serialize)]
struct Check {
    name: String,
    status: Status,
    /// The finding.
    message: String,
    /// The fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Check {
    fn new(name: impl Into<String>, status: Status, message: impl ToString) -> Self {
        Self { name: name.into(), status, message: message.to_string(), advice: None }
    }

    fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

pub(crate) async fn run(open: &OpenArgs, args: DoctorArgs) -> Result<ExitCode, Failure> {
    open.only_here("the doctor checks this machine")?;
    let mut checks = vec![Check::new("version", Status::Ok, format!("rethread {}", env!("CARGO_PKG_VERSION")))];
    let (check, profiles) = configuration(open);
    checks.push(check);
    if let Some(profiles) = profiles {
        // The profile whose model makes the vectors of memories.
        let embeddings = open.config().memory.get()?.as_ref().and_then(|memory| memory.embeddings.as_deref());
        checks.extend(providers(&profiles, embeddings, &args).await);
        checks.extend(mcp_servers(open, &args).await);
        checks.extend(webhooks(open.config()));
        checks.extend(nats(open, args.offline).await);
    }
    checks.push(data_dir(open).await);
    checks.push(disk(&open.data_dir));
    checks.push(workspace(open, &args.more));
    checks.push(isolation());
    let is_well = checks.iter().all(|check| check.status != Status::Error);
    if args.json {
        output::print_json(&json!({ "ok": is_well, "checks": checks }))?;
    } else {
        for check in &checks {
            print(check)?;
        }
    }
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn print(check: &Check) -> Result<(), Failure> {
    let word = match check.status {
        Status::Ok => "ok",
        Status::Warning => "warning",
        Status::Error => "error",
        Status::Skipped => "skipped",
    };
    let text = |text: &str| output::sanitize(text, 1_000);
    output::print(format!("{word:8} {}: {}", text(&check.name), text(&check.message)))?;
    match &check.advice {
        Some(advice) => output::print(format!("         {}", text(advice))),
        None => Ok(()),
    }
}

fn configuration(open: &OpenArgs) -> (Check, Option<Profiles>) {
    const NAME: &str = "configuration";
    let Some(file) = &open.config().file else {
        let check = Check::new(NAME, Status::Warning, "there is no rethread.toml in this folder");
        return (check.advise("write one with `rethread init`, or name one with --config"), Some(Profiles::empty()));
    };
    match open.profiles() {
        Ok(profiles) => {
            let n = profiles.names().count();
            (Check::new(NAME, Status::Ok, format!("{}: {n} profiles", file.display())), Some(profiles))
        }
        Err(failure) => {
            let check = Check::new(NAME, Status::Error, failure.message);
            (check.advise("docs/CONFIGURATION.md lists every key"), None)
        }
    }
}

/// Whether each profile has its key, and its provider answers and has the model. `embeddings` is the profile that makes
/// vectors. It is not called as a chat model, unless it is the default or a fallback as well.
async fn providers(profiles: &Profiles, embeddings: Option<&str>, args: &DoctorArgs) -> Vec<Check> {
    let of = |name: &str| profiles.get(name).ok();
    let is_fallback = |name: &str| {
        profiles.names().filter_map(of).any(|profile| profile.fallback.iter().any(|fallback| fallback == name))
    };
    let only_embeds = embeddings.filter(|name| profiles.default_name() != Some(name) && !is_fallback(name));
    let checks = profiles.names().map(|name| async move {
        let mut checks = vec![provider(profiles, name, args.offline).await];
        let answers = checks.iter().all(|check| matches!(check.status, Status::Ok | Status::Warning));
        let is_remote = profiles.get(name).is_ok_and(|profile| profile.provider.feature().is_some());
        if answers && is_remote && !args.no_calls {
            match only_embeds == Some(name) {
                true => checks.push(embedding(profiles, name).await),
                false => checks.extend(calls(profiles, name).await),
            }
        }
        let today = jiff::Zoned::now().date();
        let advice = profiles.advice(name, today).unwrap_or_default();
        checks.extend(advice.into_iter().map(|what| Check::new(format!("profile {name}"), Status::Warning, what)));
        checks
    });
    let checks: Vec<Vec<Check>> = futures::stream::iter(checks).buffered(PROVIDERS_AT_ONCE).collect().await;
    checks.into_iter().flatten().collect()
}

/// Whether the model of a profile makes vectors.
async fn embedding(profiles: &Profiles, name: &str) -> Check {
    let title = format!("profile {name}, embedding");
    let client = match profiles.client(name) {
        Ok(client) => client,
        Err(error) => return Check::new(title, Status::Error, rethread_events::text::with_sources(&error)),
    };
    match tokio::time::timeout(CALL_MAX, client.embed("ok")).await {
        Err(_) => Check::new(title, Status::Error, format!("no answer in {} s", CALL_MAX.as_secs())),
        Ok(Err(error)) => Check::new(title, Status::Error, &error)
            .advise("`embeddings` in [memory] names the profile of a model that makes vectors"),
        Ok(Ok(_)) => Check::new(title, Status::Ok, "answered with a vector"),
    }
}

/// Why the tools of a request were not sent, if they were not.
struct MissingTools(Option<String>);

impl Listener for MissingTools {
    fn changed(&mut self, change: RequestChange) {
        if change.what == "tools" {
            self.0 = Some(change.why);
        }
    }

    fn wants_deltas(&self) -> bool {
        false
    }
}

/// Whether the model of a profile answers with the parameters of the profile, without tools and with one.
async fn calls(profiles: &Profiles, name: &str) -> Vec<Check> {
    let Ok(client) = profiles.client(name) else { return Vec::new() };
    // The time makes it another request than any that has an answer in a cache.
    let prompt = format!("Answer with the word ok. It is {}.", jiff::Timestamp::now());
    let plain = Request::new("", vec![Arc::new(Message::text(Role::User, prompt))]);
    let parameters = json!({ "type": "object", "properties": { "word": { "type": "string" } } });
    let tool = ToolSpec {
        name: "report".into(),
        description: Some("Reports a word.".into()),
        parameters: rethread_events::json::Json::from(parameters),
    };
    let with_tool = Request { tools: vec![tool].into(), ..plain.clone() };
    let mut checks = Vec::new();
    for (what, request) in [("call", plain), ("call with a tool", with_tool)] {
        let title = format!("profile {name}, {what}");
        let mut missing = MissingTools(None);
        let called = client.call(&request, CallContext::new("", &mut missing));
        checks.push(match tokio::time::timeout(CALL_MAX, called).await {
            Err(_) => Check::new(title, Status::Error, format!("no answer in {} s", CALL_MAX.as_secs())),
            Ok(Err(error)) => Check::new(title, Status::Error, &error)
                .advise("`rethread llm call --profile NAME` shows the whole answer; see docs/CONFIGURATION.md"),
            Ok(Ok(answer)) => {
                let cost = answer
                    .cost
                    .map_or("its cost is not known".to_owned(), |cost| crate::threads::dollars(cost.nanousd));
                let tokens = answer.figures().0.tokens();
                let answered = format!("answered, {tokens} tokens, {cost}");
                match missing.0 {
                    Some(why) => Check::new(title, Status::Warning, format!("{answered}; without the tool: {why}")),
                    None => Check::new(title, Status::Ok, answered),
                }
            }
        });
    }
    checks
}

/// Whether a profile has its key, and its provider answers and has the model.
async fn provider(profiles: &Profiles, name: &str, offline: bool) -> Check {
    {
        let title = format!("profile {name}");
        let (profile, client) = match (profiles.get(name), profiles.client(name)) {
            (Ok(profile), Ok(client)) => (profile, client),
            (_, Err(error)) | (Err(error), _) => {
                let check = Check::new(title, Status::Error, rethread_events::text::with_sources(&error));
                return check.advise("see api_key_env, api_key_file and auth in docs/CONFIGURATION.md");
            }
        };
        let what = format!("{} {}", profile.provider, profile.model);
        if matches!(profile.provider, Provider::Mock | Provider::Human) {
            return Check::new(title, Status::Ok, format!("{what}: needs no network"));
        }
        if offline {
            return Check::new(title, Status::Skipped, format!("{what}: its key is set; not contacted (--offline)"));
        }
        match tokio::time::timeout(PROVIDER_MAX, client.check()).await {
            Err(_) => Check::new(title, Status::Error, format!("{what}: no answer in {} s", PROVIDER_MAX.as_secs()))
                .advise("check base_url, the network and the proxy"),
            Ok(health) => match (&health.error, health.model_available) {
                (Some(error), _) => Check::new(title, Status::Error, format!("{what}: {error}"))
                    .advise("check base_url and the key; `rethread llm check --profile NAME` asks again"),
                (None, Some(false)) => {
                    Check::new(title, Status::Warning, format!("{what}: the model is not on the provider's list"))
                        .advise("`rethread llm models --profile NAME` prints the list")
                }
                (None, _) => Check::new(title, Status::Ok, format!("{what}: answered in {} ms", health.took_ms)),
            },
        }
    }
}

/// Whether each MCP server connects and lists its tools.
async fn mcp_servers(open: &OpenArgs, args: &DoctorArgs) -> Vec<Check> {
    let config = match toolset::servers(open, &args.more) {
        Ok(config) => config,
        Err(failure) => return vec![Check::new("MCP servers", Status::Error, failure.message)],
    };
    let title = |name: &str| format!("MCP server {name}");
    if args.offline {
        let skipped = |name: &String| Check::new(title(name), Status::Skipped, "not started (--offline)");
        return config.servers.iter().map(|server| skipped(&server.name)).collect();
    }
    let registry = Registry::new();
    let workspace = match toolset::workspace_of(open, None, &args.more) {
        Ok(workspace) => workspace,
        Err(failure) => return vec![Check::new("MCP servers", Status::Error, failure.message)],
    };
    let (servers, reports) = McpServers::connect(config, &registry, &workspace).await;
    servers.shutdown().await;
    let check = |report: rethread::tools::mcp::ServerReport| match report.tools {
        Err(error) => Check::new(title(&report.server), Status::Error, error)
            .advise("start its command by hand, or see mcpServers in docs/CONFIGURATION.md"),
        Ok(tools) if report.warnings.is_empty() => {
            Check::new(title(&report.server), Status::Ok, format!("{} tools", tools.len()))
        }
        Ok(tools) => {
            let what = format!("{} tools; {}", tools.len(), report.warnings.join("; "));
            Check::new(title(&report.server), Status::Warning, what)
        }
    };
    reports.into_iter().map(check).collect()
}

/// Whether each webhook has its secret, if there are webhooks.
fn webhooks(config: &Config) -> Option<Check> {
    const NAME: &str = "webhooks";
    match webhook::check_secrets(config) {
        Ok(0) => None,
        Ok(n) => Some(Check::new(NAME, Status::Ok, format!("{n} with their secrets"))),
        Err(failure) => {
            let check = Check::new(NAME, Status::Error, failure.message);
            Some(check.advise("see `webhooks` and `incoming` in docs/CONFIGURATION.md"))
        }
    }
}

/// Whether the servers of NATS that are configured can be used, for the log and for workers.
async fn nats(open: &OpenArgs, offline: bool) -> Vec<Check> {
    if offline {
        return Vec::new();
    }
    let (store, config) = (open.store.as_deref(), open.config());
    let found =
        [("stream of the log", stream::look(store, config).await), ("workers", workers::look(store, config).await)];
    let check = |(name, found): (&str, Option<Result<String, Failure>>)| match found? {
        Ok(what) => Some(Check::new(name, Status::Ok, what)),
        Err(failure) => {
            let check = Check::new(name, Status::Error, failure.message);
            Some(check.advise("check the address, the credentials and the network; see `store` and `workers` in docs/CONFIGURATION.md"))
        }
    };
    found.into_iter().filter_map(check).collect()
}

/// Whether the log can be used: its folder, its format, who holds it, who else may read it.
async fn data_dir(open: &OpenArgs) -> Check {
    const NAME: &str = "log";
    let dir = &open.data_dir;
    let shown = dir.display();
    let metadata = match std::fs::metadata(dir) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return match writable(existing(dir)) {
                Ok(()) => Check::new(NAME, Status::Ok, format!("{shown} does not exist yet; the first run creates it")),
                Err(error) => Check::new(NAME, Status::Error, format!("{shown} cannot be created: {error}"))
                    .advise("name another folder with --data-dir"),
            };
        }
        Err(error) => return Check::new(NAME, Status::Error, format!("{shown} cannot be read: {error}")),
    };
    if !metadata.is_dir() {
        return Check::new(NAME, Status::Error, format!("{shown} is not a folder"));
    }
    if let Err(error) = writable(dir) {
        return Check::new(NAME, Status::Error, format!("{shown} cannot be written: {error}"))
            .advise("give this user the folder, or name another with --data-dir");
    }
    if let Some(holder) = remote::holder_of(dir) {
        return Check::new(NAME, Status::Ok, format!("{shown} is held by {holder}"));
    }
    // Opened and closed again: that checks its format and its end.
    let opened = match open.open_to_read().await {
        Ok(runtime) => crate::open::close(runtime).await.map_err(Failure::from),
        Err(failure) => Err(failure),
    };
    match opened {
        Err(failure) => Check::new(NAME, Status::Error, failure.message)
            .advise(failure.advice.unwrap_or("`rethread verify` shows details")),
        Ok(()) if others_may_read(&metadata) => {
            Check::new(NAME, Status::Warning, format!("other users of this machine can read {shown}"))
                .advise(format!("chmod 700 {shown}"))
        }
        Ok(()) => Check::new(NAME, Status::Ok, format!("{shown} opens")),
    }
}

fn others_may_read(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o077 != 0
}

/// The nearest folder above that is there.
fn existing(path: &Path) -> &Path {
    let found = path.ancestors().find(|folder| !folder.as_os_str().is_empty() && folder.exists());
    found.unwrap_or(Path::new("."))
}

fn writable(folder: &Path) -> std::io::Result<()> {
    let file = folder.join(format!(".rethread-doctor-{}", std::process::id()));
    std::fs::OpenOptions::new().write(true).create_new(true).open(&file)?;
    std::fs::remove_file(file)
}

#[cfg(target_os = "linux")]
fn free_bytes(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(not(target_os = "linux"))]
fn free_bytes(_folder: &Path) -> Option<u64> {
    None
}

fn disk(dir: &Path) -> Check {
    const NAME: &str = "disk";
    let Some(free) = free_bytes(existing(dir)) else {
        return Check::new(NAME, Status::Skipped, "the free disk space is unknown");
    };
    let message = format!("{} MiB are free", free >> 20);
    let advice = "free some space, or delete threads that ended long ago: rethread gc --older-than 30d";
    match free {
        0..FREE_BYTES_MIN => Check::new(NAME, Status::Error, message).advise(advice),
        FREE_BYTES_MIN..FREE_BYTES_WARNING => Check::new(NAME, Status::Warning, message).advise(advice),
        _ => Check::new(NAME, Status::Ok, message),
    }
}

fn workspace(open: &OpenArgs, more: &MoreArgs) -> Check {
    const NAME: &str = "workspace";
    let reserved = match open.reserved(more) {
        Ok(reserved) => reserved,
        Err(failure) => return Check::new(NAME, Status::Error, failure.message),
    };
    match Workspace::open_without(Path::new("."), &reserved) {
        Ok(workspace) => Check::new(NAME, Status::Ok, workspace.root().display()),
        Err(error) => Check::new(NAME, Status::Error, error).advise("name another folder with --workspace"),
    }
}

/// Whether commands and MCP servers are isolated on this machine.
fn isolation() -> Check {
    const NAME: &str = "isolation";
    match Isolation::fault() {
        None => Check::new(NAME, Status::Ok, "commands and MCP servers run isolated, by bubblewrap"),
        Some(fault) => Check::new(NAME, Status::Warning, format!("commands and MCP servers do not run: {fault}"))
            .advise(toolset::ISOLATE),
    }
}
