//! Look-ups in the trees.

use std::collections::BTreeSet;

use rethread_events::ids::{Hash, Position, Seq, ThreadId};

use super::blocks::Row;
use super::keys::{
    Dead, Place, Watermark, chunk_key, pair_key, read_dead, read_run, read_seal, read_watermark, run_key,
};
use super::{Index, Trees};
use crate::contract::Tag;
use crate::disk::packs::ChunkLocation;
use crate::error::StoreError;
use crate::head::Head;
use crate::wire::{Malformed, Take};

impl Index {
    pub(crate) fn watermark(&self) -> Result<Option<Watermark>, StoreError> {
        let bytes = self.with(|trees| trees.meta.get("watermark"))?;
        bytes.map(|bytes| read_watermark(&bytes)).transpose().map_err(self.malformed("the watermark"))
    }

    pub(crate) fn head(&self, thread: ThreadId) -> Result<Option<Head>, StoreError> {
        let bytes = self.with(|trees| trees.heads.get(thread.as_bytes()))?;
        self.read_head(thread, bytes)
    }

    /// The heads of these threads, which are in order. For the one that writes.
    pub(crate) fn heads(&self, threads: &[ThreadId]) -> Result<Vec<Option<Head>>, StoreError> {
        let rows = self.with(|trees| trees.heads.get_all(threads.iter().map(|thread| &thread.as_bytes()[..])))?;
        threads.iter().zip(rows).map(|(thread, bytes)| self.read_head(*thread, bytes)).collect()
    }

    fn read_head(&self, thread: ThreadId, bytes: Option<Vec<u8>>) -> Result<Option<Head>, StoreError> {
        bytes.map(|bytes| Head::decode(thread, &bytes)).transpose().map_err(self.malformed("the head of a thread"))
    }

    /// The run that holds `seq` or, if none does, the first after it; then those that follow, up to `n_max`.
    pub(crate) fn runs(&self, thread: ThreadId, seq: Seq, n_max: usize) -> Result<Vec<Place>, StoreError> {
        let rows = self.with(|trees| {
            let (low, high) = (run_key(thread, Seq(0)), run_key(thread, Seq(u64::MAX)));
            let at = run_key(thread, seq);
            let from = trees.runs.last(&low, &at, |_, _| true)?.map_or(at.to_vec(), |(key, _)| key);
            trees.runs.range(&from, &high, n_max)
        })?;
        rows.iter()
            .map(|(key, value)| read_run(key, value))
            .collect::<Result<_, _>>()
            .map_err(self.malformed("the place of a run"))
    }

    /// Returns where the stream continues in the last seal that begins at or before `position` and contains part of it:
    /// its records of earlier seals are before `position`. A seal may have it in several chunks. `None` for the
    /// beginning of the stream.
    pub(crate) fn seal_before(&self, thread: ThreadId, position: Position) -> Result<Option<Seq>, StoreError> {
        let row = self.with(|trees| {
            let (low, high) = (run_key(thread, Seq(0)), run_key(thread, Seq(u64::MAX)));
            // One that cannot be read is wanted, too: it is damage.
            let begins_before = |seal: Position, or_at: bool| {
                move |key: &[u8], value: &[u8]| {
                    read_run(key, value).map_or(true, |place| place.seal < seal || or_at && place.seal == seal)
                }
            };
            let Some((key, value)) = trees.runs.last(&low, &high, begins_before(position, true))? else {
                return Ok(None);
            };
            match read_run(&key, &value) {
                Ok(place) => trees.runs.last(&low, &key, begins_before(place.seal, false)),
                Err(_) => Ok(Some((key, value))),
            }
        })?;
        let place = row.map(|(key, value)| read_run(&key, &value)).transpose();
        let place = place.map_err(self.malformed("the place of a run"))?;
        Ok(place.map(|place| Seq(place.first.0 + place.n)))
    }

    pub(crate) fn chunk(&self, seal: Position, chunk: u32) -> Result<Option<ChunkLocation>, StoreError> {
        let bytes = self.with(|trees| trees.chunks.get(chunk_key(seal, chunk)))?;
        bytes.map(|bytes| ChunkLocation::read(&bytes)).transpose().map_err(self.malformed("the place of a chunk"))
    }

    /// The places of all chunks. Reads the whole tree.
    pub(crate) fn spots(&self) -> Result<Vec<ChunkLocation>, StoreError> {
        let mut spots = Vec::new();
        let read = self.with(|trees| {
            for bytes in trees.chunks.iter().values() {
                match ChunkLocation::read(&bytes?) {
                    Ok(spot) => spots.push(spot),
                    Err(malformed) => return Ok(Err(malformed)),
                }
            }
            Ok(Ok(()))
        })?;
        read.map_err(self.malformed("the place of a chunk"))?;
        Ok(spots)
    }

    /// Returns what is to be freed in the packs.
    pub(crate) fn dead(&self) -> Result<Vec<Dead>, StoreError> {
        let rows = self.with(|trees| trees.dead.iter().collect::<sled::Result<Vec<_>>>())?;
        let read = rows.iter().map(|(key, value)| read_dead(key, value)).collect::<Result<_, _>>();
        read.map_err(self.malformed("a place that is free"))
    }

    /// The seal that holds `position`, or the first after it: its first position, its end, its number of chunks.
    pub(crate) fn seal_at(&self, position: Position) -> Result<Option<(Position, Position, u32)>, StoreError> {
        let row = self.with(|trees| trees.seals.range(..=position.0.to_be_bytes()).next_back().transpose())?;
        let read = |row: Option<(sled::IVec, sled::IVec)>| {
            row.map(|(key, value)| read_seal(&key, &value)).transpose().map_err(self.malformed("a seal"))
        };
        match read(row)? {
            Some(seal) if seal.1 > position => Ok(Some(seal)),
            _ => {
                let from = position.next().0.to_be_bytes();
                read(self.with(|trees| trees.seals.range(from..).next().transpose())?)
            }
        }
    }

    /// Up to `n_max` streams that fork off this one, by id, from those after `after` on.
    pub(crate) fn forks(
        &self,
        thread: ThreadId,
        after: Option<ThreadId>,
        n_max: usize,
    ) -> Result<Vec<ThreadId>, StoreError> {
        let id = thread.as_bytes();
        let from = match after {
            // The first key after it.
            Some(after) => [&id[..], after.as_bytes(), &[0]].concat(),
            None => id.to_vec(),
        };
        let rows = self.with(|trees| trees.forks.range(&from, &pair_key(id, &[0xff; 16]), n_max))?;
        let child = |(key, _): &Row| {
            let mut take = Take(key);
            take.bytes(16)?;
            take.array().map(ThreadId::from_bytes)
        };
        rows.iter().map(child).collect::<Result<_, _>>().map_err(self.malformed("a fork"))
    }

    /// The bytes that were cut into pieces under this key; `None` when there are none.
    pub(crate) fn pieces(
        &self,
        tree: impl Fn(&Trees) -> &sled::Tree,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.with(|trees| crate::disk::pieces::read(tree(trees), key))?;
        found.map_err(self.malformed("a value in pieces"))
    }

    /// Ids of streams after `after`, about `n_max` for each tag, those of all tags for an empty list; and, when that
    /// may not be all of them, up to which id it is.
    pub(crate) fn listed(
        &self,
        after: Option<ThreadId>,
        tags: &[Tag],
        n_max: usize,
    ) -> Result<(BTreeSet<ThreadId>, Option<ThreadId>), StoreError> {
        let (mut ids, mut complete_to) = (BTreeSet::new(), None::<ThreadId>);
        let prefixes: Vec<Vec<u8>> = match tags {
            [] => vec![Vec::new()],
            tags => tags.iter().map(|tag| vec![tag.0]).collect(),
        };
        for prefix in prefixes {
            let rows = self.with(|trees| {
                let tree = if tags.is_empty() { &trees.heads } else { &trees.tags };
                let from = match after {
                    // The first key after it.
                    Some(after) => [&prefix[..], after.as_bytes(), &[0]].concat(),
                    None => prefix.clone(),
                };
                tree.range(&from, &pair_key(&prefix, &[0xff; 16]), n_max)
            })?;
            let mut last = None;
            for (key, _) in &rows {
                let id = key.get(prefix.len()..).and_then(|id| <[u8; 16]>::try_from(id).ok());
                let id = id.ok_or(Malformed).map_err(self.malformed("the list of threads"))?;
                last = Some(ThreadId::from_bytes(id));
                ids.extend(last);
            }
            if rows.len() == n_max {
                complete_to = match (complete_to, last) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
        }
        if let Some(complete_to) = complete_to {
            ids.retain(|id| *id <= complete_to);
        }
        Ok((ids, complete_to))
    }

    /// The names of all values with that prefix.
    pub(crate) fn value_names(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let keys = self.with(|trees| trees.values.scan_prefix(prefix).keys().collect::<sled::Result<Vec<_>>>())?;
        let mut names = Vec::new();
        for key in keys {
            let (name, piece) = key.split_at(key.len().saturating_sub(5));
            if piece == [0; 5] {
                let name = String::from_utf8(name.to_vec()).map_err(|_| Malformed);
                names.push(name.map_err(self.malformed("the name of a value"))?);
            }
        }
        Ok(names)
    }

    /// The hashes of all blobs that exist or have a claim.
    pub(crate) fn blob_hashes(&self) -> Result<BTreeSet<Hash>, StoreError> {
        let keys = self.with(|trees| {
            let keys = trees.blobs.iter().keys().chain(trees.owners.iter().keys());
            keys.collect::<sled::Result<Vec<_>>>()
        })?;
        let hash = |key: &sled::IVec| Take(key).array().map(Hash::from_bytes);
        keys.iter().map(hash).collect::<Result<_, _>>().map_err(self.malformed("a blob"))
    }

    /// Who names the blob.
    pub(crate) fn owners(&self, hash: Hash) -> Result<Vec<Option<ThreadId>>, StoreError> {
        let keys =
            self.with(|trees| trees.owners.scan_prefix(hash.as_bytes()).keys().collect::<sled::Result<Vec<_>>>())?;
        let owner = |key: &sled::IVec| match key.get(32..) {
            Some([]) => Ok(None),
            Some(id) => id.try_into().map(|id| Some(ThreadId::from_bytes(id))).map_err(|_| Malformed),
            None => Err(Malformed),
        };
        keys.iter().map(owner).collect::<Result<_, _>>().map_err(self.malformed("an owner"))
    }

    /// Up to `n_max` threads that name the blob, by id, from those after `after` on.
    pub(crate) fn owners_after(
        &self,
        hash: Hash,
        after: Option<ThreadId>,
        n_max: usize,
    ) -> Result<Vec<ThreadId>, StoreError> {
        let id = after.as_ref().map_or(&[][..], |after| after.as_bytes());
        // The first key after it, or after the one of the store.
        let (low, high) = ([hash.as_bytes(), id, &[0]].concat(), pair_key(hash.as_bytes(), &[0xff; 16]));
        let keys =
            self.with(|trees| trees.owners.range(low..=high).keys().take(n_max).collect::<sled::Result<Vec<_>>>())?;
        let owner = |key: &sled::IVec| {
            let mut take = Take(key);
            take.bytes(32)?;
            take.array().map(ThreadId::from_bytes)
        };
        keys.iter().map(owner).collect::<Result<_, _>>().map_err(self.malformed("an owner"))
    }

    /// Whether sled holds records of the stream.
    pub(crate) fn has_runs(&self, thread: ThreadId) -> Result<bool, StoreError> {
        Ok(!self.runs(thread, Seq(0), 1)?.is_empty())
    }

    pub(crate) fn has_owner(&self, hash: Hash, owner: Option<ThreadId>) -> Result<bool, StoreError> {
        let id = owner.as_ref().map_or(&[][..], |owner| owner.as_bytes());
        self.with(|trees| trees.owners.contains_key(pair_key(hash.as_bytes(), id)))
    }

    pub(crate) fn has_blob(&self, hash: Hash) -> Result<bool, StoreError> {
        self.with(|trees| crate::disk::pieces::is_there(&trees.blobs, hash.as_bytes()))
    }
}
