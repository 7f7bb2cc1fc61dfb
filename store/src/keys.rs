//! The sorted keys of streams: what a change does to them, and which of them a read is about.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use rethread_events::ids::ThreadId;

use crate::error::StoreError;

/// The longest key of a stream, in bytes.
pub const KEY_BYTES_MAX: usize = 512;
/// How many keys a stream can have.
pub const KEYS_MAX: usize = 1024;
/// How many changes of keys an append can have: as many as replace all keys of a stream.
pub const KEY_CHANGES_MAX: usize = 2 * KEYS_MAX;

/// A change to the keys of a stream. Keys are bytes; the store compares them and nothing else. A key can be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyChange {
    /// Adds a key. Changes nothing if the stream has it already.
    Add(Vec<u8>),
    /// Removes a key. Changes nothing if the stream does not have it.
    Remove(Vec<u8>),
}

impl KeyChange {
    /// The key that is added or removed.
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Add(key) | Self::Remove(key) => key,
        }
    }
}

/// A range of keys, in the order of their bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key of the range.
    pub start: Vec<u8>,
    /// The first key after the range. `None`: the range has no end.
    pub end: Option<Vec<u8>>,
}

impl KeyRange {
    /// All keys.
    pub fn all() -> Self {
        Self::default()
    }

    /// This key alone.
    pub fn one(key: &[u8]) -> Self {
        Self { start: key.into(), end: Some([key, &[0]].concat()) }
    }

    /// All keys that begin with these bytes.
    pub fn prefix(prefix: &[u8]) -> Self {
        let mut end = prefix.to_vec();
        while end.pop_if(|byte| *byte == u8::MAX).is_some() {}
        let end = end.split_last().map(|(last, before)| [before, &[last + 1]].concat());
        Self { start: prefix.into(), end }
    }

    /// Whether the key comes before the end of the range.
    pub(crate) fn is_before_end(&self, key: &[u8]) -> bool {
        self.end.as_ref().is_none_or(|end| key < &end[..])
    }
}

impl From<Range<Vec<u8>>> for KeyRange {
    fn from(Range { start, end }: Range<Vec<u8>>) -> Self {
        Self { start, end: Some(end) }
    }
}

/// The keys of one stream. Cheap to clone while they are few.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeySet(BTreeSet<Arc<[u8]>>);

impl KeySet {
    /// The keys after these changes, and those of the changes that make a difference.
    ///
    /// Errors: `Invalid` if they are too many.
    pub(crate) fn after(
        &self,
        thread: ThreadId,
        changes: Vec<KeyChange>,
    ) -> Result<(Self, Vec<KeyChange>), StoreError> {
        let Self(mut keys) = self.clone();
        let mut changes = changes;
        changes.retain(|change| match change {
            KeyChange::Add(key) => keys.insert(key[..].into()),
            KeyChange::Remove(key) => keys.remove(&key[..]),
        });
        if keys.len() > KEYS_MAX {
            let n = keys.len();
            return Err(StoreError::Invalid(format!("thread {thread} would have {n} keys, the limit is {KEYS_MAX}")));
        }
        Ok((Self(keys), changes))
    }

    /// The keys in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|key| &key[..])
    }
}

impl FromIterator<Vec<u8>> for KeySet {
    fn from_iter<T: IntoIterator<Item = Vec<u8>>>(keys: T) -> Self {
        Self(keys.into_iter().map(Arc::from).collect())
    }
}

#[cfg(test)]
mod tests;
