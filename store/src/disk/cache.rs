//! Unpacked chunks that were read lately, bounded in bytes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use rethread_events::ids::Position;

use super::chunk::Row;

/// The key of a cache entry: one chunk by stream and seq, or a whole seal by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Chunk(Position, u32),
    Seal(Position),
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<Key, (Arc<[Row]>, usize, u64)>,
    /// By when they were last used.
    uses: BTreeMap<u64, Key>,
    clock: u64,
    bytes: usize,
    /// How often it was cleared.
    n_clears: u64,
}

/// Proves that nothing stored was changed since it was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fresh(u64);

#[derive(Debug)]
pub(crate) struct Cache {
    state: Mutex<State>,
    bytes_max: usize,
}

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { state: Mutex::default(), bytes_max }
    }

    pub(crate) fn find(&self, key: Key) -> Option<Arc<[Row]>> {
        let mut state = self.state.lock();
        state.clock += 1;
        let now = state.clock;
        let (rows, _, used) = state.entries.get_mut(&key)?;
        let (rows, before) = (Arc::clone(rows), std::mem::replace(used, now));
        state.uses.remove(&before);
        state.uses.insert(now, key);
        Some(rows)
    }

    /// Returns a proof of freshness. Must be called before something is read that is to be cached.
    pub(crate) fn fresh(&self) -> Fresh {
        Fresh(self.state.lock().n_clears)
    }

    /// Caches what was read, unless stored chunks changed since: it may be outdated.
    pub(crate) fn insert(&self, key: Key, rows: &Arc<[Row]>, fresh: Fresh) {
        let bytes: usize = rows.iter().map(|row| size_of::<Row>() + row.record.payload.len() + 16).sum();
        let mut state = self.state.lock();
        if fresh != Fresh(state.n_clears) {
            return;
        }
        state.clock += 1;
        let now = state.clock;
        if let Some((_, bytes, used)) = state.entries.insert(key, (Arc::clone(rows), bytes, now)) {
            state.uses.remove(&used);
            state.bytes -= bytes;
        }
        state.uses.insert(now, key);
        state.bytes += bytes;
        // The newest stays even if it alone is over the limit: the next read of the same reader needs it again.
        while state.bytes > self.bytes_max && state.uses.len() > 1 {
            let Some((_, oldest)) = state.uses.pop_first() else { break };
            if let Some((_, bytes, _)) = state.entries.remove(&oldest) {
                state.bytes -= bytes;
            }
        }
    }

    /// Forgets everything, after stored chunks were changed.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        *state = State { n_clears: state.n_clears + 1, ..State::default() };
    }
}

#[cfg(test)]
mod tests;
