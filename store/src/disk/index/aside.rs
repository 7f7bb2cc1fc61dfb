//! Sled's notes of where its pages lie, put aside: without them it reads its whole file, and what they say may not fit
//! that any more. After a full disk cut its last write short, sled calls its own file damaged for ever otherwise.
//!
//! What sled does not find then is noticed as always: its watermark is before the mark.

use std::path::{Path, PathBuf};

use crate::disk::files::Files;

/// Files that were moved aside. They are restored unless they are dropped on purpose.
#[derive(Default)]
pub(super) struct Aside {
    access: Files,
    /// Where each was, and where it is.
    files: Vec<(PathBuf, PathBuf)>,
}

impl Aside {
    /// Puts the notes in this folder of sled's aside.
    pub(super) fn put(dir: &Path, access: Files) -> Self {
        let mut files = Vec::new();
        for name in access.names(dir).unwrap_or_default() {
            let (from, to) = (dir.join(&name), dir.join(format!("aside.{name}")));
            if name.starts_with("snap.") && access.rename(&from, &to).is_ok() {
                tracing::warn!(file = %from.display(), "opening the index without this file");
                files.push((from, to));
            }
        }
        Self { access, files }
    }

    /// The database is open without them.
    pub(super) fn forget(&mut self) {
        for (_, to) in self.files.drain(..) {
            // What cannot be removed is only in the way.
            let _ = self.access.remove(&to);
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        for (from, to) in self.files.drain(..) {
            if let Err(error) = self.access.rename(&to, &from) {
                tracing::warn!(%error, file = %from.display(), "cannot restore a file of the index");
            }
        }
    }
}
