//! Snapshots are a cache: damage to what sled has of them costs time, and nothing else.

use std::os::unix::fs::FileExt;
use std::path::Path;

use rethread_events::ids::Seq;
use rethread_store::testing::{Random, append, put, scratch, texts, thread};
use rethread_store::{LogReader, Options, SledStore, Snapshot, Store};

/// In the first piece of the snapshot, in one amid the others, in the last.
const PLACES: [usize; 3] = [1_000, 500_000, 1_048_000];

/// Bytes that cannot be made smaller, and so are found again in sled's file.
fn noise() -> Vec<u8> {
    let mut random = Random::new(1);
    (0..1 << 20).map(|_| random.below(256) as u8).collect()
}

fn open(dir: &Path) -> SledStore {
    SledStore::open(dir, Options::default()).unwrap()
}

fn put_snapshot(store: &SledStore, number: u64, state: Vec<u8>) {
    let info = store.stream(thread(number)).unwrap();
    let snapshot = Snapshot { seq: info.last_seq, hash: info.hash, version: 1, state };
    store.put_snapshot(thread(number), snapshot).unwrap();
}

/// A log with two snapshots of one thread, the older of which is damaged at that byte, and with threads around it. It is
/// open, because sled reads more than it needs when it opens its file.
fn damaged(dir: &Path, at: usize) -> SledStore {
    let (store, state) = (open(dir), noise());
    for number in 1..=3 {
        put(&store, append(thread(number), 0, &["a", "b"])).unwrap();
    }
    put_snapshot(&store, 2, state.clone());
    put(&store, append(thread(2), 2, &["c"])).unwrap();
    put_snapshot(&store, 2, b"newer".to_vec());
    store.close().unwrap();
    let store = open(dir);
    let path = dir.join("index").join("db");
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let wanted = &state[at..at + 32];
    let places: Vec<usize> = (0..bytes.len() - 32).filter(|place| bytes[*place..].starts_with(wanted)).collect();
    assert!(!places.is_empty());
    for place in places {
        file.write_all_at(&[bytes[place] ^ 1], place as u64).unwrap();
    }
    store
}

/// Threads go on, and what they write finds its place in sled.
fn continues(store: &SledStore, numbers: &[u64]) {
    for number in numbers {
        let next = store.stream(thread(*number)).map_or(0, |info| info.last_seq.0 + 1);
        put(store, append(thread(*number), next, &["last"])).unwrap();
        assert_eq!(texts(store, thread(*number)).last().unwrap(), "last");
    }
    assert_eq!(store.verify().unwrap().faults, []);
    store.close().unwrap();
}

#[test]
fn unreadable_snapshot_is_ignored() {
    for at in PLACES {
        let dir = scratch();
        let store = damaged(dir.path(), at);
        let seqs = store.snapshots(thread(2)).unwrap();
        assert_eq!(store.snapshot(thread(2), Seq(1)).unwrap(), None);
        // The newer one is beside the last piece of the damaged one, and may be lost with that.
        if at != PLACES[2] {
            assert_eq!(seqs.last(), Some(&Seq(2)));
            assert_eq!(store.snapshot(thread(2), Seq(2)).unwrap().unwrap().state, b"newer");
        }
        continues(&store, &[1, 2, 3, 4]);
    }
}

#[test]
fn failed_thinning_of_snapshots_does_not_stop_writes() {
    for at in PLACES {
        let dir = scratch();
        let store = damaged(dir.path(), at);
        store.keep_snapshots(thread(2), &[]).unwrap();
        continues(&store, &[1, 2, 3, 4]);
    }
}

#[test]
fn failed_replacement_of_a_snapshot_does_not_stop_writes() {
    for at in PLACES {
        let dir = scratch();
        let store = damaged(dir.path(), at);
        let info = store.stream(thread(2)).unwrap();
        let snapshot = Snapshot { seq: Seq(1), hash: info.hash, version: 1, state: noise() };
        store.put_snapshot(thread(2), snapshot).unwrap();
        continues(&store, &[1, 2, 3, 4]);
    }
}

#[test]
fn a_thread_with_a_damaged_snapshot_can_be_deleted() {
    for at in PLACES {
        let dir = scratch();
        let store = damaged(dir.path(), at);
        store.delete(thread(2)).unwrap();
        continues(&store, &[1, 3, 4]);
    }
}
