//! Reading blobs and values.

use std::collections::BTreeMap;

use rethread_events::ids::{Hash, ThreadId};

use super::Reader;
use crate::error::StoreError;

impl Reader {
    /// Whether the blob is there and this owner already named it.
    pub(crate) fn has_owner(&self, hash: Hash, owner: Option<ThreadId>) -> Result<bool, StoreError> {
        let state = self.tail.state.read();
        if state.has_owner(hash, owner) {
            return Ok(true);
        }
        if state.has_deletes() {
            return Ok(false);
        }
        drop(state);
        Ok(self.index.has_owner(hash, owner)? && self.index.has_blob(hash)?)
    }

    /// Returns whether a stream still names the blob. Its bytes may outlast a delete until that has reached sled.
    fn is_named(&self, hash: Hash) -> Result<bool, StoreError> {
        let sealed = {
            let state = self.tail.state.read();
            if !state.has_deletes() || state.names(hash) {
                return Ok(true);
            }
            drop(state);
            self.index.owners(hash)?
        };
        let state = self.tail.state.read();
        Ok(state.names(hash) || sealed.into_iter().any(|owner| !state.is_void(hash, owner, true)))
    }

    /// As [`crate::Store::owners`].
    pub(crate) fn owners(
        &self,
        hash: Hash,
        after: Option<ThreadId>,
        limit: usize,
    ) -> Result<Vec<ThreadId>, StoreError> {
        loop {
            let (lives, mut found) = {
                let state = self.tail.state.read();
                (state.lives(), state.owners(hash, after))
            };
            let (mut sealed, mut after) = (Vec::new(), after);
            while sealed.len() < limit {
                let page = self.index.owners_after(hash, after, limit)?;
                let Some(last) = page.last() else { break };
                after = Some(*last);
                let state = self.tail.state.read();
                sealed.extend(page.into_iter().filter(|owner| !state.is_void(hash, Some(*owner), true)));
            }
            // A segment that went into sled meanwhile took along what it knew.
            if self.tail.state.read().lives() == lives {
                found.extend(sealed);
                return Ok(found.into_iter().take(limit).collect());
            }
        }
    }

    pub(crate) fn has_blob(&self, hash: Hash) -> Result<bool, StoreError> {
        if self.tail.state.read().blob(hash).is_some() {
            return Ok(true);
        }
        self.index.has_blob(hash)
    }

    pub(crate) fn blob(&self, hash: Hash) -> Result<Vec<u8>, StoreError> {
        if !self.is_named(hash)? {
            return Err(StoreError::NotFound { what: "blob", name: hash.to_string() });
        }
        if let Some(bytes) = self.tail.state.read().blob(hash) {
            return Ok(bytes.to_vec());
        }
        let missing = || StoreError::NotFound { what: "blob", name: hash.to_string() };
        let bytes = match self.index.pieces(|trees| &trees.blobs, hash.as_bytes()) {
            Ok(bytes) => bytes.ok_or_else(missing)?,
            // A delete removes the owners first: a blob without any is being removed.
            Err(StoreError::Damaged(_)) if self.index.owners(hash)?.is_empty() => {
                return Err(missing());
            }
            Err(error) => return Err(error),
        };
        if Hash::of(&bytes) != hash {
            return Err(self.index.damaged(format!("blob {hash} is not what was written")));
        }
        Ok(bytes)
    }

    pub(crate) fn value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        {
            let state = self.tail.state.read();
            if let Some(value) = state.segments().rev().find_map(|segment| segment.values.get(name)) {
                return Ok(value.clone());
            }
        }
        self.index.pieces(|trees| &trees.values, &crate::disk::index::value_key(name))
    }

    pub(crate) fn values(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let mut recent = BTreeMap::new();
        {
            let state = self.tail.state.read();
            for segment in state.segments() {
                let from = segment.values.range(prefix.to_string()..);
                let named = from.take_while(|(name, _)| name.starts_with(prefix));
                recent.extend(named.map(|(name, value)| (name.clone(), value.clone())));
            }
        }
        let mut found = BTreeMap::new();
        for name in self.index.value_names(prefix)? {
            if recent.contains_key(&name) {
                continue;
            }
            let key = crate::disk::index::value_key(&name);
            if let Some(value) = self.index.pieces(|trees| &trees.values, &key)? {
                found.insert(name, value);
            }
        }
        found.extend(recent.into_iter().filter_map(|(name, value)| Some((name, value?))));
        Ok(found.into_iter().collect())
    }
}
