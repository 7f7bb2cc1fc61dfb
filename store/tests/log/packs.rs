//! The files that hold the chunks: what is deleted is gone from them, what an attempt left is used again, and a log
//! that has none is read and goes on with them.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rethread_events::ids::Seq;
use rethread_store::testing::{Random, append, put, scratch, texts, thread};
use rethread_store::{LogReader, Options, SledStore, Store, StoreError, Watcher};

/// A text that compression leaves as it is.
fn noise(seed: u64) -> String {
    let mut random = Random::new(seed);
    (0..400).map(|_| char::from(b'!' + random.below(90) as u8)).collect()
}

fn packed(log: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(log.join("packs")).unwrap() {
        bytes.extend(std::fs::read(entry.unwrap().path()).unwrap());
    }
    bytes
}

fn holds(bytes: &[u8], text: &str) -> bool {
    // Compression may cut a text, but not so small.
    bytes.windows(60).any(|window| window == &text.as_bytes()[100..160])
}

/// Threads 0 to 9 with some texts each, in turns, so that each chunk has several of them.
fn write_threads(store: &dyn Store) {
    for seq in 0..20 {
        for number in 0..10 {
            put(store, append(thread(number), seq, &[&noise(number * 100 + seq)])).unwrap();
        }
    }
}

fn check_threads(store: &dyn Store, deleted: &[u64]) {
    for number in 0..10 {
        if deleted.contains(&number) {
            assert!(matches!(store.stream(thread(number)), Err(StoreError::NotFound { .. })));
        } else {
            let expected: Vec<String> = (0..20).map(|seq| noise(number * 100 + seq)).collect();
            assert_eq!(texts(store, thread(number)), expected, "{number}");
        }
    }
    assert_eq!(store.verify().unwrap().faults, []);
}

#[test]
fn deleted_records_are_erased_from_the_files() {
    let dir = scratch();
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    write_threads(&store);
    store.close().unwrap();
    let before = packed(dir.path());
    assert!(holds(&before, &noise(300)) && holds(&before, &noise(400)));
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    store.delete(thread(3)).unwrap();
    store.delete(thread(7)).unwrap();
    check_threads(&store, &[3, 7]);
    store.close().unwrap();
    let after = packed(dir.path());
    for seq in 0..20 {
        assert!(!holds(&after, &noise(300 + seq)) && !holds(&after, &noise(700 + seq)), "{seq}");
        assert!(holds(&after, &noise(400 + seq)), "{seq}");
    }
    check_threads(&SledStore::open(dir.path(), Options::default()).unwrap(), &[3, 7]);
}

/// Has no room for what sled writes, so many times.
#[derive(Default)]
struct NoRoom(AtomicU32);

impl Watcher for NoRoom {
    fn before_sync(&self, path: &Path) -> io::Result<()> {
        let is_sleds = path.ends_with("index/db");
        let left = |n: u32| n.checked_sub(1);
        if is_sleds && self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_ok() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

#[test]
fn failed_attempt_leaves_nothing_in_the_files() {
    let bytes_after = |failures: u32| {
        let dir = scratch();
        let no_room = Arc::new(NoRoom::default());
        let options = Options { watcher: Some(Arc::clone(&no_room) as _), ..Options::default() };
        let store = SledStore::open(dir.path(), options.clone()).unwrap();
        write_threads(&store);
        store.close().unwrap();
        let store = SledStore::open(dir.path(), options).unwrap();
        // A delete with no room would use it, and try once more.
        let _ = std::fs::remove_file(dir.path().join("reserve"));
        store.delete(thread(3)).unwrap();
        for number in 20..40 {
            put(&store, append(thread(number), 0, &[&noise(number), &noise(number + 1)])).unwrap();
        }
        no_room.0.store(failures, Ordering::SeqCst);
        // While it closes it tries once more and no more: the rest is done when it is opened again.
        let closed = store.close();
        assert_eq!(closed.is_ok(), failures < 2, "{closed:?}");
        no_room.0.store(0, Ordering::SeqCst);
        let store = SledStore::open(dir.path(), Options::default()).unwrap();
        check_threads(&store, &[3]);
        put(&store, append(thread(50), 0, &["more"])).unwrap();
        store.close().unwrap();
        let store = SledStore::open(dir.path(), Options::default()).unwrap();
        check_threads(&store, &[3]);
        for number in 20..40 {
            assert_eq!(texts(&store, thread(number)), [noise(number), noise(number + 1)]);
        }
        assert!(!holds(&packed(dir.path()), &noise(305)));
        packed(dir.path()).into_iter().filter(|byte| *byte != 0).count()
    };
    let whole = bytes_after(0);
    for failures in [1, 2] {
        // What an attempt moved may be moved again, and its old place is a hole.
        let retried = bytes_after(failures);
        assert!(retried <= whole + whole / 50, "{retried} and {whole}, {failures} failures");
    }
}

#[test]
fn reader_during_a_move_of_chunks_reads_what_was_written() {
    let dir = scratch();
    let options = Options { read_cache_bytes: 1, tail_bytes: 1, ..Options::default() };
    let store = SledStore::open(dir.path(), options).unwrap();
    write_threads(&store);
    let have_begun = std::sync::Barrier::new(3);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let read = || {
                    for seq in 0..20 {
                        let read = store.read_stream(thread(9), Seq(seq)..Seq(seq + 1), 1).unwrap();
                        assert_eq!(*read[0].payload, *noise(900 + seq).as_bytes());
                    }
                };
                read();
                have_begun.wait();
                while store.stream(thread(8)).is_ok() {
                    read();
                }
            });
        }
        have_begun.wait();
        for number in 0..9 {
            store.delete(thread(number)).unwrap();
            // A seal takes the delete with it.
            for seq in 0..30 {
                put(&store, append(thread(100 + number), seq, &["more"])).unwrap();
            }
        }
    });
    check_threads(&store, &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
}
