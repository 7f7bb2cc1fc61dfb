//! The folder an agent works in, and the way into it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use parking_lot::Mutex;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::text;
use rustix::fs::OFlags;

mod named_files;
mod reserved;
mod turns;
mod write;

pub use named_files::NamedFiles;
pub(crate) use reserved::Inside;
pub use reserved::Reserved;
#[cfg(all(feature = "sandbox", target_os = "linux"))]
pub(crate) use reserved::{ReservedPlace, without_links};
pub use turns::Workspaces;

/// The bytes of a path; Linux' own limit.
const PATH_BYTES_MAX: usize = 4096;
/// How many symbolic links are followed; Linux' own limit.
const N_LINKS_MAX: usize = 40;

/// A folder, and everything in it, and nothing else.
///
/// [`Workspace::resolve`] turns what a model wrote into a place inside, or refuses it with an error that says why.
/// What then opens the place does not trust that answer: every file is opened relative to a handle of the folder, by
/// calls that cannot leave it (`openat2` with `RESOLVE_BENEATH` on Linux, one step at a time elsewhere). So a link
/// that is put in the way between the check and the use leads to an error, not outside.
///
/// What this does not stop: a hard link or a mounted folder inside the workspace is part of it, wherever else it is
/// visible; and a *command* that a tool starts is a process of its own, which no path check confines. A symbolic link
/// with an absolute target is followed only where the target is written with the workspace's own path.
///
/// Share one value among all who work in a folder, or open it by [`Workspaces`]: edits through one value take turns,
/// edits through two that were opened apart may undo each other.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    /// The root as it was given, where that is another spelling of it.
    root_given: PathBuf,
    dir: Dir,
    /// Device and inode of the folder.
    identity: (u64, u64),
    reserved: Arc<Inside>,
    /// Locked by an edit: a read of a file followed by a write.
    pub(crate) writing: Arc<Mutex<()>>,
}

/// A place inside a workspace. It need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The way from the workspace's folder, without links and `..`; empty for the folder itself.
    pub relative: PathBuf,
    /// Whether something was there when it was resolved.
    pub exists: bool,
}

impl Resolved {
    /// The path for messages: with `/` between the parts, `.` for the workspace itself, control characters escaped.
    pub fn shown(&self) -> String {
        shown(&self.relative)
    }

    /// The path as cap-std wants it: the folder itself is `.`.
    pub(crate) fn as_path(&self) -> &Path {
        if self.relative.as_os_str().is_empty() { Path::new(".") } else { &self.relative }
    }
}

/// A path for messages; a line break in a file name must not look like a line of its own.
pub(crate) fn shown(path: &Path) -> String {
    if path.as_os_str().is_empty() {
        return ".".to_owned();
    }
    let text = path.to_string_lossy();
    if !text.contains(char::is_control) {
        return text.into_owned();
    }
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// Why a path cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// It leads outside.
    #[error("`{path}` is outside the workspace; use a path inside it, relative to its folder")]
    Outside {
        /// The path as given.
        path: String,
    },
    /// It is not for tools, see [`Reserved`].
    #[error("`{path}` is reserved: tools cannot access it")]
    Reserved {
        /// The path as given.
        path: String,
    },
    /// There is nothing there.
    #[error("there is nothing at `{path}`")]
    NotFound {
        /// The path as given.
        path: String,
    },
    /// A part of the path that should be a folder is something else.
    #[error("`{path}` leads through something that is not a folder")]
    NotAFolder {
        /// The path as given.
        path: String,
    },
    /// The path is a pipe, a device, a socket or a folder, and a file is needed.
    #[error("`{path}` is {found}, not a file")]
    NotAFile {
        /// The path as given.
        path: String,
        /// The type of the file that is there.
        found: &'static str,
    },
    /// No path at all: too long, or with a NUL in it.
    #[error("`{path}` is not a usable path: {reason}")]
    Unusable {
        /// The path as given, cut to 80 characters.
        path: String,
        /// Why.
        reason: &'static str,
    },
    /// The system refuses.
    #[error("`{path}` cannot be used")]
    Io {
        /// The path as given.
        path: String,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

impl WorkspaceError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        let path = shown(path);
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            io::ErrorKind::NotADirectory => Self::NotAFolder { path },
            _ => Self::Io { path, source },
        }
    }
}

impl From<WorkspaceError> for ExecutionError {
    fn from(error: WorkspaceError) -> Self {
        let kind = match &error {
            WorkspaceError::Outside { .. } | WorkspaceError::Reserved { .. } => ErrorKind::Denied,
            WorkspaceError::NotFound { .. } => ErrorKind::NotFound,
            WorkspaceError::NotAFolder { .. } | WorkspaceError::NotAFile { .. } | WorkspaceError::Unusable { .. } => {
                ErrorKind::InvalidArguments
            }
            WorkspaceError::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => ErrorKind::Denied,
                _ => ErrorKind::Failed,
            },
        };
        match error {
            // A model reads only the message, so the system's words belong into it.
            WorkspaceError::Io { ref source, .. } => Self::new(kind, format!("{error}: {source}")),
            _ => Self::new(kind, error.to_string()),
        }
    }
}

impl Workspace {
    /// The workspace in this folder, which must exist. Blocks on the file system.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, WorkspaceError> {
        Self::open_without(folder, &Reserved::default())
    }

    /// As [`Workspace::open`], without what is reserved in it.
    pub fn open_without(folder: impl AsRef<Path>, reserved: &Reserved) -> Result<Self, WorkspaceError> {
        let folder = folder.as_ref();
        let root = folder.canonicalize().map_err(|source| WorkspaceError::io(folder, source))?;
        let dir =
            Dir::open_ambient_dir(&root, ambient_authority()).map_err(|source| WorkspaceError::io(folder, source))?;
        let own = dir.dir_metadata().map_err(|source| WorkspaceError::io(folder, source))?;
        let identity = (MetadataExt::dev(&own), MetadataExt::ino(&own));
        let root_given = std::path::absolute(folder).unwrap_or_else(|_| root.clone());
        let reserved = Arc::new(reserved.within(&root));
        Ok(Self { root, root_given, dir, identity, reserved, writing: Arc::default() })
    }

    /// Its folder: absolute, without links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// All that is reserved, wherever it lies, as it was given; of names that are reserved in any folder those in the
    /// workspace's own.
    #[cfg(all(feature = "sandbox", target_os = "linux"))]
    pub(crate) fn reserved_places(&self) -> Vec<ReservedPlace> {
        self.reserved.all(&self.root)
    }

    /// Whether all of it is reserved, so that nothing can be done in it.
    pub fn is_reserved(&self) -> bool {
        self.reserved.has(Path::new(""))
    }

    /// Returns whether its folder is still the one at its path: it may have been removed, and created again. Blocks on
    /// the file system.
    pub fn is_current(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        std::fs::metadata(&self.root).is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
    }

    /// Returns the places that no tool may access.
    pub(crate) fn reserved(&self) -> &Arc<Inside> {
        &self.reserved
    }

    /// The handle through which everything is opened.
    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// The place a path means: relative to the folder, or absolute and inside it. Links are followed as long as they
    /// stay inside; the place and folders on the way to it need not exist. What is reserved is refused, whichever way
    /// leads there. Blocks on the file system, and never accesses anything outside.
    pub fn resolve(&self, path: impl AsRef<Path>) -> Result<Resolved, WorkspaceError> {
        let path = path.as_ref();
        let given = || text::head(&path.to_string_lossy(), 80).to_owned();
        if path.as_os_str().len() > PATH_BYTES_MAX {
            return Err(WorkspaceError::Unusable { path: given(), reason: "over 4096 bytes" });
        }
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(WorkspaceError::Unusable { path: given(), reason: "it contains a NUL" });
        }
        let outside = || WorkspaceError::Outside { path: shown(path) };

        let mut place = PathBuf::new();
        let mut exists = true;
        let mut n_links = 0;
        let mut ahead: VecDeque<Step> = VecDeque::new();
        self.steps(path, &mut ahead).ok_or_else(outside)?;
        while let Some(step) = ahead.pop_front() {
            let name = match step {
                Step::Up if !exists => return Err(WorkspaceError::NotFound { path: shown(path) }),
                Step::Up => {
                    // `place` has no links in it, so the folder above is the one written before the last `/`.
                    if !place.pop() {
                        return Err(outside());
                    }
                    continue;
                }
                Step::Restart => {
                    place.clear();
                    continue;
                }
                Step::Into(name) => name,
            };
            place.push(name);
            if !exists {
                continue;
            }
            match self.dir.symlink_metadata(&place) {
                Ok(found) if found.is_symlink() => {
                    n_links += 1;
                    if n_links > N_LINKS_MAX {
                        let reason = "it leads through too many symbolic links";
                        return Err(WorkspaceError::Unusable { path: given(), reason });
                    }
                    let target =
                        self.dir.read_link_contents(&place).map_err(|source| WorkspaceError::io(path, source))?;
                    place.pop();
                    self.steps(&target, &mut ahead).ok_or_else(outside)?;
                }
                Ok(found) if !found.is_dir() && !ahead.is_empty() => {
                    return Err(WorkspaceError::NotAFolder { path: shown(path) });
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => exists = false,
                Err(source) => return Err(WorkspaceError::io(path, source)),
            }
        }
        if self.reserved.has(&place) {
            return Err(WorkspaceError::Reserved { path: shown(path) });
        }
        Ok(Resolved { relative: place, exists })
    }

    /// Puts the steps of `path` before what is `ahead`; nothing when it is absolute and not inside the workspace.
    fn steps(&self, path: &Path, ahead: &mut VecDeque<Step>) -> Option<()> {
        let inside = if path.is_absolute() {
            path.strip_prefix(&self.root).or_else(|_| path.strip_prefix(&self.root_given)).ok()?
        } else {
            path
        };
        for component in inside.components().rev() {
            ahead.push_front(match component {
                Component::CurDir => continue,
                Component::ParentDir => Step::Up,
                Component::Normal(name) => Step::Into(name.to_owned()),
                Component::RootDir | Component::Prefix(_) => return None,
            });
        }
        if path.is_absolute() {
            ahead.push_front(Step::Restart);
        }
        Some(())
    }

    /// Opens a regular file for reading. A pipe, a device or a folder is refused, and never waited for.
    pub(crate) fn open_file(&self, place: &Resolved) -> Result<(File, Metadata), WorkspaceError> {
        open_file(&self.dir, place.as_path(), &place.relative)
    }
}

/// Opens a regular file below `dir` for reading; `path` is for messages.
pub(crate) fn open_file(dir: &Dir, name: &Path, path: &Path) -> Result<(File, Metadata), WorkspaceError> {
    let fault = |source| WorkspaceError::io(path, source);
    // Opening a device can have effects, so its type is checked first; and again when it is open, because another file
    // may have replaced it.
    regular(&dir.metadata(name).map_err(fault)?, path)?;
    let mut options = OpenOptions::new();
    // Opening a pipe would wait for a writer.
    options.read(true).custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32);
    let file = dir.open_with(name, &options).map_err(fault)?;
    let metadata = file.metadata().map_err(fault)?;
    regular(&metadata, path)?;
    Ok((file, metadata))
}

fn regular(metadata: &Metadata, path: &Path) -> Result<(), WorkspaceError> {
    if metadata.is_file() {
        return Ok(());
    }
    let found = if metadata.is_dir() { "a folder" } else { "a pipe, a socket or a device" };
    Err(WorkspaceError::NotAFile { path: shown(path), found })
}

enum Step {
    /// Back to the workspace's folder: what follows was absolute.
    Restart,
    Up,
    Into(OsString),
}

#[cfg(test)]
pub(crate) mod tests;
