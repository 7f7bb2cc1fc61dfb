//! The tools that come with rethread. They work on the files of the workspace and nowhere else; only a command, once
//! it runs, can do whatever the process that started it can.

mod ask_user;
mod edit_file;
mod find_files;
mod list_folder;
mod notes;
mod processes;
mod read_file;
mod read_output;
mod run_command;
mod search_text;
mod write_file;

pub use crate::command::CommandOptions;
pub use ask_user::ask_user;
pub use edit_file::edit_file;
pub use find_files::find_files;
pub use list_folder::list_folder;
pub use notes::{Notes, recall_notes, record_note};
pub use processes::{kill_process, list_processes, read_process, start_process};
pub use read_file::read_file;
pub(crate) use read_file::read_file_of;
pub use read_output::{OutputPart, OutputStore, read_output};
pub use run_command::run_command;
pub use search_text::search_text;
pub use write_file::write_file;

use crate::{Processes, RegisterError, Registry};

/// Adds the tools that only read: `read_file`, `list_folder`, `find_files`, `search_text`, `read_output`.
pub fn register_reading(registry: &Registry) -> Result<(), RegisterError> {
    for tool in [read_file(), list_folder(), find_files(), search_text(), read_output()] {
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

/// Adds the tools for notes: `record_note`, `recall_notes`.
pub fn register_notes(registry: &Registry, notes: &Notes) -> Result<(), RegisterError> {
    for tool in [record_note(notes), recall_notes(notes)] {
        registry.register(tool)?;
    }
    Ok(())
}

/// Adds the tools for processes in the background: `start_process`, `read_process`, `list_processes`, `kill_process`.
pub fn register_processes(registry: &Registry, processes: &Processes) -> Result<(), RegisterError> {
    for tool in [start_process(processes), read_process(processes), list_processes(processes), kill_process(processes)]
    {
        registry.register(tool)?;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod fixture;

#[cfg(test)]
mod tests;
