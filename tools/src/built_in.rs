//! The tools that come with rethread. They work on the files of the workspace and nowhere else; only a command, once
//! it runs, can do everything that the process that started it can.

mod ask_user;
#[cfg(feature = "commands")]
mod commands;
#[cfg(feature = "files")]
mod files;
mod memory;
mod read_output;

#[cfg(feature = "commands")]
pub use crate::command::CommandOptions;
pub use ask_user::ask_user;
#[cfg(feature = "commands")]
pub use commands::*;
#[cfg(feature = "files")]
pub use files::*;
pub use memory::{MEMORY_TOOLS, MemoryAccess, memory_tools};
pub use read_output::{OutputPart, OutputStore, read_output};

use crate::{RegisterError, Registry};

/// Adds the tool by which a model asks a person: `ask_user`.
pub fn register_asking(registry: &Registry) -> Result<(), RegisterError> {
    registry.register(ask_user())
}

#[cfg(test)]
pub(crate) mod fixture;

#[cfg(test)]
mod tests;
