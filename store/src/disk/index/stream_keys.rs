//! The sorted keys of streams: their encoding, and the look-ups in their two trees.
//!
//! ```text
//! keys:    the key, each zero byte of it followed by a 1 ‖ two zero bytes ‖ thread → nothing
//! keys_of: thread ‖ the key → nothing
//! ```
//! So the rows of `keys` are in the order of the keys, also where one key is the beginning of another. Every row of `keys`
//! has one in `keys_of`, also while they are written: what `keys_of` says is what a delete removes.

use std::ops::RangeInclusive;

use rethread_events::ids::ThreadId;

use super::blocks::Changes;
use super::{Index, pair_key};
use crate::error::StoreError;
use crate::keys::{KEY_BYTES_MAX, KeyRange};
use crate::wire::Malformed;

/// After the last key that can be.
const END: [u8; KEY_BYTES_MAX + 1] = [u8::MAX; KEY_BYTES_MAX + 1];

/// The row of a key and a thread in `keys`.
pub(crate) fn sorted_key(key: &[u8], thread: ThreadId) -> Vec<u8> {
    let mut row = first_row(key);
    row.extend_from_slice(thread.as_bytes());
    row
}

/// Not after any row of the key, and after those of all smaller keys.
fn first_row(key: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(key.len() + 18);
    for byte in key {
        row.push(*byte);
        if *byte == 0 {
            row.push(1);
        }
    }
    row.extend_from_slice(&[0, 0]);
    row
}

/// The key and the thread of a row in `keys`.
pub(crate) fn read_sorted_key(row: &[u8]) -> Result<(Vec<u8>, ThreadId), Malformed> {
    let (escaped, thread) = row.split_last_chunk::<16>().ok_or(Malformed)?;
    let mut rest = escaped.strip_suffix(&[0, 0]).ok_or(Malformed)?;
    let mut key = Vec::with_capacity(rest.len());
    while let Some((byte, after)) = rest.split_first() {
        key.push(*byte);
        rest = match byte {
            0 => after.strip_prefix(&[1]).ok_or(Malformed)?,
            _ => after,
        };
    }
    Ok((key, ThreadId::from_bytes(*thread)))
}

/// The thread of a row in `keys`.
pub(crate) fn thread_of_row(row: &[u8]) -> Option<ThreadId> {
    row.last_chunk::<16>().map(|thread| ThreadId::from_bytes(*thread))
}

/// Where the rows of a range in `keys` are, from those after a key and thread on. `None` when it is empty.
pub(crate) fn rows_of(range: &KeyRange, after: Option<(&[u8], ThreadId)>) -> Option<RangeInclusive<Vec<u8>>> {
    let mut from = first_row(&range.start);
    if let Some((key, thread)) = after {
        from = from.max(next_row(sorted_key(key, thread)));
    }
    let to = range.end.as_ref().map_or_else(|| END.to_vec(), |end| first_row(end));
    (from <= to).then_some(from..=to)
}

/// The first row that may follow this one.
pub(crate) fn next_row(mut row: Vec<u8>) -> Vec<u8> {
    row.push(0);
    row
}

/// The rows of a thread in `keys_of`.
pub(crate) fn rows_of_thread(thread: ThreadId) -> RangeInclusive<Vec<u8>> {
    thread.as_bytes().to_vec()..=pair_key(thread.as_bytes(), &END)
}

/// The thread and the key of a row in `keys_of`.
pub(crate) fn read_key_of(row: &[u8]) -> Result<(ThreadId, Vec<u8>), Malformed> {
    let (thread, key) = row.split_first_chunk::<16>().ok_or(Malformed)?;
    Ok((ThreadId::from_bytes(*thread), key.to_vec()))
}

impl Index {
    /// Up to `n_max` rows of `keys`.
    pub(crate) fn sorted_keys(&self, rows: &RangeInclusive<Vec<u8>>, n_max: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        let found = self.with(|trees| trees.keys.range(rows.start(), rows.end(), n_max))?;
        Ok(found.into_iter().map(|(row, _)| row).collect())
    }

    /// The keys that sled has of a stream, in their order.
    pub(crate) fn keys_of(&self, thread: ThreadId) -> Result<Vec<Vec<u8>>, StoreError> {
        let rows = rows_of_thread(thread);
        let found = self.with(|trees| trees.keys_of.range(rows.start(), rows.end(), usize::MAX))?;
        let read = found.iter().map(|(row, _)| read_key_of(row).map(|(_, key)| key)).collect::<Result<_, _>>();
        read.map_err(self.malformed("a key of a thread"))
    }

    /// Makes changes to both trees, whose rows are given with whether they are there from now on.
    pub(crate) fn write_keys(
        &self,
        by_key: impl Iterator<Item = (Vec<u8>, bool)>,
        by_thread: impl Iterator<Item = (Vec<u8>, bool)>,
    ) -> Result<(), StoreError> {
        let change = |is_there: bool| is_there.then(Vec::new);
        let (added, removed): (Changes, Changes) =
            by_thread.map(|(row, is_there)| (row, change(is_there))).partition(|(_, row)| row.is_some());
        self.with(|trees| {
            trees.keys_of.write(added)?;
            trees.keys.write(by_key.map(|(row, is_there)| (row, change(is_there))).collect())?;
            trees.keys_of.write(removed)
        })
    }

    /// Removes the keys of a stream.
    pub(crate) fn remove_keys(&self, thread: ThreadId) -> Result<(), StoreError> {
        let keys = self.keys_of(thread)?;
        let by_key = keys.iter().map(|key| (sorted_key(key, thread), false));
        self.write_keys(by_key, keys.iter().map(|key| (pair_key(thread.as_bytes(), key), false)))
    }
}

#[cfg(test)]
mod tests;
