use super::*;
use crate::contract::{LogReader as _, Store as _};
use crate::disk::SledStore;
use crate::disk::options::Options;
use crate::testing::{append, scratch, thread};

fn a_snapshot(seq: u64, n: usize) -> Snapshot {
    let state = (0..n).map(|i| (i * i / 7) as u8).collect();
    Snapshot { seq: Seq(seq), hash: Hash::ZERO, version: 3, state }
}

fn open(dir: &std::path::Path) -> SledStore {
    SledStore::open(dir, Options::default()).unwrap()
}

fn seqs(store: &SledStore) -> Vec<u64> {
    store.snapshots(thread(1)).unwrap().iter().map(|seq| seq.0).collect()
}

/// A closed log with a thread that has snapshots at 2, 300 and 70 000 and neighbours that have some, too.
fn begun(dir: &std::path::Path) {
    let store = open(dir);
    for number in [0, 1, 2] {
        futures::executor::block_on(store.append(append(thread(number), 0, &["a"]))).unwrap();
        for (seq, n) in [(70_000, 120_000), (2, 60_000), (300, 5)] {
            store.put_snapshot(thread(number), a_snapshot(seq, n)).unwrap();
        }
    }
    store.close().unwrap();
}

#[test]
fn snapshots_survive_a_close_and_are_thinned_out() {
    let dir = scratch();
    begun(dir.path());
    let store = open(dir.path());
    assert_eq!(seqs(&store), [2, 300, 70_000]);
    for (seq, n) in [(70_000, 120_000), (2, 60_000), (300, 5)] {
        assert_eq!(store.snapshot(thread(1), Seq(seq)).unwrap(), Some(a_snapshot(seq, n)));
    }
    store.keep_snapshots(thread(1), &[Seq(2), Seq(70_000)]).unwrap();
    store.put_snapshot(thread(1), a_snapshot(80_000, 9)).unwrap();
    assert_eq!(seqs(&store), [2, 70_000, 80_000]);
    store.close().unwrap();
    let store = open(dir.path());
    assert_eq!(seqs(&store), [2, 70_000, 80_000]);
    assert_eq!(store.snapshots(thread(0)).unwrap().len(), 3, "of this one only");
    store.delete(thread(1)).unwrap();
    store.close().unwrap();
    let store = open(dir.path());
    let left = store.reader.index.with(|trees| Ok(trees.snapshots.scan_prefix(thread(1).as_bytes()).count())).unwrap();
    assert_eq!((left, store.snapshots(thread(2)).unwrap().len()), (0, 3));
}

#[test]
fn damaged_snapshot_is_skipped_alone() {
    let dir = scratch();
    begun(dir.path());
    let store = open(dir.path());
    let mut piece = key(thread(1), Seq(2));
    piece.extend([0; 4]);
    let damage = |trees: &crate::disk::index::Trees| {
        let mut bytes = trees.snapshots.get(&piece)?.unwrap().to_vec();
        bytes[70] ^= 1;
        trees.snapshots.insert(&piece, bytes).map(drop)
    };
    store.reader.index.with(damage).unwrap();
    assert_eq!(store.snapshot(thread(1), Seq(2)).unwrap(), None);
    assert_eq!(store.snapshot(thread(1), Seq(300)).unwrap(), Some(a_snapshot(300, 5)));
}
