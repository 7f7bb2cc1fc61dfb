//! A full disk: nothing acknowledged is lost, nothing else is acknowledged, and it goes on when there is room again.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::executor::block_on;
use rethread_store::testing::{append, copy_as_killed, keys_of, put, scratch, texts, thread};
use rethread_store::{Append, KeyChange, LogReader, Options, SledStore, Store, StoreError, Watcher};

/// A disk on which nothing can be written, or written and not synced, while so told.
#[derive(Default)]
struct Full {
    writes: AtomicBool,
    syncs: AtomicBool,
}

impl Watcher for Full {
    fn write(&self, path: &Path, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        // The mark is a few bytes in place, which a full disk takes.
        let is_full = self.writes.load(Ordering::SeqCst) && !path.ends_with("mark");
        if is_full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn before_sync(&self, path: &Path) -> io::Result<()> {
        let is_full = self.syncs.load(Ordering::SeqCst) && !path.ends_with("mark");
        if is_full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

fn options(full: &Arc<Full>) -> Options {
    Options { watcher: Some(Arc::clone(full) as _), ..Options::default() }
}

#[test]
fn full_disk_refuses_and_later_accepts_appends() {
    let key = || vec![KeyChange::Add(b"key".to_vec())];
    let dir = scratch();
    let full = Arc::new(Full::default());
    let store = SledStore::open(dir.path(), options(&full)).unwrap();
    put(&store, append(thread(1), 0, &["before"])).unwrap();
    full.writes.store(true, Ordering::SeqCst);
    let first = store.append(Append { keys: key(), ..append(thread(1), 1, &["refused"]) });
    let after = store.append(append(thread(1), 2, &["after it"]));
    assert!(matches!(block_on(first), Err(StoreError::Full { .. })));
    let after = block_on(after);
    assert!(matches!(after, Err(StoreError::Full { .. } | StoreError::Fenced { .. })), "{after:?}");
    assert!(matches!(store.put_value("a", b"b"), Err(StoreError::Full { .. })));
    assert!(matches!(store.put_blob(None, b"b"), Err(StoreError::Full { .. })));
    assert_eq!(texts(&store, thread(1)), ["before"]);
    assert_eq!(keys_of(&store, thread(1)), [""; 0]);
    full.writes.store(false, Ordering::SeqCst);
    put(&store, Append { keys: key(), ..append(thread(1), 1, &["after"]) }).unwrap();
    assert_eq!(keys_of(&store, thread(1)), ["key"]);
    drop(store);
    let store = SledStore::open(dir.path(), options(&full)).unwrap();
    assert_eq!(texts(&store, thread(1)), ["before", "after"]);
    assert_eq!(keys_of(&store, thread(1)), ["key"]);
    assert_eq!(store.value("a").unwrap(), None);
    assert_eq!(store.verify().unwrap().faults, []);
}

#[test]
fn backup_of_a_log_whose_journal_failed_ends_with_an_error() {
    /// A journal that takes nothing more, with an error that is not about room.
    #[derive(Default)]
    struct Broken(AtomicBool);
    impl Watcher for Broken {
        fn write(&self, path: &Path, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
            let is_journal = path.to_string_lossy().contains("journal");
            if is_journal && self.0.load(Ordering::SeqCst) {
                return Err(io::Error::other("the disk does not answer"));
            }
            Ok(())
        }
    }
    let dir = scratch();
    let broken = Arc::new(Broken::default());
    let options = Options { watcher: Some(Arc::clone(&broken) as _), ..Options::default() };
    let store = SledStore::open(dir.path(), options).unwrap();
    put(&store, append(thread(1), 0, &["before"])).unwrap();
    broken.0.store(true, Ordering::SeqCst);
    assert!(put(&store, append(thread(1), 1, &["x"])).is_err());
    assert!(matches!(store.backup(), Err(StoreError::Io { .. })));
    assert!(matches!(store.compact(), Err(StoreError::Io { .. })));
}

#[test]
fn remains_of_a_failed_sync_are_never_read_as_a_record() {
    let dir = scratch();
    let full = Arc::new(Full::default());
    let store = SledStore::open(dir.path(), options(&full)).unwrap();
    put(&store, append(thread(1), 0, &["before"])).unwrap();
    full.syncs.store(true, Ordering::SeqCst);
    // Three frames of the same size, all written and none acknowledged.
    let group: Vec<_> = (1..4).map(|seq| store.append(append(thread(1), seq, &["no"]))).collect();
    for one in group {
        assert!(block_on(one).is_err());
    }
    full.syncs.store(false, Ordering::SeqCst);
    put(&store, append(thread(1), 1, &["ok"])).unwrap();
    let left = scratch();
    copy_as_killed(dir.path(), left.path()).unwrap();
    let after = SledStore::open(left.path(), Options::default()).unwrap();
    assert_eq!(texts(&after, thread(1)), ["before", "ok"]);
    assert_eq!(after.verify().unwrap().faults, []);
}

#[test]
fn failed_disk_refuses_writes_until_reopened() {
    #[derive(Default)]
    struct Broken(AtomicBool);
    impl Watcher for Broken {
        fn before_sync(&self, path: &Path) -> io::Result<()> {
            let is_journal = path.to_string_lossy().contains("journal");
            if is_journal && self.0.load(Ordering::SeqCst) {
                return Err(io::Error::other("the disk does not answer"));
            }
            Ok(())
        }
    }
    let dir = scratch();
    let broken = Arc::new(Broken::default());
    let options = Options { watcher: Some(Arc::clone(&broken) as _), ..Options::default() };
    let store = SledStore::open(dir.path(), options).unwrap();
    put(&store, append(thread(1), 0, &["before"])).unwrap();
    broken.0.store(true, Ordering::SeqCst);
    assert!(matches!(put(&store, append(thread(1), 1, &["x"])), Err(StoreError::Io { .. })));
    broken.0.store(false, Ordering::SeqCst);
    assert!(matches!(put(&store, append(thread(1), 1, &["x"])), Err(StoreError::Io { .. })));
    assert_eq!(texts(&store, thread(1)), ["before"]);
    drop(store);
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    assert_eq!(texts(&store, thread(1))[0], "before");
}

/// The sealer's first sync of sled's file says that there is no room, and from then on the files named so take nothing.
struct FullFrom {
    takes_nothing: &'static str,
    has_begun: AtomicBool,
}

impl FullFrom {
    fn fails(&self, path: &Path) -> io::Result<()> {
        let is_full = self.has_begun.load(Ordering::SeqCst) && path.to_string_lossy().contains(self.takes_nothing);
        if is_full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl Watcher for FullFrom {
    fn write(&self, path: &Path, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        self.fails(path)
    }

    fn resize(&self, path: &Path, _bytes: u64) -> io::Result<()> {
        self.fails(path)
    }

    fn before_sync(&self, path: &Path) -> io::Result<()> {
        let is_seal = path.ends_with("db") && std::thread::current().name() == Some("log sealer");
        match is_seal && !self.has_begun.swap(true, Ordering::SeqCst) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => self.fails(path),
        }
    }
}

#[test]
fn durable_records_stay_after_a_failed_seal_on_a_full_disk() {
    // The watermark is in sled when its sync fails: what is tried again must not begin from the start.
    for takes_nothing in ["packs/", "db", "mark"] {
        let dir = scratch();
        let watcher = Arc::new(FullFrom { takes_nothing, has_begun: AtomicBool::new(false) });
        let options = Options { watcher: Some(watcher as _), ..Options::default() };
        let store = SledStore::open(dir.path(), options).unwrap();
        for number in 0..5 {
            put(&store, append(thread(number), 0, &["one", "two"])).unwrap();
        }
        // Whether that is enough to close it in order, or not.
        let closed = store.close();
        assert!(matches!(closed, Ok(()) | Err(StoreError::Full { .. })), "{takes_nothing}: {closed:?}");
        drop(store);
        let store = SledStore::open(dir.path(), Options::default());
        let store = store.unwrap_or_else(|error| panic!("{takes_nothing}: {error}"));
        for number in 0..5 {
            assert_eq!(texts(&store, thread(number)), ["one", "two"], "{takes_nothing}");
        }
        assert_eq!(store.verify().unwrap().faults, [], "{takes_nothing}");
        put(&store, append(thread(0), 2, &["three"])).unwrap();
        store.close().unwrap();
        let store = SledStore::open(dir.path(), Options::default()).unwrap();
        assert_eq!(texts(&store, thread(0)), ["one", "two", "three"], "{takes_nothing}");
    }
}
