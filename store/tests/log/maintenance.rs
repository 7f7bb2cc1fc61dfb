//! Room that deleted threads gave back, copies of a log in use, and logs where nothing can be written.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rethread_store::testing::{
    append, copy_as_killed, fork, keyed, keys_of, put, scratch, texts, thread, write_small_log,
};
use rethread_store::{KeyRange, LogReader, Options, SledStore, Snapshot, Store, StoreError, Watcher};

/// Text that no compression makes shorter, the same for the same number.
fn noise(number: u64, bytes: usize) -> String {
    let mut state = number + 1;
    let mut text = String::new();
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.push_str(&format!("{:08x}", state >> 32));
    }
    text
}

fn contains(folder: &Path, needle: &[u8]) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return contains(&path, needle);
        }
        fs::read(path).unwrap().windows(needle.len()).any(|window| window == needle)
    })
}

/// Writes the files of a backup to a folder.
fn write_out(backup: &rethread_store::Backup, folder: &Path) {
    for file in backup.files() {
        let file = file.unwrap();
        let path = folder.join(&file.name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        io::copy(&mut file.reader(), &mut fs::File::create(path).unwrap()).unwrap();
    }
}

#[test]
fn compact_frees_the_space_of_deleted_threads() {
    let dir = scratch();
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    write_small_log(&store).unwrap();
    let secret = noise(99, 40_000);
    put(&store, append(thread(50), 0, &[&secret])).unwrap();
    store.put_blob(Some(thread(50)), noise(98, 100_000).as_bytes()).unwrap();
    let info = store.stream(thread(50)).unwrap();
    let snapshot = Snapshot { seq: info.last_seq, hash: info.hash, version: 1, state: noise(97, 20_000).into_bytes() };
    store.put_snapshot(thread(50), snapshot).unwrap();
    for number in 100..200 {
        put(&store, append(thread(number), 0, &[&noise(number, 30_000)])).unwrap();
    }
    let needles = [secret.as_bytes()[1_000..1_032].to_vec(), noise(98, 64).into_bytes()];
    assert!(needles.iter().all(|needle| contains(dir.path(), needle)));
    let all: Vec<_> = std::iter::once(50).chain(100..200).map(thread).collect();
    store.delete_all(&all).unwrap();
    let compacted = store.compact().unwrap();
    assert!(compacted.after < compacted.before / 4, "{compacted:?}");
    for needle in &needles {
        assert!(!contains(dir.path(), needle), "what was deleted is still in a file");
    }
    drop(store);
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    store.compact().unwrap();
    let left = scratch();
    copy_as_killed(dir.path(), left.path()).unwrap();
    assert_eq!(SledStore::open(left.path(), Options::default()).unwrap().verify().unwrap().faults, []);
    let before: Vec<_> = (1..7).map(|number| texts(&store, thread(number))).collect();
    put(&store, append(thread(1), 4, &["after"])).unwrap();
    assert_eq!(store.verify().unwrap().faults, []);
    drop(store);
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    assert_eq!(store.verify().unwrap().faults, []);
    assert_eq!(texts(&store, thread(1)).last().unwrap(), "after");
    assert_eq!((2..7).map(|number| texts(&store, thread(number))).collect::<Vec<_>>(), before[1..]);
    assert_eq!(store.value("cursor/bill").unwrap().unwrap(), b"12");
}

#[test]
fn compact_erases_removed_keys_and_those_of_deleted_threads() {
    let dir = scratch();
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    // Of other threads before and after them in order, so that they share rows of sled's with what stays.
    let key = |number: u64, what: &str| format!("user/{number:03}/{what}@example.com");
    for number in 100..200 {
        put(&store, keyed(thread(number), 0, &[&key(number, "stays"), &key(number, "goes")], &[])).unwrap();
    }
    drop(store);
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    // All but the last of what is shared: then the first keys of many rows are gone.
    let deleted = (100..200).filter(|number| number % 5 != 4);
    store.delete_all(&deleted.clone().map(thread).collect::<Vec<_>>()).unwrap();
    for number in (100..200).filter(|number| number % 5 == 4) {
        put(&store, keyed(thread(number), 1, &[], &[&key(number, "goes")])).unwrap();
    }
    store.compact().unwrap();
    for number in 100..200 {
        let is_deleted = number % 5 != 4;
        assert!(!contains(dir.path(), key(number, "goes").as_bytes()), "{number}");
        // Rows share what their keys have in common.
        assert_eq!(!contains(dir.path(), format!("{number}/stays").as_bytes()), is_deleted, "{number}");
        assert_eq!(keys_of(&store, thread(number)).len(), usize::from(!is_deleted));
    }
    assert_eq!(store.keys(&KeyRange::prefix(b"user/"), None, 1000).unwrap().len(), 20);
    assert_eq!(store.verify().unwrap().faults, []);
    put(&store, keyed(thread(100), 0, &["user/100"], &[])).unwrap();
    drop(store);
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    assert_eq!(store.keys(&KeyRange::prefix(b"user/"), None, 1).unwrap(), [(b"user/100".to_vec(), thread(100))]);
    assert_eq!(store.keys(&KeyRange::prefix(b"user/"), None, 1000).unwrap().len(), 21);
    assert_eq!(store.verify().unwrap().faults, []);
}

#[test]
fn compact_that_is_killed_at_any_sync_loses_nothing() {
    /// Copies the log before each sync.
    struct Copies {
        log: std::path::PathBuf,
        to: std::path::PathBuf,
        n: AtomicUsize,
        is_on: AtomicBool,
    }
    impl Copies {
        fn copy(&self) {
            if self.is_on.load(Ordering::SeqCst) {
                let to = self.to.join(self.n.fetch_add(1, Ordering::SeqCst).to_string());
                fs::create_dir(&to).unwrap();
                copy_as_killed(&self.log, &to).unwrap();
            }
        }
    }
    impl Watcher for Copies {
        fn before_sync(&self, _path: &Path) -> io::Result<()> {
            self.copy();
            Ok(())
        }
        fn synced(&self, _path: &Path) {
            self.copy();
        }
    }
    let (dir, to) = (scratch(), scratch());
    let copies = Arc::new(Copies {
        log: dir.path().into(),
        to: to.path().into(),
        n: AtomicUsize::new(0),
        is_on: AtomicBool::new(false),
    });
    let options = Options { watcher: Some(Arc::clone(&copies) as _), ..Options::default() };
    let store = SledStore::open(dir.path(), options).unwrap();
    write_small_log(&store).unwrap();
    store.delete(thread(4)).unwrap();
    copies.is_on.store(true, Ordering::SeqCst);
    store.compact().unwrap();
    copies.is_on.store(false, Ordering::SeqCst);
    let n = copies.n.load(Ordering::SeqCst);
    assert!(n >= 6, "{n} copies");
    for copy in 0..n {
        let left = to.path().join(copy.to_string());
        let store = SledStore::open(&left, Options::default()).unwrap();
        assert_eq!(store.verify().unwrap().faults, [], "copy {copy}");
        assert_eq!(texts(&store, thread(6)), ["begin", "one", "another two", "three", "four"]);
        assert_eq!(keys_of(&store, thread(1)), ["signal/go", "timer/1"]);
        assert!(matches!(store.stream(thread(4)), Err(StoreError::NotFound { .. })));
        drop(store);
        let names: Vec<_> = fs::read_dir(&left).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!names.iter().any(|name| name == "index.new"), "{names:?}");
    }
}

#[test]
fn backup_of_a_log_in_use_has_every_acknowledged_record() {
    let (dir, to) = (scratch(), scratch());
    let options = Options { tail_bytes: 64 << 10, ..Options::default() };
    let store = Arc::new(SledStore::open(dir.path(), options).unwrap());
    write_small_log(&*store).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = {
        let (store, is_over) = (Arc::clone(&store), Arc::clone(&is_over));
        std::thread::spawn(move || {
            let mut n = 0;
            while !is_over.load(Ordering::SeqCst) {
                put(&*store, append(thread(30), n, &[&noise(n, 3_000)])).unwrap();
                // What a backup is to have may be deleted while it is made.
                let id = thread(1_000 + n);
                put(&*store, append(id, 0, &[&noise(n, 3_000)])).unwrap();
                store.delete(id).unwrap();
                n += 1;
            }
        })
    };
    for round in 0..5 {
        put(&*store, append(thread(40), round, &[&format!("round {round}")])).unwrap();
        let doomed = thread(500 + round);
        put(&*store, append(doomed, 0, &[&noise(round, 30_000)])).unwrap();
        put(&*store, keyed(doomed, 1, &["doomed"], &[])).unwrap();
        let backup = store.backup().unwrap();
        store.delete(doomed).unwrap();
        put(&*store, append(thread(60), round, &["later"])).unwrap();
        let folder = to.path().join(round.to_string());
        write_out(&backup, &folder);
        drop(backup);
        let copy = SledStore::open(&folder, Options::default()).unwrap();
        assert_eq!(copy.verify().unwrap().faults, [], "round {round}");
        assert_eq!(texts(&copy, thread(40)).len() as u64, round + 1);
        assert_eq!(texts(&copy, doomed), [noise(round, 30_000), "keyed".into()]);
        assert_eq!(copy.keys(&KeyRange::one(b"doomed"), None, 9).unwrap(), [(b"doomed".to_vec(), doomed)]);
        assert_eq!(keys_of(&copy, thread(1)), ["signal/go", "timer/1"]);
        assert_eq!(texts(&copy, thread(6)), ["begin", "one", "another two", "three", "four"]);
        // It is a log like any other.
        put(&copy, append(thread(70), 0, &["on"])).unwrap();
        copy.close().unwrap();
    }
    is_over.store(true, Ordering::SeqCst);
    writer.join().unwrap();
    let folders = || {
        let entries = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap());
        let folders = entries.filter(|entry| entry.path().is_dir());
        let mut names: Vec<_> = folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(folders(), ["index", "packs"]);
    store.close().unwrap();
    // A backup of a user in the folder of the log stays there; one that a killed process left does not.
    fs::create_dir(dir.path().join("backup-monday")).unwrap();
    fs::create_dir(dir.path().join(".index-of-a-backup-1")).unwrap();
    drop(SledStore::open(dir.path(), Options::default()).unwrap());
    assert_eq!(folders(), ["backup-monday", "index", "packs"]);
}

#[test]
fn backup_without_its_last_file_is_refused() {
    let (dir, to) = (scratch(), scratch());
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    write_small_log(&store).unwrap();
    let backup = store.backup().unwrap();
    write_out(&backup, to.path());
    let names: Vec<_> = backup.files().map(|file| file.unwrap().name).collect();
    assert_eq!(names.last().unwrap(), "format");
    fs::remove_file(to.path().join("format")).unwrap();
    assert!(matches!(SledStore::open(to.path(), Options::default()), Err(StoreError::Damaged(_))));
}

#[test]
fn delete_of_several_threads_is_atomic() {
    let dir = scratch();
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    write_small_log(&store).unwrap();
    // 6 inherits from 5, which inherits from 2.
    for wrong in [vec![thread(1), thread(5)], vec![thread(5), thread(6)], vec![thread(6), thread(6)]] {
        assert!(store.delete_all(&wrong).is_err(), "{wrong:?}");
    }
    assert!(matches!(store.delete_all(&[thread(3), thread(77)]), Err(StoreError::NotFound { .. })));
    assert_eq!(store.streams(None, &[], 99).unwrap().len(), 6);
    store.delete_all(&[thread(6), thread(5), thread(1), thread(2)]).unwrap();
    store.delete_all(&[]).unwrap();
    let left = |store: &SledStore| store.streams(None, &[], 99).unwrap().iter().map(|s| s.thread).collect::<Vec<_>>();
    assert_eq!(left(&store), [thread(3), thread(4)]);
    put(&store, fork(thread(8), thread(3), 1, &["x"])).unwrap();
    drop(store);
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    assert_eq!(left(&store), [thread(3), thread(4), thread(8)]);
    assert_eq!(store.verify().unwrap().faults, []);
}
