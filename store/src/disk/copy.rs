//! A copy of a whole log in another one, of any backend.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use futures_util::future::BoxFuture;
use rethread_events::ids::{Hash, Position, Seq, ThreadId};

use super::files::failed;
use super::{Options, SledStore};
use crate::contract::{Append, Appended, LogReader, Store, StreamInfo};
use crate::error::{Damage, StoreError};
use crate::keys::KeyChange;
use crate::pages::Cursor;
use crate::record::{Cause, NewRecord, Record};

/// The most records of one append, and about the most bytes.
const APPEND_RECORDS_MAX: usize = 512;
const APPEND_BYTES: usize = 1 << 20;
/// How many appends are on their way at once.
const WAITING_MAX: usize = 256;

/// What a copy has written, without what was there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copied {
    /// Records.
    pub n_records: u64,
    /// Blobs, each as often as it has owners.
    pub n_blobs: u64,
    /// Values.
    pub n_values: u64,
}

/// Where the records of the source are in the target: in the same order, without the positions of deleted streams.
#[derive(Debug, Default)]
struct Moved {
    /// Runs of positions that follow each other: where one begins in the source, and in the target.
    runs: Vec<(Position, Position)>,
    next: Position,
}

impl Moved {
    fn add(&mut self, position: Position) {
        let follows = self.runs.last().is_some_and(|(from, to)| position.0 - from.0 == self.next.0 - to.0);
        if !follows {
            self.runs.push((position, self.next));
        }
        self.next = self.next.next();
    }

    /// The position in the target of the record that is at this position of the source. If there is none, that of the next
    /// one is the error.
    fn find(&self, position: Position) -> Result<Position, Position> {
        let after = self.runs.partition_point(|(from, _)| *from <= position);
        let end = self.runs.get(after).map_or(self.next, |(_, to)| *to);
        let run = after.checked_sub(1).and_then(|at| self.runs.get(at));
        let found = run.map(|(from, to)| Position(to.0 + (position.0 - from.0)));
        found.filter(|found| *found < end).ok_or(end)
    }
}

impl SledStore {
    /// Copies the log in `dir` into another one: streams, keys, blobs and values, with their ids, seqs and hashes, in the
    /// order of the log. Positions are new if streams were deleted. `value` gives each value as it is to be in the target, from
    /// its name, its bytes and where a position is there. Snapshots are left out, as a cache.
    ///
    /// The target is empty, or has the beginning of this log, from a copy that was interrupted. Then it continues. Blocks,
    /// and must not be called on a thread of an async runtime.
    ///
    /// # Errors
    /// `NotFound` if there is no log in `dir`. `Invalid` if the target has anything that this log does not have; nothing was
    /// written then. `Damaged` if the target has other hashes in the end. Those of [`SledStore::open`] and of the target.
    pub fn copy(
        dir: impl AsRef<Path>,
        options: Options,
        target: &dyn Store,
        value: impl Fn(&str, Vec<u8>, &dyn Fn(Position) -> Position) -> Vec<u8>,
    ) -> Result<Copied, StoreError> {
        super::check_is_log(dir.as_ref())?;
        // Just opened, it has nothing outside its index.
        let source = Self::open(dir, options)?;
        let copied = source.copy_to(target, value)?;
        source.close()?;
        Ok(copied)
    }

    fn copy_to(
        &self,
        target: &dyn Store,
        value: impl Fn(&str, Vec<u8>, &dyn Fn(Position) -> Position) -> Vec<u8>,
    ) -> Result<Copied, StoreError> {
        let mut copy = Copy {
            source: self,
            target,
            there: self.check_target(target)?,
            blobs: HashMap::new(),
            waiting: VecDeque::new(),
            runtime: tokio::runtime::Builder::new_current_thread()
                .build()
                .map_err(|source| failed(Path::new("the runtime of a copy"), source))?,
            copied: Copied::default(),
        };
        copy.blobs()?;
        let moved = copy.records()?;
        copy.other_blobs()?;
        for (name, bytes) in self.values("")? {
            let bytes = value(&name, bytes, &|position| moved.find(position).unwrap_or_else(|next| next));
            if target.value(&name)?.as_ref() != Some(&bytes) {
                target.put_value(&name, &bytes)?;
                copy.copied.n_values += 1;
            }
        }
        copy.check()?;
        Ok(copy.copied)
    }

    /// The seqs from which on the streams of the target lack records.
    fn check_target(&self, target: &dyn Store) -> Result<HashMap<ThreadId, Seq>, StoreError> {
        let refused = |what: String| StoreError::Invalid(format!("{what}: copy into a new log"));
        let (mut there, reader): (_, &dyn LogReader) = (HashMap::new(), target);
        for info in reader.all_streams(None, &[]) {
            let info = info?;
            let same = match self.record(info.thread, info.last_seq) {
                Ok(own) => own.is_some_and(|own| own.hash == info.hash),
                Err(StoreError::NotFound { .. }) => false,
                Err(error) => return Err(error),
            };
            if !same {
                return Err(refused(format!("the target has another thread {}", info.thread)));
            }
            there.insert(info.thread, info.last_seq.next());
        }
        for (name, _) in target.values("")? {
            if self.value(&name)?.is_none() {
                return Err(refused(format!("the target has the value `{name}`")));
            }
        }
        Ok(there)
    }
}

struct Copy<'a> {
    source: &'a SledStore,
    target: &'a dyn Store,
    there: HashMap<ThreadId, Seq>,
    /// Of streams that have not begun in the target.
    blobs: HashMap<ThreadId, Vec<Hash>>,
    waiting: VecDeque<BoxFuture<'static, Result<Appended, StoreError>>>,
    runtime: tokio::runtime::Runtime,
    copied: Copied,
}

impl Copy<'_> {
    /// Copies the blobs of no stream, and finds those of streams.
    fn blobs(&mut self) -> Result<(), StoreError> {
        let reader = self.source.open_reader()?;
        for hash in reader.index.blob_hashes()? {
            for owner in reader.index.owners(hash)? {
                match owner {
                    Some(thread) => self.blobs.entry(thread).or_default().push(hash),
                    None => self.put_blob(None, hash)?,
                }
            }
        }
        Ok(())
    }

    /// Copies those that no append took with it: of streams that were there, or have no records.
    fn other_blobs(&mut self) -> Result<(), StoreError> {
        for (thread, hashes) in std::mem::take(&mut self.blobs) {
            for hash in hashes {
                self.put_blob(Some(thread), hash)?;
            }
        }
        Ok(())
    }

    fn put_blob(&mut self, owner: Option<ThreadId>, hash: Hash) -> Result<(), StoreError> {
        self.target.put_blob(owner, &self.source.blob(hash)?)?;
        self.copied.n_blobs += 1;
        Ok(())
    }

    fn records(&mut self) -> Result<Moved, StoreError> {
        let mut moved = Moved::default();
        let mut cursor = Cursor::of_log(Position(0)..self.source.next_position());
        let mut pending: Vec<Record> = Vec::new();
        let mut bytes = 0;
        while !cursor.is_done() {
            for record in cursor.read(self.source)? {
                let follows = pending.last().is_none_or(|last| last.thread == record.thread);
                if !follows || pending.len() >= APPEND_RECORDS_MAX || bytes >= APPEND_BYTES {
                    self.append(std::mem::take(&mut pending), &moved)?;
                    bytes = 0;
                }
                moved.add(record.position);
                if self.there.get(&record.thread).is_none_or(|there| *there <= record.seq) {
                    bytes += record.payload.len();
                    pending.push(record);
                }
            }
        }
        self.append(pending, &moved)?;
        while !self.waiting.is_empty() {
            self.wait()?;
        }
        Ok(moved)
    }

    /// Appends records of one stream that follow each other.
    fn append(&mut self, records: Vec<Record>, moved: &Moved) -> Result<(), StoreError> {
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return Ok(()) };
        let info: StreamInfo = self.source.stream(first.thread)?;
        let own_begin = info.fork_of.map_or(Seq(0), |point| point.seq.next());
        let keys = if last.seq == info.last_seq { self.source.keys_of(info.thread)? } else { Vec::new() };
        let hashes = self.blobs.remove(&info.thread).unwrap_or_default();
        self.copied.n_records += records.len() as u64;
        self.copied.n_blobs += hashes.len() as u64;
        let append = Append {
            thread: info.thread,
            expected: first.seq,
            fork_of: info.fork_of.filter(|_| first.seq == own_begin),
            trace: Some(first.trace),
            tag: info.tag,
            blobs: hashes.into_iter().map(|hash| self.source.blob(hash)).collect::<Result<_, _>>()?,
            keys: keys.into_iter().map(KeyChange::Add).collect(),
            is_awaited: true,
            records: records.into_iter().map(|record| new_record(record, moved)).collect(),
        };
        self.waiting.push_back(self.target.append(append));
        if self.waiting.len() >= WAITING_MAX { self.wait() } else { Ok(()) }
    }

    fn wait(&mut self) -> Result<(), StoreError> {
        match self.waiting.pop_front() {
            Some(appended) => self.runtime.block_on(appended).map(drop),
            None => Ok(()),
        }
    }

    /// Checks that each stream ends in the target as it does in the source.
    fn check(&self) -> Result<(), StoreError> {
        let source: &dyn LogReader = self.source;
        for info in source.all_streams(None, &[]) {
            let info = info?;
            let copied = self.target.stream(info.thread)?;
            if (copied.last_seq, copied.hash) != (info.last_seq, info.hash) {
                let what = "the copy of the thread has other events".into();
                return Err(StoreError::Damaged(Damage { thread: Some(info.thread), what, ..Damage::default() }));
            }
        }
        Ok(())
    }
}

fn new_record(record: Record, moved: &Moved) -> NewRecord {
    NewRecord {
        kind: record.kind,
        version: record.version,
        recorded_at: record.recorded_at,
        cause: record.cause.and_then(|cause| moved.find(cause).ok()).map(Cause::At),
        run: record.run,
        payload: record.payload.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_move_over_those_of_deleted_streams() {
        let mut moved = Moved::default();
        for position in [0, 1, 2, 7, 8, 20] {
            moved.add(Position(position));
        }
        let of = |position| moved.find(Position(position)).map(|found| found.0).map_err(|next| next.0);
        assert_eq!([0, 1, 2, 7, 8, 20].map(of), [0, 1, 2, 3, 4, 5].map(Ok));
        assert_eq!([3, 6, 9, 19, 21, 1000].map(of), [3, 3, 5, 5, 6, 6].map(Err));
        assert_eq!(Moved::default().find(Position(9)), Err(Position(0)));
    }
}
