//! Reclaims unreferenced chunks.

use std::collections::BTreeSet;

use super::{ChunkLocation, End, Packs};
use crate::disk::files::failed;
use crate::error::StoreError;

impl Packs {
    /// Frees everything after `end` that is not `used`. Returns the new end of the packs.
    pub(super) fn cut(&self, end: End, mut used: Vec<ChunkLocation>) -> Result<End, StoreError> {
        used.retain(|spot| spot.begin() >= end);
        used.sort_unstable();
        for pack in self.numbers()?.split_off(&end.pack) {
            let mut free = if pack == end.pack { end } else { End { pack, offset: 0 } };
            let in_pack = used.iter().filter(|spot| spot.pack == pack);
            if pack > end.pack && in_pack.clone().next().is_none() {
                self.remove(pack)?;
                continue;
            }
            for spot in in_pack {
                self.erase(free, spot.begin().offset)?;
                free = spot.end();
            }
            if self.bytes(pack)? > free.offset {
                let file = self.files.open(&self.path(pack))?;
                file.resize(free.offset).map_err(|source| failed(file.path(), source))?;
            }
        }
        Ok(used.last().map_or(end, |spot| spot.end()))
    }

    fn erase(&self, from: End, to: u64) -> Result<(), StoreError> {
        if from.offset >= to {
            return Ok(());
        }
        let path = self.path(from.pack);
        let file = self.files.open(&path)?;
        file.erase(from.offset, to - from.offset).map_err(|source| failed(&path, source))
    }

    /// Makes holes where these chunks are, on the disk when it returns. Whether so much was freed by now that there
    /// may be packs with nothing in them: then it is time for [`Packs::remove_unused`].
    pub(crate) fn free(&self, mut spots: Vec<ChunkLocation>) -> Result<bool, StoreError> {
        spots.sort_unstable();
        // Neighbours in one go: only whole blocks of the disk become free.
        for same_pack in spots.chunk_by(|a, b| a.pack == b.pack) {
            // What was lost needs no holes.
            let n = self.bytes(same_pack[0].pack)?;
            if n == 0 {
                continue;
            }
            for run in same_pack.chunk_by(|a, b| a.end() == b.begin()) {
                self.erase(run[0].begin(), run[run.len() - 1].end().offset.min(n))?;
            }
            let file = self.files.open(&self.path(same_pack[0].pack))?;
            file.sync().map_err(|source| failed(file.path(), source))?;
        }
        let mut freed = self.freed.lock();
        *freed += spots.iter().map(|spot| u64::from(spot.bytes)).sum::<u64>();
        let is_time = *freed >= self.pack_bytes;
        if is_time {
            *freed = 0;
        }
        Ok(is_time)
    }

    /// Removes the packs before the last one that hold nothing which is `used`.
    pub(crate) fn remove_unused(&self, used: &[ChunkLocation]) -> Result<(), StoreError> {
        let used: BTreeSet<u32> = used.iter().map(|spot| spot.pack).collect();
        let mut numbers = self.numbers()?;
        numbers.pop_last();
        for pack in numbers.difference(&used) {
            self.remove(*pack)?;
        }
        Ok(())
    }
}
