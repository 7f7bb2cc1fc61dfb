//! The contract of [`Store`], on the disk.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::BoxFuture;
use rethread_events::ids::{Hash, Position, Seq, ThreadId};

use super::backup::{self, Backup, Held};
use super::files::failed;
use super::queue::Op;
use super::scratch::Scratch;
use super::sealer::Task;
use super::{SledStore, reserve, seal, verify};
use crate::contract::{
    Append, Appended, Compacted, Filter, Import, LogReader, Snapshot, Store, StreamInfo, Tag, Verification,
};
use crate::error::StoreError;
use crate::keys::KeyRange;
use crate::plan;
use crate::record::Record;
use crate::subscription::Subscription;
use crate::subscription::follow;

impl LogReader for SledStore {
    fn read_stream(&self, thread: ThreadId, range: Range<Seq>, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.open_reader()?.range(thread, range, limit)
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.open_reader()?.all(from, limit)
    }

    fn stream(&self, thread: ThreadId) -> Result<StreamInfo, StoreError> {
        Ok(self.open_reader()?.head(thread)?.info(thread))
    }

    fn streams(&self, after: Option<ThreadId>, tags: &[Tag], limit: usize) -> Result<Vec<StreamInfo>, StoreError> {
        self.open_reader()?.streams(after, tags, limit)
    }

    fn forks(&self, thread: ThreadId, after: Option<ThreadId>, limit: usize) -> Result<Vec<ThreadId>, StoreError> {
        self.open_reader()?.forks(thread, after, limit)
    }

    fn next_position(&self) -> Position {
        self.progress.borrow().next
    }

    fn subscribe(&self, from: Position, filter: Filter) -> Subscription {
        follow(Arc::clone(&self.reader), self.progress.subscribe(), from, filter)
    }

    fn blob(&self, hash: Hash) -> Result<Vec<u8>, StoreError> {
        self.open_reader()?.blob(hash)
    }

    fn owners(&self, hash: Hash, after: Option<ThreadId>, limit: usize) -> Result<Vec<ThreadId>, StoreError> {
        self.open_reader()?.owners(hash, after, limit)
    }

    fn keys(
        &self,
        range: &KeyRange,
        after: Option<(&[u8], ThreadId)>,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, ThreadId)>, StoreError> {
        self.open_reader()?.keys(range, after, limit)
    }

    fn keys_of(&self, thread: ThreadId) -> Result<Vec<Vec<u8>>, StoreError> {
        self.open_reader()?.keys_of(thread)
    }

    fn snapshots(&self, thread: ThreadId) -> Result<Vec<Seq>, StoreError> {
        let reader = self.open_reader()?;
        let waiting = self.sealer.snapshots(thread);
        if reader.find_head(thread)?.is_none() {
            return Ok(Vec::new());
        }
        let is_old = reader.tail.replaces(thread);
        let mut seqs = if is_old { Vec::new() } else { seal::snapshots(&reader.index, thread)? };
        seqs.retain(|seq| waiting.retains(*seq));
        seqs.extend(waiting.seqs());
        seqs.sort_unstable();
        seqs.dedup();
        Ok(seqs)
    }

    fn snapshot(&self, thread: ThreadId, seq: Seq) -> Result<Option<Snapshot>, StoreError> {
        let reader = self.open_reader()?;
        let waiting = self.sealer.snapshots(thread);
        if let Some(snapshot) = waiting.find(seq) {
            return Ok(Some(Snapshot::clone(snapshot)));
        }
        if !waiting.retains(seq) || reader.tail.replaces(thread) || reader.find_head(thread)?.is_none() {
            return Ok(None);
        }
        seal::snapshot(&reader.index, thread, seq)
    }

    fn value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.open_reader()?.value(name)
    }

    fn values(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.open_reader()?.values(prefix)
    }

    fn verify(&self) -> Result<Verification, StoreError> {
        let mut found = verify::verify(self.open_reader()?)?;
        found.faults.extend(self.mended.iter().cloned());
        Ok(found)
    }

    fn check_writable(&self) -> Result<(), StoreError> {
        self.queue.check_open()?;
        self.reader.packs.files().check_in_place()
    }
}

impl Store for SledStore {
    fn append(&self, append: Append) -> BoxFuture<'static, Result<Appended, StoreError>> {
        self.queue.append(append)
    }

    fn hurry(&self) {
        self.queue.hurry();
    }

    fn put_blob(&self, owner: Option<ThreadId>, bytes: &[u8]) -> Result<Hash, StoreError> {
        plan::payload_fits(bytes.len())?;
        let hash = Hash::of(bytes);
        if !self.open_reader()?.has_owner(hash, owner)? {
            self.write(Op::Blob { owner, hash, bytes: bytes.into() }, bytes.len() + 128)?;
        }
        Ok(hash)
    }

    fn release_blobs(&self, hashes: &[Hash], values: &[(String, Option<Vec<u8>>)]) -> Result<(), StoreError> {
        let bytes = 128 * hashes.len() + plan::values_size(values)?;
        let release = || {
            let op = Op::Release { hashes: hashes.into(), values: values.into() };
            self.write(op, bytes).map(drop)
        };
        match release() {
            Err(StoreError::Full { .. }) if reserve::release(self.reader.packs.files()) => release(),
            released => released,
        }
    }

    fn put_snapshot(&self, thread: ThreadId, snapshot: Snapshot) -> Result<(), StoreError> {
        plan::payload_fits(snapshot.state.len())?;
        self.queue.check_open()?;
        self.reader.head(thread)?;
        self.sealer.put_snapshot(thread, snapshot);
        Ok(())
    }

    fn keep_snapshots(&self, thread: ThreadId, seqs: &[Seq]) -> Result<(), StoreError> {
        self.queue.check_open()?;
        self.reader.head(thread)?;
        self.sealer.keep_snapshots(thread, seqs);
        Ok(())
    }

    fn put_value(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        plan::value_fits(name, value)?;
        let bytes = name.len() + value.len() + 128;
        self.write(Op::Value { name: name.into(), value: Some(value.into()) }, bytes).map(|_| ())
    }

    fn remove_value(&self, name: &str) -> Result<(), StoreError> {
        plan::value_fits(name, &[])?;
        self.write(Op::Value { name: name.into(), value: None }, name.len() + 128).map(|_| ())
    }

    fn delete_all(&self, threads: &[ThreadId]) -> Result<(), StoreError> {
        let delete = || self.write(Op::Delete { threads: threads.into() }, 128 * threads.len()).map(drop);
        match delete() {
            Err(StoreError::Full { .. }) if reserve::release(self.reader.packs.files()) => delete(),
            deleted => deleted,
        }
    }

    fn import_with(&self, import: Import) -> Result<Appended, StoreError> {
        let bytes = plan::import_size(&import)?;
        let appended = self.write(Op::Import(import), bytes)?;
        appended.ok_or(StoreError::Closed)
    }

    fn compact(&self) -> Result<Compacted, StoreError> {
        self.seal_all()?;
        let compacted = self.run_task(Task::Compact)?;
        self.write(Op::Scrub, 128)?;
        Ok(compacted)
    }

    fn backup(&self) -> Result<Backup, StoreError> {
        self.queue.check_open()?;
        let copied = Scratch::in_place(&self.dir, backup::PREFIX);
        let copied = copied.map_err(|source| failed(&self.dir, source))?;
        let held = Held::new(Arc::clone(&self.reader));
        self.seal_all()?;
        let watermark = self.run_task(|answer| Task::CopyIndex { to: copied.path().into(), answer })?;
        Backup::new(copied, held, watermark.packs)
    }

    fn side_file(&self, name: &'static str) -> Result<Option<File>, StoreError> {
        let files = self.open_reader()?.packs.files();
        if files.only_reads() || self.side_file_is_out.swap(true, Ordering::AcqRel) {
            return Ok(None);
        }
        files.side_file(&self.dir.join(name)).map(Some)
    }

    fn close(&self) -> Result<(), StoreError> {
        if !self.queue.close() {
            return Err(StoreError::Closed);
        }
        match self.threads.lock().take() {
            Some(threads) => {
                let finished = self.finish(threads);
                // If nothing was left to write, no write has checked it; a folder whose removal had begun gave other errors.
                self.reader.packs.files().check_in_place().and(finished)
            }
            None => {
                self.progress.send_modify(|progress| progress.closed = true);
                let closed = self.reader.index.close();
                drop(self.lock.lock().take());
                closed
            }
        }
    }
}
