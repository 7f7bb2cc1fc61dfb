//! A copy of the log while it is in use.
//!
//! The sealer copies the index, so that nothing changes it meanwhile. The packs are read afterwards: only deletes change
//! what lies before their end, and they free no room while there is a backup.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Files, LogFile, failed};
use super::index::{Index, Watermark};
use super::mark::{self, LogEnd, Mark};
use super::packs::{End, NAME as PACKS, Packs};
use super::read::Reader;
use super::recover::{FORMAT, INDEX, write_format};
use super::scratch::Scratch;
use crate::error::StoreError;

/// The beginning of the names of the folders, in the folder of the log, that hold the copy of an index. They are removed
/// when the log is opened, so no user is to choose such a name.
pub(crate) const PREFIX: &str = ".index-of-a-backup-";

/// A copy of the log as it was at one moment, file by file. The log reuses no room of deleted threads as long as there
/// is one.
pub struct Backup {
    /// The files that were copied so far. Removed with the backup.
    copied: Scratch,
    packs: Vec<(u32, u64)>,
    held: Held,
}

impl std::fmt::Debug for Backup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backup").field("copied", &self.copied.path()).finish_non_exhaustive()
    }
}

/// The packs, in which no room is freed as long as there is this.
pub(super) struct Held(Arc<Reader>);

impl Held {
    pub(super) fn new(reader: Arc<Reader>) -> Self {
        reader.packs.begin_backup();
        Self(reader)
    }

    fn packs(&self) -> &Packs {
        &self.0.packs
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.packs().end_backup();
    }
}

/// A file of a [`Backup`].
pub struct BackupFile {
    /// Its path below the folder of the log, with `/`.
    pub name: String,
    /// How many bytes it has.
    pub bytes: u64,
    file: LogFile,
}

impl std::fmt::Debug for BackupFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackupFile").field("name", &self.name).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl BackupFile {
    /// Reads exactly its bytes, from the first on. Blocks.
    pub fn reader(&self) -> impl io::Read + '_ {
        Reading { file: self, at: 0 }
    }
}

struct Reading<'a> {
    file: &'a BackupFile,
    at: u64,
}

impl io::Read for Reading<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.file.bytes - self.at).unwrap_or(usize::MAX);
        let n = to.len().min(left);
        to[..n].copy_from_slice(&self.file.file.read_at(self.at, n)?);
        self.at += n as u64;
        Ok(n)
    }
}

impl Backup {
    /// With what the sealer copied.
    pub(super) fn new(copied: Scratch, held: Held, end: End) -> Result<Self, StoreError> {
        let packs = held.packs().before(end)?;
        Ok(Self { copied, packs, held })
    }

    /// The files of the copy. In a folder they are a log; the last one makes it one, so that a folder that lacks some is
    /// none. Blocks.
    ///
    /// # Errors
    /// `Io` when one cannot be opened.
    pub fn files(&self) -> impl Iterator<Item = Result<BackupFile, StoreError>> + '_ {
        let packs = self.packs.iter().map(|(pack, bytes)| {
            let path = self.held.packs().path(*pack);
            let file = self.held.packs().files().find(&path).map_err(|source| failed(&path, source))?;
            Ok(BackupFile { name: format!("{PACKS}/{pack:06}"), bytes: *bytes, file })
        });
        let copied = [INDEX, mark::NAME, FORMAT].into_iter().flat_map(|name| match self.copied(name.into()) {
            Ok(files) => files.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        });
        packs.chain(copied)
    }

    /// The file with this name among those that were copied, or all in the folder with this name.
    fn copied(&self, name: PathBuf) -> Result<Vec<BackupFile>, StoreError> {
        let path = self.copied.path().join(&name);
        let io = |source| failed(&path, source);
        if path.is_dir() {
            let names = Files::default().names(&path).map_err(io)?;
            let files = names.into_iter().map(|inner| self.copied(name.join(inner))).collect::<Result<Vec<_>, _>>()?;
            return Ok(files.into_iter().flatten().collect());
        }
        let file = Files::default().find(&path).map_err(io)?;
        let bytes = file.bytes().map_err(io)?;
        Ok(vec![BackupFile { name: name.to_string_lossy().into_owned(), bytes, file }])
    }
}

/// Copies the index and writes what makes a log of it. For the sealer: nothing may change the index meanwhile.
pub(super) fn copy_index(files: &Files, index: &Index, to: &Path) -> Result<Watermark, StoreError> {
    index.sync()?;
    let watermark = index.watermark()?.unwrap_or_default();
    let copy = Files::default();
    files.copy_folder(index.folder(), &copy, &to.join(INDEX))?;
    let (mut mark, _) = Mark::open(to, &copy)?;
    mark.renew(LogEnd {
        group: watermark.group,
        next: watermark.position,
        sealed_epoch: watermark.epoch,
        journal_end: 0,
    })?;
    write_format(to, &copy)?;
    Ok(watermark)
}
