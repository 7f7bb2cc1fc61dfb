//! Reading the keys of streams.

use std::collections::BTreeMap;

use rethread_events::ids::ThreadId;

use super::Reader;
use crate::disk::index::{next_row, read_key_of, read_sorted_key, rows_of, thread_of_row};
use crate::error::StoreError;
use crate::keys::KeyRange;

impl Reader {
    /// As [`crate::LogReader::keys`].
    pub(crate) fn keys(
        &self,
        range: &KeyRange,
        after: Option<(&[u8], ThreadId)>,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, ThreadId)>, StoreError> {
        let Some(rows) = rows_of(range, after).filter(|_| limit > 0) else { return Ok(Vec::new()) };
        loop {
            let (lives, recent, deleted) = {
                let state = self.tail.state.read();
                (state.lives(), state.keys(&rows, limit), state.deleted())
            };
            let (mut sealed, mut rest) = (Vec::new(), rows.clone());
            while sealed.len() < limit {
                let page = self.index.sorted_keys(&rest, limit - sealed.len())?;
                let Some(last) = page.last() else { break };
                rest = next_row(last.clone())..=rest.into_inner().1;
                // The tail's row is newer.
                let is_gone = |row: &[u8]| thread_of_row(row).is_some_and(|thread| deleted.contains(&thread));
                sealed.extend(page.into_iter().filter(|row| !recent.contains_key(row) && !is_gone(row)));
            }
            // A segment that went into sled meanwhile took along what it knew.
            if self.tail.state.read().lives() == lives {
                let mut found = recent;
                found.extend(sealed.into_iter().map(|row| (row, true)));
                let found = found.iter().filter(|(_, is_there)| **is_there).take(limit);
                let read = found.map(|(row, _)| read_sorted_key(row)).collect::<Result<_, _>>();
                return read.map_err(self.index.malformed("a key of a thread"));
            }
        }
    }

    /// As [`crate::LogReader::keys_of`].
    pub(crate) fn keys_of(&self, thread: ThreadId) -> Result<Vec<Vec<u8>>, StoreError> {
        loop {
            let (lives, recent, is_replaced) = {
                let state = self.tail.state.read();
                let (recent, is_replaced) = state.keys_of(thread);
                (state.lives(), recent, is_replaced)
            };
            let mut found = BTreeMap::new();
            if !is_replaced {
                found.extend(self.index.keys_of(thread)?.into_iter().map(|key| (key, true)));
            }
            if self.tail.state.read().lives() == lives {
                for (row, is_there) in recent {
                    let (_, key) = read_key_of(&row).map_err(self.index.malformed("a key of a thread"))?;
                    found.insert(key, is_there);
                }
                return Ok(found.into_iter().filter(|(_, is_there)| *is_there).map(|(key, _)| key).collect());
            }
        }
    }
}
