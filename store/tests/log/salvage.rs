//! What can still be had of a damaged log, and that damage stays where it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rethread_events::ids::{Position, Seq};
use rethread_store::testing::{
    append, copy_as_killed, keyed, keys_of, put, scratch, texts, thread, wait_for_mark, write_small_log,
};
use rethread_store::{KeyRange, LogReader, Options, SledStore, Snapshot, Store, StoreError, TAG_LOST};

/// Threads 0 to 9 lie in sled, 5 to 14 in the journal.
fn make(dir: &Path) -> SledStore {
    let store = SledStore::open(dir, Options::default()).unwrap();
    for number in 0..10 {
        put(&store, append(thread(number), 0, &["sealed"; 3])).unwrap();
    }
    store.close().unwrap();
    let store = SledStore::open(dir, Options::default()).unwrap();
    for number in 5..15 {
        let next = if number < 10 { 3 } else { 0 };
        put(&store, append(thread(number), next, &["recent"; 2])).unwrap();
    }
    wait_for_mark(dir, store.next_position());
    store
}

#[test]
fn a_log_that_lost_its_end_is_refused_and_can_be_salvaged() {
    let (work, dir) = (scratch(), scratch());
    let store = make(work.path());
    copy_as_killed(work.path(), dir.path()).unwrap();
    drop(store);
    let journal = ["journal-a", "journal-b"]
        .map(|name| dir.path().join(name))
        .into_iter()
        .max_by_key(|path| std::fs::metadata(path).unwrap().len())
        .unwrap();
    let mut bytes = std::fs::read(&journal).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[end - 20..].fill(0);
    std::fs::write(&journal, bytes).unwrap();

    match SledStore::open(dir.path(), Options::default()) {
        Err(StoreError::Damaged(damage)) => {
            assert!(damage.to_string().contains("the end of the journal is missing"), "{damage}");
        }
        other => panic!("{other:?}"),
    }
    let rest = SledStore::salvage(dir.path(), Options::default()).unwrap();
    for number in 0..14 {
        let expected = match number {
            0..5 => vec!["sealed"; 3],
            5..10 => [vec!["sealed"; 3], vec!["recent"; 2]].concat(),
            _ => vec!["recent"; 2],
        };
        assert_eq!(texts(&rest, thread(number)), expected, "{number}");
    }
    assert!(matches!(rest.stream(thread(14)), Err(StoreError::NotFound { .. })));
    assert_eq!(rest.verify().unwrap().faults.len(), 1);
    assert!(matches!(put(&rest, append(thread(0), 3, &["x"])), Err(StoreError::Damaged(_))));
    assert!(matches!(rest.put_value("a", b"b"), Err(StoreError::Damaged(_))));
    assert!(matches!(SledStore::open(dir.path(), Options::default()), Err(StoreError::Locked { .. })));
    rest.close().unwrap();
    assert!(matches!(rest.stream(thread(0)), Err(StoreError::Closed)));
}

#[test]
fn without_sled_records_are_found_in_packs_and_journal() {
    let (work, dir) = (scratch(), scratch());
    let store = make(work.path());
    copy_as_killed(work.path(), dir.path()).unwrap();
    drop(store);
    std::fs::remove_file(dir.path().join("index/db")).unwrap();
    assert!(matches!(SledStore::open(dir.path(), Options::default()), Err(StoreError::Damaged(_))));
    let rest = SledStore::salvage(dir.path(), Options::default()).unwrap();
    let listed = rest.streams(None, &[], 100).unwrap();
    assert_eq!(listed.len(), 15);
    assert_eq!(listed.iter().filter(|info| info.tag == TAG_LOST).count(), 5);
    for number in 0..15 {
        let sealed = if number < 10 { vec!["sealed"; 3] } else { Vec::new() };
        let recent = if number >= 5 { vec!["recent"; 2] } else { Vec::new() };
        assert_eq!(texts(&rest, thread(number)), [sealed, recent].concat(), "{number}");
    }
    assert_eq!(rest.read_all(Position(30), 100).unwrap().len(), 20);
    assert!(!rest.verify().unwrap().faults.is_empty());
    assert!(matches!(put(&rest, append(thread(0), 3, &["x"])), Err(StoreError::Damaged(_))));
    assert!(matches!(SledStore::salvage(scratch().path(), Options::default()), Err(StoreError::NotFound { .. })));
}

#[test]
fn keys_that_sled_still_has_are_salvaged() {
    let (dir, earlier) = (scratch(), scratch());
    let keys = |number: u64| [format!("key {number}"), "shared".to_owned()];
    for round in 0..2 {
        let store = SledStore::open(dir.path(), Options::default()).unwrap();
        for number in 0..50 {
            let [own, shared] = keys(number);
            put(&store, keyed(thread(number + 100 * round), 0, &[&own, &shared], &[])).unwrap();
        }
        store.close().unwrap();
        if round == 0 {
            copy_as_killed(dir.path(), earlier.path()).unwrap();
        }
    }
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    std::fs::rename(earlier.path().join("index"), dir.path().join("index")).unwrap();
    assert!(matches!(SledStore::open(dir.path(), Options::default()), Err(StoreError::Damaged(_))));
    let rest = SledStore::salvage(dir.path(), Options::default()).unwrap();
    assert_eq!(rest.streams(None, &[], 1000).unwrap().len(), 100);
    for number in 0..50 {
        assert_eq!(keys_of(&rest, thread(number)), keys(number));
        assert_eq!(keys_of(&rest, thread(number + 100)), [""; 0]);
    }
    assert_eq!(rest.keys(&KeyRange::one(b"shared"), None, 1000).unwrap().len(), 50);
}

#[test]
fn without_sled_nested_forks_are_intact_and_damage_is_local() {
    let dir = scratch();
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    write_small_log(&store).unwrap();
    let noise: Vec<String> = (0..40).map(|n| format!("{n} ").repeat(3000)).collect();
    for number in 100..140 {
        put(&store, append(thread(number), 0, &[&noise[number as usize - 100]])).unwrap();
    }
    // So that there are holes.
    for number in 110..120 {
        store.delete(thread(number)).unwrap();
    }
    let large = store.stream(thread(2)).unwrap().last_seq;
    let whole: Vec<_> = [1, 3, 4, 5, 6, 105, 139].map(|number| (number, texts(&store, thread(number)))).into();
    store.close().unwrap();
    std::fs::write(dir.path().join("index/db"), b"no database").unwrap();
    let pack = dir.path().join("packs/000000");
    let sound = std::fs::read(&pack).unwrap();
    let rest = SledStore::salvage(dir.path(), Options::default()).unwrap();
    for (number, texts) in &whole {
        let found = rest.read_stream(thread(*number), Seq(0)..Seq(u64::MAX), usize::MAX);
        let found = found.unwrap_or_else(|error| panic!("{number}: {error}"));
        let found: Vec<_> = found.iter().map(|record| String::from_utf8_lossy(&record.payload)).collect();
        assert_eq!(&found, texts, "{number}");
    }
    // What lay in sled is lost, and says so.
    let lost = rest.read_stream(thread(2), large..large.next(), 1);
    assert!(matches!(lost, Err(StoreError::Damaged(_))), "{lost:?}");
    rest.close().unwrap();
    let second = (9..sound.len()).find(|at| sound[*at..].starts_with(b"rtck")).unwrap();
    for harm in [4, 6, 20, second / 2] {
        let mut bytes = sound.clone();
        bytes[harm] ^= 0x41;
        std::fs::write(&pack, bytes).unwrap();
        let rest = SledStore::salvage(dir.path(), Options::default()).unwrap();
        assert_eq!(&texts(&rest, thread(139)), &whole[6].1, "{harm}");
        assert!(!rest.verify().unwrap().faults.is_empty());
        rest.close().unwrap();
    }
}

#[test]
fn a_damaged_chunk_hits_only_the_streams_in_it() {
    let dir = scratch();
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    for number in 0..60 {
        let text = format!("{number} {}", "some longer text ".repeat(60));
        put(&store, append(thread(number), 0, &[text.as_str(); 5])).unwrap();
    }
    store.close().unwrap();
    // The prefix of chunks is between them, too.
    let pack = dir.path().join("packs/000000");
    let mut bytes = std::fs::read(&pack).unwrap();
    let chunks: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"rtck")).collect();
    assert!(chunks.len() > 3);
    bytes[chunks[1] + 100] ^= 1;
    std::fs::write(&pack, bytes).unwrap();
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    let (mut n_sound, mut n_damaged) = (0, 0);
    for number in 0..60 {
        match store.read_stream(thread(number), Seq(0)..Seq(9), 9) {
            Ok(records) => {
                assert_eq!(records.len(), 5);
                n_sound += 1;
            }
            Err(StoreError::Damaged(damage)) => {
                assert_eq!(damage.thread, Some(thread(number)));
                assert!(damage.seq.is_some() && damage.file.is_some(), "{damage}");
                n_damaged += 1;
            }
            Err(error) => panic!("{error:?}"),
        }
        // The head is known all the same, and what comes is not in that chunk.
        put(&store, append(thread(number), 5, &["more"])).unwrap();
        let newest = store.read_stream(thread(number), Seq(5)..Seq(9), 9).unwrap();
        assert_eq!(newest.len(), 1);
    }
    assert!(n_sound > 30 && n_damaged > 1, "{n_sound} sound, {n_damaged} damaged");
    let faults = store.verify().unwrap().faults;
    let named = faults.iter().filter(|fault| fault.thread.is_some()).count();
    assert_eq!(named, n_damaged, "{faults:?}");
    // A damaged stream can be deleted.
    let damaged = faults.iter().find_map(|fault| fault.thread).unwrap();
    store.delete(damaged).unwrap();
    store.close().unwrap();
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    assert!(matches!(store.stream(damaged), Err(StoreError::NotFound { .. })));
    let named = store.verify().unwrap().faults.iter().filter(|f| f.thread.is_some()).count();
    assert_eq!(named, n_damaged - 1);
}

/// All files of the log's own, not the lock.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![dir.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                // Sled tidies its own.
                true if path.ends_with("index") => {}
                true => folders.push(path),
                false if path.ends_with("lock") => {}
                false => drop(found.insert(path.clone(), std::fs::read(path).unwrap())),
            }
        }
    }
    found
}

#[test]
fn salvage_changes_no_file_of_the_log() {
    for missing in ["", "mark", "journal-a", "journal-b", "format", "index"] {
        let (work, dir) = (scratch(), scratch());
        let store = make(work.path());
        copy_as_killed(work.path(), dir.path()).unwrap();
        drop(store);
        match dir.path().join(missing) {
            _ if missing.is_empty() => {}
            path if path.is_dir() => std::fs::remove_dir_all(path).unwrap(),
            path => std::fs::remove_file(path).unwrap(),
        }
        let before = files(dir.path());
        let rest = SledStore::salvage(dir.path(), Options::default()).unwrap();
        let info = rest.stream(thread(7)).unwrap();
        let snapshot = Snapshot { seq: info.last_seq, hash: info.hash, version: 1, state: vec![1] };
        let is_refused = |done: Result<(), StoreError>| matches!(done, Err(StoreError::Damaged(_)));
        assert!(is_refused(rest.put_snapshot(thread(7), snapshot)), "{missing}");
        assert!(is_refused(rest.keep_snapshots(thread(7), &[])), "{missing}");
        assert!(is_refused(rest.put_blob(None, b"b").map(drop)), "{missing}");
        assert!(is_refused(rest.delete(thread(7))), "{missing}");
        assert!(is_refused(put(&rest, append(thread(7), info.last_seq.0 + 1, &["x"])).map(drop)), "{missing}");
        assert_eq!(rest.snapshots(thread(7)).unwrap(), []);
        rest.verify().unwrap();
        rest.close().unwrap();
        assert_eq!(files(dir.path()), before, "{missing}");
        assert_eq!(dir.path().join("index").exists(), missing != "index");
    }
}
