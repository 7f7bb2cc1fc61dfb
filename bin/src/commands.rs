//! The table `commands` of rethread.toml.

use std::path::{Path, PathBuf};

use rethread::tools::{CommandLimits, Isolation, IsolationMode};
use serde::Deserialize;

use crate::definition;
use crate::exit::{Failure, INVALID};

#[derive(Debug, Deserialize)]
struct File {
    #[serde(default)]
    commands: Commands,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Commands {
    isolation: bool,
    network: bool,
    writable: Vec<PathBuf>,
    cpu_s_max: u64,
    memory_bytes_max: u64,
    processes_max: u64,
}

impl Default for Commands {
    fn default() -> Self {
        let CommandLimits { cpu_s_max, memory_bytes_max, processes_max } = CommandLimits::default();
        Self { isolation: true, network: false, writable: Vec::new(), cpu_s_max, memory_bytes_max, processes_max }
    }
}

/// How commands are isolated by a configuration.
///
/// # Errors
/// For an unknown key and for a number that is out of range (exit code 3).
pub(crate) fn read(file: &Path) -> Result<Isolation, Failure> {
    let invalid = |what: String| Failure::new(INVALID, format!("{}: {what}", file.display()));
    let File { commands } = definition::read_toml(file)?;
    let Commands { isolation, network, writable, cpu_s_max, memory_bytes_max, processes_max } = commands;
    for (key, value, least) in [
        ("cpu_s_max", cpu_s_max, 1),
        ("memory_bytes_max", memory_bytes_max, 16 << 20),
        ("processes_max", processes_max, 8),
    ] {
        if value < least {
            return Err(invalid(format!("commands.{key}: {value} is less than {least}")));
        }
    }
    let limits = CommandLimits { cpu_s_max, memory_bytes_max, processes_max };
    let mode = if isolation { IsolationMode::Required } else { IsolationMode::Off };
    Ok(Isolation { mode, network, writable, limits })
}
