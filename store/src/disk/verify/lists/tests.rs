//! Lists that are not what the heads say.

#![allow(clippy::unwrap_used)]

use crate::contract::{LogReader as _, Store as _};
use crate::disk::SledStore;
use crate::disk::index::{Changes, pair_key};
use crate::disk::options::Options;
use crate::testing::{append, fork, put, scratch, thread};

#[test]
fn thread_in_the_wrong_lists_is_a_fault() {
    let dir = scratch();
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    for number in 1..=3 {
        put(&store, append(thread(number), 0, &["one"])).unwrap();
    }
    put(&store, fork(thread(4), thread(1), 0, &["two"])).unwrap();
    store.close().unwrap();
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    assert_eq!(store.verify().unwrap().faults, []);
    let key = |first: &[u8], number: u64| pair_key(first, thread(number).as_bytes());
    let (one, two) = (thread(1), thread(2));
    let (one, two) = (one.as_bytes(), two.as_bytes());
    let change = |trees: &crate::disk::index::Trees| {
        trees.tags.write(Changes::from([(key(&[0], 3), None)]))?;
        // Of a thread that is not there, and of one that is.
        let listed = Some(Vec::new());
        trees.forks.write(Changes::from([(key(one, 4), None), (key(two, 9), listed.clone()), (key(two, 1), listed)]))
    };
    store.reader.index.with(change).unwrap();
    let faults = store.verify().unwrap().faults;
    let said: Vec<_> = faults.iter().map(|fault| (fault.thread.unwrap(), fault.what.clone())).collect();
    let is_none = format!("the thread is listed as a fork of thread {}, but is not", thread(2));
    let expected = [
        (thread(3), "the thread is not listed under its tag".into()),
        (thread(4), "the thread is not listed as a fork of its parent".into()),
        (thread(1), is_none.clone()),
        (thread(9), is_none),
    ];
    assert_eq!(said, expected);
    // What is in the tail is not looked up there.
    put(&store, append(thread(3), 1, &["two"])).unwrap();
    assert_eq!(store.verify().unwrap().faults.len(), 3);
    // And is listed again once it is in sled.
    store.close().unwrap();
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    assert_eq!(store.verify().unwrap().faults.len(), 3);
}
