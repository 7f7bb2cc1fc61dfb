use crate::contract::{LogReader as _, Store as _};
use crate::disk::SledStore;
use crate::disk::options::Options;
use crate::testing::{append, put, scratch, thread};

use super::*;

fn open(dir: &std::path::Path) -> SledStore {
    SledStore::open(dir, Options::default()).unwrap()
}

/// Reads the last seq; before the first try ends, this happens.
fn last_seq_while(store: &SledStore, happens: impl Fn()) -> (Result<Seq, StoreError>, u32) {
    let mut n_tries = 0;
    let found = store.reader.of_one_life(thread(1), |head| {
        n_tries += 1;
        if n_tries == 1 {
            happens();
        }
        Ok(head.last_seq)
    });
    (found, n_tries)
}

#[test]
fn chunk_deleted_during_a_read_is_read_again() {
    let dir = scratch();
    let store = open(dir.path());
    put(&store, append(thread(1), 0, &["a", "b", "c"])).unwrap();
    put(&store, append(thread(2), 0, &["a"])).unwrap();
    put(&store, append(thread(3), 0, &["a"])).unwrap();
    store.close().unwrap();
    let store = open(dir.path());
    let (found, n_tries) = last_seq_while(&store, || {
        put(&store, append(thread(1), 3, &["d"])).unwrap();
    });
    assert_eq!((found.unwrap(), n_tries), (Seq(2), 1), "an append is no reason");
    let (found, n_tries) = last_seq_while(&store, || store.delete(thread(2)).unwrap());
    assert_eq!((found.unwrap(), n_tries), (Seq(3), 1), "another's end is none");
    let (found, n_tries) = last_seq_while(&store, || {
        store.delete(thread(1)).unwrap();
        put(&store, append(thread(1), 0, &["A", "B"])).unwrap();
    });
    assert_eq!((found.unwrap(), n_tries), (Seq(1), 2));
    let exported = store.read_stream(thread(1), Seq(0)..Seq(9), 9).unwrap();
    let (found, n_tries) = last_seq_while(&store, || {
        store.delete(thread(1)).unwrap();
        store.import(None, crate::Tag(0), exported.clone()).unwrap();
    });
    assert_eq!((found.unwrap(), n_tries), (Seq(1), 2), "the same records are another life, too");
    let (found, n_tries) = last_seq_while(&store, || store.delete(thread(1)).unwrap());
    assert!(matches!(found, Err(StoreError::NotFound { .. })), "{found:?}");
    assert_eq!(n_tries, 1);
}
