use super::*;
use crate::testing::thread;

#[test]
fn prefix_ends_before_the_next_key_without_it() {
    let end = |prefix: &[u8]| KeyRange::prefix(prefix).end;
    assert_eq!(end(b"timer/"), Some(b"timer0".to_vec()));
    assert_eq!(end(b"a\xff\xff"), Some(b"b".to_vec()));
    assert_eq!((end(b"\xff\xff"), end(b"")), (None, None));
    assert_eq!(KeyRange::prefix(b""), KeyRange::all());
    assert_eq!(KeyRange::one(b"a"), KeyRange::from(b"a".to_vec()..b"a\0".to_vec()));
}

#[test]
fn changes_that_make_no_difference_are_left_out() {
    let (add, remove) = (|key: &[u8]| KeyChange::Add(key.into()), |key: &[u8]| KeyChange::Remove(key.into()));
    let keys = KeySet::from_iter([b"a".to_vec(), b"b".to_vec()]);
    let changes = vec![add(b"a"), remove(b"c"), remove(b"b"), add(b"b"), add(b"d"), add(b"d")];
    let (after, changes) = keys.after(thread(1), changes).unwrap();
    assert!(after.iter().eq([&b"a"[..], b"b", b"d"]));
    assert_eq!(changes, [remove(b"b"), add(b"b"), add(b"d")]);
}
