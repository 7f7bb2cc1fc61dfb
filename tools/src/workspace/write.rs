//! Writes whole files, all of them or nothing.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};
use rethread_events::fault::ExecutionError;

use super::{Resolved, Workspace, WorkspaceError, regular};
use crate::ToolContext;

/// How many names are tried for the file that is to become the new one.
const N_NAMES_MAX: u32 = 1000;

impl Workspace {
    /// Puts `bytes` at `place`, in place of the file there, if there is one; missing folders are created. Readers
    /// see the old file or the new one, also after a crash, never a part: the bytes go
    /// to a file beside it, to the disk, and then take its name. The file retains its permissions; it does not retain
    /// its owner or its hard links.
    ///
    /// Says whether a file was there. A cancelled write leaves nothing but folders; a
    /// crash in the middle may leave a hidden file `.rethread-….tmp`.
    pub(crate) fn write(&self, place: &Resolved, bytes: &[u8], cx: &ToolContext) -> Result<bool, ExecutionError> {
        let fault = |source| WorkspaceError::io(&place.relative, source);
        let Some(name) = place.relative.file_name() else {
            let path = place.shown();
            return Err(WorkspaceError::NotAFile { path, found: "a folder" }.into());
        };
        let permissions = match self.dir.metadata(place.as_path()) {
            Ok(metadata) => {
                regular(&metadata, &place.relative)?;
                Some(metadata.permissions())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(fault(error).into()),
        };
        let folder = match place.relative.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => {
                self.dir.create_dir_all(parent).map_err(fault)?;
                self.dir.open_dir(parent).map_err(fault)?
            }
            _ => self.dir.try_clone().map_err(fault)?,
        };
        cx.check()?;
        let new = New::write(&folder, bytes, permissions.clone()).map_err(fault)?;
        cx.check()?;
        new.take_name(name).map_err(fault)?;
        Ok(permissions.is_some())
    }
}

/// A temporary file that is renamed to its final name; removed if that fails.
struct New<'a> {
    folder: &'a Dir,
    name: PathBuf,
    is_placed: bool,
}

impl<'a> New<'a> {
    fn write(folder: &'a Dir, bytes: &[u8], permissions: Option<Permissions>) -> io::Result<Self> {
        let (mut file, new) = Self::create(folder, permissions.is_some())?;
        file.write_all(bytes)?;
        if let Some(permissions) = permissions {
            // Set-user-id and set-group-id do not pass to the new content.
            file.set_permissions(Permissions::from_mode(permissions.mode() & 0o777))?;
        }
        file.sync_all()?;
        Ok(new)
    }

    /// An empty file; one that is to have the permissions of another is its owner's alone until it has them, so that
    /// a file with restricted permissions is never readable by others.
    fn create(folder: &'a Dir, is_private: bool) -> io::Result<(File, Self)> {
        static N_MADE: AtomicU64 = AtomicU64::new(0);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if is_private {
            options.mode(0o600);
        }
        let mut n_names = 0;
        loop {
            let n = N_MADE.fetch_add(1, Ordering::Relaxed);
            let name = PathBuf::from(format!(".rethread-{}-{n}.tmp", std::process::id()));
            match folder.open_with(&name, &options) {
                Ok(file) => return Ok((file, Self { folder, name, is_placed: false })),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && n_names < N_NAMES_MAX => {
                    n_names += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn take_name(mut self, name: &OsStr) -> io::Result<()> {
        self.folder.rename(&self.name, self.folder, Path::new(name))?;
        self.is_placed = true;
        // The name is durable when the folder is.
        self.folder.open(".")?.sync_all()
    }
}

impl Drop for New<'_> {
    fn drop(&mut self) {
        if !self.is_placed {
            // What cannot be removed is a hidden file too many; the error that led here says more.
            let _ = self.folder.remove_file(&self.name);
        }
    }
}

#[cfg(test)]
mod tests;
