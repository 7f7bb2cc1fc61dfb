use super::*;

#[test]
fn one_of_the_two_copies_is_always_whole() {
    let (dir, files) = (tempfile::tempdir().unwrap(), Files::default());
    let (mut mark, reached) = Mark::open(dir.path(), &files).unwrap();
    assert_eq!(reached, None);
    let reached = |group| Reached { group, next: Position(group * 2), sealed_epoch: 3, journal_end: group * 100 };
    mark.renew(reached(4)).unwrap();
    mark.note(5, Position(10), 500).unwrap();
    assert_eq!(Mark::open(dir.path(), &files).unwrap().1, Some(reached(5)));
    let path = dir.path().join(NAME);
    let whole = std::fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let found = Mark::open(dir.path(), &files).unwrap().1;
        assert!(found == Some(reached(5)) || found == Some(reached(4)), "{at}: {found:?}");
    }
    std::fs::write(&path, b"").unwrap();
    assert_eq!(Mark::open(dir.path(), &files).unwrap().1, None);
}

#[test]
fn a_copy_of_format_1_is_read() {
    let (dir, files) = (tempfile::tempdir().unwrap(), Files::default());
    let mut slot = Vec::new();
    for number in [7, 4, 9, 3_u64] {
        slot.u64(number);
    }
    let crc = crc32fast::hash(&slot);
    slot.u32(crc);
    slot.resize(SLOT_BYTES, 0);
    std::fs::write(dir.path().join(NAME), slot).unwrap();
    let reached = Reached { group: 4, next: Position(9), sealed_epoch: 3, journal_end: 0 };
    assert_eq!(Mark::open(dir.path(), &files).unwrap().1, Some(reached));
}

#[test]
fn notes_missed_while_the_mark_was_held_are_written_later() {
    let (dir, files) = (tempfile::tempdir().unwrap(), Files::default());
    let shared = SharedMark::new(Mark::open(dir.path(), &files).unwrap().0);
    let group = || Mark::open(dir.path(), &files).unwrap().1.map(|reached| reached.group);
    shared.note(1, Position(2), 100).unwrap();
    assert_eq!(group(), Some(1));
    let held = shared.mark.lock();
    shared.note(2, Position(4), 200).unwrap();
    assert_eq!(group(), Some(1), "the writer does not wait");
    drop(held);
    shared.note_sealed(7).unwrap();
    let reached = Reached { group: 2, next: Position(4), sealed_epoch: 7, journal_end: 200 };
    assert_eq!(Mark::open(dir.path(), &files).unwrap().1, Some(reached));
}
