//! Rewrites the index: sled's file never becomes smaller, and still contains bytes that were removed from it.

use std::path::PathBuf;

use super::{Index, Trees};
use crate::contract::Compacted;
use crate::disk::files::failed;
use crate::error::StoreError;

/// The folder of the new database, next to that of the old one.
pub(crate) const FRESH: &str = "index.new";

/// How many rows are written at a time.
const ROWS: usize = 256;

impl Index {
    /// Writes all rows to a new database and exchanges it with this one. Nothing may write to it meanwhile. After an
    /// error this one is in use, unless it cannot be opened again.
    pub(crate) fn compact(&self) -> Result<Compacted, StoreError> {
        self.sync()?;
        self.remove_fresh()?;
        let exchanged = self.write_fresh().and_then(|()| self.exchange());
        let removed = self.remove_fresh();
        let compacted = exchanged?;
        removed.map(|()| compacted)
    }

    fn write_fresh(&self) -> Result<(), StoreError> {
        let path = self.fresh_folder();
        self.files.make_dir(&path).map_err(|source| failed(&path, source))?;
        let fresh = Self::open(&path, self.cache_bytes, self.files.clone())?;
        let (from, to) = (self.current()?, fresh.current()?);
        let copied = self.catch_panics(|| copy(&from.trees, &to.trees));
        drop(to);
        let synced = copied.and_then(|()| fresh.sync()).and_then(|()| self.files.sync_dir(&path));
        let closed = fresh.close();
        synced.and(closed)
    }

    fn exchange(&self) -> Result<Compacted, StoreError> {
        let path = self.fresh_folder();
        let io = |source| failed(&path, source);
        let (before, after) = (self.bytes()?, self.files.bytes(&path.join("db")).map_err(io)?.unwrap_or_default());
        let (db, fresh_db) = (self.dir.join("db"), path.join("db"));
        self.files.hold_also(&self.dir, &path)?;
        self.files.hold_also(&db, &fresh_db)?;
        self.files.exchange(&path, &self.dir).map_err(io)?;
        if let Some(log) = self.dir.parent() {
            self.files.sync_dir(log)?;
        }
        self.files.hold(&self.dir)?;
        self.files.hold(&db)?;
        self.reopen()?;
        Ok(Compacted { before, after })
    }

    fn bytes(&self) -> Result<u64, StoreError> {
        let path = self.file_path();
        Ok(self.files.bytes(&path).map_err(|source| failed(&path, source))?.unwrap_or_default())
    }

    fn fresh_folder(&self) -> PathBuf {
        self.dir.with_file_name(FRESH)
    }

    /// Removes what an exchange left, or one that did not come so far.
    fn remove_fresh(&self) -> Result<(), StoreError> {
        let path = self.fresh_folder();
        self.files.remove_folder(&path).map_err(|source| failed(&path, source))
    }
}

fn copy(from: &Trees, to: &Trees) -> sled::Result<()> {
    // The name of a block may be a row that was removed. Here such a row may be what a deleted thread was about.
    let anew = [(&from.keys, &to.keys), (&from.keys_of, &to.keys_of)];
    for (from, to) in anew {
        from.copy_rows(to, ROWS)?;
    }
    for name in from.db.tree_names() {
        if anew.iter().any(|(from, _)| from.name() == name) {
            continue;
        }
        let (from, to) = (from.db.open_tree(&name)?, to.db.open_tree(&name)?);
        let mut batch = sled::Batch::default();
        for (n, row) in from.iter().enumerate() {
            let (key, value) = row?;
            batch.insert(key, value);
            if n % ROWS == ROWS - 1 {
                to.apply_batch(std::mem::take(&mut batch))?;
            }
        }
        to.apply_batch(batch)?;
    }
    Ok(())
}
