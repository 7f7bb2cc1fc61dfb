//! Deletes, and what is kept beside the records: blobs, values, snapshots.

use rethread_events::ids::{Hash, Position, Seq};

use super::{Backend, all};
use crate::testing::{append, fork, put, texts, thread};
use crate::{Snapshot, Store, StoreError, VALUE_BYTES_MAX};

/// With everything that was its own; positions stay empty.
pub fn a_deleted_stream_is_gone(backend: &mut dyn Backend) {
    for number in 1..4 {
        put(backend.store(), append(thread(number), 0, &["a", "b"])).unwrap();
    }
    backend.reopen();
    put(backend.store(), append(thread(2), 2, &["c"])).unwrap();
    let info = backend.store().stream(thread(2)).unwrap();
    let snapshot = Snapshot { seq: info.last_seq, hash: info.hash, version: 1, state: b"state".to_vec() };
    backend.store().put_snapshot(thread(2), snapshot).unwrap();
    backend.store().delete(thread(2)).unwrap();
    for _ in 0..3 {
        let store = backend.store();
        let gone = store.read_stream(thread(2), Seq(0)..Seq(9), 9);
        assert!(matches!(gone, Err(StoreError::NotFound { .. })), "{gone:?}");
        assert!(matches!(store.stream(thread(2)), Err(StoreError::NotFound { .. })));
        assert_eq!(store.snapshots(thread(2)).unwrap(), []);
        assert_eq!(store.snapshot(thread(2), info.last_seq).unwrap(), None);
        let ids: Vec<_> = store.streams(None, &[], 9).unwrap().iter().map(|info| info.thread).collect();
        assert_eq!(ids, [thread(1), thread(3)]);
        let positions: Vec<_> = all(store).iter().map(|record| record.position.0).collect();
        assert_eq!(positions, [0, 1, 4, 5]);
        assert_eq!(store.next_position(), Position(7));
        assert_eq!(store.verify().unwrap().faults, []);
        assert!(matches!(store.delete(thread(2)), Err(StoreError::NotFound { .. })));
        backend.reopen();
    }
    assert_eq!(texts(backend.store(), thread(3)), ["a", "b"]);
}

/// Until the forks are deleted.
pub fn a_stream_with_forks_is_not_deleted(backend: &mut dyn Backend) {
    put(backend.store(), append(thread(1), 0, &["a", "b"])).unwrap();
    put(backend.store(), fork(thread(2), thread(1), 0, &["x"])).unwrap();
    backend.reopen();
    put(backend.store(), fork(thread(3), thread(1), 1, &["y"])).unwrap();
    for rest in [vec![thread(2), thread(3)], vec![thread(3)]] {
        match backend.store().delete(thread(1)) {
            Err(StoreError::InUse { thread: of, forks }) => {
                assert_eq!((of, forks), (thread(1), rest.clone()));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(texts(backend.store(), rest[0])[0], "a");
        backend.store().delete(rest[0]).unwrap();
        backend.reopen();
    }
    backend.store().delete(thread(1)).unwrap();
    assert!(all(backend.store()).is_empty());
}

/// However many of them were deleted since the log was opened.
pub fn one_fork_of_many_is_enough(backend: &mut dyn Backend) {
    put(backend.store(), append(thread(1), 0, &["a", "b"])).unwrap();
    for number in 2..=41 {
        put(backend.store(), fork(thread(number), thread(1), 0, &["x"])).unwrap();
    }
    backend.reopen();
    let page = |after, limit| backend.store().forks(thread(1), after, limit).unwrap();
    assert_eq!(page(None, 3), [2, 3, 4].map(thread));
    assert_eq!(page(Some(thread(39)), 100), [40, 41].map(thread));
    assert_eq!(backend.store().forks(thread(2), None, 1).unwrap(), []);
    for number in 2..=40 {
        backend.store().delete(thread(number)).unwrap();
    }
    match backend.store().delete(thread(1)) {
        Err(StoreError::InUse { thread: of, forks }) => assert_eq!((of, forks), (thread(1), vec![thread(41)])),
        other => panic!("{other:?}"),
    }
    backend.reopen();
    assert_eq!(texts(backend.store(), thread(41)), ["a", "x"]);
    backend.store().delete(thread(41)).unwrap();
    backend.store().delete(thread(1)).unwrap();
}

/// At seq 0, with nothing of its former life.
pub fn deleted_stream_can_be_created_again(backend: &mut dyn Backend) {
    put(backend.store(), append(thread(1), 0, &["a", "b", "c"])).unwrap();
    backend.reopen();
    backend.store().delete(thread(1)).unwrap();
    put(backend.store(), append(thread(1), 0, &["A", "B"])).unwrap();
    for _ in 0..3 {
        assert_eq!(texts(backend.store(), thread(1)), ["A", "B"]);
        let positions: Vec<_> = all(backend.store()).iter().map(|r| r.position.0).collect();
        assert_eq!(positions, [3, 4]);
        assert_eq!(backend.store().verify().unwrap().faults, []);
        backend.reopen();
    }
    put(backend.store(), append(thread(1), 2, &["C"])).unwrap();
    backend.store().delete(thread(1)).unwrap();
    backend.reopen();
    assert!(all(backend.store()).is_empty());
}

/// Stored once for any number of references, and removed with the last one.
pub fn blobs_live_as_long_as_an_owner(backend: &mut dyn Backend) {
    for number in 1..3 {
        put(backend.store(), append(thread(number), 0, &["x"])).unwrap();
    }
    let shared = vec![1; 70_000];
    let hash = backend.store().put_blob(Some(thread(1)), &shared).unwrap();
    assert_eq!(hash, Hash::of(&shared));
    assert_eq!(backend.store().put_blob(Some(thread(1)), &shared).unwrap(), hash);
    backend.reopen();
    assert_eq!(backend.store().put_blob(Some(thread(2)), &shared).unwrap(), hash);
    let kept = backend.store().put_blob(None, b"kept").unwrap();
    backend.store().put_blob(Some(thread(1)), b"kept").unwrap();
    let empty = backend.store().put_blob(None, b"").unwrap();
    let own = backend.store().put_blob(Some(thread(2)), b"own").unwrap();
    backend.reopen();
    backend.store().delete(thread(1)).unwrap();
    for _ in 0..2 {
        assert_eq!(backend.store().blob(hash).unwrap(), shared);
        assert_eq!(backend.store().blob(kept).unwrap(), b"kept");
        assert_eq!(backend.store().blob(empty).unwrap(), b"");
        backend.reopen();
    }
    backend.store().delete(thread(2)).unwrap();
    backend.reopen();
    backend.reopen();
    for gone in [hash, own] {
        assert!(matches!(backend.store().blob(gone), Err(StoreError::NotFound { .. })));
    }
    assert_eq!(backend.store().blob(kept).unwrap(), b"kept");
    assert_eq!(backend.store().put_blob(None, &shared).unwrap(), hash);
    assert_eq!(backend.store().blob(hash).unwrap(), shared);
}

/// With the values that go with it, in a reopened log or not, and can be put again.
pub fn a_released_blob_is_gone_unless_a_thread_names_it(backend: &mut dyn Backend) {
    put(backend.store(), append(thread(1), 0, &["x"])).unwrap();
    let is_there = |store: &dyn Store, hash| match store.blob(hash) {
        Ok(_) => true,
        Err(StoreError::NotFound { .. }) => false,
        Err(error) => panic!("{error}"),
    };
    for (round, reopens) in [(0, false), (1, true)] {
        let reopen = |backend: &mut dyn Backend| {
            if reopens {
                backend.reopen()
            }
        };
        let own = backend.store().put_blob(None, &[2; 40_000]).unwrap();
        let shared = backend.store().put_blob(None, &[round; 40_001]).unwrap();
        reopen(backend);
        backend.store().put_blob(Some(thread(1)), &[round; 40_001]).unwrap();
        backend.store().put_value("names", &[1, 2]).unwrap();
        backend.store().put_value("other", b"x").unwrap();
        reopen(backend);
        let values = [("names".to_owned(), Some(vec![2])), ("other".to_owned(), None)];
        backend.store().release_blobs(&[own, shared, Hash::of(b"never there")], &values).unwrap();
        for _ in 0..3 {
            let store = backend.store();
            assert_eq!((is_there(store, own), is_there(store, shared)), (false, true));
            assert_eq!(store.values("").unwrap(), [("names".to_owned(), vec![2])]);
            assert_eq!(store.verify().unwrap().faults, []);
            reopen(backend);
        }
        assert_eq!(backend.store().put_blob(None, &[2; 40_000]).unwrap(), own);
        reopen(backend);
        assert!(is_there(backend.store(), own));
        backend.store().release_blobs(&[own], &[]).unwrap();
    }
    backend.store().delete(thread(1)).unwrap();
    backend.reopen();
    for round in 0..2 {
        assert!(!is_there(backend.store(), Hash::of(&[round; 40_001])));
    }
    let wrong = backend.store().release_blobs(&[], &[(String::new(), None)]);
    assert!(matches!(wrong, Err(StoreError::Invalid(_))));
}

/// Put, replace, list by prefix, remove.
pub fn values_are_kept_by_name(backend: &mut dyn Backend) {
    backend.store().put_value("cursor/a", b"1").unwrap();
    backend.store().put_value("cursor/b", &[5; VALUE_BYTES_MAX]).unwrap();
    backend.store().put_value("cursorless", b"").unwrap();
    backend.reopen();
    backend.store().put_value("cursor/a", b"2").unwrap();
    backend.store().put_value("other", b"3").unwrap();
    backend.store().remove_value("cursor/b").unwrap();
    backend.store().remove_value("never there").unwrap();
    for _ in 0..3 {
        let store = backend.store();
        assert_eq!(store.value("cursor/a").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(store.value("cursor/b").unwrap(), None);
        assert_eq!(store.value("cursorless").unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(store.value("nothing").unwrap(), None);
        let names: Vec<_> = store.values("cursor").unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["cursor/a", "cursorless"]);
        assert_eq!(store.values("cursor/").unwrap(), [("cursor/a".to_string(), b"2".to_vec())]);
        assert_eq!(store.values("").unwrap().len(), 3);
        backend.reopen();
    }
}

/// And are given back, each whole or not at all.
pub fn several_snapshots_are_stored_per_stream(backend: &mut dyn Backend) {
    let info = put(backend.store(), append(thread(1), 0, &["a", "b", "c", "d"])).unwrap();
    put(backend.store(), append(thread(2), 0, &["a", "b", "c", "d"])).unwrap();
    let snapshot = |seq: u64, n: usize| Snapshot { seq: Seq(seq), hash: info.hash, version: 3, state: state(n) };
    assert_eq!(backend.store().snapshots(thread(1)).unwrap(), []);
    assert_eq!(backend.store().snapshot(thread(1), Seq(0)).unwrap(), None);
    // In this order, and one in place of another.
    for (seq, n) in [(2, 100), (0, 9), (3, 300_000), (0, 200_000)] {
        backend.store().put_snapshot(thread(1), snapshot(seq, n)).unwrap();
    }
    backend.store().put_snapshot(thread(2), snapshot(1, 5)).unwrap();
    assert_eq!(backend.store().snapshots(thread(1)).unwrap(), [Seq(0), Seq(2), Seq(3)], "the oldest first");
    assert_eq!(backend.store().snapshots(thread(2)).unwrap(), [Seq(1)], "of each stream its own");
    for is_reopened in [false, true, true] {
        let store = backend.store();
        let seqs = store.snapshots(thread(1)).unwrap();
        for (seq, n) in [(0, 200_000), (2, 100), (3, 300_000)] {
            let found = store.snapshot(thread(1), Seq(seq)).unwrap();
            assert_eq!(found.is_some(), seqs.contains(&Seq(seq)));
            assert!(found.map_or(is_reopened, |found| found == snapshot(seq, n)), "{seq}");
        }
        assert_eq!(store.snapshot(thread(1), Seq(1)).unwrap(), None);
        backend.reopen();
    }
    let missing = backend.store().put_snapshot(thread(3), snapshot(0, 1));
    assert!(matches!(missing, Err(StoreError::NotFound { .. })), "{missing:?}");
    let missing = backend.store().keep_snapshots(thread(3), &[]);
    assert!(matches!(missing, Err(StoreError::NotFound { .. })), "{missing:?}");
    assert_eq!(backend.store().snapshots(thread(3)).unwrap(), []);
}

fn state(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * i / 7) as u8).collect()
}

/// Until the next ones are put there.
pub fn snapshots_are_thinned_out(backend: &mut dyn Backend) {
    let info = put(backend.store(), append(thread(1), 0, &["a", "b", "c", "d", "e", "f"])).unwrap();
    let put_some = |store: &dyn Store, seqs: &[u64]| {
        for seq in seqs {
            let snapshot = Snapshot { seq: Seq(*seq), hash: info.hash, version: 3, state: state(50_000) };
            store.put_snapshot(thread(1), snapshot).unwrap();
        }
    };
    let seqs = |store: &dyn Store| -> Vec<u64> {
        let seqs = store.snapshots(thread(1)).unwrap();
        let found = |seq: &u64| store.snapshot(thread(1), Seq(*seq)).unwrap().is_some();
        let seqs: Vec<_> = seqs.iter().map(|seq| seq.0).collect();
        assert_eq!((0..9).filter(found).collect::<Vec<_>>(), seqs);
        seqs
    };
    put_some(backend.store(), &[0, 1, 2, 3]);
    backend.store().keep_snapshots(thread(1), &[Seq(0), Seq(2), Seq(3), Seq(8)]).unwrap();
    assert_eq!(seqs(backend.store()), [0, 2, 3]);
    put_some(backend.store(), &[4]);
    backend.store().keep_snapshots(thread(1), &[Seq(0), Seq(3), Seq(4)]).unwrap();
    put_some(backend.store(), &[2, 5]);
    assert_eq!(seqs(backend.store()), [0, 2, 3, 4, 5]);
    backend.reopen();
    put_some(backend.store(), &[5]);
    backend.store().keep_snapshots(thread(1), &[Seq(5)]).unwrap();
    assert_eq!(seqs(backend.store()), [5]);
    backend.store().keep_snapshots(thread(1), &[]).unwrap();
    assert_eq!(seqs(backend.store()), [0; 0]);
    put_some(backend.store(), &[1, 4]);
    backend.reopen();
    backend.store().delete(thread(1)).unwrap();
    assert_eq!(seqs(backend.store()), [0; 0]);
    put(backend.store(), append(thread(1), 0, &["x"])).unwrap();
    for _ in 0..2 {
        assert_eq!(seqs(backend.store()), [0; 0], "those of the stream that had this id before");
        backend.reopen();
    }
}
