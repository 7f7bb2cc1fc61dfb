//! The contract that every backend implements.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use rethread_events::ids::{Hash, Position, Seq, ThreadId, Time, TraceId};

use crate::disk::Backup;
use crate::error::StoreError;
use crate::keys::{KeyChange, KeyRange};
use crate::record::{Kind, NewRecord, Record};
use crate::slots::SharedLog;
use crate::stream_metrics::StreamMetrics;
use crate::subscription::Subscription;

/// A state of a stream in the eyes of its owner, kept with the stream's head so that streams can be listed and
/// found by it without reading them. The store compares it and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub u8);

/// One atomic append.
#[derive(Debug, Clone)]
pub struct Append {
    /// The stream.
    pub thread: ThreadId,
    /// The seq that the first record is to get: 0 for a new stream.
    pub expected: Seq,
    /// Begins the stream as a fork; only together with the `expected` that follows the inherited part.
    pub fork_of: Option<ForkPoint>,
    /// The trace id of one run; taken from the first append of a stream, ignored later.
    pub trace: Option<TraceId>,
    /// The state of the stream after these records.
    pub tag: Tag,
    /// The records, at least one.
    pub records: Vec<NewRecord>,
    /// Blobs that the stream names from these records on, stored with them or not at all.
    pub blobs: Vec<Vec<u8>>,
    /// Changes to the keys of the stream, made in this order and together with the records, or not at all. At most
    /// [`KEY_CHANGES_MAX`](crate::KEY_CHANGES_MAX).
    pub keys: Vec<KeyChange>,
    /// Whether somebody waits until it is durable. A store may keep another one for a moment, so that it becomes durable
    /// together with what follows; see [`Store::hurry`].
    pub is_awaited: bool,
}

/// Where a fork begins: everything of `parent` up to and with `seq` is inherited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkPoint {
    /// The stream whose beginning is inherited; may itself be a fork.
    pub parent: ThreadId,
    /// The last inherited seq.
    pub seq: Seq,
}

/// The answer to an append, given once it is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The position of the first record.
    pub first_position: Position,
    /// The position of the last record.
    pub last_position: Position,
    /// The seq of the last record.
    pub last_seq: Seq,
    /// The hash of the last record.
    pub hash: Hash,
    /// How many records the same flush made durable, for statistics.
    pub group: u32,
}

/// The content of an import by [`Store::import_with`].
#[derive(Debug, Clone)]
pub struct Import {
    /// Where the stream forked off, if it did.
    pub fork_of: Option<ForkPoint>,
    /// The state of the stream after the records.
    pub tag: Tag,
    /// All records of the stream's own, in order.
    pub records: Vec<Record>,
    /// Blobs that the stream names.
    pub blobs: Vec<Vec<u8>>,
    /// The keys of the stream. At most [`KEYS_MAX`](crate::KEYS_MAX).
    pub keys: Vec<Vec<u8>>,
    /// Values to be kept under names.
    pub values: Vec<(String, Vec<u8>)>,
}

/// The head of a stream, known without reading its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamInfo {
    /// The stream.
    pub thread: ThreadId,
    /// The last seq.
    pub last_seq: Seq,
    /// The position of the last record.
    pub last_position: Position,
    /// The hash of the last record.
    pub hash: Hash,
    /// The owner's state of it.
    pub tag: Tag,
    /// When its first own record happened.
    pub first_at: Time,
    /// When its last record happened.
    pub last_at: Time,
    /// Where it forked off, if it did.
    pub fork_of: Option<ForkPoint>,
}

/// Which records a subscription is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only these streams; empty for all.
    pub threads: Vec<ThreadId>,
    /// Only these kinds; empty for all.
    pub kinds: Vec<Kind>,
}

/// A cached fold of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The last seq that is folded in.
    pub seq: Seq,
    /// The hash of the record at that seq.
    pub hash: Hash,
    /// The version of the shape of `state`.
    pub version: u16,
    /// The encoded state.
    pub state: Vec<u8>,
}

/// The reading half of a [`Store`]: records, streams, blobs, snapshots, values. Cheap to share (`Arc<dyn LogReader>`).
///
/// A reader sees durable records only, and after an append was answered it sees that append. Everything blocks for as long
/// as the disk takes and is meant for blocking threads, except where it says otherwise.
pub trait LogReader: Send + Sync + 'static {
    /// Returns up to `limit` records of one stream, in order, from `range.start` to before `range.end`, inherited ones
    /// included. Returns fewer than `limit` only at the end of the stream. `NotFound` if there is no such stream. If
    /// the stream is deleted meanwhile, and a new one with its id begins, the records are all of the old stream or all
    /// of the new one.
    fn read_stream(&self, thread: ThreadId, range: Range<Seq>, limit: usize) -> Result<Vec<Record>, StoreError>;

    /// The record of a stream with that seq; `None` when the stream has none. `NotFound` when there is no such stream.
    fn record(&self, thread: ThreadId, seq: Seq) -> Result<Option<Record>, StoreError> {
        Ok(self.read_stream(thread, seq..seq.next(), 1)?.pop())
    }

    /// Up to `limit` records of the whole log, in order, from `from`. Positions of deleted streams are skipped.
    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<Record>, StoreError>;

    /// Returns the head of one stream; `NotFound` if there is none. Does not block on the disk for recent streams.
    fn stream(&self, thread: ThreadId) -> Result<StreamInfo, StoreError>;

    /// Up to `limit` streams after `after`, by id (so by time of creation), only those with one of `tags`
    /// (empty: all).
    fn streams(&self, after: Option<ThreadId>, tags: &[Tag], limit: usize) -> Result<Vec<StreamInfo>, StoreError>;

    /// The position that the next durable record will get. Does not block.
    fn next_position(&self) -> Position;

    /// The streams that inherit from a stream, by id, from those after `after` on. Costs what it returns, and a pass over
    /// the streams that were written lately.
    fn forks(&self, thread: ThreadId, after: Option<ThreadId>, limit: usize) -> Result<Vec<ThreadId>, StoreError>;

    /// Records from `from` on as a stream: what is there already, then what comes, without gap or duplicate.
    fn subscribe(&self, from: Position, filter: Filter) -> Subscription;

    /// The bytes with this hash; `NotFound` when they have no claim.
    fn blob(&self, hash: Hash) -> Result<Vec<u8>, StoreError>;

    /// The threads that name the blob with this hash, by id, from those after `after` on. A thread may name a blob before
    /// its first record. Costs what it returns, and a pass over the claims that were written lately.
    fn owners(&self, hash: Hash, after: Option<ThreadId>, limit: usize) -> Result<Vec<ThreadId>, StoreError>;

    /// Returns the durable keys of all streams in a range, in the order of key and thread, from those after `after` on,
    /// at most `limit`. A deleted stream has no keys, and a fork does not inherit keys. Costs what it returns, and a
    /// pass over the recent changes to keys of the range.
    fn keys(
        &self,
        range: &KeyRange,
        after: Option<(&[u8], ThreadId)>,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, ThreadId)>, StoreError>;

    /// The durable keys of a stream in their order, at most [`KEYS_MAX`](crate::KEYS_MAX); empty when there is no such
    /// stream.
    fn keys_of(&self, thread: ThreadId) -> Result<Vec<Vec<u8>>, StoreError>;

    /// Returns the seqs of the stream's snapshots, the oldest first; empty if there is no such stream. Costs a look-up
    /// for each, and reads none. Snapshots that damage hides are left out.
    fn snapshots(&self, thread: ThreadId) -> Result<Vec<Seq>, StoreError>;

    /// Returns the stream's snapshot at that seq; `None` if there is none or it is damaged. The caller checks version
    /// and hash.
    fn snapshot(&self, thread: ThreadId, seq: Seq) -> Result<Option<Snapshot>, StoreError>;

    /// The value under that name.
    fn value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// All names with that prefix and their values, sorted.
    fn values(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError>;

    /// Reads everything and says what is wrong with it, stream by stream.
    fn verify(&self) -> Result<Verification, StoreError>;

    /// Whether the log takes appends now. The error is what an append would be refused with: `Moved` where the folder of
    /// the log is no longer at its path, `Unavailable` where no server of it can be reached, `Closed`, or why it only reads.
    fn check_writable(&self) -> Result<(), StoreError>;
}

/// The log. Cheap to share (`Arc<dyn Store>`).
///
/// Appends are queued by [`Store::append`] and answered when durable; everything else blocks for as long as the
/// disk takes and is meant for blocking threads, except where it says otherwise.
///
/// A backend implements this and [`LogReader`], all of it but what has a default. `testing::contract` (feature `testing`) is the suite that it
/// has to pass; `contract_tests!` makes one test of each check. [`MemoryStore`](crate::MemoryStore) is the shortest
/// backend. A store that adds something to another one passes the rest on:
///
/// ```
/// # use std::ops::Range;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use futures_util::future::BoxFuture;
/// # use rethread_events::ids::{Hash, Position, Seq, ThreadId};
/// use rethread_store::testing::contract;
/// use rethread_store::{Append, Appended, LogReader, MemoryStore, Store, StoreError};
/// # use rethread_store::{
/// #     Backup, Compacted, Filter, Import, KeyRange, Record, Snapshot, StreamInfo, Subscription, Tag, Verification,
/// # };
///
/// /// Counts the records that are appended.
/// struct Counted {
///     inner: MemoryStore,
///     n_records: AtomicU64,
/// }
///
/// impl LogReader for Counted {
///     // All methods: `self.inner.read_stream(…)` and so on.
/// # fn read_stream(&self, thread: ThreadId, range: Range<Seq>, limit: usize) -> Result<Vec<Record>, StoreError> {
/// #     self.inner.read_stream(thread, range, limit)
/// # }
/// # fn read_all(&self, from: Position, limit: usize) -> Result<Vec<Record>, StoreError> {
/// #     self.inner.read_all(from, limit)
/// # }
/// # fn stream(&self, thread: ThreadId) -> Result<StreamInfo, StoreError> {
/// #     self.inner.stream(thread)
/// # }
/// # fn streams(&self, after: Option<ThreadId>, tags: &[Tag], limit: usize) -> Result<Vec<StreamInfo>, StoreError> {
/// #     self.inner.streams(after, tags, limit)
/// # }
/// # fn next_position(&self) -> Position {
/// #     self.inner.next_position()
/// # }
/// # fn forks(&self, thread: ThreadId, after: Option<ThreadId>, limit: usize) -> Result<Vec<ThreadId>, StoreError> {
/// #     self.inner.forks(thread, after, limit)
/// # }
/// # fn subscribe(&self, from: Position, filter: Filter) -> Subscription {
/// #     self.inner.subscribe(from, filter)
/// # }
/// # fn blob(&self, hash: Hash) -> Result<Vec<u8>, StoreError> {
/// #     self.inner.blob(hash)
/// # }
/// # fn owners(&self, hash: Hash, after: Option<ThreadId>, limit: usize) -> Result<Vec<ThreadId>, StoreError> {
/// #     self.inner.owners(hash, after, limit)
/// # }
/// # fn keys(
/// #     &self,
/// #     range: &KeyRange,
/// #     after: Option<(&[u8], ThreadId)>,
/// #     limit: usize,
/// # ) -> Result<Vec<(Vec<u8>, ThreadId)>, StoreError> {
/// #     self.inner.keys(range, after, limit)
/// # }
/// # fn keys_of(&self, thread: ThreadId) -> Result<Vec<Vec<u8>>, StoreError> {
/// #     self.inner.keys_of(thread)
/// # }
/// # fn snapshots(&self, thread: ThreadId) -> Result<Vec<Seq>, StoreError> {
/// #     self.inner.snapshots(thread)
/// # }
/// # fn snapshot(&self, thread: ThreadId, seq: Seq) -> Result<Option<Snapshot>, StoreError> {
/// #     self.inner.snapshot(thread, seq)
/// # }
/// # fn value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
/// #     self.inner.value(name)
/// # }
/// # fn values(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
/// #     self.inner.values(prefix)
/// # }
/// # fn verify(&self) -> Result<Verification, StoreError> {
/// #     self.inner.verify()
/// # }
/// # fn check_writable(&self) -> Result<(), StoreError> {
/// #     self.inner.check_writable()
/// # }
/// }
///
/// impl Store for Counted {
///     fn append(&self, append: Append) -> BoxFuture<'static, Result<Appended, StoreError>> {
///         self.n_records.fetch_add(append.records.len() as u64, Ordering::Relaxed);
///         self.inner.append(append)
///     }
///     // All other methods: `self.inner.delete_all(…)` and so on.
/// # fn hurry(&self) {
/// #     self.inner.hurry()
/// # }
/// # fn put_blob(&self, owner: Option<ThreadId>, bytes: &[u8]) -> Result<Hash, StoreError> {
/// #     self.inner.put_blob(owner, bytes)
/// # }
/// # fn release_blobs(&self, hashes: &[Hash], values: &[(String, Option<Vec<u8>>)]) -> Result<(), StoreError> {
/// #     self.inner.release_blobs(hashes, values)
/// # }
/// # fn put_snapshot(&self, thread: ThreadId, snapshot: Snapshot) -> Result<(), StoreError> {
/// #     self.inner.put_snapshot(thread, snapshot)
/// # }
/// # fn keep_snapshots(&self, thread: ThreadId, seqs: &[Seq]) -> Result<(), StoreError> {
/// #     self.inner.keep_snapshots(thread, seqs)
/// # }
/// # fn put_value(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
/// #     self.inner.put_value(name, value)
/// # }
/// # fn remove_value(&self, name: &str) -> Result<(), StoreError> {
/// #     self.inner.remove_value(name)
/// # }
/// # fn delete_all(&self, threads: &[ThreadId]) -> Result<(), StoreError> {
/// #     self.inner.delete_all(threads)
/// # }
/// # fn import_with(&self, import: Import) -> Result<Appended, StoreError> {
/// #     self.inner.import_with(import)
/// # }
/// # fn compact(&self) -> Result<Compacted, StoreError> {
/// #     self.inner.compact()
/// # }
/// # fn backup(&self) -> Result<Backup, StoreError> {
/// #     self.inner.backup()
/// # }
/// # fn close(&self) -> Result<(), StoreError> {
/// #     self.inner.close()
/// # }
/// }
///
/// impl contract::Backend for Counted {
///     fn store(&self) -> &dyn Store {
///         self
///     }
///
///     // A log in memory does not outlive its process.
///     fn reopen(&mut self) {}
/// }
///
/// let mut counted = Counted { inner: MemoryStore::new(), n_records: AtomicU64::new(0) };
/// contract::records_are_read_as_written(&mut counted);
/// assert!(counted.n_records.into_inner() > 0);
/// ```
pub trait Store: LogReader {
    /// Queues an append; does not block. Appends of one caller are written in the order of the calls, all
    /// records of one append or none. The answer comes when the records are durable; dropping the future does
    /// not take the append back.
    ///
    /// Errors: [`StoreError::Conflict`] when `expected` is not the stream's next seq, [`StoreError::Fenced`] for every
    /// append that was queued after a failed one of the same stream (nothing was written), `TooLarge`, `Invalid` also
    /// when the stream would have more than [`KEYS_MAX`](crate::KEYS_MAX) keys, `Full`, `Busy` when more than the limit of bytes is queued, and the errors of a broken store.
    fn append(&self, append: Append) -> BoxFuture<'static, Result<Appended, StoreError>>;

    /// Somebody waits now for what was appended before, [awaited](Append::is_awaited) or not: it is kept no longer. Does not
    /// block. A store that keeps nothing does nothing.
    fn hurry(&self) {}

    /// Stores bytes under their hash, durable when it returns. Storing the same bytes again costs nothing. The
    /// blob lives as long as the owner that names it: a thread, or the store itself (`None`).
    fn put_blob(&self, owner: Option<ThreadId>, bytes: &[u8]) -> Result<Hash, StoreError>;

    /// Releases the claims of the store itself (`None`) to these blobs, and sets or removes these values: all of it
    /// or nothing, also after a crash. Blobs without another claim are deleted. Durable when it returns. A
    /// [`Store::put_blob`] of the same bytes at the same time may find the old claim: the caller must serialise them.
    fn release_blobs(&self, hashes: &[Hash], values: &[(String, Option<Vec<u8>>)]) -> Result<(), StoreError>;

    /// Stores a snapshot beside the stream's others; it replaces one at the same seq. A cache: not durable at once, may
    /// be lost. `NotFound` when there is no such stream.
    fn put_snapshot(&self, thread: ThreadId, snapshot: Snapshot) -> Result<(), StoreError>;

    /// Removes the stream's snapshots, except those at these seqs. As durable as snapshots are: after a crash some may
    /// be there again. `NotFound` if there is no such stream.
    fn keep_snapshots(&self, thread: ThreadId, seqs: &[Seq]) -> Result<(), StoreError>;

    /// Stores a small value (at most 64 KiB) under a name, durable when it returns: cursors, names of workflows.
    fn put_value(&self, name: &str, value: &[u8]) -> Result<(), StoreError>;

    /// Removes the value under that name, durable when it returns.
    fn remove_value(&self, name: &str) -> Result<(), StoreError>;

    /// Deletes a stream with its keys, its snapshots and the blobs that only it names. Its positions stay empty.
    /// Durable when it returns; the id may be used again.
    ///
    /// Errors: `NotFound` when there is no such stream; [`StoreError::InUse`] as long as any fork inherits from it, which
    /// names the first 16 of them by id. Nothing was deleted then.
    fn delete(&self, thread: ThreadId) -> Result<(), StoreError> {
        self.delete_all(&[thread])
    }

    /// Deletes several streams in this order with one durable write, all or none: an error is that of the first stream
    /// that cannot be deleted. A fork comes before the stream that it inherits from. A crash before it returns may
    /// leave only the first of them deleted.
    ///
    /// Errors: as [`Store::delete`].
    fn delete_all(&self, threads: &[ThreadId]) -> Result<(), StoreError>;

    /// Imports records that were exported, one stream at a time from its seq 0 or its fork point, with the
    /// same threads, seqs, times and hashes and new positions. Checks the chain before it writes anything.
    fn import(&self, fork_of: Option<ForkPoint>, tag: Tag, records: Vec<Record>) -> Result<Appended, StoreError> {
        self.import_with(Import { fork_of, tag, records, blobs: Vec::new(), keys: Vec::new(), values: Vec::new() })
    }

    /// As `import`, together with blobs, which the stream names, with its keys, and with values: all or nothing, also
    /// after a crash.
    ///
    /// Errors: as [`Store::import`]; `TooLarge` when the payloads and blobs together are over the limit of an import, or a
    /// key is too long; `Invalid` when the keys are too many.
    fn import_with(&self, import: Import) -> Result<Appended, StoreError>;

    /// A file beside the log, made when it is not there, for what is to outlive the process and need not outlive the
    /// machine. Returned once, to the first caller, as long as the log is open. `None` where it was handed out, and
    /// if the store has no files or only reads. A name has no separators of paths.
    fn side_file(&self, name: &'static str) -> Result<Option<File>, StoreError> {
        let _ = name;
        Ok(None)
    }

    /// How a log in a stream goes on; `None` for one in a folder or in memory. Does not block.
    fn stream_metrics(&self) -> Option<StreamMetrics> {
        None
    }

    /// The log as one of several processes that have it open; `None` if this process has it alone.
    fn shared(&self) -> Option<Arc<dyn SharedLog>> {
        None
    }

    /// Returns the disk space of everything that was deleted or replaced to the file system, including snapshots, blobs
    /// and values. Takes as long as rewriting the content of the index, and as much free space; writers wait once the
    /// journal is full.
    ///
    /// Errors: `Full` when there is no room for the new index, which changes nothing.
    fn compact(&self) -> Result<Compacted, StoreError>;

    /// A copy of the log while it is in use: everything that was acknowledged before the call, and perhaps more. The
    /// index is copied at once, in the folder of the log; writers wait meanwhile, once the journal is full.
    ///
    /// Errors: `Invalid` when the log has no files; `Full`, `Io`.
    fn backup(&self) -> Result<Backup, StoreError>;

    /// Writes what is still in memory to its final place and lets go of the files. Everything acknowledged is
    /// durable without it. Calls after it answer `Closed`.
    fn close(&self) -> Result<(), StoreError>;
}

/// The result of [`Store::compact`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compacted {
    /// The bytes of the index before.
    pub before: u64,
    /// Its bytes now.
    pub after: u64,
}

/// The result of [`LogReader::verify`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// Streams that were checked.
    pub n_streams: u64,
    /// Records that were checked.
    pub n_records: u64,
    /// The faults, each with its place; empty if the log is sound.
    pub faults: Vec<crate::error::Damage>,
}
