//! The files that hold the chunks. They are written from front to back and synced before sled records where each chunk
//! lies; after that nothing in them changes, until what lies there is deleted and becomes a hole.
//!
//! sled would write each chunk two to three times and keep it in memory beside what is looked up.
//!
//! ```text
//! pack:  framed chunks, one after the other, perhaps with zeros between them
//! frame: "rtck", length u32, chunk
//! ```

mod free;
mod location;
mod scan;
mod write;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

pub(crate) use location::{ChunkLocation, End, SPOT_BYTES};
pub(crate) use write::PackWriter;

use super::files::{Files, LogFile, failed};
use crate::error::{Damage, StoreError};

/// The folder of the packs.
pub(crate) const NAME: &str = "packs";
/// The prefix of each chunk, so that chunks can be found without sled.
const MAGIC: [u8; 4] = *b"rtck";
const FRAME_BYTES: u64 = 8;
/// How large a pack gets before the next one is begun.
const PACK_BYTES: u64 = 256 << 20;
/// How many packs are kept open for readers.
const OPEN_MAX: usize = 64;

/// The packs of a log.
pub(crate) struct Packs {
    dir: PathBuf,
    files: Files,
    pack_bytes: u64,
    /// The recently read files, the last one last.
    open: Mutex<Vec<(u32, Arc<LogFile>)>>,
    /// The end of the packs, as far as it and its record in sled are durable.
    end: Mutex<End>,
    /// Bytes freed since unused packs were searched.
    freed: Mutex<u64>,
    /// How many backups read them, during which nothing before the end changes.
    n_backups: AtomicUsize,
}

impl Packs {
    /// The packs of the log in `dir`, which end there. Nothing is opened yet.
    pub(crate) fn new(dir: &Path, files: Files, end: End) -> Self {
        let (dir, open, freed) = (dir.join(NAME), Mutex::default(), Mutex::default());
        let n_backups = AtomicUsize::new(0);
        Self { dir, files, pack_bytes: PACK_BYTES, open, end: Mutex::new(end), freed, n_backups }
    }

    /// A backup reads them from now on.
    pub(crate) fn begin_backup(&self) {
        self.n_backups.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn end_backup(&self) {
        self.n_backups.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn is_backed_up(&self) -> bool {
        self.n_backups.load(Ordering::Acquire) > 0
    }

    /// The packs up to there, with how much of each.
    pub(crate) fn before(&self, end: End) -> Result<Vec<(u32, u64)>, StoreError> {
        let numbers = self.numbers()?.into_iter().filter(|pack| *pack <= end.pack);
        numbers.map(|pack| Ok((pack, if pack == end.pack { end.offset } else { self.bytes(pack)? }))).collect()
    }

    /// Access to the files of this log.
    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    pub(crate) fn path(&self, pack: u32) -> PathBuf {
        self.dir.join(format!("{pack:06}"))
    }

    /// The chunk's bytes; unpacking checks them.
    pub(crate) fn read(&self, spot: ChunkLocation) -> Result<Vec<u8>, StoreError> {
        let read = self.find(spot.pack).and_then(|file| file.read_at(spot.offset, spot.bytes as usize));
        read.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => self.damaged(spot.pack, "the file is missing"),
            std::io::ErrorKind::UnexpectedEof => self.damaged(spot.pack, "the file is cut off"),
            _ => failed(&self.path(spot.pack), error),
        })
    }

    fn find(&self, pack: u32) -> std::io::Result<Arc<LogFile>> {
        let mut open = self.open.lock();
        let found = match open.iter().position(|(number, _)| *number == pack) {
            Some(at) => open.remove(at).1,
            None => Arc::new(self.files.find(&self.path(pack))?),
        };
        if open.len() == OPEN_MAX {
            open.remove(0);
        }
        open.push((pack, Arc::clone(&found)));
        Ok(found)
    }

    pub(crate) fn damaged(&self, pack: u32, what: &str) -> StoreError {
        StoreError::Damaged(Damage { file: Some(self.path(pack)), what: what.into(), ..Damage::default() })
    }

    /// How long a pack is; 0 when it is not there.
    fn bytes(&self, pack: u32) -> Result<u64, StoreError> {
        let path = self.path(pack);
        Ok(self.files.bytes(&path).map_err(|source| failed(&path, source))?.unwrap_or(0))
    }

    /// Checks that nothing before the end was cut off.
    pub(crate) fn check_end(&self) -> Result<(), StoreError> {
        let end = *self.end.lock();
        if self.bytes(end.pack)? < end.offset {
            return Err(self.damaged(end.pack, "the end of the file is missing"));
        }
        Ok(())
    }

    /// Has [`Files::check_in_place`] compare the folder of the packs, if there is one.
    pub(crate) fn hold(&self) -> Result<(), StoreError> {
        if self.files.is_there(&self.dir)? { self.files.hold(&self.dir) } else { Ok(()) }
    }

    /// Begins to write chunks. What an earlier attempt left after the end is freed first, except what is `used`.
    pub(crate) fn begin(
        &self,
        used: impl FnOnce() -> Result<Vec<ChunkLocation>, StoreError>,
    ) -> Result<PackWriter<'_>, StoreError> {
        self.check_end()?;
        let end = *self.end.lock();
        let last = self.numbers()?.pop_last().unwrap_or_default();
        let is_more = last > end.pack || self.bytes(end.pack)? > end.offset;
        Ok(PackWriter::new(self, if is_more { self.cut(end, used()?)? } else { end }))
    }

    /// Sets the durable end: chunks up to there are recorded in sled, durably.
    pub(crate) fn set_end(&self, end: End) {
        *self.end.lock() = end;
    }

    fn remove(&self, pack: u32) -> Result<(), StoreError> {
        self.open.lock().retain(|(number, _)| *number != pack);
        let path = self.path(pack);
        self.files.remove(&path).map_err(|source| failed(&path, source))
    }

    /// The packs that are there.
    fn numbers(&self) -> Result<BTreeSet<u32>, StoreError> {
        let names = self.files.names(&self.dir).map_err(|source| failed(&self.dir, source))?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Opens a pack to be written, made when it is not there.
    fn open_or_make(&self, pack: u32) -> Result<LogFile, StoreError> {
        let path = self.path(pack);
        if self.files.is_there(&path)? {
            return self.files.open(&path);
        }
        self.files.make_dir(&self.dir).map_err(|source| failed(&self.dir, source))?;
        let file = self.files.open(&path)?;
        self.files.sync_dir(&self.dir)?;
        if let Some(log) = self.dir.parent() {
            self.files.sync_dir(log)?;
        }
        self.files.hold(&self.dir)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests;
