use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rethread_events::ids::Position;

use super::*;
use crate::disk::files::Watcher;
use crate::disk::frame::write_value;

/// Writes a group of values with these names.
fn group(journal: &mut Journal, names: &[&str]) -> io::Result<()> {
    let mut out = Vec::new();
    let stamp = journal.cursor().begin_group(Position(0), &mut out);
    for name in names {
        write_value(name, Some(b"value"), &stamp, &mut out);
    }
    journal.commit(stamp.group, &mut out)
}

fn open(dir: &Path, files: &Files, sealed_epoch: u64) -> (Journal, Vec<Vec<String>>) {
    let (journal, found) = Journal::open(dir, files, sealed_epoch, &mut DamagePolicy::Strict).unwrap();
    let names = |recovered: Recovered| {
        let name = |entry| match entry {
            Entry::Value { name, .. } => name,
            other => panic!("{other:?}"),
        };
        recovered.entries.into_iter().map(|(_, entry)| name(entry)).collect()
    };
    (journal, found.into_iter().map(names).collect())
}

#[test]
fn groups_are_recovered_in_order_and_continue_after_the_last() {
    let (dir, files) = (tempfile::tempdir().unwrap(), Files::default());
    let (mut journal, found) = open(dir.path(), &files, 0);
    assert!(found.is_empty());
    group(&mut journal, &["a", "b"]).unwrap();
    group(&mut journal, &["c"]).unwrap();
    let (mut journal, found) = open(dir.path(), &files, 0);
    assert_eq!(found, [["a", "b", "c"]]);
    group(&mut journal, &["d"]).unwrap();
    assert_eq!(open(dir.path(), &files, 0).1, [["a", "b", "c", "d"]]);
}

#[test]
fn reused_file_shows_no_earlier_frames() {
    let (dir, files) = (tempfile::tempdir().unwrap(), Files::default());
    let (mut journal, _) = open(dir.path(), &files, 0);
    group(&mut journal, &["a", "b", "c"]).unwrap();
    journal.switch(Position(0)).unwrap();
    group(&mut journal, &["d"]).unwrap();
    assert_eq!(open(dir.path(), &files, 0).1, [vec!["a", "b", "c"], vec!["d"]]);
    assert_eq!(open(dir.path(), &files, 1).1, [["d"]]);
    journal.switch(Position(0)).unwrap();
    group(&mut journal, &["e"]).unwrap();
    assert_eq!(open(dir.path(), &files, 1).1, [["d"], ["e"]]);
}

#[test]
fn a_torn_end_is_dropped() {
    let (dir, files) = (tempfile::tempdir().unwrap(), Files::default());
    let (mut journal, _) = open(dir.path(), &files, 0);
    group(&mut journal, &["a"]).unwrap();
    let end = journal.offset as usize;
    group(&mut journal, &["b", "c"]).unwrap();
    let path = dir.path().join(NAMES[0]);
    let whole = std::fs::read(&path).unwrap();
    for torn in end..journal.offset as usize {
        // Any part of the last group may be missing, with anything after it.
        let mut bytes = whole.clone();
        bytes[torn] ^= 0x55;
        std::fs::write(&path, &bytes).unwrap();
        let found = open(dir.path(), &files, 0).1;
        assert!(found == [vec!["a"]] || found == [vec!["a", "b"]], "{torn}: {found:?}");
    }
}

#[test]
fn damage_before_later_groups_is_detected() {
    let (dir, files) = (tempfile::tempdir().unwrap(), Files::default());
    let (mut journal, _) = open(dir.path(), &files, 0);
    group(&mut journal, &["a"]).unwrap();
    group(&mut journal, &["b", "c"]).unwrap();
    let end = journal.offset as usize;
    group(&mut journal, &["d"]).unwrap();
    let path = dir.path().join(NAMES[0]);
    let whole = std::fs::read(&path).unwrap();
    for at in 0..end {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        std::fs::write(&path, &bytes).unwrap();
        let opened = Journal::open(dir.path(), &files, 0, &mut DamagePolicy::Strict);
        assert!(matches!(opened, Err(StoreError::Damaged(_))), "byte {at}");
    }
}

#[test]
fn remains_of_a_failed_group_are_not_read() {
    struct Fails(AtomicBool);
    impl Watcher for Fails {
        fn before_sync(&self, _path: &Path) -> io::Result<()> {
            let fails = self.0.load(Ordering::SeqCst);
            if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }
    }
    let fails = Arc::new(Fails(AtomicBool::new(false)));
    let (dir, files) = (tempfile::tempdir().unwrap(), Files::watched(fails.clone()));
    let (mut journal, _) = open(dir.path(), &files, 0);
    group(&mut journal, &["a"]).unwrap();
    fails.0.store(true, Ordering::SeqCst);
    assert!(group(&mut journal, &["b", "c", "d"]).is_err());
    fails.0.store(false, Ordering::SeqCst);
    // Exactly over the first frame of the group that failed.
    group(&mut journal, &["B"]).unwrap();
    assert_eq!(open(dir.path(), &files, 0).1, [["a", "B"]]);
    fails.0.store(true, Ordering::SeqCst);
    assert!(group(&mut journal, &["e", "f"]).is_err());
    // Nothing is written over that one, unless it ends the file.
    assert!(journal.switch(Position(0)).is_err());
    fails.0.store(false, Ordering::SeqCst);
    assert!(group(&mut journal, &["c"]).is_ok());
    fails.0.store(true, Ordering::SeqCst);
    assert!(group(&mut journal, &["e", "f"]).is_err());
    fails.0.store(false, Ordering::SeqCst);
    journal.switch(Position(0)).unwrap();
    assert_eq!(open(dir.path(), &files, 0).1, [["a", "B", "c"]]);
    group(&mut journal, &["d"]).unwrap();
    assert_eq!(open(dir.path(), &files, 0).1, [vec!["a", "B", "c"], vec!["d"]]);
}

#[test]
fn grown_journal_is_truncated_only_after_the_burst() {
    let (dir, files) = (tempfile::tempdir().unwrap(), Files::default());
    let (mut journal, _) = open(dir.path(), &files, 0);
    let bytes = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().len();
    let write = |journal: &mut Journal, bytes: u64| {
        let mut out = Vec::new();
        let stamp = journal.cursor().begin_group(Position(0), &mut out);
        write_value("name", Some(&vec![7; bytes as usize]), &stamp, &mut out);
        journal.commit(stamp.group, &mut out).unwrap();
    };
    write(&mut journal, KEEP_BYTES * 2);
    journal.switch(Position(0)).unwrap();
    write(&mut journal, KEEP_BUSY_BYTES + 1);
    journal.switch(Position(0)).unwrap();
    assert!(bytes(NAMES[0]) > KEEP_BYTES * 2, "kept as it was");
    write(&mut journal, 1);
    journal.tidy(false);
    assert_eq!(bytes(NAMES[0]), KEEP_BYTES, "cut after what it holds");
    assert!(bytes(NAMES[1]) > KEEP_BUSY_BYTES, "it may hold what is not in sled yet");
    journal.switch(Position(0)).unwrap();
    assert_eq!(bytes(NAMES[1]), KEEP_BUSY_BYTES, "cut when it is used again");
    journal.switch(Position(0)).unwrap();
    journal.tidy(true);
    assert_eq!((bytes(NAMES[0]), bytes(NAMES[1])), (KEEP_BYTES, KEEP_BYTES));
    // What is written after that is read whole.
    group(&mut journal, &["a"]).unwrap();
    assert_eq!(open(dir.path(), &files, 4).1, [["a"]]);
}
