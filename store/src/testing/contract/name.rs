//! Which streams name a blob.

use rethread_events::ids::{Hash, ThreadId};

use super::Backend;
use crate::testing::{append, fork, put, thread};
use crate::{Append, Store};

fn named(store: &dyn Store, blob: &[u8]) -> Vec<ThreadId> {
    store.owners(Hash::of(blob), None, 99).unwrap()
}

/// With the records, or not at all, and as long as the stream is there.
pub fn streams_that_name_a_blob_are_listed(backend: &mut dyn Backend) {
    let naming = |append: Append| Append { blobs: vec![b"label".to_vec()], ..append };
    put(backend.store(), append(thread(9), 0, &["a"])).unwrap();
    put(backend.store(), naming(append(thread(1), 0, &["a", "b"]))).unwrap();
    backend.reopen();
    put(backend.store(), naming(append(thread(3), 0, &["a"]))).unwrap();
    put(backend.store(), naming(fork(thread(2), thread(1), 0, &["x"]))).unwrap();
    // It is not appended, so it names nothing.
    put(backend.store(), naming(append(thread(9), 0, &["a"]))).unwrap_err();
    for _ in 0..3 {
        let store = backend.store();
        assert_eq!(named(store, b"label"), [1, 2, 3].map(thread));
        assert_eq!(named(store, b"other"), []);
        assert_eq!(store.blob(Hash::of(b"label")).unwrap(), b"label");
        let page = |after, limit| store.owners(Hash::of(b"label"), after, limit).unwrap();
        assert_eq!(page(None, 2), [1, 2].map(thread));
        assert_eq!(page(Some(thread(2)), 9), [thread(3)]);
        assert_eq!(store.verify().unwrap().faults, []);
        backend.reopen();
    }
    backend.store().delete_all(&[thread(2), thread(1)]).unwrap();
    assert_eq!(named(backend.store(), b"label"), [thread(3)]);
    put(backend.store(), append(thread(1), 0, &["anew"])).unwrap();
    for _ in 0..2 {
        backend.reopen();
        assert_eq!(named(backend.store(), b"label"), [thread(3)]);
    }
    backend.store().delete(thread(3)).unwrap();
    put(backend.store(), naming(append(thread(3), 0, &["anew"]))).unwrap();
    for _ in 0..2 {
        assert_eq!(named(backend.store(), b"label"), [thread(3)]);
        assert_eq!(backend.store().blob(Hash::of(b"label")).unwrap(), b"label");
        backend.reopen();
    }
    backend.store().delete(thread(3)).unwrap();
    assert!(backend.store().blob(Hash::of(b"label")).is_err());
}
