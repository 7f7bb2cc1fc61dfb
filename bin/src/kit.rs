//! The tools that a command line offers, and what runs behind them.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use clap::Args;
use rethread::tools::built_in::{self, Notes};
use rethread::tools::mcp::{McpConfig, McpServers, ServerReport};
use rethread::tools::{
    CommandOptions, CommandRules, Isolation, ProcessOptions, Processes, ProcessesError, RegisterError, Registry, Skills,
};
use serde_json::json;

use crate::definition;
use crate::exit::{CONFLICT, Failure, INVALID};
use crate::open::OpenArgs;
use crate::output;

/// The largest file with MCP servers, in bytes.
const MCP_BYTES_MAX: usize = 1 << 20;

/// Tools that are offered only when an option allows it.
pub(crate) const ALLOWED_BY: [(&str, &str); 9] = [
    ("write_file", "--allow-write"),
    ("edit_file", "--allow-write"),
    ("record_note", "--allow-write"),
    ("run_command", "--allow-commands"),
    ("start_process", "--allow-commands"),
    ("read_process", "--allow-commands"),
    ("list_processes", "--allow-commands"),
    ("kill_process", "--allow-commands"),
    ("load_skill", "--skills FOLDER"),
];

/// What tools may do.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Tools")]
pub(crate) struct ToolArgs {
    /// The folder that tools work in; the current one unless given
    #[arg(long, value_name = "FOLDER")]
    pub(crate) workspace: Option<PathBuf>,
    /// Offer the tools that change files: write_file, edit_file, record_note
    #[arg(long)]
    pub(crate) allow_write: bool,
    /// Offer the tools that run shell commands: run_command, and start_process and its like for the background
    #[arg(long)]
    pub(crate) allow_commands: bool,
    #[command(flatten)]
    pub(crate) more: MoreArgs,
}

/// Where more tools come from, and how commands are held in.
#[derive(Debug, Clone, Args, Default)]
#[command(next_help_heading = "Tools")]
pub(crate) struct MoreArgs {
    /// Offer the tools of the MCP servers in this file (`mcpServers`), beside those in rethread.toml
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp: Vec<PathBuf>,
    /// Offer the skills in this folder (`SKILL.md` files) by load_skill
    #[arg(long, value_name = "FOLDER")]
    pub(crate) skills: Vec<PathBuf>,
    /// Run only commands that begin like this, for example "cargo *"; a convenience, no wall
    #[arg(long, value_name = "PATTERN")]
    pub(crate) only_command: Vec<String>,
    /// Do not run commands that begin like this, for example "git push"; a convenience, no wall
    #[arg(long, value_name = "PATTERN")]
    pub(crate) deny_command: Vec<String>,
    /// Run commands without network and writing in the workspace and the temporary folder only, or not at all (Linux)
    #[arg(long)]
    pub(crate) isolate_commands: bool,
}

impl MoreArgs {
    fn commands(&self) -> Result<CommandOptions, Failure> {
        let rules = CommandRules::new(&self.only_command, &self.deny_command)
            .map_err(|error| Failure::new(2, error.to_string()))?;
        let isolation = Isolation {
            without_network: self.isolate_commands,
            write_in_workspace_only: self.isolate_commands,
            ..Isolation::default()
        };
        Ok(CommandOptions { rules, isolation, ..CommandOptions::default() })
    }
}

/// The tools that need nothing behind them.
pub(crate) fn registry(args: &ToolArgs) -> Result<Registry, Failure> {
    let registry = Registry::new();
    let notes = Notes::in_workspace();
    let registered = || -> Result<(), RegisterError> {
        built_in::register_reading(&registry)?;
        built_in::register_asking(&registry)?;
        registry.register(built_in::recall_notes(&notes))?;
        if args.allow_write {
            built_in::register_writing(&registry)?;
            registry.register(built_in::record_note(&notes))?;
        }
        Ok(())
    };
    registered().map_err(Failure::other)?;
    if args.allow_commands {
        registry.register(built_in::run_command(args.more.commands()?)).map_err(Failure::other)?;
    }
    if !args.more.skills.is_empty() {
        let (skills, faults) = Skills::load(&args.more.skills);
        for fault in faults {
            output::say(&format!(
                "{}: skill left out: {}",
                output::yellow("warning"),
                output::tame(&fault.to_string(), 500)
            ));
        }
        registry.register(skills.tool_with_list()).map_err(Failure::other)?;
    }
    Ok(registry)
}

/// What runs behind the tools until the program ends.
#[derive(Default)]
struct Behind {
    processes: Option<Processes>,
    servers: Option<McpServers>,
}

static BEHIND: Mutex<Behind> = Mutex::new(Behind { processes: None, servers: None });

/// Starts what runs behind the tools, and adds them: background processes, MCP servers.
pub(crate) async fn start(open: &OpenArgs, args: &ToolArgs, registry: &Registry) -> Result<(), Failure> {
    if args.allow_commands {
        let folder = open.data_dir.join("processes");
        let processes = Processes::open(&folder, args.more.commands()?, ProcessOptions::default());
        let processes = processes.map_err(|error| match error {
            ProcessesError::InUse { .. } => Failure::new(CONFLICT, error),
            ProcessesError::Io { ref source, .. } => Failure::other(format!("{error}: {source}")),
        })?;
        built_in::register_processes(registry, &processes).map_err(Failure::other)?;
        behind(|behind| behind.processes = Some(processes));
    }
    connect(open, &args.more.mcp, registry).await?;
    Ok(())
}

/// Connects to the MCP servers of these files and of rethread.toml. Those that fail are told about and left out.
pub(crate) async fn connect(
    open: &OpenArgs,
    files: &[PathBuf],
    registry: &Registry,
) -> Result<Vec<ServerReport>, Failure> {
    let mut all = McpConfig::default();
    for (file, config) in configs(open, files)? {
        for warning in config.warnings {
            warn(&format!("{}: {warning}", file.display()));
        }
        for server in config.servers {
            if all.servers.iter().any(|known| known.name == server.name) {
                warn(&format!("{}: server `{}` is passed over: another has its name", file.display(), server.name));
            } else {
                all.servers.push(server);
            }
        }
    }
    if all.servers.is_empty() {
        return Ok(Vec::new());
    }
    let (servers, reports) = McpServers::connect(all, registry).await;
    behind(|behind| behind.servers = Some(servers));
    for report in &reports {
        if let Err(error) = &report.tools {
            warn(&format!("MCP server `{}` is left out: {error}", report.server));
        }
        for warning in &report.warnings {
            warn(&format!("MCP server `{}`: {warning}", report.server));
        }
    }
    Ok(reports)
}

fn configs(open: &OpenArgs, files: &[PathBuf]) -> Result<Vec<(PathBuf, McpConfig)>, Failure> {
    let mut configs = Vec::new();
    let invalid =
        |file: &Path, error: &dyn std::fmt::Display| Failure::new(INVALID, format!("{}: {error}", file.display()));
    for file in files {
        let text = definition::read_limited(file, MCP_BYTES_MAX)?;
        let config = McpConfig::parse(&String::from_utf8_lossy(&text)).map_err(|error| invalid(file, &error))?;
        configs.push((file.clone(), config));
    }
    if let Some(file) = open.config_file() {
        let text = definition::read_limited(file, MCP_BYTES_MAX)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut table: toml::Table = toml::from_str(&text).map_err(|error| invalid(file, &error))?;
        if let Some(servers) = table.remove("mcpServers").or_else(|| table.remove("mcp_servers")) {
            let value = json!({ "mcpServers": servers });
            configs.push((file.to_owned(), McpConfig::from_value(value).map_err(|error| invalid(file, &error))?));
        }
    }
    Ok(configs)
}

fn warn(text: &str) {
    output::say(&format!("{}: {}", output::yellow("warning"), output::tame(text, 1000)));
}

/// All tools that come with rethread, whatever is allowed, and those of MCP servers: for a person who looks at them
/// or calls one.
pub(crate) async fn everything(
    open: &OpenArgs,
    workspace: Option<&Path>,
    more: &MoreArgs,
) -> Result<Registry, Failure> {
    let args = ToolArgs {
        workspace: workspace.map(Path::to_owned),
        allow_write: true,
        allow_commands: true,
        more: more.clone(),
    };
    let registry = registry(&args)?;
    // No records: there may be a runtime with processes of its own.
    let processes = Processes::in_memory(args.more.commands()?, ProcessOptions::default());
    built_in::register_processes(&registry, &processes).map_err(Failure::other)?;
    behind(|behind| behind.processes = Some(processes));
    connect(open, &more.mcp, &registry).await?;
    Ok(registry)
}

fn behind(change: impl FnOnce(&mut Behind)) {
    // What a panic left behind is still to be stopped.
    change(&mut BEHIND.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
}

/// Ends what runs behind the tools.
pub(crate) async fn stop() {
    let mut taken = Behind::default();
    behind(|behind| taken = std::mem::take(behind));
    if let Some(processes) = taken.processes {
        processes.shutdown().await;
    }
    if let Some(servers) = taken.servers {
        servers.shutdown().await;
    }
}
