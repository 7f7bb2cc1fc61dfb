//! A copy of a whole log in another backend.

use std::path::Path;

use rethread_events::ids::{Position, Seq, ThreadId};
use rethread_store::testing::{append, put, thread};
use rethread_store::{
    Append, Copied, ForkPoint, KeyChange, LogReader, MemoryStore, Options, SledStore, Store, StoreError,
};

const THREADS: [u64; 3] = [1, 2, 4];

/// A log with threads that were written in turns, a fork, a deleted thread, keys, values and blobs.
fn source(dir: &Path) -> SledStore {
    let store = SledStore::open(dir, Options::default()).unwrap();
    for n in 0..4 {
        for of in [1, 2, 3] {
            put(&store, append(thread(of), n * 2, &["a", "b"])).unwrap();
        }
    }
    let large = "x".repeat(100_000);
    let fork = Append {
        fork_of: Some(ForkPoint { parent: thread(1), seq: Seq(2) }),
        keys: vec![KeyChange::Add(b"k/1".to_vec()), KeyChange::Add(b"k/2".to_vec())],
        blobs: vec![b"of the fork".to_vec()],
        ..append(thread(4), 3, &["c", &large])
    };
    put(&store, fork).unwrap();
    store.put_blob(Some(thread(1)), b"of a thread").unwrap();
    store.put_blob(None, b"of nobody").unwrap();
    store.put_value("cursor/x", b"12").unwrap();
    store.put_value("other", b"y").unwrap();
    store.delete(thread(3)).unwrap();
    put(&store, append(thread(2), 8, &["z"])).unwrap();
    store
}

fn all(store: &dyn Store, of: ThreadId) -> Vec<(Seq, String, Option<Position>)> {
    let records = store.read_stream(of, Seq(0)..Seq(u64::MAX), usize::MAX).unwrap();
    records.into_iter().map(|record| (record.seq, record.hash.to_string(), record.cause)).collect()
}

fn copy(dir: &Path, target: &dyn Store) -> Result<Copied, StoreError> {
    SledStore::copy(dir, Options::default(), target, |name, bytes, moved| {
        if name == "cursor/x" { moved(Position(12)).0.to_string().into_bytes() } else { bytes }
    })
}

#[test]
fn copied_log_is_the_same_but_for_its_positions() {
    let dir = tempfile::tempdir().unwrap();
    source(dir.path()).close().unwrap();
    let target = MemoryStore::new();
    let copied = copy(dir.path(), &target).unwrap();
    assert_eq!((copied.n_records, copied.n_values), (19, 2));
    let source = SledStore::open(dir.path(), Options::default()).unwrap();
    for of in THREADS.map(thread) {
        let hashes =
            |store: &dyn Store| all(store, of).into_iter().map(|(seq, hash, _)| (seq, hash)).collect::<Vec<_>>();
        assert_eq!(hashes(&target), hashes(&source));
        let head = |store: &dyn Store| {
            let info = store.stream(of).unwrap();
            (info.last_seq, info.hash, info.tag, info.fork_of, info.first_at, info.last_at)
        };
        assert_eq!(head(&target), head(&source));
        assert_eq!(target.keys_of(of).unwrap(), source.keys_of(of).unwrap());
    }
    assert!(matches!(target.stream(thread(3)), Err(StoreError::NotFound { .. })));
    // The same order, without the six positions before it that were deleted.
    let order = |store: &dyn Store| {
        let records = store.read_all(Position(0), usize::MAX).unwrap();
        records.into_iter().map(|record| (record.thread, record.seq)).collect::<Vec<_>>()
    };
    assert_eq!(order(&target), order(&source));
    assert_eq!(target.next_position(), Position(19));
    assert_eq!(target.value("cursor/x").unwrap().unwrap(), b"8");
    assert_eq!(target.value("other").unwrap().unwrap(), b"y");
    for text in ["of the fork", "of a thread", "of nobody"] {
        let hash = rethread_events::ids::Hash::of(text.as_bytes());
        assert_eq!(target.blob(hash).unwrap(), text.as_bytes());
        assert_eq!(target.owners(hash, None, 10).unwrap(), source.owners(hash, None, 10).unwrap());
    }
    assert_eq!(target.verify().unwrap().faults, []);
}

#[test]
fn interrupted_copy_goes_on_and_another_log_is_no_target() {
    let dir = tempfile::tempdir().unwrap();
    source(dir.path()).close().unwrap();
    // It had the beginning.
    let target = MemoryStore::new();
    put(&target, append(thread(1), 0, &["a", "b"])).unwrap();
    put(&target, append(thread(2), 0, &["a", "b"])).unwrap();
    let copied = copy(dir.path(), &target).unwrap();
    assert_eq!(copied.n_records, 15);
    assert_eq!(all(&target, thread(4)).len(), 5);
    // And has all of it.
    let copied = copy(dir.path(), &target).unwrap();
    assert_eq!((copied.n_records, copied.n_values), (0, 0));
    // Other events, another thread, another value.
    for foreign in [append(thread(1), 0, &["other"]), append(thread(9), 0, &["a"])] {
        let target = MemoryStore::new();
        put(&target, foreign).unwrap();
        let error = copy(dir.path(), &target).unwrap_err();
        assert!(error.to_string().contains("copy into a new log"), "{error}");
        assert_eq!(target.next_position(), Position(1));
    }
    let target = MemoryStore::new();
    target.put_value("theirs", b"1").unwrap();
    assert!(matches!(copy(dir.path(), &target), Err(StoreError::Invalid(_))));
    let absent = dir.path().join("absent");
    assert!(matches!(copy(&absent, &MemoryStore::new()), Err(StoreError::NotFound { .. })));
    assert!(!absent.exists());
}
