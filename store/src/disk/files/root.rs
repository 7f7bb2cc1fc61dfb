//! The folder of an open log: its handle, and whether its path still leads to it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use super::failed;
use crate::disk::lock::{self, Lock};
use crate::error::StoreError;

/// The folder of a log, held by a handle.
#[derive(Debug)]
pub(crate) struct Root {
    path: PathBuf,
    dir: OwnedFd,
    /// The lock file that this process holds: device and inode.
    lock: Option<(u64, u64)>,
    /// Files and folders below it that stay what they are: device and inode. Two while one takes the place of the other.
    parts: Mutex<BTreeMap<PathBuf, Vec<(u64, u64)>>>,
}

impl Root {
    /// Opens the folder, created with everything above it when it is not there.
    pub(crate) fn create(path: &Path) -> Result<Self, StoreError> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(path).map_err(|source| failed(path, source))?;
        Self::open(path)
    }

    /// Opens a folder that is there.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let path = std::path::absolute(path).map_err(|source| failed(path, source))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(CWD, &path, flags, Mode::empty());
        let dir = dir.map_err(|error| failed(&path, error.into()))?;
        Ok(Self { path, dir, lock: None, parts: Mutex::default() })
    }

    /// Takes the lock of the log. From then on [`Root::check_in_place`] compares the lock file.
    pub(crate) fn lock(&mut self, label: &str) -> Result<Lock, StoreError> {
        let lock = Lock::take(self, label)?;
        let found = identity(lock.file().as_fd(), Path::new(""));
        self.lock = Some(found.map_err(|error| failed(&self.path.join(lock::NAME), error))?);
        Ok(lock)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A path below the folder, from the folder on. Any other path stays as it is.
    pub(super) fn relative<'a>(&self, path: &'a Path) -> &'a Path {
        match path.strip_prefix(&self.path) {
            Ok(rest) if rest.as_os_str().is_empty() => Path::new("."),
            Ok(rest) => rest,
            Err(_) => path,
        }
    }

    /// See [`super::Files::path_for_library`].
    pub(super) fn path_for_library(&self, path: &Path) -> PathBuf {
        let by_handle = Path::new("/proc/self/fd").join(self.dir.as_raw_fd().to_string());
        if by_handle.exists() { by_handle.join(self.relative(path)) } else { path.into() }
    }

    /// Compares a file or folder of the log from now on, see [`Root::check_in_place`].
    pub(super) fn hold(&self, part: &Path) -> Result<(), StoreError> {
        let found = self.identity_at(part).map_err(|source| failed(part, source))?;
        self.parts.lock().insert(part.into(), vec![found]);
        Ok(())
    }

    /// As above, for what is about to take the place of a part that is compared.
    pub(super) fn hold_also(&self, part: &Path, next: &Path) -> Result<(), StoreError> {
        let found = self.identity_at(next).map_err(|source| failed(next, source))?;
        self.parts.lock().entry(part.into()).or_default().push(found);
        Ok(())
    }

    fn identity_at(&self, part: &Path) -> io::Result<(u64, u64)> {
        identity(self.dir.as_fd(), self.relative(part))
    }

    fn check_parts(&self) -> Result<(), StoreError> {
        for (part, held) in &*self.parts.lock() {
            let moved = |why: String| StoreError::Moved { path: part.clone(), why };
            match self.identity_at(part) {
                Ok(found) if held.contains(&found) => {}
                Ok(_) => return Err(moved("another one is there".into())),
                Err(error) => return Err(moved(error.to_string())),
            }
        }
        Ok(())
    }

    /// An error when the lock file at the path of the log is not the one that this process holds: the folder was moved,
    /// removed or replaced, or its files were. So for each part that is held. Costs a look-up of a path for each.
    pub(super) fn check_in_place(&self) -> Result<(), StoreError> {
        let Some(held) = self.lock else { return Ok(()) };
        match identity(CWD, &self.path.join(lock::NAME)) {
            Ok(found) if found == held => self.check_parts(),
            Ok(_) => Err(self.moved("another log is there")),
            Err(error) => Err(self.moved(&error.to_string())),
        }
    }

    pub(super) fn moved(&self, why: &str) -> StoreError {
        StoreError::Moved { path: self.path.clone(), why: why.into() }
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// The device and the inode of a file or folder; of the open one when the path is empty.
///
/// Linux is asked for nothing else: since 6.13 a look at the times of a file gives its next write a time of its own, and
/// with that a change of metadata that the next sync waits for (`multigrain timestamps` in its documentation).
#[cfg(target_os = "linux")]
fn identity(dir: BorrowedFd<'_>, path: &Path) -> io::Result<(u64, u64)> {
    let found = rustix::fs::statx(dir, path, AtFlags::EMPTY_PATH, rustix::fs::StatxFlags::INO)?;
    Ok((u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor), found.stx_ino))
}

#[cfg(not(target_os = "linux"))]
fn identity(dir: BorrowedFd<'_>, path: &Path) -> io::Result<(u64, u64)> {
    let is_open = path.as_os_str().is_empty();
    let found = if is_open { rustix::fs::fstat(dir)? } else { rustix::fs::statat(dir, path, AtFlags::empty())? };
    // The types differ between systems.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
    Ok((found.st_dev as u64, found.st_ino as u64))
}
