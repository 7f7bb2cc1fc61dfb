use super::*;
use crate::testing::{append, fork, put, thread};
use crate::{MemoryStore, Store as _};

/// A thread of 2 000 records in turns with another, and a fork of it after its record 1 499.
fn log() -> MemoryStore {
    let store = MemoryStore::new();
    for seq in 0..2_000 {
        put(&store, append(thread(1), seq, &["one"])).unwrap();
        put(&store, append(thread(2), seq, &["two"])).unwrap();
    }
    put(&store, fork(thread(3), thread(1), 1_499, &["own", "own"])).unwrap();
    store
}

fn seqs(records: impl Iterator<Item = Result<Record, StoreError>>) -> Vec<u64> {
    records.map(|record| record.unwrap().seq.0).collect()
}

fn sized(bytes: &[usize]) -> Vec<Record> {
    let store = MemoryStore::new();
    let texts: Vec<_> = bytes.iter().map(|bytes| "x".repeat(*bytes)).collect();
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    put(&store, append(thread(1), 0, &texts)).unwrap();
    store.read_all(Position(0), usize::MAX).unwrap()
}

#[test]
fn a_thread_is_read_in_order_and_backwards_across_its_fork() {
    let store = log();
    let store: &dyn LogReader = &store;
    assert_eq!(seqs(store.records(thread(3), Seq(0)..Seq(u64::MAX))), (0..1_502).collect::<Vec<_>>());
    assert_eq!(seqs(store.records(thread(3), Seq(70)..Seq(1_400))), (70..1_400).collect::<Vec<_>>());
    assert_eq!(seqs(store.records_back(thread(3), Seq(0)..Seq(1_502))), (0..1_502).rev().collect::<Vec<_>>());
    assert_eq!(seqs(store.records_back(thread(3), Seq(70)..Seq(1_400))), (70..1_400).rev().collect::<Vec<_>>());
    assert!(seqs(store.records(thread(3), Seq(9)..Seq(9))).is_empty());
    assert!(seqs(store.records_back(thread(3), Seq(9)..Seq(9))).is_empty());
    assert!(seqs(store.records(thread(3), Seq(5_000)..Seq(6_000))).is_empty());
}

#[test]
fn log_is_read_to_the_end_past_deleted_threads() {
    let store = log();
    let positions = |store: &dyn LogReader, range: Range<u64>| -> Vec<u64> {
        store.log(Position(range.start)..Position(range.end)).map(|record| record.unwrap().position.0).collect()
    };
    assert_eq!(positions(&store, 0..u64::MAX), (0..4_002).collect::<Vec<_>>());
    assert_eq!(positions(&store, 63..129), (63..129).collect::<Vec<_>>());
    assert_eq!(positions(&store, 0..64), (0..64).collect::<Vec<_>>());
    store.delete(thread(2)).unwrap();
    assert_eq!(positions(&store, 1..1_000), (2..1_000).step_by(2).collect::<Vec<_>>());
    assert!(positions(&store, 4_002..9_000).is_empty());
}

#[test]
fn one_record_is_found_by_its_seq() {
    let store = log();
    assert_eq!(store.record(thread(3), Seq(1_500)).unwrap().unwrap().thread, thread(3));
    assert_eq!(store.record(thread(3), Seq(1_499)).unwrap().unwrap().thread, thread(1));
    assert!(store.record(thread(3), Seq(1_502)).unwrap().is_none());
    assert!(matches!(store.record(thread(9), Seq(0)), Err(StoreError::NotFound { .. })));
}

#[test]
fn an_error_ends_the_records() {
    let store = log();
    let store: &dyn LogReader = &store;
    for found in [
        store.records(thread(9), Seq(0)..Seq(9)).collect::<Vec<_>>(),
        store.records_back(thread(9), Seq(0)..Seq(9)).collect(),
    ] {
        assert!(matches!(&found[..], [Err(StoreError::NotFound { .. })]), "{found:?}");
    }
}

#[test]
fn pages_grow_with_small_payloads_and_shrink_with_large_ones() {
    let small = sized(&[10; 64]);
    let mut size = PageSize::FIRST;
    let grown: Vec<_> = (0..5)
        .map(|_| {
            size = size.after(&small);
            size.records()
        })
        .collect();
    assert_eq!(grown, [128, 256, 512, 512, 512]);
    assert_eq!(size.after(&sized(&[PAGE_BYTES / 4; 64])).records(), 4);
    assert_eq!(size.after(&sized(&[4 * PAGE_BYTES])).records(), 1);
    assert_eq!(PageSize(1).after(&small).records(), 2);
    assert_eq!(size.after(&[]).records(), 512);
}
