//! A folder that is removed with what is in it when it is dropped.

use std::fs::{self, DirBuilder};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// How many names are tried.
const TRIES: u32 = 1_000;

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes a folder in `place` that is not there yet and that only this user may open.
    ///
    /// # Errors
    /// When `place` takes no folder.
    pub(crate) fn in_place(place: &Path, prefix: &str) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        for _ in 0..TRIES {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = place.join(format!("{prefix}{}-{:x}-{number}", std::process::id(), since.as_nanos()));
            match builder.create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{TRIES} names of temporary folders are taken")))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(folder = %self.0.display(), %error, "cannot remove a temporary folder");
        }
    }
}

#[cfg(test)]
mod tests;
