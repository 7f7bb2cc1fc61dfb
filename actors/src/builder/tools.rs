//! Settings for the services of the tools of a runtime, each with its feature.

#[cfg(feature = "files")]
use rethread_tools::Skills;
#[cfg(feature = "mcp")]
use rethread_tools::mcp::McpConfig;
#[cfg(feature = "commands")]
use rethread_tools::{CommandOptions, ProcessOptions};

use super::RuntimeBuilder;

impl RuntimeBuilder {
    /// Lets models run commands in the background: `start_process`, `read_process`, `list_processes`, `kill_process`.
    /// A thread sees its own processes only, and they end with it: when it completes, fails or is cancelled, and when
    /// the runtime shuts down. With [`RuntimeBuilder::data_dir`], what is left running by a runtime that was killed is
    /// killed when the next one starts.
    #[cfg(feature = "commands")]
    pub fn processes(mut self, commands: CommandOptions, options: ProcessOptions) -> Self {
        self.tool_services.processes = Some((commands, options));
        self
    }

    /// Offers the tools of these MCP servers, named `server__tool`. [`RuntimeBuilder::start`] waits until they are
    /// connected and listed, so that no thread misses them: at the latest until the slowest server's `connect_timeout`
    /// is over. A server that fails stops nothing, see [`Runtime::mcp_reports`](crate::Runtime::mcp_reports). When a server changes its list, agent
    /// loops that begin afterwards are offered the new one. What a server asks during a call is put to people
    /// as an interaction (`INFORM_TOOL`).
    #[cfg(feature = "mcp")]
    pub fn mcp(mut self, config: McpConfig) -> Self {
        self.tool_services.mcp = Some(config);
        self
    }

    /// Offers these skills by the tool `load_skill`. Their names and descriptions are in the instructions of every
    /// model that is offered it. Without skills there is no tool.
    #[cfg(feature = "files")]
    pub fn skills(mut self, skills: Skills) -> Self {
        self.tool_services.skills = Some(skills);
        self
    }
}
