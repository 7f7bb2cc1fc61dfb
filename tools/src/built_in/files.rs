//! Tools that read and write files of the workspace.

mod edit_file;
mod find_files;
mod list_folder;
mod notes;
mod read_file;
mod search_text;
mod write_file;

pub use edit_file::edit_file;
pub use find_files::find_files;
pub use list_folder::list_folder;
pub use notes::{Notes, recall_notes, record_note};
pub use read_file::read_file;
pub(crate) use read_file::read_file_of;
pub use search_text::search_text;
pub use write_file::write_file;

use super::read_output;
use crate::{RegisterError, Registry};

/// Adds the tools that only read: `read_file`, `list_folder`, `find_files`, `search_text`, `read_output`.
pub fn register_reading(registry: &Registry) -> Result<(), RegisterError> {
    for tool in [read_file(), list_folder(), find_files(), search_text(), read_output()] {
        registry.register(tool)?;
    }
    Ok(())
}

/// Adds the tools that change files: `write_file`, `edit_file`.
pub fn register_writing(registry: &Registry) -> Result<(), RegisterError> {
    for tool in [write_file(), edit_file()] {
        registry.register(tool)?;
    }
    Ok(())
}
