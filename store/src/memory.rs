//! The backend in memory: for tests, and the model that the durable one is compared with.

mod log;

use std::ops::Range;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rethread_events::ids::{Hash, Position, Seq, ThreadId};
use tokio::sync::watch;

use crate::contract::{
    Append, Appended, Compacted, Filter, Import, LogReader, Snapshot, Store, StreamInfo, Tag, Verification,
};
use crate::disk::Backup;
use crate::error::{Damage, StoreError};
use crate::fence::Fences;
use crate::keys::KeyRange;
use crate::plan;
use crate::record::Record;
use crate::subscription::Subscription;
use crate::subscription::{Progress, Source, follow};
use log::{Log, State};

/// The log in memory. Implements the contract of [`Store`], except that nothing outlives the process: durable means
/// applied. An append is applied within the call.
#[derive(Debug)]
pub struct MemoryStore {
    log: Arc<Log>,
    fences: Fences,
    progress: watch::Sender<Progress>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty log.
    pub fn new() -> Self {
        let (progress, _) = watch::channel(Progress { next: Position(0), closed: false });
        Self { log: Arc::default(), fences: Fences::default(), progress }
    }

    fn write<T>(&self, change: impl FnOnce(&mut State) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut state = self.log.state.write();
        if state.closed {
            return Err(StoreError::Closed);
        }
        let result = change(&mut state)?;
        let next = Position(state.records.len() as u64);
        drop(state);
        // Two writers may get here in either order; the progress that subscribers see only grows.
        self.progress.send_if_modified(|progress| {
            let grown = next > progress.next;
            progress.next = progress.next.max(next);
            grown
        });
        Ok(result)
    }
}

impl LogReader for MemoryStore {
    fn read_stream(&self, thread: ThreadId, range: Range<Seq>, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.log.read(|state| state.range(thread, range, limit))
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.log.records(from, limit)
    }

    fn stream(&self, thread: ThreadId) -> Result<StreamInfo, StoreError> {
        self.log.read(|state| Ok(state.stream(thread)?.head.info(thread)))
    }

    fn streams(&self, after: Option<ThreadId>, tags: &[Tag], limit: usize) -> Result<Vec<StreamInfo>, StoreError> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.log.read(|state| {
            let after = after.map_or(Unbounded, Excluded);
            let streams = state.streams.range((after, Unbounded));
            let wanted = streams
                .filter(|(_, stream)| tags.is_empty() || tags.contains(&stream.head.tag))
                .map(|(id, stream)| stream.head.info(*id));
            Ok(wanted.take(limit).collect())
        })
    }

    fn forks(&self, thread: ThreadId, after: Option<ThreadId>, limit: usize) -> Result<Vec<ThreadId>, StoreError> {
        self.log.read(|state| Ok(state.forks_of(thread, after, limit)))
    }

    fn next_position(&self) -> Position {
        self.progress.borrow().next
    }

    fn subscribe(&self, from: Position, filter: Filter) -> Subscription {
        follow(Arc::clone(&self.log), self.progress.subscribe(), from, filter)
    }

    fn blob(&self, hash: Hash) -> Result<Vec<u8>, StoreError> {
        self.log.read(|state| match state.blobs.get(&hash) {
            Some(blob) => Ok(blob.bytes.clone()),
            None => Err(StoreError::NotFound { what: "blob", name: hash.to_string() }),
        })
    }

    fn owners(&self, hash: Hash, after: Option<ThreadId>, limit: usize) -> Result<Vec<ThreadId>, StoreError> {
        self.log.read(|state| {
            let owners = state.blobs.get(&hash).into_iter().flat_map(|blob| blob.owners.iter().copied().flatten());
            Ok(owners.filter(|owner| after < Some(*owner)).take(limit).collect())
        })
    }

    fn keys(
        &self,
        range: &KeyRange,
        after: Option<(&[u8], ThreadId)>,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, ThreadId)>, StoreError> {
        self.log.read(|state| {
            let after = after.map(|(key, thread)| (key.to_vec(), thread));
            let from = state.keys.range((range.start.clone(), ThreadId::from_bytes([0; 16]))..);
            let wanted = from.take_while(|(key, _)| range.is_before_end(key)).filter(|key| after.as_ref() < Some(*key));
            Ok(wanted.take(limit).cloned().collect())
        })
    }

    fn keys_of(&self, thread: ThreadId) -> Result<Vec<Vec<u8>>, StoreError> {
        self.log.read(|state| {
            let keys = state.streams.get(&thread).into_iter().flat_map(|stream| stream.keys.iter());
            Ok(keys.map(<[u8]>::to_vec).collect())
        })
    }

    fn snapshots(&self, thread: ThreadId) -> Result<Vec<Seq>, StoreError> {
        let seqs = |stream: &log::Stream| stream.snapshots.keys().copied().collect();
        self.log.read(|state| Ok(state.streams.get(&thread).map(seqs).unwrap_or_default()))
    }

    fn snapshot(&self, thread: ThreadId, seq: Seq) -> Result<Option<Snapshot>, StoreError> {
        self.log.read(|state| Ok(state.streams.get(&thread).and_then(|stream| stream.snapshots.get(&seq)).cloned()))
    }

    fn value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.log.read(|state| Ok(state.values.get(name).cloned()))
    }

    fn values(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.log.read(|state| {
            let from = state.values.range(prefix.to_string()..);
            let named = from.take_while(|(name, _)| name.starts_with(prefix));
            Ok(named.map(|(name, value)| (name.clone(), value.clone())).collect())
        })
    }

    fn verify(&self) -> Result<Verification, StoreError> {
        self.log.read(|state| {
            let mut verification = Verification::default();
            for (thread, stream) in &state.streams {
                verification.n_streams += 1;
                let first = stream.head.first_own();
                let mut hash = match stream.head.fork_of {
                    Some(point) => state.hash_at(point)?,
                    None => Hash::ZERO,
                };
                for record in state.range(*thread, first..Seq(u64::MAX), usize::MAX)? {
                    verification.n_records += 1;
                    hash = Record::chain(
                        hash,
                        record.thread,
                        record.seq,
                        record.recorded_at,
                        record.trace,
                        record.kind,
                        record.version,
                        &record.payload,
                    );
                    if hash != record.hash {
                        verification.faults.push(Damage {
                            thread: Some(*thread),
                            seq: Some(record.seq),
                            position: Some(record.position),
                            file: None,
                            what: "a record is not chained to the one before it".into(),
                        });
                        break;
                    }
                }
            }
            Ok(verification)
        })
    }

    fn check_writable(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Store for MemoryStore {
    fn append(&self, mut append: Append) -> BoxFuture<'static, Result<Appended, StoreError>> {
        let thread = append.thread;
        let answer = plan::measure(&append).and_then(|_| {
            self.write(|state| {
                if self.fences.is_raised(thread) {
                    return Err(StoreError::Fenced { thread });
                }
                let blobs = std::mem::take(&mut append.blobs);
                let appended = state.add(append.into())?;
                for bytes in blobs {
                    state.name_blob(Some(thread), Hash::of(&bytes), &bytes);
                }
                Ok(appended)
            })
        });
        match answer {
            Ok(appended) => futures_util::future::ready(Ok(appended)).boxed(),
            Err(error) => {
                let refusal = self.fences.raise(thread, error);
                async move { Err(refusal.into_error()) }.boxed()
            }
        }
    }

    fn put_blob(&self, owner: Option<ThreadId>, bytes: &[u8]) -> Result<Hash, StoreError> {
        plan::payload_fits(bytes.len())?;
        let hash = Hash::of(bytes);
        self.write(|state| {
            state.name_blob(owner, hash, bytes);
            Ok(hash)
        })
    }

    fn release_blobs(&self, hashes: &[Hash], values: &[(String, Option<Vec<u8>>)]) -> Result<(), StoreError> {
        plan::values_size(values)?;
        self.write(|state| {
            for (name, value) in values {
                match value {
                    Some(value) => drop(state.values.insert(name.clone(), value.clone())),
                    None => drop(state.values.remove(name)),
                }
            }
            for hash in hashes {
                if let Some(blob) = state.blobs.get_mut(hash) {
                    blob.owners.remove(&None);
                }
            }
            state.blobs.retain(|_, blob| !blob.owners.is_empty());
            Ok(())
        })
    }

    fn put_snapshot(&self, thread: ThreadId, snapshot: Snapshot) -> Result<(), StoreError> {
        plan::payload_fits(snapshot.state.len())?;
        self.write(|state| {
            let stream = state.streams.get_mut(&thread).ok_or_else(|| plan::no_thread(thread))?;
            stream.snapshots.insert(snapshot.seq, snapshot);
            Ok(())
        })
    }

    fn keep_snapshots(&self, thread: ThreadId, seqs: &[Seq]) -> Result<(), StoreError> {
        self.write(|state| {
            let stream = state.streams.get_mut(&thread).ok_or_else(|| plan::no_thread(thread))?;
            stream.snapshots.retain(|seq, _| seqs.contains(seq));
            Ok(())
        })
    }

    fn put_value(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        plan::value_fits(name, value)?;
        self.write(|state| {
            state.values.insert(name.into(), value.into());
            Ok(())
        })
    }

    fn remove_value(&self, name: &str) -> Result<(), StoreError> {
        self.write(|state| {
            state.values.remove(name);
            Ok(())
        })
    }

    fn delete_all(&self, threads: &[ThreadId]) -> Result<(), StoreError> {
        self.write(|state| {
            plan::check_deletes(
                threads,
                |thread| state.stream(thread).map(drop),
                |thread, after, limit| Ok(state.forks_of(thread, after, limit)),
            )?;
            for thread in threads.iter().copied() {
                if let Some(stream) = state.streams.remove(&thread) {
                    for at in stream.own {
                        state.records[at] = None;
                    }
                    for key in stream.keys.iter() {
                        state.keys.remove(&(key.to_vec(), thread));
                    }
                }
                state.blobs.retain(|_, blob| !(blob.owners.remove(&Some(thread)) && blob.owners.is_empty()));
            }
            Ok(())
        })
    }

    fn import_with(&self, import: Import) -> Result<Appended, StoreError> {
        plan::import_size(&import)?;
        let Import { fork_of, tag, records, blobs, keys, values } = import;
        let Some(first) = records.first() else {
            return Err(plan::no_records());
        };
        let thread = first.thread;
        self.write(|state| {
            let head = state.streams.get(&thread).map(|stream| stream.head);
            let expected = fork_of.map_or(Seq(0), |point| point.seq.next());
            let before = state.hash_before(thread, expected, fork_of, head)?;
            let appended = state.add(plan::import(fork_of, before, tag, records, keys)?)?;
            for bytes in blobs {
                state.name_blob(Some(thread), Hash::of(&bytes), &bytes);
            }
            state.values.extend(values);
            Ok(appended)
        })
    }

    /// Does nothing: there is no disk space to return.
    fn compact(&self) -> Result<Compacted, StoreError> {
        Ok(Compacted::default())
    }

    fn backup(&self) -> Result<Backup, StoreError> {
        Err(StoreError::Invalid("a log in memory has no files to copy: export its threads".into()))
    }

    fn close(&self) -> Result<(), StoreError> {
        let mut state = self.log.state.write();
        if state.closed {
            return Err(StoreError::Closed);
        }
        *state = State { closed: true, ..State::default() };
        drop(state);
        self.progress.send_modify(|progress| progress.closed = true);
        Ok(())
    }
}
