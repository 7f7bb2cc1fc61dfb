//! The reserved paths of a workspace.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Places that no tool reads, writes, lists or searches, though they lie in its workspace: the folder of the log, files
/// that say which programs are started. A tool that could write there could run any program and hide what it did.
///
/// ```
/// use rethread_tools::{Reserved, Workspace};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let reserved = Reserved::default().place(folder.path().join("log")).name("secrets.toml");
/// let workspace = Workspace::open_without(folder.path(), &reserved)?;
/// assert!(workspace.resolve("log/format").is_err());
/// assert!(workspace.resolve("deep/er/secrets.toml").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reserved {
    /// Absolute, as they were given.
    places: Vec<PathBuf>,
    /// As above, programs that the configuration starts.
    programs: Vec<PathBuf>,
    names: Vec<String>,
}

impl Reserved {
    /// Reserves a file, or a folder with all that is in it. It need not exist yet.
    #[must_use]
    pub fn place(mut self, path: impl AsRef<Path>) -> Self {
        self.places.push(absolute(path.as_ref()));
        self
    }

    /// Reserves a program that the configuration starts: as [`Reserved::place`] in a workspace, and for an isolated command
    /// wherever the command could write. Elsewhere a command may run it, as it may run other programs of the system.
    #[must_use]
    pub fn program(mut self, path: impl AsRef<Path>) -> Self {
        self.programs.push(absolute(path.as_ref()));
        self
    }

    /// Reserves every file and folder of this name, at any depth, with its content. Upper and lower case are the same,
    /// as they are to some file systems.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into().to_lowercase());
        self
    }

    /// Returns the reserved paths in the folder `root`, which is without links. Blocks on the file system.
    pub(super) fn within(&self, root: &Path) -> Inside {
        let inside = self.places.iter().chain(&self.programs).filter_map(|place| {
            let place = without_links(place);
            // A workspace inside a reserved folder has none of it but itself.
            Some(lower(place.strip_prefix(root).ok()?))
        });
        Inside {
            places: inside.collect(),
            names: self.names.clone(),
            given: self.places.clone(),
            programs: self.programs.clone(),
        }
    }
}

/// The reserved paths in one workspace, relative to its folder, in lower case.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inside {
    places: Vec<Vec<String>>,
    names: Vec<String>,
    /// All places, also those elsewhere.
    given: Vec<PathBuf>,
    /// All programs.
    programs: Vec<PathBuf>,
}

/// A reserved path, as the isolation of commands needs it.
#[cfg(all(feature = "sandbox", target_os = "linux"))]
pub(crate) struct ReservedPlace {
    pub(crate) path: PathBuf,
    /// Whether it is a program that the configuration starts.
    pub(crate) is_program: bool,
}

impl Inside {
    /// Whether a place, given from the workspace's folder on and without links, is reserved.
    pub(crate) fn has(&self, place: &Path) -> bool {
        if self.places.is_empty() && self.names.is_empty() {
            return false;
        }
        let parts = lower(place);
        self.places.iter().any(|reserved| parts.starts_with(reserved))
            || parts.iter().any(|part| self.names.contains(part))
    }

    /// All places, wherever they lie, and those that the names have in the folder `root`.
    #[cfg(all(feature = "sandbox", target_os = "linux"))]
    pub(super) fn all(&self, root: &Path) -> Vec<ReservedPlace> {
        let places = self.given.iter().cloned().chain(self.names.iter().map(|name| root.join(name)));
        let places = places.map(|path| ReservedPlace { path, is_program: false });
        let programs = self.programs.iter().map(|path| ReservedPlace { path: path.clone(), is_program: true });
        places.chain(programs).collect()
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn lower(path: &Path) -> Vec<String> {
    let lower = |part: &OsStr| part.to_string_lossy().to_lowercase();
    path.iter().map(lower).collect()
}

/// The path with links followed as far as it exists.
pub(crate) fn without_links(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    for part in path.ancestors() {
        if let Ok(mut found) = part.canonicalize() {
            found.extend(rest.iter().rev());
            return found;
        }
        rest.extend(part.file_name());
    }
    path.to_owned()
}
