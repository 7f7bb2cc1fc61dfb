//! Access for tests: the mark, and the content of sled.

use std::path::Path;

use rethread_events::ids::Position;

use super::files::Files;
use super::index::Index;
use super::mark::Mark;
use super::options::Options;
use super::recover;
use crate::error::StoreError;

/// Returns the position and the group in the mark of the log in `dir`.
pub(crate) fn marked(dir: &Path) -> Result<Option<(Position, u64)>, StoreError> {
    let (_, log_end) = Mark::open(dir, &Files::default())?;
    Ok(log_end.map(|log_end| (log_end.next, log_end.group)))
}

/// Returns the live bytes of the log in `dir`, which is closed: of keys and values by sled's trees, and of chunks in
/// packs.
pub(crate) fn stored(dir: &Path) -> Result<Vec<(String, u64)>, StoreError> {
    let index = Index::open(&dir.join(recover::INDEX), Options::default().index_cache_bytes, Files::default())?;
    let packed = index.spots()?.iter().map(|spot| u64::from(spot.bytes)).sum();
    let mut sums = index.with(|trees| {
        let mut sums = Vec::new();
        for name in trees.db.tree_names() {
            let mut bytes = 0;
            for row in &trees.db.open_tree(&name)? {
                let (key, value) = row?;
                bytes += (key.len() + value.len()) as u64;
            }
            sums.push((String::from_utf8_lossy(&name).into_owned(), bytes));
        }
        Ok(sums)
    })?;
    index.close()?;
    sums.push(("packs".into(), packed));
    Ok(sums)
}
