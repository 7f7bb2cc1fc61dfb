//! The contract of [`Store`], on a stream: what reads is the replica's.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::BoxFuture;
use rethread_events::ids::{Hash, Position, Seq, ThreadId};

use super::{JetStreamStore, apart};
use crate::contract::{
    Append, Appended, Compacted, Filter, Import, LogReader, Snapshot, Store, StreamInfo, Tag, Verification,
};
use crate::disk::Backup;
use crate::disk::queue::Op;
use crate::error::StoreError;
use crate::keys::KeyRange;
use crate::plan;
use crate::record::Record;
use crate::slots::SharedLog;
use crate::stream_metrics::StreamMetrics;
use crate::subscription::Subscription;

impl LogReader for JetStreamStore {
    fn read_stream(&self, thread: ThreadId, range: Range<Seq>, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.replica.read_stream(thread, range, limit)
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.replica.read_all(from, limit)
    }

    fn stream(&self, thread: ThreadId) -> Result<StreamInfo, StoreError> {
        self.replica.stream(thread)
    }

    fn streams(&self, after: Option<ThreadId>, tags: &[Tag], limit: usize) -> Result<Vec<StreamInfo>, StoreError> {
        self.replica.streams(after, tags, limit)
    }

    fn next_position(&self) -> Position {
        self.replica.next_position()
    }

    fn forks(&self, thread: ThreadId, after: Option<ThreadId>, limit: usize) -> Result<Vec<ThreadId>, StoreError> {
        self.replica.forks(thread, after, limit)
    }

    fn subscribe(&self, from: Position, filter: Filter) -> Subscription {
        self.replica.subscribe(from, filter)
    }

    fn blob(&self, hash: Hash) -> Result<Vec<u8>, StoreError> {
        self.replica.blob(hash)
    }

    fn owners(&self, hash: Hash, after: Option<ThreadId>, limit: usize) -> Result<Vec<ThreadId>, StoreError> {
        self.replica.owners(hash, after, limit)
    }

    fn keys(
        &self,
        range: &KeyRange,
        after: Option<(&[u8], ThreadId)>,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, ThreadId)>, StoreError> {
        self.replica.keys(range, after, limit)
    }

    fn keys_of(&self, thread: ThreadId) -> Result<Vec<Vec<u8>>, StoreError> {
        self.replica.keys_of(thread)
    }

    fn snapshots(&self, thread: ThreadId) -> Result<Vec<Seq>, StoreError> {
        self.replica.snapshots(thread)
    }

    fn snapshot(&self, thread: ThreadId, seq: Seq) -> Result<Option<Snapshot>, StoreError> {
        self.replica.snapshot(thread, seq)
    }

    fn value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.replica.value(name)
    }

    fn values(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.replica.values(prefix)
    }

    fn verify(&self) -> Result<Verification, StoreError> {
        self.replica.verify()
    }

    fn check_writable(&self) -> Result<(), StoreError> {
        self.queue.check_open()?;
        self.connection.check()?;
        self.replica.check_writable()
    }
}

impl Store for JetStreamStore {
    fn append(&self, append: Append) -> BoxFuture<'static, Result<Appended, StoreError>> {
        self.queue.append(append)
    }

    fn hurry(&self) {
        self.queue.hurry();
    }

    fn put_blob(&self, owner: Option<ThreadId>, bytes: &[u8]) -> Result<Hash, StoreError> {
        plan::payload_fits(bytes.len())?;
        let hash = Hash::of(bytes);
        if !self.replica.has_owner(hash, owner)? {
            self.queue.write(Op::Blob { owner, hash, bytes: bytes.into() }, bytes.len() + 128)?;
        }
        Ok(hash)
    }

    fn release_blobs(&self, hashes: &[Hash], values: &[(String, Option<Vec<u8>>)]) -> Result<(), StoreError> {
        let bytes = 128 * hashes.len() + plan::values_size(values)?;
        if bytes == 0 {
            return self.queue.check_open();
        }
        let op = Op::Release { hashes: hashes.into(), values: values.into() };
        self.queue.write(op, bytes).map(drop)
    }

    /// Stores it in the replica: snapshots are not in the stream.
    fn put_snapshot(&self, thread: ThreadId, snapshot: Snapshot) -> Result<(), StoreError> {
        self.replica.put_snapshot(thread, snapshot)
    }

    fn keep_snapshots(&self, thread: ThreadId, seqs: &[Seq]) -> Result<(), StoreError> {
        self.replica.keep_snapshots(thread, seqs)
    }

    fn put_value(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        plan::value_fits(name, value)?;
        let bytes = name.len() + value.len() + 128;
        self.queue.write(Op::Value { name: name.into(), value: Some(value.into()) }, bytes).map(drop)
    }

    fn remove_value(&self, name: &str) -> Result<(), StoreError> {
        plan::value_fits(name, &[])?;
        if self.replica.value(name)?.is_none() {
            return self.queue.check_open();
        }
        self.queue.write(Op::Value { name: name.into(), value: None }, name.len() + 128).map(drop)
    }

    fn delete_all(&self, threads: &[ThreadId]) -> Result<(), StoreError> {
        if threads.is_empty() {
            return self.queue.check_open();
        }
        self.queue.write(Op::Delete { threads: threads.into() }, 128 * threads.len()).map(drop)
    }

    fn import_with(&self, import: Import) -> Result<Appended, StoreError> {
        let bytes = plan::import_size(&import)?;
        let appended = self.queue.write(Op::Import(import), bytes)?;
        appended.ok_or(StoreError::Closed)
    }

    fn side_file(&self, name: &'static str) -> Result<Option<File>, StoreError> {
        self.replica.side_file(name)
    }

    fn stream_metrics(&self) -> Option<StreamMetrics> {
        let (stats, members) = (&self.connection.stats, &self.membership.members);
        Some(StreamMetrics {
            is_connected: self.connection.check().is_ok(),
            slots: self.membership.n_slots(),
            members: members.borrow().members.len(),
            taken_out: stats.taken_out.load(Ordering::Relaxed),
            behind: stats.behind.load(Ordering::Relaxed),
            writes: stats.writes(),
            in_doubt: stats.in_doubt.load(Ordering::Relaxed),
            unavailable: stats.unavailable.load(Ordering::Relaxed),
        })
    }

    fn shared(&self) -> Option<Arc<dyn SharedLog>> {
        self.between.clone().map(|between| Arc::new(between) as Arc<dyn SharedLog>)
    }

    /// Compacts the replica. What was deleted leaves the stream by itself.
    fn compact(&self) -> Result<Compacted, StoreError> {
        self.replica.compact()
    }

    /// A copy of the replica, which is a log in a folder.
    fn backup(&self) -> Result<Backup, StoreError> {
        self.replica.backup()
    }

    fn close(&self) -> Result<(), StoreError> {
        if !self.queue.close() {
            return Err(StoreError::Closed);
        }
        match self.running.lock().take() {
            Some(running) => apart(|| self.finish(running)),
            None => Ok(()),
        }
    }
}
