//! The keys of streams that were added and removed in one life of a journal file, as rows of sled's two trees of keys.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};

use rethread_events::ids::ThreadId;

use crate::disk::index::{pair_key, read_key_of, rows_of_thread, sorted_key};
use crate::keys::KeyChange;

/// Rows with whether they are there now. A row that is not here is as it was before.
#[derive(Debug, Default)]
pub(crate) struct TailKeys {
    by_key: BTreeMap<Vec<u8>, bool>,
    by_thread: BTreeMap<Vec<u8>, bool>,
}

impl TailKeys {
    pub(super) fn change(&mut self, thread: ThreadId, change: &KeyChange) {
        let is_there = matches!(change, KeyChange::Add(_));
        self.by_key.insert(sorted_key(change.key(), thread), is_there);
        self.by_thread.insert(pair_key(thread.as_bytes(), change.key()), is_there);
    }

    /// The stream was deleted.
    pub(super) fn delete(&mut self, thread: ThreadId) {
        let rows: Vec<_> = self.of(thread).map(|(row, _)| row.to_vec()).collect();
        for row in rows {
            self.by_thread.remove(&row);
            if let Ok((thread, key)) = read_key_of(&row) {
                self.by_key.remove(&sorted_key(&key, thread));
            }
        }
    }

    /// Rows of `keys`.
    pub(super) fn sorted(&self, rows: &RangeInclusive<Vec<u8>>) -> impl Iterator<Item = (&[u8], bool)> {
        among(&self.by_key, rows)
    }

    /// Rows of `keys_of` of a thread.
    pub(super) fn of(&self, thread: ThreadId) -> impl Iterator<Item = (&[u8], bool)> {
        among(&self.by_thread, &rows_of_thread(thread))
    }

    /// All rows of `keys`.
    pub(crate) fn by_key(&self) -> impl Iterator<Item = (Vec<u8>, bool)> {
        self.by_key.iter().map(|(row, is_there)| (row.clone(), *is_there))
    }

    /// All rows of `keys_of`.
    pub(crate) fn by_thread(&self) -> impl Iterator<Item = (Vec<u8>, bool)> {
        self.by_thread.iter().map(|(row, is_there)| (row.clone(), *is_there))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

fn among<'a>(
    all: &'a BTreeMap<Vec<u8>, bool>,
    rows: &RangeInclusive<Vec<u8>>,
) -> impl Iterator<Item = (&'a [u8], bool)> + use<'a> {
    let rows = (Bound::Included(&rows.start()[..]), Bound::Included(&rows.end()[..]));
    all.range::<[u8], _>(rows).map(|(row, is_there)| (&row[..], *is_there))
}
