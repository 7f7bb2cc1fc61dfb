//! The tools that a command line offers, and their services.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use rethread::operate::memory::{Embedding, FoundMemory, MemoryId, MemoryQuery, NewMemory};
use rethread::tools::built_in::{self, Notes};
use rethread::tools::mcp::{McpConfig, McpServerConfig, McpServers, McpTransport, ServerReport, prefix};
use rethread::tools::{
    CommandOptions, CommandRules, Isolation, IsolationMode, MemoryAccess, ProcessOptions, Processes, RegisterError,
    Registry, Skills, Workspace,
};
use rethread::{ErrorKind, ExecutionError, RuntimeBuilder, ToolContext, Workflow};
use rethread_events::workflow::{Env, Fault, Unknown};
use rethread_llm::Profiles;
use rethread_llm::provider::PROVIDERS;

use crate::client_tools;
use crate::definition;
use crate::exit::{Failure, INVALID};
use crate::open::OpenArgs;
use crate::output;
use crate::workers;

/// The largest file with MCP servers, in bytes.
const MCP_BYTES_MAX: usize = 1 << 20;

/// Tools that are offered only when an option allows it.
pub(crate) const ALLOWED_BY: [(&str, &str); 12] = [
    ("write_file", "--allow-write"),
    ("edit_file", "--allow-write"),
    ("record_note", "--allow-write"),
    ("run_command", "--allow-commands"),
    ("start_process", "--allow-commands"),
    ("read_process", "--allow-commands"),
    ("list_processes", "--allow-commands"),
    ("kill_process", "--allow-commands"),
    ("load_skill", "--skills FOLDER"),
    ("remember", BY_MEMORY),
    ("search_memory", BY_MEMORY),
    ("forget", BY_MEMORY),
];

/// What offers the tools of the memory.
const BY_MEMORY: &str = "[memory] in rethread.toml";

/// The options for what tools may do.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Tools")]
pub(crate) struct ToolArgs {
    /// The folder in which tools work (default: the current folder)
    #[arg(long, value_name = "FOLDER")]
    pub(crate) workspace: Option<PathBuf>,
    /// Offer the tools that change files: write_file, edit_file, record_note
    #[arg(long)]
    pub(crate) allow_write: bool,
    /// Offer the tools that run commands: run_command, start_process and the other process tools
    #[arg(long)]
    pub(crate) allow_commands: bool,
    #[command(flatten)]
    pub(crate) more: MoreArgs,
}

/// The programs that tools start. Each runs as the user of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Programs {
    /// Tools start no programs.
    None,
    /// Programs that do not reach the data directory, and no other process.
    Isolated,
    /// Commands or MCP servers that can do what the user can.
    Unconfined,
}

impl Programs {
    /// The programs that tools start with these options and the configuration.
    ///
    /// # Errors
    /// When a file with MCP servers cannot be read (exit code 3).
    pub(crate) fn of(open: &OpenArgs, args: &ToolArgs) -> Result<Self, Failure> {
        let mut programs = Self::None;
        if args.allow_commands {
            programs = programs.and(&args.more.isolation(open)?);
        }
        for server in configs(open, &args.more.mcp)?.into_iter().flat_map(|(_, config)| config.servers) {
            programs = match server.transport {
                _ if !server.enabled => programs,
                Ok(McpTransport::Process { .. }) => programs.and(&args.more.applied(server.isolation)),
                // It starts nothing here, and could reach this machine all the same.
                _ => programs.and(&Isolation::default()),
            };
        }
        Ok(programs)
    }

    fn and(self, isolation: &Isolation) -> Self {
        match self {
            Self::Unconfined => self,
            // A program that must be isolated and cannot be does not run.
            _ if isolation.holds() || isolation.mode == IsolationMode::Required => Self::Isolated,
            _ => Self::Unconfined,
        }
    }
}

impl ToolArgs {
    /// Returns the folder that tools work in, as its name is on this machine; `None` if it is not UTF-8.
    pub(crate) fn folder(&self) -> Option<String> {
        let folder = match &self.workspace {
            Some(folder) => folder.canonicalize(),
            None => std::env::current_dir(),
        };
        folder.ok()?.to_str().map(str::to_owned)
    }
}

/// The options for more tools, and for limits on commands.
#[derive(Debug, Clone, Args, Default)]
#[command(next_help_heading = "Tools")]
pub(crate) struct MoreArgs {
    /// Offer the tools of the MCP servers in this file (`mcpServers`), in addition to rethread.toml
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp: Vec<PathBuf>,
    /// Offer the skills in this folder (`SKILL.md` files) through load_skill
    #[arg(long, value_name = "FOLDER")]
    pub(crate) skills: Vec<PathBuf>,
    /// Allow commands that are shell lines (`sh -c`), not only a program with its arguments
    #[arg(long)]
    pub(crate) allow_shell: bool,
    /// Run only commands that begin like this, for example "cargo *"; this is not a security boundary
    #[arg(long, value_name = "PATTERN")]
    pub(crate) only_command: Vec<String>,
    /// Do not run commands that begin like this, for example "git push"; this is not a security boundary
    #[arg(long, value_name = "PATTERN")]
    pub(crate) deny_command: Vec<String>,
    /// Isolate commands and MCP servers also if the configuration does not, and refuse to start if that cannot be done
    #[arg(long, conflicts_with = "no_isolate_commands")]
    pub(crate) isolate_commands: bool,
    /// Run commands and MCP servers without isolation: they can do what your user can do
    #[arg(long)]
    pub(crate) no_isolate_commands: bool,
}

impl MoreArgs {
    /// The first of these options that was given.
    pub(crate) fn first(&self) -> Option<&'static str> {
        let Self { mcp, skills, allow_shell, only_command, deny_command, isolate_commands, no_isolate_commands } = self;
        let given = [
            ("--mcp", !mcp.is_empty()),
            ("--skills", !skills.is_empty()),
            ("--allow-shell", *allow_shell),
            ("--only-command", !only_command.is_empty()),
            ("--deny-command", !deny_command.is_empty()),
            ("--isolate-commands", *isolate_commands),
            ("--no-isolate-commands", *no_isolate_commands),
        ];
        given.iter().find(|(_, is_given)| *is_given).map(|(option, _)| *option)
    }

    /// This isolation as far as the options do not say otherwise.
    fn applied(&self, isolation: Isolation) -> Isolation {
        let mode = match isolation.mode {
            _ if self.no_isolate_commands => IsolationMode::Off,
            _ if self.isolate_commands => IsolationMode::Required,
            mode => mode,
        };
        Isolation { mode, ..isolation }
    }

    /// How commands are isolated.
    fn isolation(&self, open: &OpenArgs) -> Result<Isolation, Failure> {
        Ok(self.applied(open.config().commands.get()?.clone()))
    }

    fn commands(&self, open: &OpenArgs) -> Result<CommandOptions, Failure> {
        let rules = CommandRules::new(&self.only_command, &self.deny_command)
            .map_err(|error| Failure::new(2, error.to_string()))?;
        let isolation = self.isolation(open)?;
        let shell = self.allow_shell.then(|| PathBuf::from("/bin/sh"));
        Ok(CommandOptions { shell, rules, isolation, ..CommandOptions::default() })
    }
}

/// The tools that need no services.
fn registry(open: &OpenArgs, args: &ToolArgs) -> Result<Registry, Failure> {
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
        registry.register(built_in::run_command(args.more.commands(open)?)).map_err(Failure::other)?;
    }
    for tool in client_tools::tools(open.config().client_tools.get()?.clone()) {
        registry.register(tool).map_err(|error| Failure::new(INVALID, format!("serve.client_tools: {error}")))?;
    }
    Ok(registry)
}

/// Adds the tools that workers run, in the place of those that would run here.
fn add_workers(open: &OpenArgs, registry: &Registry) -> Result<(), Failure> {
    for tool in workers::tools(open.store.as_deref(), open.config())? {
        registry.replace(tool).map_err(|error| Failure::new(INVALID, format!("workers.tools: {error}")))?;
    }
    Ok(())
}

/// Sets the tools of a runtime, and their services.
pub(crate) fn equip(open: &OpenArgs, builder: RuntimeBuilder, args: &ToolArgs) -> Result<RuntimeBuilder, Failure> {
    check_isolation(open, args)?;
    let registry = registry(open, args)?;
    add_workers(open, &registry)?;
    let mut builder = builder.tools(registry).mcp(servers(open, &args.more)?).skills(skills(open, &args.more)?);
    builder = builder.reserve(open.reserved(&args.more)?);
    if args.allow_commands {
        builder = builder.processes(args.more.commands(open)?, ProcessOptions::default());
    } else if args.more.allow_shell {
        return Err(Failure::new(2, "--allow-shell: no tool runs commands: give --allow-commands as well"));
    }
    if let Some(memory) = open.config().memory.get()?.clone() {
        builder = builder.memory(memory);
    }
    if let Some(workspace) = &args.workspace {
        builder = builder.workspace(workspace);
    }
    Ok(builder)
}

/// The advice for programs that cannot be isolated.
pub(crate) const ISOLATE: &str = "install bubblewrap and allow user namespaces, or run them without isolation: \
                                  `isolation = false` under [commands] or of the MCP server, or --no-isolate-commands";

/// Reports programs that will not run because they cannot be isolated.
///
/// # Errors
/// When `--isolate-commands` is given and nothing can be isolated (exit code 3).
fn check_isolation(open: &OpenArgs, args: &ToolArgs) -> Result<(), Failure> {
    let Some(fault) = Isolation::fault() else { return Ok(()) };
    if args.more.isolate_commands {
        return Err(Failure::new(INVALID, format!("--isolate-commands: {fault}")));
    }
    let is_refused = |isolation: Isolation| isolation.mode == IsolationMode::Required;
    let mut servers = configs(open, &args.more.mcp)?.into_iter().flat_map(|(_, config)| config.servers);
    let is_refused_server = |server: McpServerConfig| {
        let is_process = server.enabled && matches!(server.transport, Ok(McpTransport::Process { .. }));
        is_process && is_refused(args.more.applied(server.isolation))
    };
    let refuses_commands = args.allow_commands && is_refused(args.more.isolation(open)?);
    if (refuses_commands || servers.any(is_refused_server)) && open.prints_messages() {
        warn(&format!("commands and MCP servers do not run, because they cannot be isolated: {fault}; {ISOLATE}"));
    }
    Ok(())
}

/// The workspace of tools that are used without a runtime.
pub(crate) fn workspace_of(open: &OpenArgs, folder: Option<&Path>, more: &MoreArgs) -> Result<Arc<Workspace>, Failure> {
    let folder = folder.unwrap_or(Path::new("."));
    Workspace::open_without(folder, &open.reserved(more)?)
        .map(Arc::new)
        .map_err(|error| Failure::new(INVALID, format!("the workspace {} cannot be used: {error}", folder.display())))
}

fn skills(open: &OpenArgs, args: &MoreArgs) -> Result<Skills, Failure> {
    let (skills, faults) = Skills::load_without(&args.skills, &open.reserved(args)?);
    for fault in faults {
        warn(&format!("skill left out: {fault}"));
    }
    Ok(skills)
}

/// Isolates an MCP server as the options say.
pub(crate) fn isolate(more: &MoreArgs, server: &mut McpServerConfig) {
    server.isolation = more.applied(server.isolation.clone());
}

/// The MCP servers of these files and of rethread.toml.
pub(crate) fn servers(open: &OpenArgs, more: &MoreArgs) -> Result<McpConfig, Failure> {
    let mut all = McpConfig::default();
    for (file, config) in configs(open, &more.mcp)? {
        for warning in config.warnings {
            warn(&format!("{}: {warning}", file.display()));
        }
        for mut server in config.servers {
            isolate(more, &mut server);
            if all.servers.iter().any(|known| known.name == server.name) {
                warn(&format!("{}: server `{}` is ignored: its name is already used", file.display(), server.name));
            } else {
                all.servers.push(server);
            }
        }
    }
    Ok(all)
}

/// Reports the servers that failed, and what was skipped.
pub(crate) fn print_reports(reports: &[ServerReport]) {
    for report in reports {
        if let Err(error) = &report.tools {
            warn(&format!("MCP server `{}` is left out: {error}", report.server));
        }
        for warning in &report.warnings {
            warn(&format!("MCP server `{}`: {warning}", report.server));
        }
    }
}

pub(crate) fn configs(open: &OpenArgs, files: &[PathBuf]) -> Result<Vec<(PathBuf, McpConfig)>, Failure> {
    let mut configs = Vec::new();
    for file in files {
        let text = definition::read_limited(file, MCP_BYTES_MAX)?;
        let config = McpConfig::parse(&String::from_utf8_lossy(&text))
            .map_err(|error| Failure::new(INVALID, format!("{}: {error}", file.display())))?;
        configs.push((file.clone(), config));
    }
    let config = open.config();
    if let Some(servers) = config.mcp_servers.get()?.clone() {
        configs.push((config.file.clone().unwrap_or_default(), servers));
    }
    Ok(configs)
}

fn warn(text: &str) {
    output::print_message(&format!("{}: {}", output::yellow("warning"), output::sanitize(text, 1000)));
}

/// All tools that come with rethread, allowed or not, and those of MCP servers: for a person who lists them
/// or calls one, without a runtime.
pub(crate) struct Toolset {
    pub(crate) registry: Registry,
    /// How the MCP servers came up.
    reports: Vec<ServerReport>,
    processes: Processes,
    servers: McpServers,
}

impl Toolset {
    /// The tools that these options offer here, without those that workers run: the tools of a worker.
    #[cfg(feature = "jetstream")]
    pub(crate) async fn of_worker(open: &OpenArgs, args: &ToolArgs) -> Result<Self, Failure> {
        check_isolation(open, args)?;
        Self::new(open, args, registry(open, args)?).await
    }

    pub(crate) async fn with_all_tools(
        open: &OpenArgs,
        workspace: Option<&Path>,
        more: &MoreArgs,
    ) -> Result<Self, Failure> {
        let args = ToolArgs {
            workspace: workspace.map(Path::to_owned),
            allow_write: true,
            allow_commands: true,
            more: more.clone(),
        };
        let registry = registry(open, &args)?;
        for tool in built_in::memory_tools(&(Arc::new(NoMemory) as Arc<dyn MemoryAccess>)) {
            registry.register(tool).map_err(Failure::other)?;
        }
        let kit = Self::new(open, &args, registry).await?;
        add_workers(open, &kit.registry)?;
        Ok(kit)
    }

    /// Adds skills, processes and MCP servers.
    async fn new(open: &OpenArgs, args: &ToolArgs, registry: Registry) -> Result<Self, Failure> {
        let more = &args.more;
        let skills = skills(open, more)?;
        if !skills.is_empty() {
            registry.register(skills.tool_with_list()).map_err(Failure::other)?;
        }
        // No records: there may be a runtime with processes of its own.
        let processes = Processes::in_memory(more.commands(open)?, ProcessOptions::default());
        if args.allow_commands {
            built_in::register_processes(&registry, &processes).map_err(Failure::other)?;
        }
        let workspace = workspace_of(open, args.workspace.as_deref(), more)?;
        let (servers, reports) = McpServers::connect(servers(open, more)?, &registry, &workspace).await;
        print_reports(&reports);
        Ok(Self { registry, reports, processes, servers })
    }

    /// Stops the services of the tools.
    pub(crate) async fn stop(self) {
        self.processes.shutdown().await;
        self.servers.shutdown().await;
    }
}

/// The memory of tools that are called without a runtime.
struct NoMemory;

impl NoMemory {
    fn refused<T>() -> Result<T, ExecutionError> {
        let message = "only a thread has memories; `rethread memory` lists, searches and removes them";
        Err(ExecutionError::new(ErrorKind::Denied, message))
    }
}

impl MemoryAccess for NoMemory {
    fn remembered(&self, _: &ToolContext, _: &NewMemory) -> Result<Option<MemoryId>, ExecutionError> {
        Self::refused()
    }

    fn remember(&self, _: &ToolContext, _: NewMemory, _: Option<Embedding>) -> Result<MemoryId, ExecutionError> {
        Self::refused()
    }

    fn search(&self, _: &ToolContext, _: &MemoryQuery) -> Result<Vec<FoundMemory>, ExecutionError> {
        Self::refused()
    }

    fn forget(&self, _: &ToolContext, _: MemoryId) -> Result<bool, ExecutionError> {
        Self::refused()
    }
}

/// The tools and profiles that workflows can use on this machine, as far as known without a run.
pub(crate) struct Known {
    pub(crate) surroundings: Env,
    /// The profiles, where there is a configuration.
    profiles: Option<Profiles>,
    /// What is not known, and why.
    pub(crate) not_checked: Vec<String>,
}

impl Known {
    /// Nothing: only definitions are checked.
    pub(crate) fn nothing(why: &str) -> Self {
        let unknown = Unknown { profiles: true, tools: true, ..Unknown::default() };
        Self {
            surroundings: Env { providers: providers(), unknown, ..Env::default() },
            profiles: None,
            not_checked: vec![format!("profiles, tools, processors and strategies: {why}")],
        }
    }

    /// Returns what the configuration names. All tools that come with rethread are known, allowed or not: which options
    /// a workflow needs is checked elsewhere. Starts MCP servers and stops them again.
    pub(crate) async fn of(open: &OpenArgs, more: &MoreArgs) -> Result<Self, Failure> {
        let has_configuration = open.config().file.is_some() || !more.mcp.is_empty();
        let mut known = match has_configuration {
            true => Self {
                surroundings: Env { providers: providers(), ..Env::default() },
                profiles: Some(open.profiles()?),
                not_checked: Vec::new(),
            },
            false => Self::nothing("there is no rethread.toml here; name one with --config"),
        };
        known.surroundings.profiles = known.profiles.iter().flat_map(Profiles::names).map(str::to_owned).collect();
        let kit = Toolset::with_all_tools(open, None, &MoreArgs { allow_shell: true, ..more.clone() }).await?;
        for tool in kit.registry.list() {
            known.surroundings.schemas.insert(tool.name().to_owned(), tool.spec().parameters.clone());
        }
        known.surroundings.tools = known.surroundings.schemas.keys().cloned().collect();
        for report in &kit.reports {
            if let Err(error) = &report.tools {
                known.not_checked.push(format!("tools of the MCP server `{}`: {error}", report.server));
                known.surroundings.unknown.tools_with_prefix.push(prefix(&report.server));
            }
        }
        if kit.registry.get("load_skill").is_none() {
            // It exists only with skills.
            known.surroundings.tools.insert("load_skill".to_owned());
        }
        kit.stop().await;
        Ok(known)
    }

    /// Returns the parameters of nodes that their models refuse.
    pub(crate) fn refused(&self, workflow: &Workflow) -> Vec<Fault> {
        let Some(profiles) = &self.profiles else { return Vec::new() };
        workflow.refused(|named, node| rethread::operate::refused_by(profiles, named, node))
    }

    /// Returns the faults of the scripts that mocks follow: those in the workflow, and those of profiles that it names.
    pub(crate) fn unfit_scripts(&self, workflow: &Workflow) -> Vec<Fault> {
        let mut faults = workflow.unfit_extras(rethread::operate::unfit_script);
        if let Some(profiles) = &self.profiles {
            faults.extend(workflow.unavailable(|named| profiles.script_fault(named.profile?.as_str())));
        }
        faults
    }

    /// Returns the warnings about the profiles that a workflow names.
    pub(crate) fn warnings(&self, workflow: &Workflow) -> Vec<String> {
        let Some(profiles) = &self.profiles else { return Vec::new() };
        let mut names = BTreeSet::new();
        workflow.each_model(|_, named| names.extend(named.profile.map(|profile| profile.as_str().to_owned())));
        let today = jiff::Zoned::now().date();
        let of = |name: &String| {
            let advice = profiles.advice(name, today).unwrap_or_default();
            advice.into_iter().map(move |advice| format!("profile `{name}`: {advice}")).collect::<Vec<_>>()
        };
        names.iter().flat_map(of).collect()
    }

    /// Returns the faults of the budget of a workflow: models whose prices are not known.
    pub(crate) fn unpriced(&self, workflow: &Workflow) -> Vec<Fault> {
        let Some(profiles) = &self.profiles else { return Vec::new() };
        workflow.unpriced(|named| match (named.profile, named.provider) {
            (Some(profile), _) => profiles.is_priced(profile.as_str(), named.model),
            (None, Some(provider)) => {
                provider.parse().is_ok_and(|it| profiles.is_priced_for(it, named.model.unwrap_or_default()))
            }
            (None, None) => true,
        })
    }
}

/// The providers that a node can name in place of a profile, without the models of workers.
fn providers() -> BTreeSet<String> {
    PROVIDERS.iter().map(|provider| provider.name().to_owned()).collect()
}
