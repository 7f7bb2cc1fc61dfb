//! Sled's notes of where its pages lie, put aside: without them it reads its whole file, and what they say may not fit
//! that any more. After a full disk cut its last write short, sled calls its own file damaged for ever otherwise.
//!
//! What sled does not find then is noticed as ever: its watermark is behind the mark.

use std::path::{Path, PathBuf};

/// Files that were put aside. They come back unless they are forgotten.
#[derive(Default)]
pub(super) struct Aside {
    /// Where each was, and where it is.
    files: Vec<(PathBuf, PathBuf)>,
}

impl Aside {
    /// Puts the notes in this folder of sled's aside.
    pub(super) fn put(dir: &Path) -> Self {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let (from, to) = (entry.path(), dir.join(format!("aside.{name}")));
            if name.starts_with("snap.") && std::fs::rename(&from, &to).is_ok() {
                tracing::warn!(file = %from.display(), "the index is opened without this file");
                files.push((from, to));
            }
        }
        Self { files }
    }

    /// The database is open without them.
    pub(super) fn forget(&mut self) {
        for (_, to) in self.files.drain(..) {
            // What cannot be removed is only in the way.
            let _ = std::fs::remove_file(to);
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        for (from, to) in self.files.drain(..) {
            if let Err(error) = std::fs::rename(&to, &from) {
                tracing::warn!(%error, file = %from.display(), "a file of the index stays aside");
            }
        }
    }
}
