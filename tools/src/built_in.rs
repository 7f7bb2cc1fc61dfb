//! The tools that come with rethread. They work on the files of the workspace and nowhere else; only a command, once
//! it runs, can do whatever the process that started it can.

mod ask_user;
mod edit_file;
mod find_files;
mod list_folder;
mod read_file;
mod run_command;
mod search_text;
mod write_file;

pub use ask_user::ask_user;
pub use edit_file::edit_file;
pub use find_files::find_files;
pub use list_folder::list_folder;
pub use read_file::read_file;
pub use run_command::{CommandOptions, run_command};
pub use search_text::search_text;
pub use write_file::write_file;

use crate::{RegisterError, Registry};

/// Adds the tools that only read: `read_file`, `list_folder`, `find_files`, `search_text`.
pub fn register_reading(registry: &Registry) -> Result<(), RegisterError> {
    for tool in [read_file(), list_folder(), find_files(), search_text()] {
        registry.register(tool)?;
    }
    Ok(())
}

/// Adds the tool by which a model asks a person: `ask_user`.
pub fn register_asking(registry: &Registry) -> Result<(), RegisterError> {
    registry.register(ask_user())
}

/// Adds the tools that change files: `write_file`, `edit_file`.
pub fn register_writing(registry: &Registry) -> Result<(), RegisterError> {
    for tool in [write_file(), edit_file()] {
        registry.register(tool)?;
    }
    Ok(())
}

#[cfg(test)]
mod fixture;
