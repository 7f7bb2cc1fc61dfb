//! The services of the tools of a runtime, which stop with it: memory, background processes, MCP servers, skills. All but
//! the first have a feature, and only this file knows which are enabled.

use std::path::PathBuf;
use std::sync::Arc;

use rethread_events::ids::ToolName;
use rethread_events::memory::MemoryOptions;
#[cfg(feature = "files")]
use rethread_tools::Skills;
#[cfg(feature = "mcp")]
use rethread_tools::mcp::{McpConfig, McpServers, ServerReport};
#[cfg(feature = "commands")]
use rethread_tools::{CommandOptions, ProcessOptions, Processes};
use rethread_tools::{Registry, Workspace, built_in};

use crate::error::OpenError;
use crate::memories::Memories;
use crate::memory_tools::ThreadMemories;
use crate::models::Models;

/// The tool by which a model reads a skill.
#[cfg(feature = "files")]
const LOAD_SKILL: &str = "load_skill";
/// The tools for background processes.
#[cfg(feature = "commands")]
const OF_PROCESSES: [&str; 4] = ["start_process", "read_process", "list_processes", "kill_process"];

/// The services that a runtime is to start.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) memory: Option<MemoryOptions>,
    #[cfg(feature = "commands")]
    pub(crate) processes: Option<(CommandOptions, ProcessOptions)>,
    /// Where the records of processes are stored, so that the next runtime finds the processes that this one left when
    /// it was killed.
    pub(crate) folder: Option<PathBuf>,
    #[cfg(feature = "mcp")]
    pub(crate) mcp: Option<McpConfig>,
    #[cfg(feature = "files")]
    pub(crate) skills: Option<Skills>,
}

/// The services of the tools.
pub(crate) struct ToolServices {
    registry: Registry,
    memory: Option<MemoryOptions>,
    #[cfg(feature = "commands")]
    processes: Option<Processes>,
    #[cfg(feature = "mcp")]
    servers: Option<McpServers>,
    #[cfg(feature = "files")]
    skills: Option<Skills>,
    #[cfg(feature = "mcp")]
    pub(crate) reports: Vec<ServerReport>,
}

impl ToolServices {
    /// Starts all services and adds their tools, on the tokio runtime of the caller. Servers that fail are reported.
    pub(crate) async fn start(
        plan: Plan,
        registry: &Registry,
        workspace: &Arc<Workspace>,
        (memories, models): (&Arc<Memories>, &Arc<Models>),
    ) -> Result<Self, OpenError> {
        let made = Self {
            registry: registry.clone(),
            memory: plan.memory.clone(),
            #[cfg(feature = "commands")]
            processes: plan.processes.map(|plan_of| start_processes(plan_of, plan.folder, registry)).transpose()?,
            #[cfg(feature = "files")]
            skills: plan.skills.filter(|skills| !skills.is_empty()),
            #[cfg(feature = "mcp")]
            servers: None,
            #[cfg(feature = "mcp")]
            reports: Vec::new(),
        };
        if let Some(options) = plan.memory {
            options.check().map_err(|fault| OpenError::Invalid(format!("memory: {fault}")))?;
            if let Some(profile) = &options.embeddings {
                models
                    .check_embeds(profile)
                    .map_err(|fault| OpenError::Invalid(format!("memory.embeddings: {fault}")))?;
            }
            for tool in built_in::memory_tools(&ThreadMemories::shared(memories.clone(), models.clone(), options)) {
                registry.register(tool).map_err(|error| OpenError::Invalid(error.to_string()))?;
            }
        }
        #[cfg(feature = "files")]
        if let Some(skills) = &made.skills {
            registry.register(skills.tool()).map_err(|error| OpenError::Invalid(error.to_string()))?;
        }
        #[cfg(feature = "mcp")]
        if let Some(config) = plan.mcp {
            let (servers, reports) = McpServers::connect(config, registry, workspace).await;
            return Ok(Self { servers: Some(servers), reports, ..made });
        }
        Ok(made)
    }

    /// The profile whose model makes the vectors of memories, if they have some.
    pub(crate) fn embeddings(&self) -> Option<&str> {
        self.memory.as_ref()?.embeddings.as_deref()
    }

    /// Returns the instructions for a model that is offered these tools.
    pub(crate) fn instructions(&self, tools: &[ToolName]) -> Option<String> {
        #[cfg(feature = "files")]
        if let Some(skills) = self.skills.as_ref().filter(|_| tools.iter().any(|tool| tool.as_str() == LOAD_SKILL)) {
            return Some(skills.prompt());
        }
        None
    }

    /// Ends the processes of a thread that has ended.
    pub(crate) fn thread_ended(&self, owner: &str) {
        #[cfg(feature = "commands")]
        if let Some(processes) = &self.processes {
            processes.end_owner(owner);
        }
    }

    /// Stops all services, within some seconds, and removes their tools.
    pub(crate) async fn stop(&self) {
        if self.memory.is_some() {
            for tool in built_in::MEMORY_TOOLS {
                self.registry.unregister(tool);
            }
        }
        #[cfg(feature = "commands")]
        if let Some(processes) = &self.processes {
            for tool in OF_PROCESSES {
                self.registry.unregister(tool);
            }
            processes.shutdown().await;
        }
        #[cfg(feature = "files")]
        if self.skills.is_some() {
            self.registry.unregister(LOAD_SKILL);
        }
        #[cfg(feature = "mcp")]
        if let Some(servers) = &self.servers {
            servers.shutdown().await;
        }
    }
}

#[cfg(feature = "commands")]
fn start_processes(
    (commands, options): (CommandOptions, ProcessOptions),
    folder: Option<PathBuf>,
    registry: &Registry,
) -> Result<Processes, OpenError> {
    let processes = match folder {
        // Blocks on a few small files, before anything else runs here.
        Some(folder) => Processes::open(folder, commands, options)?,
        None => Processes::in_memory(commands, options),
    };
    built_in::register_processes(registry, &processes).map_err(|error| OpenError::Invalid(error.to_string()))?;
    Ok(processes)
}
