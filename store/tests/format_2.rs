//! Logs of format 2, which had each head, run, tag and fork in a row of sled's: one that was closed, and one that a
//! killed process left. They are read, salvaged, and go on as logs of the present format.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use rethread_events::ids::ThreadId;
use rethread_store::testing::{append, copy_as_killed, fork, keyed, put, scratch, texts, thread};
use rethread_store::{Append, KeyRange, LogReader, Options, SledStore, Store, StoreError, Tag};

/// The numbers of threads that were marked once more after they began.
fn marked() -> impl Iterator<Item = u64> {
    (20..60).step_by(3)
}

fn with_tag(store: &dyn Store, tag: u8) -> Vec<ThreadId> {
    store.streams(None, &[Tag(tag)], 1000).unwrap().iter().map(|info| info.thread).collect()
}

/// What the golden logs hold.
fn check(store: &dyn Store) {
    let all = store.streams(None, &[], 1000).unwrap();
    let expected: Vec<ThreadId> = (1..=6).chain((20..60).filter(|n| *n != 30)).map(thread).collect();
    assert!(all.iter().map(|info| info.thread).eq(expected));
    assert!(with_tag(store, 3).into_iter().eq(marked().map(thread)));
    assert_eq!((with_tag(store, 0).len(), with_tag(store, 1).len(), with_tag(store, 2).len()), (5, 25, 1));
    for number in (20..60).filter(|n| *n != 30) {
        let is_marked = marked().any(|n| n == number);
        assert_eq!(texts(store, thread(number)), ["begin", "one", "two"][..2 + usize::from(is_marked)], "{number}");
    }
    assert_eq!(texts(store, thread(6)), ["begin", "one", "another two", "three", "four"]);
    assert!(matches!(store.stream(thread(30)), Err(StoreError::NotFound { .. })));
    assert_eq!(store.blob(rethread_events::ids::Hash::of(b"a workflow")).unwrap(), b"a workflow");
    assert_eq!(store.keys(&KeyRange::all(), None, 10).unwrap(), []);
    assert_eq!(store.verify().unwrap().faults, []);
}

fn golden(name: &str, to: &Path) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/format-2").join(name);
    assert_eq!(std::fs::read_to_string(golden.join("format")).unwrap(), "rethread log\nformat 2\n");
    copy_as_killed(&golden, to).unwrap();
}

#[test]
fn log_of_format_2_is_read_and_accepts_appends() {
    for name in ["log", "log-killed"] {
        let dir = scratch();
        golden(name, dir.path());
        let store = SledStore::open(dir.path(), Options::default()).unwrap();
        check(&store);
        // Threads between the existing ones and after them, marks that change, a fork, deletes.
        for number in (7..20).chain(60..80) {
            put(&store, Append { tag: Tag(9), ..append(thread(number), 0, &["new"]) }).unwrap();
        }
        for number in marked() {
            put(&store, Append { tag: Tag(1), ..append(thread(number), 3, &["three"]) }).unwrap();
        }
        put(&store, fork(thread(90), thread(21), 1, &["other"])).unwrap();
        assert!(matches!(store.delete(thread(21)), Err(StoreError::InUse { .. })));
        assert!(matches!(store.delete(thread(5)), Err(StoreError::InUse { .. })));
        put(&store, Append { tag: Tag(1), ..keyed(thread(24), 2, &["key"], &["none"]) }).unwrap();
        store.delete(thread(22)).unwrap();
        store.delete(thread(6)).unwrap();
        store.delete(thread(5)).unwrap();
        store.close().unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("format")).unwrap(), "rethread log\nformat 4\n");
        let store = SledStore::open(dir.path(), Options::default()).unwrap();
        assert_eq!(store.streams(None, &[], 1000).unwrap().len(), 45 + 33 + 1 - 3);
        assert_eq!((with_tag(&store, 3), with_tag(&store, 1).len(), with_tag(&store, 9).len()), (vec![], 38, 33));
        for number in marked() {
            assert_eq!(texts(&store, thread(number)), ["begin", "one", "two", "three"]);
        }
        assert_eq!(texts(&store, thread(90)), ["begin", "one", "other"]);
        assert_eq!(store.keys(&KeyRange::all(), None, 10).unwrap(), [(b"key".to_vec(), thread(24))]);
        assert_eq!(store.verify().unwrap().faults, []);
    }
}

#[test]
fn log_of_format_2_is_salvaged_without_changes() {
    for name in ["log", "log-killed"] {
        let dir = scratch();
        golden(name, dir.path());
        let store = SledStore::salvage(dir.path(), Options::default()).unwrap();
        check(&store);
        drop(store);
        assert_eq!(std::fs::read_to_string(dir.path().join("format")).unwrap(), "rethread log\nformat 2\n");
    }
}
