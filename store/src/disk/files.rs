//! The files that this crate writes itself (sled's are its own affair): every write and every sync goes through
//! here, so that tests can make them fail and can know what a power cut would leave.

mod root;

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, RenameFlags};

pub(crate) use root::Root;

use crate::error::StoreError;

/// Observes every write and every sync of the log's own files, and the sync of sled's file. For tests.
pub trait Watcher: Send + Sync + 'static {
    /// Before bytes are written at an offset; an error is returned in place of the write.
    fn write(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let _ = (path, offset, bytes);
        Ok(())
    }

    /// Before a file's length is set; an error is returned in place of it.
    fn resize(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let _ = (path, bytes);
        Ok(())
    }

    /// Before a sync; an error is returned in place of it.
    fn before_sync(&self, path: &Path) -> io::Result<()> {
        let _ = path;
        Ok(())
    }

    /// After everything written to the file so far has reached the disk.
    fn synced(&self, path: &Path) {
        let _ = path;
    }
}

/// Access to the files of a log. Paths below the folder of the log are resolved from a handle of that folder, so that a
/// rename of it or of a folder above it changes nothing.
#[derive(Clone, Default)]
pub(crate) struct Files {
    watcher: Option<Arc<dyn Watcher>>,
    root: Option<Arc<Root>>,
    only_reads: bool,
    /// Whether files are not synced when they are written.
    skips_sync: bool,
}

/// The path that is read in place of a missing file, if none may be created.
const NOTHING: &str = "/dev/null";

impl Files {
    pub(crate) fn new(watcher: Option<Arc<dyn Watcher>>, root: Root) -> Self {
        Self { watcher, root: Some(Arc::new(root)), ..Self::default() }
    }

    /// What is written to a file stays in the memory of the operating system for as long as that chooses.
    pub(crate) fn without_sync(self) -> Self {
        Self { skips_sync: true, ..self }
    }

    /// Access by path, seen by a watcher.
    #[cfg(test)]
    pub(crate) fn watched(watcher: Arc<dyn Watcher>) -> Self {
        Self { watcher: Some(watcher), ..Self::default() }
    }

    /// No file is made, and what is written to one is an error.
    pub(crate) fn only_read(self) -> Self {
        Self { only_reads: true, ..self }
    }

    /// Whether the path of the log still leads to the folder that was opened: an error where it does not.
    pub(crate) fn check_in_place(&self) -> Result<(), StoreError> {
        self.root.as_ref().map_or(Ok(()), |root| root.check_in_place())
    }

    /// Has [`Files::check_in_place`] compare a file or folder of the log, too.
    pub(crate) fn hold(&self, part: &Path) -> Result<(), StoreError> {
        self.root.as_ref().filter(|_| !self.only_reads).map_or(Ok(()), |root| root.hold(part))
    }

    /// As above, for what is about to take the place of a part that is held.
    pub(crate) fn hold_also(&self, part: &Path, next: &Path) -> Result<(), StoreError> {
        self.root.as_ref().filter(|_| !self.only_reads).map_or(Ok(()), |root| root.hold_also(part, next))
    }

    /// A path for libraries that take no handle. It leads to the opened folder, where the system has such paths.
    pub(crate) fn path_for_library(&self, path: &Path) -> PathBuf {
        self.root.as_ref().map_or_else(|| path.into(), |root| root.path_for_library(path))
    }

    /// The folder of the log; the folder that the process is in, for files that are accessed by path.
    pub(crate) fn folder(&self) -> &Path {
        self.root.as_ref().map_or(Path::new(""), |root| root.path())
    }

    fn openat(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC;
        let opened = match &self.root {
            Some(root) => rustix::fs::openat(root, root.relative(path), flags, FILE_MODE),
            None => rustix::fs::openat(CWD, path, flags, FILE_MODE),
        };
        Ok(File::from(opened?))
    }

    /// Opens a file, created when it is not there.
    pub(crate) fn open(&self, path: &Path) -> Result<LogFile, StoreError> {
        let file = if self.only_reads {
            match self.openat(path, OFlags::RDONLY) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => File::open(NOTHING),
                opened => opened,
            }
        } else {
            self.openat(path, OFlags::RDWR | OFlags::CREATE)
        };
        let file = file.map_err(|source| failed(path, source))?;
        Ok(LogFile { file, path: path.into(), watcher: self.watcher.clone(), skips_sync: self.skips_sync })
    }

    /// Opens a file that is no part of the log, created when it is not there.
    pub(crate) fn side_file(&self, path: &Path) -> Result<File, StoreError> {
        self.openat(path, OFlags::RDWR | OFlags::CREATE).map_err(|source| failed(path, source))
    }

    /// Opens a file that is there, to be read.
    pub(crate) fn find(&self, path: &Path) -> io::Result<LogFile> {
        let file = self.openat(path, OFlags::RDONLY)?;
        Ok(LogFile { file, path: path.into(), watcher: self.watcher.clone(), skips_sync: self.skips_sync })
    }

    /// The whole of a small file.
    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.openat(path, OFlags::RDONLY)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The length of a file; `None` when it is not there.
    pub(crate) fn bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        match self.openat(path, OFlags::RDONLY) {
            Ok(file) => Ok(Some(file.metadata()?.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether nothing is written.
    pub(crate) fn only_reads(&self) -> bool {
        self.only_reads
    }

    pub(crate) fn is_there(&self, path: &Path) -> Result<bool, StoreError> {
        Ok(self.bytes(path).map_err(|source| failed(path, source))?.is_some())
    }

    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = match &self.root {
            Some(root) => rustix::fs::unlinkat(root, root.relative(path), AtFlags::empty()),
            None => rustix::fs::unlinkat(CWD, path, AtFlags::empty()),
        };
        Ok(removed?)
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let renamed = match &self.root {
            Some(root) => rustix::fs::renameat(root, root.relative(from), root, root.relative(to)),
            None => rustix::fs::renameat(CWD, from, CWD, to),
        };
        Ok(renamed?)
    }

    /// Creates a folder in a folder that is there.
    pub(crate) fn make_dir(&self, path: &Path) -> io::Result<()> {
        let made = match &self.root {
            Some(root) => rustix::fs::mkdirat(root, root.relative(path), DIR_MODE),
            None => rustix::fs::mkdirat(CWD, path, DIR_MODE),
        };
        match made {
            Err(rustix::io::Errno::EXIST) => Ok(()),
            made => Ok(made?),
        }
    }

    /// Returns the names in a folder; none if it does not exist.
    pub(crate) fn names(&self, path: &Path) -> io::Result<Vec<String>> {
        let dir = match self.openat(path, OFlags::RDONLY | OFlags::DIRECTORY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(&dir)? {
            names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
        }
        names.retain(|name| !matches!(name.as_str(), "." | ".."));
        Ok(names)
    }

    fn is_folder(&self, path: &Path) -> io::Result<bool> {
        Ok(self.openat(path, OFlags::RDONLY)?.metadata()?.is_dir())
    }

    /// Exchanges two folders in one step.
    pub(crate) fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        let flags = RenameFlags::EXCHANGE;
        let exchanged = match &self.root {
            Some(root) => rustix::fs::renameat_with(root, root.relative(one), root, root.relative(other), flags),
            None => rustix::fs::renameat_with(CWD, one, CWD, other, flags),
        };
        Ok(exchanged?)
    }

    /// Removes a folder with everything in it. Does nothing if it does not exist.
    pub(crate) fn remove_folder(&self, path: &Path) -> io::Result<()> {
        for name in self.names(path)? {
            let inner = path.join(name);
            if self.is_folder(&inner)? { self.remove_folder(&inner)? } else { self.remove(&inner)? }
        }
        let removed = match &self.root {
            Some(root) => rustix::fs::unlinkat(root, root.relative(path), AtFlags::REMOVEDIR),
            None => rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR),
        };
        match removed {
            Err(rustix::io::Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// Copies the files of a folder, on the disk when it returns.
    pub(crate) fn copy_folder(&self, from: &Path, to_files: &Files, to: &Path) -> Result<(), StoreError> {
        to_files.make_dir(to).map_err(|source| failed(to, source))?;
        for name in self.names(from).map_err(|source| failed(from, source))? {
            let (from, to) = (from.join(&name), to.join(&name));
            let mut file = match self.openat(&from, OFlags::RDONLY) {
                // One of sled's notes, which it replaces by a newer one now and then.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.map_err(|source| failed(&from, source))?,
            };
            if file.metadata().map_err(|source| failed(&from, source))?.is_dir() {
                self.copy_folder(&from, to_files, &to)?;
                continue;
            }
            let mut copy = to_files.open(&to)?.file;
            io::copy(&mut file, &mut copy).and_then(|_| copy.sync_all()).map_err(|source| failed(&to, source))?;
        }
        to_files.sync_dir(to)
    }

    /// Returns the free disk space; `None` if it is unknown.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let found = rustix::fs::fstatvfs(self.root.as_deref()?).ok()?;
        found.f_bavail.checked_mul(found.f_frsize)
    }

    /// Makes the names in a folder durable.
    pub(crate) fn sync_dir(&self, path: &Path) -> Result<(), StoreError> {
        if self.skips_sync {
            return Ok(());
        }
        let dir = self.openat(path, OFlags::RDONLY | OFlags::DIRECTORY);
        dir.and_then(|dir| dir.sync_all()).map_err(|source| failed(path, source))?;
        if let Some(watcher) = &self.watcher {
            watcher.synced(path);
        }
        Ok(())
    }
}

/// Only the user that runs the program reads and writes what is in the log.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIR_MODE: Mode = Mode::RWXU;

/// One file.
pub(crate) struct LogFile {
    file: File,
    path: PathBuf,
    watcher: Option<Arc<dyn Watcher>>,
    skips_sync: bool,
}

impl LogFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    pub(crate) fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Some(watcher) = &self.watcher {
            watcher.write(&self.path, offset, bytes)?;
        }
        self.file.write_all_at(bytes, offset)
    }

    pub(crate) fn resize(&self, bytes: u64) -> io::Result<()> {
        if let Some(watcher) = &self.watcher {
            watcher.resize(&self.path, bytes)?;
        }
        self.file.set_len(bytes)
    }

    /// Bytes from an offset on; an error when they are not all there.
    pub(crate) fn read_at(&self, offset: u64, n: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; n];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Reserves this many bytes of disk space, if the system supports that.
    #[cfg(target_os = "linux")]
    pub(crate) fn allocate(&self, bytes: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(&self.file, rustix::fs::FallocateFlags::empty(), 0, bytes)?)
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn allocate(&self, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Overwrites bytes with zeros and frees their space, if the filesystem can do that.
    pub(crate) fn erase(&self, offset: u64, n: u64) -> io::Result<()> {
        const ZEROS: &[u8] = &[0; 64 << 10];
        // A watcher is to see what changes, and it knows only writes.
        if self.watcher.is_none() && self.punch(offset, n) {
            return Ok(());
        }
        for done in (0..n).step_by(ZEROS.len()) {
            let part = &ZEROS[..(n - done).min(ZEROS.len() as u64) as usize];
            self.write_at(part, offset + done)?;
        }
        Ok(())
    }

    /// Whether the filesystem could make a hole.
    #[cfg(target_os = "linux")]
    fn punch(&self, offset: u64, n: u64) -> bool {
        use rustix::fs::{FallocateFlags, fallocate};
        fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, n).is_ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn punch(&self, _offset: u64, _n: u64) -> bool {
        false
    }

    /// Waits until everything written has reached the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        if let Some(watcher) = &self.watcher {
            watcher.before_sync(&self.path)?;
        }
        if self.skips_sync {
            return Ok(());
        }
        self.file.sync_data()?;
        if let Some(watcher) = &self.watcher {
            watcher.synced(&self.path);
        }
        Ok(())
    }

    /// The whole file; refused above `bytes_max`, so that a damaged length costs no memory.
    pub(crate) fn read_all(&self, bytes_max: u64) -> io::Result<Vec<u8>> {
        let n = self.bytes()?;
        if n > bytes_max {
            let what = format!("{n} bytes, over the limit of {bytes_max}");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
        }
        let mut bytes = vec![0; n as usize];
        self.file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }
}

/// Converts the error of a file operation for the caller.
pub(crate) fn failed(path: &Path, source: io::Error) -> StoreError {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::Full { path: path.parent().unwrap_or(path).into() }
        }
        _ => StoreError::Io { path: path.into(), source: Arc::new(source) },
    }
}
