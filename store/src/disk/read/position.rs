//! Reading the whole log by position, and following it.

use std::sync::Arc;

use rethread_events::ids::{Position, Seq, ThreadId};

use super::Reader;
use crate::disk::cache::Key;
use crate::disk::chunk::Row;
use crate::error::{Damage, StoreError};
use crate::head::Head;
use crate::record::Record;
use crate::subscription::Source;

impl Reader {
    /// As [`crate::LogReader::read_all`].
    pub(crate) fn all(&self, from: Position, limit: usize) -> Result<Vec<Record>, StoreError> {
        loop {
            let n_deletes = self.tail.n_deletes();
            match self.try_all(from, limit) {
                // A delete that reached sled in between appears as damage.
                Err(StoreError::Damaged(_)) if self.tail.n_deletes() != n_deletes => {}
                found => return found,
            }
        }
    }

    fn try_all(&self, from: Position, limit: usize) -> Result<Vec<Record>, StoreError> {
        let (recent, base, deleted) = self.tail.records(from, limit);
        if from >= base {
            return Ok(recent);
        }
        let (mut found, mut next) = (Vec::new(), from);
        while next < base && found.len() < limit {
            let missing = || {
                StoreError::Damaged(Damage {
                    position: Some(next),
                    file: Some(self.index.file_path()),
                    what: "records are missing".into(),
                    ..Damage::default()
                })
            };
            let (seal, end, n_chunks) = self.index.seal_at(next)?.ok_or_else(missing)?;
            if seal > next {
                return Err(missing());
            }
            let rows = self.seal(seal, n_chunks)?;
            let first = rows.partition_point(|row| row.record.position < next);
            for row in rows[first..].iter().filter(|row| !deleted.contains(&row.record.thread)) {
                if found.len() == limit {
                    break;
                }
                found.push(self.whole(row)?);
            }
            next = end;
        }
        let room = limit - found.len();
        found.extend(recent.into_iter().take(room));
        Ok(found)
    }

    /// The stream's own records at or after a position, wherever they are.
    fn own_from(&self, thread: ThreadId, head: &Head, from: Position, limit: usize) -> Result<Vec<Record>, StoreError> {
        let (recent, older) = self.tail.range_from(thread, from, limit);
        if !older {
            return Ok(recent);
        }
        // Somewhere before the place that is looked for; from there on it is a walk along the stream.
        let near = self.index.seal_before(thread, from)?;
        let mut next = near.unwrap_or(head.first_own());
        let mut found: Vec<Record> = Vec::new();
        while found.len() < limit {
            let records = self.range(thread, next..Seq(u64::MAX), limit)?;
            let Some(last) = records.last() else { break };
            next = last.seq.next();
            let room = limit - found.len();
            found.extend(records.into_iter().filter(|record| record.position >= from).take(room));
        }
        Ok(found)
    }

    /// All rows of a seal, by position.
    fn seal(&self, seal: Position, n_chunks: u32) -> Result<Arc<[Row]>, StoreError> {
        let key = Key::Seal(seal);
        if let Some(rows) = self.cache.find(key) {
            return Ok(rows);
        }
        let fresh = self.cache.fresh();
        let mut rows = Vec::new();
        for number in 0..n_chunks {
            rows.extend(self.read_chunk(seal, number)?);
        }
        rows.sort_unstable_by_key(|row| row.record.position);
        let rows = rows.into();
        self.cache.insert(key, &rows, fresh);
        Ok(rows)
    }
}

impl Source for Reader {
    fn records(&self, from: Position, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.all(from, limit)
    }

    fn own_records(&self, thread: ThreadId, from: Position, limit: usize) -> Result<Vec<Record>, StoreError> {
        let found = self.of_one_life(thread, |head| self.own_from(thread, &head, from, limit));
        found.or_else(|error| match error {
            StoreError::NotFound { .. } => Ok(Vec::new()),
            error => Err(error),
        })
    }

    fn in_memory(&self, from: Position) -> bool {
        from >= self.tail.base()
    }
}
