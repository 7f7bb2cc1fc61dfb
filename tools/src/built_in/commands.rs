//! Tools that run commands, in the foreground and in the background.

mod processes;
mod run_command;

pub use processes::{kill_process, list_processes, read_process, start_process};
pub use run_command::run_command;

use crate::{Processes, RegisterError, Registry};

/// Adds the tools for processes in the background: `start_process`, `read_process`, `list_processes`, `kill_process`.
pub fn register_processes(registry: &Registry, processes: &Processes) -> Result<(), RegisterError> {
    for tool in [start_process(processes), read_process(processes), list_processes(processes), kill_process(processes)]
    {
        registry.register(tool)?;
    }
    Ok(())
}
