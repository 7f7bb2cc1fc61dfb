//! For the tests of this crate and of others: the contract as a suite that any backend runs, a store that fails or
//! dies at a chosen append, and a disk that forgets what was not synced.

// A check that does not hold ends the test with a panic: that is what a test is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod contract;
mod faulty;
#[cfg(feature = "jetstream")]
pub mod nats;
mod power;

use futures::executor::block_on;
use rethread_events::ids::{Position, Seq, ThreadId, Time};

pub use faulty::{Fault, FaultyStore};
pub use power::{PowerCut, copy_as_killed, wait_for_mark, wait_for_mark_after};

use crate::{Append, Appended, ForkPoint, KeyChange, Kind, LogReader, NewRecord, Store, StoreError, Tag};

/// The thread with that number: the same for the same number, sorted like the numbers.
pub fn thread(number: u64) -> ThreadId {
    ThreadId::new(1_790_000_000_000 + number, [number as u8; 10])
}

/// A record with that text, of kind 1.
pub fn record(text: &str) -> NewRecord {
    NewRecord {
        kind: Kind(1),
        version: 1,
        recorded_at: Time::from_unix_us(1_790_000_000_000_000),
        cause: None,
        run: None,
        payload: text.as_bytes().to_vec(),
    }
}

/// An append of one record for each text, with tag 0.
pub fn append(thread: ThreadId, expected: u64, texts: &[&str]) -> Append {
    Append {
        thread,
        expected: Seq(expected),
        fork_of: None,
        trace: None,
        tag: Tag(0),
        records: texts.iter().map(|text| record(text)).collect(),
        blobs: Vec::new(),
        keys: Vec::new(),
        is_awaited: true,
    }
}

/// As above, of one record, that adds and removes keys.
pub fn keyed(thread: ThreadId, expected: u64, added: &[&str], removed: &[&str]) -> Append {
    let removed = removed.iter().map(|key| KeyChange::Remove(key.as_bytes().into()));
    let added = added.iter().map(|key| KeyChange::Add(key.as_bytes().into()));
    Append { keys: removed.chain(added).collect(), ..append(thread, expected, &["keyed"]) }
}

/// The keys of a stream that are texts.
pub fn keys_of(store: &dyn LogReader, thread: ThreadId) -> Vec<String> {
    let keys = store.keys_of(thread).unwrap();
    keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect()
}

/// The first append of a fork that inherits up to and with `seq`.
pub fn fork(child: ThreadId, parent: ThreadId, seq: u64, texts: &[&str]) -> Append {
    let fork_of = Some(ForkPoint { parent, seq: Seq(seq) });
    Append { fork_of, ..append(child, seq + 1, texts) }
}

/// A scratch folder in memory, where there is such a place: for tests whose subject is not the disk itself.
pub fn scratch() -> tempfile::TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir()).unwrap()
}

/// Numbers that look random and are the same for the same seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers of that seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next, below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

/// The live bytes of a closed log: of keys and values by sled's trees, and of chunks in packs. Unlike the length of the
/// files they do not depend on how full the last segment is. Reads all of it.
///
/// Errors: those of opening and of reading.
pub fn stored_bytes(log: &std::path::Path) -> Result<Vec<(String, u64)>, StoreError> {
    crate::disk::look::stored(log)
}

/// Appends and waits.
pub fn put(store: &dyn Store, append: Append) -> Result<Appended, StoreError> {
    block_on(store.append(append))
}

/// The texts of a stream, inherited ones included.
pub fn texts(store: &dyn LogReader, thread: ThreadId) -> Vec<String> {
    let records = store.read_stream(thread, Seq(0)..Seq(u64::MAX), usize::MAX).unwrap();
    records.iter().map(|record| String::from_utf8_lossy(&record.payload).into_owned()).collect()
}

/// Writes a small log that has some of everything: several streams, a fork of a fork, a large payload, blobs,
/// values, keys, a snapshot.
pub fn write_small_log(store: &dyn Store) -> Result<(), StoreError> {
    for number in 1..=4 {
        put(store, append(thread(number), 0, &["begin", "one", "two"]))?;
    }
    put(store, append(thread(2), 3, &[&"large ".repeat(8000)]))?;
    put(store, fork(thread(5), thread(2), 1, &["another two"]))?;
    put(store, fork(thread(6), thread(5), 2, &["three", "four"]))?;
    let caused = NewRecord { cause: Some(crate::Cause::At(Position(0))), ..record("caused") };
    let keyed = keyed(thread(1), 3, &["timer/1", "signal/go"], &[]);
    put(store, Append { records: vec![caused], tag: Tag(2), ..keyed })?;
    store.put_blob(None, b"a workflow")?;
    store.put_blob(Some(thread(3)), &[7; 40_000])?;
    store.put_value("cursor/bill", b"12")?;
    let info = store.stream(thread(1))?;
    let snapshot = crate::Snapshot { seq: info.last_seq, hash: info.hash, version: 1, state: vec![1, 2, 3] };
    store.put_snapshot(thread(1), snapshot)
}
