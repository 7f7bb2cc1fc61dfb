use super::*;

#[test]
fn one_of_the_two_copies_is_always_intact() {
    let (dir, files) = (tempfile::tempdir().unwrap(), Files::default());
    let (mut mark, log_end) = Mark::open(dir.path(), &files).unwrap();
    assert_eq!(log_end, None);
    let log_end = |group| LogEnd { group, next: Position(group * 2), sealed_epoch: 3, journal_end: group * 100 };
    mark.renew(log_end(4)).unwrap();
    mark.record(5, Position(10), 500).unwrap();
    assert_eq!(Mark::open(dir.path(), &files).unwrap().1, Some(log_end(5)));
    let path = dir.path().join(NAME);
    let whole = std::fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let found = Mark::open(dir.path(), &files).unwrap().1;
        assert!(found == Some(log_end(5)) || found == Some(log_end(4)), "{at}: {found:?}");
    }
    std::fs::write(&path, b"").unwrap();
    assert_eq!(Mark::open(dir.path(), &files).unwrap().1, None);
}

#[test]
fn updates_missed_while_the_mark_was_locked_are_written_later() {
    let (dir, files) = (tempfile::tempdir().unwrap(), Files::default());
    let shared = SharedMark::new(Mark::open(dir.path(), &files).unwrap().0);
    let group = || Mark::open(dir.path(), &files).unwrap().1.map(|log_end| log_end.group);
    shared.record(1, Position(2), 100).unwrap();
    assert_eq!(group(), Some(1));
    let held = shared.mark.lock();
    shared.record(2, Position(4), 200).unwrap();
    assert_eq!(group(), Some(1), "the writer does not wait");
    drop(held);
    shared.record_sealed(7).unwrap();
    let log_end = LogEnd { group: 2, next: Position(4), sealed_epoch: 7, journal_end: 200 };
    assert_eq!(Mark::open(dir.path(), &files).unwrap().1, Some(log_end));
}
