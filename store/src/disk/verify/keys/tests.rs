//! Trees of keys that do not agree.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::contract::{LogReader as _, Store as _};
use crate::disk::SledStore;
use crate::disk::index::Changes;
use crate::disk::options::Options;
use crate::testing::{keyed, put, scratch, thread};

#[test]
fn keys_that_are_in_one_tree_only_are_faults() {
    let dir = scratch();
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    for number in 1..=4 {
        put(&store, keyed(thread(number), 0, &["a", "b"], &[])).unwrap();
    }
    store.close().unwrap();
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    assert_eq!(store.verify().unwrap().faults, []);
    let (row, row_of) = (
        |key: &[u8], number: u64| sorted_key(key, thread(number)),
        |key: &[u8], number: u64| pair_key(thread(number).as_bytes(), key),
    );
    let there = || Some(Vec::new());
    let change = |trees: &Trees| {
        trees.keys.write(Changes::from([(row(b"a", 1), None), (row(b"c", 2), there()), (row(b"x", 9), there())]))?;
        trees.keys_of.write(Changes::from([(row_of(b"b", 3), None), (row_of(b"x", 9), there())]))
    };
    store.reader.index.with(change).unwrap();
    let faults = store.verify().unwrap().faults;
    let said: Vec<_> = faults.iter().map(|fault| (fault.thread.unwrap(), fault.what.as_str())).collect();
    let expected = [
        (thread(3), "the key b is listed for a thread that does not have it"),
        (thread(2), "the key c is listed for a thread that does not have it"),
        (thread(9), "the key x belongs to a missing thread"),
        (thread(1), "the key a is not in the list of all keys"),
    ];
    assert_eq!(said, expected);
    // What is in the tail is not looked up there.
    put(&store, keyed(thread(1), 1, &[], &[])).unwrap();
    assert_eq!(store.verify().unwrap().faults.len(), 3);
    drop(store);
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    store.reader.index.with(|trees| trees.keys.write(Changes::from([(b"short".to_vec(), there())]))).unwrap();
    let faults = store.verify().unwrap().faults;
    assert!(faults.iter().any(|fault| fault.what.contains("a key of a thread is malformed")), "{faults:?}");
}
