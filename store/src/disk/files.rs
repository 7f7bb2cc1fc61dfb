//! The files that this crate writes itself (sled's are its own affair): every write and every sync goes through
//! here, so that tests can make them fail and can know what a power cut would leave.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::StoreError;

/// Sees every write and every sync of the log's own files, and the sync of sled's file. For tests.
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

/// How files are reached.
#[derive(Clone, Default)]
pub(crate) struct Files {
    watcher: Option<Arc<dyn Watcher>>,
    only_reads: bool,
}

/// What is read in place of a file that is not there, where none may be made.
const NOTHING: &str = "/dev/null";

impl Files {
    pub(crate) fn new(watcher: Option<Arc<dyn Watcher>>) -> Self {
        Self { watcher, only_reads: false }
    }

    /// No file is made, and what is written to one is an error.
    pub(crate) fn only_read(self) -> Self {
        Self { only_reads: true, ..self }
    }

    /// Opens a file, made when it is not there.
    pub(crate) fn open(&self, path: &Path) -> Result<LogFile, StoreError> {
        if self.only_reads {
            let file = match File::open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => File::open(NOTHING),
                opened => opened,
            };
            let file = file.map_err(|source| failed(path, source))?;
            return Ok(LogFile { file, path: path.into(), watcher: self.watcher.clone() });
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|source| failed(path, source))?;
        Ok(LogFile { file, path: path.into(), watcher: self.watcher.clone() })
    }

    /// Opens a file that is there, to be read.
    pub(crate) fn find(&self, path: &Path) -> io::Result<LogFile> {
        let file = File::open(path)?;
        Ok(LogFile { file, path: path.into(), watcher: self.watcher.clone() })
    }

    /// Makes the names in a folder durable.
    pub(crate) fn sync_dir(&self, path: &Path) -> Result<(), StoreError> {
        File::open(path).and_then(|dir| dir.sync_all()).map_err(|source| failed(path, source))?;
        if let Some(watcher) = &self.watcher {
            watcher.synced(path);
        }
        Ok(())
    }
}

/// One file.
pub(crate) struct LogFile {
    file: File,
    path: PathBuf,
    watcher: Option<Arc<dyn Watcher>>,
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

    /// Makes bytes zeros and gives back to the disk what they took, where its filesystem can do that.
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

/// What a failed operation on a file means to the caller.
pub(crate) fn failed(path: &Path, source: io::Error) -> StoreError {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::Full { path: path.parent().unwrap_or(path).into() }
        }
        _ => StoreError::Io { path: path.into(), source: Arc::new(source) },
    }
}
