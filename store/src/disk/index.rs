//! A guarded interface to sled: every call catches panics, because sled answers damage with a panic as often as with an
//! error, and its errors become errors that say what to do next.

mod aside;
mod blocks;
mod compact;
mod keys;
mod rows;
mod stream_keys;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

use aside::Aside;
pub(crate) use blocks::{Blocks, Changes};
pub(crate) use compact::FRESH;
pub(crate) use keys::{
    Dead, Place, Watermark, chunk_key, pair_key, run_key, value_key, write_dead, write_place, write_seal,
    write_watermark,
};
pub(crate) use stream_keys::{
    next_row, read_key_of, read_sorted_key, rows_of, rows_of_thread, sorted_key, thread_of_row,
};

use super::files::{Files, LogFile, failed};
use super::limits::SEGMENT_BYTES;
use super::scratch::Scratch;
use crate::error::{Damage, StoreError};
use crate::wire::Malformed;

/// sled's trees. Rows for each thread are in blocks.
#[derive(Debug, Clone)]
pub(crate) struct Trees {
    pub(crate) db: sled::Db,
    /// seal ‖ number → where the chunk lies
    pub(crate) chunks: sled::Tree,
    /// the former place of an unreferenced chunk → seal ‖ number
    pub(crate) dead: sled::Tree,
    /// seal (its first position) → end position, number of chunks
    pub(crate) seals: sled::Tree,
    /// thread → head
    pub(crate) heads: Blocks,
    /// thread ‖ first seq → seal, chunk, number of records
    pub(crate) runs: Blocks,
    /// tag ‖ thread → nothing
    pub(crate) tags: Blocks,
    /// parent ‖ child → nothing
    pub(crate) forks: Blocks,
    /// the keys of streams, in order: key ‖ thread → nothing
    pub(crate) keys: Blocks,
    /// thread ‖ key → nothing
    pub(crate) keys_of: Blocks,
    /// thread ‖ seq ‖ piece → bytes
    pub(crate) snapshots: sled::Tree,
    /// name ‖ 0 ‖ piece → bytes
    pub(crate) values: sled::Tree,
    /// hash ‖ piece → bytes
    pub(crate) blobs: sled::Tree,
    /// hash ‖ owner → nothing
    pub(crate) owners: sled::Tree,
    /// thread ‖ hash → nothing
    pub(crate) owned: sled::Tree,
    /// what there is once
    pub(crate) meta: sled::Tree,
}

impl Trees {
    fn open(config: &sled::Config) -> sled::Result<Self> {
        let db = config.open()?;
        let tree = |name: &str| db.open_tree(name);
        let blocks = |name: &str| tree(name).map(Blocks::new);
        Ok(Self {
            chunks: tree("chunks")?,
            dead: tree("dead")?,
            seals: tree("seals")?,
            heads: blocks("heads")?,
            runs: blocks("runs")?,
            tags: blocks("tags")?,
            forks: blocks("forks")?,
            keys: blocks("keys")?,
            keys_of: blocks("keys_of")?,
            snapshots: tree("snapshots")?,
            values: tree("values")?,
            blobs: tree("blobs")?,
            owners: tree("owners")?,
            owned: tree("owned")?,
            meta: tree("meta")?,
            db,
        })
    }
}

/// The open database, or none after it failed and until it is open again.
pub(crate) struct Index {
    dir: PathBuf,
    cache_bytes: u64,
    files: Files,
    /// The copy that is open in place of what is in `dir`, which is only read.
    copy: Option<Scratch>,
    open: RwLock<Option<Arc<Open>>>,
    /// The error to return while it is not open.
    absent: Mutex<StoreError>,
}

struct Open {
    trees: Trees,
    /// A second handle of sled's file, because sled's own flush does not reach the disk. `None` if nothing has to last.
    file: Option<LogFile>,
}

/// After a crash, sled sometimes reports damage that does not exist: it is opened up to this often.
const OPEN_TRIES: u32 = 3;

/// sled's threads close its file a little after the handle is dropped. No other process can have it open: this process
/// has locked the log by now.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(5);

fn is_lock(error: &StoreError) -> bool {
    match error {
        StoreError::Io { source, .. } => source.to_string().contains("could not acquire lock"),
        _ => false,
    }
}

impl Index {
    /// Opens the database in `dir`, made when it is not there.
    pub(crate) fn open(dir: &Path, cache_bytes: u64, files: Files) -> Result<Self, StoreError> {
        let full = StoreError::Full { path: dir.into() };
        let index = Self::absent(dir, cache_bytes, files, full);
        index.reopen()?;
        Ok(index)
    }

    /// Opens a copy of the database in `dir` in the folder for temporary files: sled writes to what it opens.
    pub(crate) fn open_copy(dir: &Path, cache_bytes: u64, files: Files) -> Result<Self, StoreError> {
        let place = std::env::temp_dir();
        let copy = Scratch::in_place(&place, "rethread-index-");
        let copy = copy.map_err(|source| failed(&place, source))?;
        files.copy_folder(dir, &Files::default(), copy.path())?;
        let mut index = Self::absent(dir, cache_bytes, files, StoreError::Closed);
        index.copy = Some(copy);
        index.reopen()?;
        Ok(index)
    }

    /// A database that is not open and answers everything with this error.
    pub(crate) fn absent(dir: &Path, cache_bytes: u64, files: Files, error: StoreError) -> Self {
        let (dir, absent) = (dir.into(), Mutex::new(error));
        Self { dir, cache_bytes, files, copy: None, open: RwLock::new(None), absent }
    }

    /// Opens the database again after it failed.
    pub(crate) fn reopen(&self) -> Result<(), StoreError> {
        let mut open = self.open.write();
        // The old handle holds a lock on the file.
        drop(open.take());
        let (mut tries, begun, mut aside) = (0, Instant::now(), Aside::default());
        loop {
            tries += 1;
            match self.open_once() {
                Ok(opened) => {
                    *open = Some(Arc::new(opened));
                    aside.forget();
                    return Ok(());
                }
                Err(StoreError::Damaged(damage)) if tries < OPEN_TRIES => {
                    tracing::warn!(%damage, tries, "the index did not open: trying again");
                    std::thread::sleep(Duration::from_millis(10));
                    if tries + 1 == OPEN_TRIES {
                        aside = match &self.copy {
                            Some(copy) => Aside::put(copy.path(), Files::default()),
                            None => Aside::put(&self.dir, self.files.clone()),
                        };
                    }
                }
                Err(error) if is_lock(&error) && begun.elapsed() < LOCK_WAIT_MAX => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// An empty database in memory, or in the folder for temporary files, in place of the one in `dir`, which is lost.
    pub(crate) fn substitute(dir: &Path, cache_bytes: u64, files: Files) -> Result<Self, StoreError> {
        let index = Self::absent(dir, cache_bytes, files, StoreError::Closed);
        let trees =
            index.catch_panics(|| Trees::open(&sled::Config::new().temporary(true).cache_capacity(cache_bytes)))?;
        *index.open.write() = Some(Arc::new(Open { trees, file: None }));
        Ok(index)
    }

    fn open_once(&self) -> Result<Open, StoreError> {
        let path = match &self.copy {
            Some(copy) => copy.path().to_owned(),
            None => self.files.path_for_library(&self.dir),
        };
        let config = sled::Config::new()
            .path(path)
            .cache_capacity(self.cache_bytes)
            .segment_size(SEGMENT_BYTES)
            .flush_every_ms(None);
        let trees = self.catch_panics(|| Trees::open(&config))?;
        let file = match self.copy {
            Some(_) => None,
            None => Some(self.files.open(&self.file_path())?),
        };
        self.keep_private();
        Ok(Open { trees, file })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn file_path(&self) -> PathBuf {
        self.dir.join("db")
    }

    fn current(&self) -> Result<Arc<Open>, StoreError> {
        self.open.read().clone().ok_or_else(|| self.absent.lock().clone())
    }

    /// Closes the database.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        *self.absent.lock() = StoreError::Closed;
        let open = self.open.write().take();
        let closed = self.catch_panics(|| {
            drop(open);
            Ok(())
        });
        self.keep_private();
        closed
    }

    /// sled makes its files readable for others, as far as the folder around them lets them. That is the user's alone if
    /// this process made it, and the mode of its files does not depend on it.
    fn keep_private(&self) {
        #[cfg(unix)]
        for file in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            use std::os::unix::fs::PermissionsExt as _;
            // A file that has just gone, or is another's, is left as it is.
            if let Ok(found) = file.metadata()
                && found.permissions().mode() & 0o077 != 0
            {
                let mode = if found.is_dir() { 0o700 } else { 0o600 };
                let _ = std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode));
            }
        }
    }

    /// Does something with the trees.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&Trees) -> sled::Result<T>) -> Result<T, StoreError> {
        let open = self.current()?;
        self.catch_panics(|| act(&open.trees))
    }

    /// Makes everything written so far durable.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.with(|trees| trees.db.flush())?;
        self.keep_private();
        self.sync_file()
    }

    /// Makes durable what sled's file holds, which may have been written by a process that was killed.
    pub(crate) fn sync_file(&self) -> Result<(), StoreError> {
        match &self.current()?.file {
            Some(file) => file.sync().map_err(|source| failed(file.path(), source)),
            None => Ok(()),
        }
    }

    fn catch_panics<T>(&self, act: impl FnOnce() -> sled::Result<T>) -> Result<T, StoreError> {
        match catch_unwind(AssertUnwindSafe(act)) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(self.convert_error(error)),
            Err(panic) => {
                let message = panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| panic.downcast_ref::<&str>().copied())
                    .unwrap_or("no message");
                Err(self.damaged(format!("the index panicked: {message}")))
            }
        }
    }

    fn convert_error(&self, error: sled::Error) -> StoreError {
        match error {
            sled::Error::Io(source) => failed(&self.file_path(), source),
            sled::Error::Corruption { .. } => {
                self.damaged("the index holds bytes that are not what was written".into())
            }
            other => self.damaged(format!("the index failed: {other}")),
        }
    }

    pub(crate) fn damaged(&self, what: String) -> StoreError {
        StoreError::Damaged(Damage { file: Some(self.file_path()), what, ..Damage::default() })
    }

    /// A row that cannot be read.
    pub(crate) fn malformed(&self, what: &str) -> impl Fn(Malformed) -> StoreError {
        let error = self.damaged(format!("{what} is malformed"));
        move |_| error.clone()
    }
}
