//! The tools that come with rethread. They work on the files of the workspace and nowhere else.

mod list_folder;
mod read_file;
mod search_text;

pub use list_folder::list_folder;
pub use read_file::read_file;
pub use search_text::search_text;

use crate::{RegisterError, Registry};

/// Adds the tools that only read: `read_file`, `list_folder`, `search_text`.
pub fn register_reading(registry: &Registry) -> Result<(), RegisterError> {
    for tool in [read_file(), list_folder(), search_text()] {
        registry.register(tool)?;
    }
    Ok(())
}

#[cfg(test)]
mod fixture;
