//! Workspaces that several calls have open at the same time.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Weak};

use cap_std::fs::MetadataExt;
use parking_lot::Mutex;

use super::{Reserved, Workspace, WorkspaceError};

/// Device and number of a folder.
type FolderId = (u64, u64);

/// Opens workspaces. Those that are the same folder, however it was written, take turns with their edits; and what
/// is no longer used is closed, so that a folder that was created again under the same name is the new one.
#[derive(Debug, Default)]
pub struct Workspaces {
    reserved: Reserved,
    /// As long as the lock is held by a workspace, the folder is open, and the
    /// system gives its number to no other.
    turns: Mutex<HashMap<FolderId, Weak<Mutex<()>>>>,
}

impl Workspaces {
    /// Opens workspaces in which this is reserved.
    pub fn new(reserved: Reserved) -> Self {
        Self { reserved, turns: Mutex::default() }
    }

    /// The workspace in this folder, as it is now. Blocks on the file system.
    pub fn open(&self, folder: impl AsRef<Path>) -> Result<Workspace, WorkspaceError> {
        let mut workspace = Workspace::open_without(folder, &self.reserved)?;
        let found = workspace.dir.dir_metadata().map_err(|source| WorkspaceError::io(&workspace.root, source))?;
        let mut turns = self.turns.lock();
        turns.retain(|_, turn| turn.strong_count() > 0);
        let known = turns.entry((found.dev(), found.ino())).or_default();
        match known.upgrade() {
            Some(turn) => workspace.writing = turn,
            None => *known = Arc::downgrade(&workspace.writing),
        }
        Ok(workspace)
    }

    /// How many folders are open.
    #[cfg(test)]
    pub(super) fn n_open(&self) -> usize {
        self.turns.lock().values().filter(|turn| turn.strong_count() > 0).count()
    }
}
