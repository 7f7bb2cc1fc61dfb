//! Goes through the folders of a workspace the way people expect: in order, ignore files respected.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, File, Metadata};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::workspace::{Inside, open_file};
use crate::{Resolved, Workspace, WorkspaceError};

/// How deep folders are followed.
const DEPTH_MAX: usize = 64;
/// How many entries of one folder are read; it is sorted in memory.
const N_FOLDER_ENTRIES_MAX: usize = 100_000;
/// The bytes of an ignore file that are read.
const IGNORE_BYTES_MAX: u64 = 256 * 1024;
/// Names of ignore files; the later wins over the earlier.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];

/// Folders with the data of version control.
const VERSION_CONTROL_FOLDERS: [&str; 4] = [".git", ".hg", ".jj", ".svn"];

/// An entry of a walk.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The way from the workspace's folder.
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
    folder: Arc<Dir>,
    name: OsString,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    Link,
    /// A pipe, a socket, a device.
    Other,
}

impl Entry {
    /// Opens it for reading when it is a regular file.
    pub(crate) fn open(&self) -> Result<(File, Metadata), WorkspaceError> {
        open_file(&self.folder, Path::new(&self.name), &self.path)
    }

    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.folder.symlink_metadata(&self.name)
    }

    /// Where a link points to, as it is written.
    pub(crate) fn target(&self) -> io::Result<PathBuf> {
        self.folder.read_link_contents(&self.name)
    }
}

/// How to walk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// How deep to go; 1 is the folder's own entries.
    pub(crate) depth_max: usize,
    /// Whether entries that ignore files name are included, and the folders of version control are entered.
    pub(crate) all: bool,
}

/// A walk: depth first, each folder's entries sorted by name, a folder before what is in it. Links are met and not
/// followed, what is reserved is not met. Ignore files of the start's parents inside the workspace count, those outside do not.
///
/// Unreadable entries are counted in `n_unreadable` and skipped.
#[derive(Debug)]
pub(crate) struct Walk {
    options: Options,
    reserved: Arc<Inside>,
    /// The folders that are being walked, the innermost last.
    open: Vec<Level>,
    pub(crate) n_unreadable: u64,
    /// Entries left out because a folder has too many.
    pub(crate) n_left_out: u64,
}

#[derive(Debug)]
struct Level {
    folder: Arc<Dir>,
    path: PathBuf,
    entries: std::vec::IntoIter<(OsString, Kind)>,
    rules: Vec<Arc<Gitignore>>,
}

impl Walk {
    /// A walk through the folder at `start`.
    pub(crate) fn new(workspace: &Workspace, start: &Resolved, options: Options) -> Result<Self, WorkspaceError> {
        let fault = |source| WorkspaceError::io(&start.relative, source);
        let folder = workspace.dir().open_dir(start.as_path()).map_err(fault)?;
        let reserved = Arc::clone(workspace.reserved());
        let mut walk = Self { options, reserved, open: Vec::new(), n_unreadable: 0, n_left_out: 0 };
        let mut rules = Vec::new();
        if !options.all {
            let mut above = PathBuf::new();
            for part in start.relative.components() {
                let name = if above.as_os_str().is_empty() { Path::new(".") } else { &above };
                if let Ok(dir) = workspace.dir().open_dir(name) {
                    rules.extend(rules_of(&dir, &above));
                }
                above.push(part);
            }
        }
        walk.enter(folder, start.relative.clone(), rules).map_err(fault)?;
        Ok(walk)
    }

    fn enter(&mut self, folder: Dir, path: PathBuf, mut rules: Vec<Arc<Gitignore>>) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in folder.entries()? {
            let Ok(entry) = entry else {
                self.n_unreadable += 1;
                continue;
            };
            if entries.len() == N_FOLDER_ENTRIES_MAX {
                self.n_left_out += 1;
                continue;
            }
            let Ok(kind) = entry.file_type() else {
                self.n_unreadable += 1;
                continue;
            };
            let kind = match kind {
                kind if kind.is_file() => Kind::File,
                kind if kind.is_dir() => Kind::Folder,
                kind if kind.is_symlink() => Kind::Link,
                _ => Kind::Other,
            };
            entries.push((entry.file_name(), kind));
        }
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        if !self.options.all {
            rules.extend(rules_of(&folder, &path));
        }
        let (folder, entries) = (Arc::new(folder), entries.into_iter());
        self.open.push(Level { folder, path, entries, rules });
        Ok(())
    }
}

impl Iterator for Walk {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            let depth = self.open.len();
            let level = self.open.last_mut()?;
            let Some((name, kind)) = level.entries.next() else {
                self.open.pop();
                continue;
            };
            let path = level.path.join(&name);
            if self.reserved.has(&path) || !self.options.all && is_ignored(&level.rules, &path, kind) {
                continue;
            }
            let entry = Entry { path, kind, folder: Arc::clone(&level.folder), name };
            let is_history = !self.options.all && VERSION_CONTROL_FOLDERS.iter().any(|name| entry.name == *name);
            if kind == Kind::Folder && depth < self.options.depth_max.min(DEPTH_MAX) && !is_history {
                let rules = level.rules.clone();
                let entered =
                    entry.folder.open_dir(&entry.name).and_then(|dir| self.enter(dir, entry.path.clone(), rules));
                if entered.is_err() {
                    self.n_unreadable += 1;
                }
            }
            return Some(entry);
        }
    }
}

/// The innermost rule that speaks of the path decides.
fn is_ignored(rules: &[Arc<Gitignore>], path: &Path, kind: Kind) -> bool {
    for rules in rules.iter().rev() {
        match rules.matched(path, kind == Kind::Folder) {
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
            Match::None => {}
        }
    }
    false
}

/// The rules of a folder's ignore files. They are read here, and not by the crate that knows their language, because
/// a tool that can write to the workspace can put a pipe, an endless device or a link to outside in their place. A line
/// that is no rule is passed over, as git does.
fn rules_of(folder: &Dir, path: &Path) -> Vec<Arc<Gitignore>> {
    let mut all = Vec::new();
    for name in IGNORE_FILES {
        let Ok((file, _)) = open_file(folder, Path::new(name), path) else { continue };
        let mut bytes = Vec::new();
        if file.take(IGNORE_BYTES_MAX).read_to_end(&mut bytes).is_err() {
            continue;
        }
        // Paths are compared as they are from the workspace's folder, so that is what the rules hang on.
        let mut builder = GitignoreBuilder::new(path);
        for line in String::from_utf8_lossy(&bytes).lines() {
            let _ = builder.add_line(None, line);
        }
        if let Ok(rules) = builder.build() {
            all.push(Arc::new(rules));
        }
    }
    all
}

#[cfg(test)]
mod tests;
