//! The folder of an open log is moved, replaced or removed: nothing acknowledged is lost, nothing is acknowledged that is
//! not in the log, and nothing is written at the old path.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rethread_store::testing::{append, put, scratch, texts, thread};
use rethread_store::{LogReader, Options, SledStore, Store, StoreError};

/// Small enough that a few appends begin a seal.
fn options() -> Options {
    Options { tail_bytes: 4 << 10, ..Options::default() }
}

fn fill(store: &SledStore, from: u64, n: u64) -> Result<(), StoreError> {
    let text = "x".repeat(1 << 10);
    (from..from + n).try_for_each(|seq| put(store, append(thread(1), seq, &[text.as_str()])).map(drop))
}

/// Every file below a folder, with its bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).unwrap();
                found.insert(path, bytes);
            }
        }
    }
    found
}

/// Removes a log that is open: a file that a seal creates meanwhile makes a pass over the folder fail, so it is repeated.
fn remove(log: &Path) {
    for _ in 0..1000 {
        match fs::remove_dir_all(log) {
            Err(e) if e.kind() == ErrorKind::DirectoryNotEmpty => {}
            ended => return ended.unwrap(),
        }
    }
    panic!("{} is never empty", log.display());
}

#[track_caller]
fn assert_moved<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Moved { .. })), "{result:?}");
}

#[test]
fn writes_stop_while_the_folder_is_moved_and_resume_later() {
    let dir = scratch();
    let (log, elsewhere) = (dir.path().join("log"), dir.path().join("elsewhere"));
    let store = SledStore::open(&log, options()).unwrap();
    fill(&store, 0, 20).unwrap();
    store.check_writable().unwrap();
    fs::rename(&log, &elsewhere).unwrap();
    assert_moved(store.check_writable());
    assert_moved(fill(&store, 20, 1));
    assert_moved(store.put_value("a", b"b"));
    assert_moved(store.delete(thread(1)));
    assert_eq!(texts(&store, thread(1)).len(), 20, "what was acknowledged is read");
    assert!(!log.exists(), "nothing is created at the old path");
    fs::rename(&elsewhere, &log).unwrap();
    store.check_writable().unwrap();
    fill(&store, 20, 20).unwrap();
    store.close().unwrap();
    let store = SledStore::open(&log, options()).unwrap();
    assert_eq!(texts(&store, thread(1)).len(), 40);
    assert_eq!(store.verify().unwrap().faults, []);
}

/// A log that has sealed, so that all of its files are there.
fn sealed(log: &Path) -> SledStore {
    let store = SledStore::open(log, options()).unwrap();
    fill(&store, 0, 40).unwrap();
    store.close().unwrap();
    SledStore::open(log, options()).unwrap()
}

#[test]
fn writes_stop_while_a_part_of_the_log_is_moved_and_resume_later() {
    for part in ["index", "index/db", "journal-a", "journal-b", "packs"] {
        let dir = scratch();
        let (log, elsewhere) = (dir.path().join("log"), dir.path().join("elsewhere"));
        let store = sealed(&log);
        fs::rename(log.join(part), &elsewhere).unwrap();
        let error = fill(&store, 40, 1).unwrap_err();
        assert!(matches!(error, StoreError::Moved { .. }) && error.to_string().contains(part), "{part}: {error:?}");
        assert_moved(store.check_writable());
        assert_moved(store.put_value("a", b"b"));
        assert!(!log.join(part).exists(), "{part}: nothing is created in its place");
        fs::rename(&elsewhere, log.join(part)).unwrap();
        store.check_writable().unwrap();
        fill(&store, 40, 20).unwrap();
        store.close().unwrap();
        let store = SledStore::open(&log, options()).unwrap();
        assert_eq!(texts(&store, thread(1)).len(), 60, "{part}");
        assert_eq!(store.verify().unwrap().faults, []);
    }
}

#[test]
fn removed_or_replaced_part_of_the_log_refuses_writes() {
    for part in ["index", "index/db", "journal-a", "journal-b", "packs"] {
        let dir = scratch();
        let log = dir.path().join("log");
        let store = sealed(&log);
        let path = log.join(part);
        if path.is_dir() {
            remove(&path);
        } else {
            fs::remove_file(&path).unwrap();
        }
        assert_moved(fill(&store, 40, 1));
        if path.extension().is_none() && !part.contains("journal") && part != "index/db" {
            fs::create_dir(&path).unwrap();
        } else {
            fs::write(&path, "").unwrap();
        }
        assert_moved(fill(&store, 40, 1));
        assert!(store.close().is_err(), "{part}");
    }
}

#[test]
fn log_whose_index_was_exchanged_takes_writes() {
    let dir = scratch();
    let store = sealed(&dir.path().join("log"));
    store.compact().unwrap();
    fill(&store, 40, 20).unwrap();
    store.check_writable().unwrap();
}

#[test]
fn log_moved_while_open_is_intact_at_its_new_path() {
    let dir = scratch();
    let (log, elsewhere) = (dir.path().join("log"), dir.path().join("elsewhere"));
    let store = SledStore::open(&log, options()).unwrap();
    fill(&store, 0, 50).unwrap();
    fs::rename(&log, &elsewhere).unwrap();
    assert_moved(fill(&store, 50, 1));
    assert_moved(store.close());
    assert!(!log.exists(), "closing creates nothing at the old path");
    let store = SledStore::open(&elsewhere, options()).unwrap();
    assert_eq!(texts(&store, thread(1)).len(), 50);
    assert_eq!(store.verify().unwrap().faults, []);
}

#[test]
fn another_log_at_the_path_is_not_touched() {
    let dir = scratch();
    let (log, elsewhere) = (dir.path().join("log"), dir.path().join("elsewhere"));
    let first = SledStore::open(&log, options()).unwrap();
    fill(&first, 0, 50).unwrap();
    fs::rename(&log, &elsewhere).unwrap();
    let second = SledStore::open(&log, options()).unwrap();
    put(&second, append(thread(2), 0, &["second"])).unwrap();
    second.close().unwrap();
    let before = files(&log);
    assert_moved(fill(&first, 50, 1));
    assert_moved(first.close());
    assert!(files(&log) == before, "the log that was closed last is unchanged");
    let second = SledStore::open(&log, options()).unwrap();
    assert_eq!(texts(&second, thread(2)), ["second"]);
    assert_eq!(second.verify().unwrap().faults, []);
    let first = SledStore::open(&elsewhere, options()).unwrap();
    assert_eq!(texts(&first, thread(1)).len(), 50);
}

#[test]
fn redirected_link_to_the_log_stops_writes() {
    let dir = scratch();
    let (one, two, link) = (dir.path().join("one"), dir.path().join("two"), dir.path().join("link"));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&two).unwrap();
    std::os::unix::fs::symlink(&one, &link).unwrap();
    let store = SledStore::open(&link, options()).unwrap();
    fill(&store, 0, 50).unwrap();
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&two, &link).unwrap();
    assert_moved(fill(&store, 50, 1));
    assert_moved(store.close());
    assert_eq!(files(&two), BTreeMap::new());
    assert_eq!(texts(&SledStore::open(&one, options()).unwrap(), thread(1)).len(), 50);
}

#[test]
fn removed_log_refuses_writes_and_is_not_created_again() {
    let dir = scratch();
    let log = dir.path().join("log");
    for only_contents in [false, true] {
        let store = SledStore::open(&log, options()).unwrap();
        fill(&store, 0, 50).unwrap();
        remove(&log);
        if only_contents {
            fs::create_dir(&log).unwrap();
        }
        assert_moved(store.check_writable());
        assert_moved(fill(&store, 50, 1));
        assert_moved(store.close());
        drop(store);
        assert_eq!(log.exists(), only_contents);
        assert!(!only_contents || files(&log).is_empty());
    }
}

#[test]
fn removed_journal_stops_writes() {
    let dir = scratch();
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    fill(&store, 0, 1).unwrap();
    for name in ["journal-a", "journal-b"] {
        fs::remove_file(dir.path().join(name)).unwrap();
    }
    assert_moved(fill(&store, 1, 1));
}

#[test]
fn only_the_user_reads_a_new_log() {
    let dir = scratch();
    let log = dir.path().join("new/log");
    let store = SledStore::open(&log, options()).unwrap();
    fill(&store, 0, 50).unwrap();
    store.close().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir.path().join("new")), 0o700);
    assert_eq!(mode(&log), 0o700);
    for name in ["index", "packs"] {
        assert_eq!(mode(&log.join(name)), 0o700, "{name}");
    }
    for name in ["lock", "journal-a", "journal-b", "mark", "format", "packs/000000"] {
        assert_eq!(mode(&log.join(name)), 0o600, "{name}");
    }
    // Those of sled as well.
    let index: Vec<_> = fs::read_dir(log.join("index")).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(index.len() > 2, "{index:?}");
    for path in index {
        assert_eq!(mode(&path), if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
}
