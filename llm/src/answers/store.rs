//! The files of the answer cache: one JSON file per answer, named by its hash.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::response::Response;

/// The bounds of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheLimits {
    /// The most answers.
    pub entries_max: usize,
    /// The most bytes, all answers together.
    pub bytes_max: u64,
    /// The largest answer that is kept, in bytes.
    pub answer_bytes_max: u64,
    /// How long an answer is good for, in seconds.
    pub age_max_s: u64,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self { entries_max: 10_000, bytes_max: 256 << 20, answer_bytes_max: 1 << 20, age_max_s: 30 * 24 * 3600 }
    }
}

/// Why an answer is not kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder or a file in it cannot be read or written.
    #[error("the answer cache {path} cannot be used")]
    Io {
        /// Which file or folder.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A folder cannot be emptied. What is left of it can be deleted by hand.
    #[error("the answer cache {path} is not empty: delete its answers, or make it writable and try again")]
    Left {
        /// Which file or folder.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The answer cannot be written as JSON.
    #[error("the answer cannot be written as JSON")]
    Json(#[source] serde_json::Error),
}

/// Answers in a folder. Several processes may use one folder: a file appears whole or not at all, and the bounds
/// hold for each process's own view of it.
pub struct AnswerStore {
    folder: PathBuf,
    limits: CacheLimits,
    index: Mutex<Index>,
}

#[derive(Default)]
struct Index {
    entries: HashMap<[u8; 32], Entry>,
    bytes: u64,
    /// Counts uses, so that what was used longest ago goes first.
    clock: u64,
    /// How often the cache was emptied.
    n_cleared: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    bytes: u64,
    used: u64,
}

impl AnswerStore {
    /// The cache in `folder`, which is made when it does not exist.
    ///
    /// # Errors
    /// When the folder cannot be made or listed.
    pub fn open(folder: &Path, limits: CacheLimits) -> Result<Self, StoreError> {
        let fail = |source| StoreError::Io { path: folder.display().to_string(), source };
        create_private(folder).map_err(fail)?;
        let mut found: Vec<(SystemTime, [u8; 32], u64)> = Vec::new();
        for file in fs::read_dir(folder).map_err(fail)? {
            let file = file.map_err(fail)?;
            let (Some(key), Ok(meta)) = (key_of(&file.file_name().to_string_lossy()), file.metadata()) else {
                continue;
            };
            found.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), key, meta.len()));
        }
        found.sort_unstable();
        let mut index = Index::default();
        for (_, key, bytes) in found {
            index.insert(key, bytes);
        }
        Ok(Self { folder: folder.to_owned(), limits, index: Mutex::new(index) })
    }

    /// The number of answers.
    pub fn len(&self) -> usize {
        self.index.lock().entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How often the cache was emptied. A caller reads it before it sends a request, for [`AnswerStore::put`].
    pub fn n_cleared(&self) -> u64 {
        self.index.lock().n_cleared
    }

    /// Removes all answers. Returns how many there were. The answer to a request that was sent before is not stored.
    ///
    /// # Errors
    /// When the folder cannot be listed or a file cannot be removed; others are removed then.
    pub fn clear(&self) -> Result<u64, StoreError> {
        let mut index = self.index.lock();
        *index = Index { n_cleared: index.n_cleared + 1, ..Index::default() };
        clear(&self.folder)
    }

    /// The answer to a request with this hash. A file that is too old or damaged is removed and counts as none.
    pub fn get(&self, key: &[u8; 32]) -> Option<Response> {
        let path = self.path(key);
        let found = self.read(&path);
        let mut index = self.index.lock();
        match found {
            Some((response, bytes)) => {
                index.insert(*key, bytes);
                Some(response)
            }
            None => {
                if index.remove(key) {
                    let _ = fs::remove_file(&path);
                }
                None
            }
        }
    }

    fn read(&self, path: &Path) -> Option<(Response, u64)> {
        let file = fs::File::open(path).ok()?;
        let written = file.metadata().and_then(|meta| meta.modified()).ok()?;
        let age = SystemTime::now().duration_since(written).unwrap_or_default();
        if age > Duration::from_secs(self.limits.age_max_s) {
            return None;
        }
        let mut text = Vec::new();
        file.take(self.limits.answer_bytes_max + 1).read_to_end(&mut text).ok()?;
        Some((serde_json::from_slice(&text).ok()?, text.len() as u64))
    }

    /// Stores an answer; the least recently used ones make room for it. An answer that is too large is not stored, and
    /// none if the cache was emptied since it was emptied for the `n_cleared`-th time.
    ///
    /// # Errors
    /// When it cannot be written; then nothing has changed.
    pub fn put(&self, key: &[u8; 32], response: &Response, n_cleared: u64) -> Result<(), StoreError> {
        let text = serde_json::to_vec(response).map_err(StoreError::Json)?;
        let bytes = text.len() as u64;
        if bytes > self.limits.answer_bytes_max.min(self.limits.bytes_max) || self.limits.entries_max == 0 {
            return Ok(());
        }
        let path = self.path(key);
        let fail = |source| StoreError::Io { path: path.display().to_string(), source };
        // Written beside and moved into place, so that readers never see half of it.
        let beside = self.folder.join(format!("{}.{}.new", HEXLOWER.encode(key), std::process::id()));
        let written = write_private(&beside, &text);
        // Locked until the file is in its place: a clear removes it, or it is not stored.
        let mut index = self.index.lock();
        if index.n_cleared != n_cleared {
            return fs::remove_file(&beside).or_else(not_found).map_err(fail);
        }
        if let Err(source) = written.and_then(|()| fs::rename(&beside, &path)) {
            let _ = fs::remove_file(&beside);
            return Err(fail(source));
        }
        index.insert(*key, bytes);
        for old in index.make_room(&self.limits) {
            let _ = fs::remove_file(self.path(&old));
        }
        Ok(())
    }

    fn path(&self, key: &[u8; 32]) -> PathBuf {
        self.folder.join(format!("{}.json", HEXLOWER.encode(key)))
    }
}

impl Index {
    fn insert(&mut self, key: [u8; 32], bytes: u64) {
        self.remove(&key);
        self.clock += 1;
        self.bytes += bytes;
        self.entries.insert(key, Entry { bytes, used: self.clock });
    }

    fn remove(&mut self, key: &[u8; 32]) -> bool {
        match self.entries.remove(key) {
            Some(entry) => {
                self.bytes -= entry.bytes;
                true
            }
            None => false,
        }
    }

    /// Drops what was used longest ago until the bounds hold, a tenth more than needed, so that the search for it
    /// is rare.
    fn make_room(&mut self, limits: &CacheLimits) -> Vec<[u8; 32]> {
        if self.entries.len() <= limits.entries_max && self.bytes <= limits.bytes_max {
            return Vec::new();
        }
        let mut by_use: Vec<_> = self.entries.iter().map(|(key, entry)| (entry.used, *key)).collect();
        by_use.sort_unstable();
        let (entries, bytes) = (limits.entries_max - limits.entries_max / 10, limits.bytes_max / 10 * 9);
        let mut dropped = Vec::new();
        for (_, key) in by_use {
            if self.entries.len() <= entries.max(1) && self.bytes <= bytes {
                break;
            }
            self.remove(&key);
            dropped.push(key);
        }
        dropped
    }
}

/// Removes the answers in a folder, and the files of those that were not written to their end. Returns the number of
/// answers. The removal is durable when this returns.
///
/// # Errors
/// When the folder cannot be listed or a file cannot be removed; others are removed then.
pub(crate) fn clear(folder: &Path) -> Result<u64, StoreError> {
    let fail = |path: &Path, source| StoreError::Left { path: path.display().to_string(), source };
    let files = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        files => files.map_err(|source| fail(folder, source))?,
    };
    let (mut n, mut left) = (0, None);
    for file in files {
        let file = file.map_err(|source| fail(folder, source))?;
        let name = file.file_name();
        let name = name.to_string_lossy();
        let is_answer = key_of(&name).is_some();
        if !is_answer && !is_unfinished(&name) {
            continue;
        }
        match fs::remove_file(file.path()) {
            Ok(()) => n += u64::from(is_answer),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => left = Some(fail(&file.path(), source)),
        }
    }
    #[cfg(unix)]
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(|source| fail(folder, source))?;
    left.map_or(Ok(n), Err)
}

fn not_found(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Whether a file is that of an answer that is being written: `HASH.PROCESS.new`.
fn is_unfinished(name: &str) -> bool {
    let hash = name.strip_suffix(".new").and_then(|name| name.split_once('.')).map(|(hash, _)| hash);
    hash.is_some_and(|hash| key_of(&format!("{hash}.json")).is_some())
}

/// The hash that a file is named by.
fn key_of(name: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    let text = name.strip_suffix(".json").filter(|text| text.len() == 2 * key.len())?;
    HEXLOWER_PERMISSIVE.decode_mut(text.as_bytes(), &mut key).ok()?;
    Some(key)
}

/// Makes a folder that only its owner reads, as the log is.
fn create_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Writes a file that only its owner reads.
fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create(true).truncate(true).open(path)?.write_all(text)
}
