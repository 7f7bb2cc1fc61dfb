//! The section `commands` of a configuration.

use std::path::PathBuf;

use serde::Deserialize;

use super::{CommandLimits, Isolation, IsolationMode};

/// The table `commands` of a `rethread.toml`: how commands are isolated.
#[derive(Debug, Deserialize)]
#[serde(expecting = "struct Commands", deny_unknown_fields, default)]
pub struct CommandsConfig {
    isolation: bool,
    network: bool,
    writable: Vec<PathBuf>,
    cpu_s_max: u64,
    memory_bytes_max: u64,
    processes_max: u64,
}

impl Default for CommandsConfig {
    fn default() -> Self {
        let CommandLimits { cpu_s_max, memory_bytes_max, processes_max } = CommandLimits::default();
        Self { isolation: true, network: false, writable: Vec::new(), cpu_s_max, memory_bytes_max, processes_max }
    }
}

impl CommandsConfig {
    /// Returns the isolation that the table asks for.
    ///
    /// # Errors
    /// For a limit that is too low for any command.
    pub fn isolation(self) -> Result<Isolation, String> {
        let Self { isolation, network, writable, cpu_s_max, memory_bytes_max, processes_max } = self;
        for (key, value, least) in [
            ("cpu_s_max", cpu_s_max, 1),
            ("memory_bytes_max", memory_bytes_max, 16 << 20),
            ("processes_max", processes_max, 8),
        ] {
            if value < least {
                return Err(format!("commands.{key}: {value} is less than {least}"));
            }
        }
        let limits = CommandLimits { cpu_s_max, memory_bytes_max, processes_max };
        let mode = if isolation { IsolationMode::Required } else { IsolationMode::Off };
        Ok(Isolation { mode, network, writable, limits })
    }
}
