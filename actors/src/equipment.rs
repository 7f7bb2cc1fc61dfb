//! What runs behind the tools of a runtime, and ends with it: background processes, MCP servers, skills.

use std::path::PathBuf;
use std::sync::Arc;

use rethread_events::ids::ToolName;
use rethread_tools::built_in;
use rethread_tools::mcp::{McpConfig, McpServers, ServerReport};
use rethread_tools::{CommandOptions, ProcessOptions, Processes, RegisterError, Registry, Skills, Workspace};

use crate::error::StartError;

/// The tool by which a model reads a skill.
const LOAD_SKILL: &str = "load_skill";
/// The tools for background processes.
const OF_PROCESSES: [&str; 4] = ["start_process", "read_process", "list_processes", "kill_process"];

/// What is to run behind the tools.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) processes: Option<(CommandOptions, ProcessOptions)>,
    /// Where the records of processes lie, so that the next runtime finds what this one left when it was killed.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) mcp: Option<McpConfig>,
    pub(crate) skills: Option<Skills>,
}

/// What runs behind the tools.
pub(crate) struct Equipment {
    registry: Registry,
    processes: Option<Processes>,
    servers: Option<McpServers>,
    skills: Option<Skills>,
    pub(crate) reports: Vec<ServerReport>,
}

impl Equipment {
    /// Starts it all and adds its tools, on the tokio runtime that this is called on. Servers that fail are reported.
    pub(crate) async fn start(plan: Plan, registry: &Registry, workspace: &Arc<Workspace>) -> Result<Self, StartError> {
        let taken = |error: RegisterError| StartError::Invalid(error.to_string());
        let mut made =
            Self { registry: registry.clone(), processes: None, servers: None, skills: None, reports: Vec::new() };
        if let Some((commands, options)) = plan.processes {
            let processes = match plan.folder {
                // Blocks on a few small files, before anything else runs here.
                Some(folder) => Processes::open(folder, commands, options)?,
                None => Processes::in_memory(commands, options),
            };
            built_in::register_processes(registry, &processes).map_err(taken)?;
            made.processes = Some(processes);
        }
        if let Some(skills) = plan.skills.filter(|skills| !skills.is_empty()) {
            registry.register(skills.tool()).map_err(taken)?;
            made.skills = Some(skills);
        }
        if let Some(config) = plan.mcp {
            let (servers, reports) = McpServers::connect(config, registry, workspace).await;
            made.servers = Some(servers);
            made.reports = reports;
        }
        Ok(made)
    }

    /// What a model that is offered these tools is told of them.
    pub(crate) fn instructions(&self, tools: &[ToolName]) -> Option<String> {
        let skills = self.skills.as_ref().filter(|_| tools.iter().any(|tool| tool.as_str() == LOAD_SKILL))?;
        Some(skills.prompt())
    }

    /// The thread has ended, and so do the processes that it started.
    pub(crate) fn thread_ended(&self, owner: &str) {
        if let Some(processes) = &self.processes {
            processes.end_owner(owner);
        }
    }

    /// Ends it all, in at most some seconds, and takes its tools away again.
    pub(crate) async fn stop(&self) {
        if let Some(processes) = &self.processes {
            for tool in OF_PROCESSES {
                self.registry.unregister(tool);
            }
            processes.shutdown().await;
        }
        if self.skills.is_some() {
            self.registry.unregister(LOAD_SKILL);
        }
        if let Some(servers) = &self.servers {
            servers.shutdown().await;
        }
    }
}
