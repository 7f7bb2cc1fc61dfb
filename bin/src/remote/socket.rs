//! The socket on which a command that holds a log answers those that read the log.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The folder of the socket in the data directory. Only its owner may enter it: that is what protects the socket.
const FOLDER: &str = "socket";
const NAME: &str = "api";
/// The bytes that the path of a socket may have on every system.
const PATH_BYTES_MAX: usize = 100;

/// A place for a socket. Dropping it leaves the socket.
#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
    /// Holds the folder open where the socket is reached through it, because its path is too long.
    _folder: Option<File>,
}

impl Socket {
    /// Makes the folder and removes a socket that an ended process left in it.
    ///
    /// # Errors
    /// When the folder cannot be made, or is not a folder of this user alone.
    pub(crate) fn make(data_dir: &Path) -> io::Result<Self> {
        let folder = data_dir.join(FOLDER);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !folder.symlink_metadata()?.is_dir() {
                    return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder"));
                }
                std::fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
            }
            made => made?,
        }
        match std::fs::remove_file(folder.join(NAME)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Self::at(&folder)
    }

    /// Returns the existing socket; `None` if no process has created one.
    pub(crate) fn find(data_dir: &Path) -> Option<Self> {
        let folder = data_dir.join(FOLDER);
        folder.join(NAME).symlink_metadata().ok()?;
        Self::at(&folder).ok()
    }

    fn at(folder: &Path) -> io::Result<Self> {
        let path = folder.join(NAME);
        if path.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(Self { path, _folder: None });
        }
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd as _;
            let folder = File::open(folder)?;
            let path = PathBuf::from(format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd()));
            Ok(Self { path, _folder: Some(folder) })
        }
        #[cfg(not(target_os = "linux"))]
        Err(io::Error::new(io::ErrorKind::InvalidFilename, "the path of the data directory is too long for a socket"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the socket.
    pub(crate) fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
