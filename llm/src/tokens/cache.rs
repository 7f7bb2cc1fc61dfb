//! Counts of texts seen before, by hash.

use std::collections::HashMap;

/// The most entries of each of the two generations.
const GENERATION_MAX: usize = 16_384;

/// A text's hash: half of its blake3, for which collisions are infeasible.
pub(super) type Key = [u8; 16];

pub(super) fn key(text: &str) -> Key {
    let mut key = [0; 16];
    key.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..16]);
    key
}

/// Two generations: when the young one is full, it becomes the old one and the old one is forgotten. What is used
/// moves back to the young one, so that texts in use stay.
#[derive(Default)]
pub(super) struct Cache {
    young: HashMap<Key, u64>,
    old: HashMap<Key, u64>,
}

impl Cache {
    pub(super) fn get(&mut self, key: &Key) -> Option<u64> {
        if let Some(count) = self.young.get(key) {
            return Some(*count);
        }
        let count = self.old.remove(key)?;
        self.insert(*key, count);
        Some(count)
    }

    pub(super) fn insert(&mut self, key: Key, count: u64) {
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, count);
    }
}
