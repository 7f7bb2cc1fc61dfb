//! The sorted keys of streams.

use futures::executor::block_on;
use rethread_events::ids::{Seq, ThreadId};

use super::Backend;
use crate::testing::{append, fork, put, texts, thread};
use crate::{Append, Import, KEY_BYTES_MAX, KEYS_MAX, KeyChange, KeyRange, Store, StoreError, Tag};

fn add(key: &[u8]) -> KeyChange {
    KeyChange::Add(key.into())
}

fn remove(key: &[u8]) -> KeyChange {
    KeyChange::Remove(key.into())
}

/// An append of one record that changes keys.
fn keyed(number: u64, expected: u64, keys: Vec<KeyChange>) -> Append {
    Append { keys, ..append(thread(number), expected, &["x"]) }
}

/// All keys of a range with the numbers of their threads, read in pages of this size.
fn listed(store: &dyn Store, range: &KeyRange, page: usize) -> Vec<(Vec<u8>, ThreadId)> {
    let mut found: Vec<(Vec<u8>, ThreadId)> = Vec::new();
    loop {
        let after = found.last().map(|(key, thread)| (&key[..], *thread));
        let more = store.keys(range, after, page).unwrap();
        assert!(more.len() <= page);
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

fn all_keys(store: &dyn Store) -> Vec<(Vec<u8>, ThreadId)> {
    listed(store, &KeyRange::all(), 100)
}

fn pair(key: &[u8], number: u64) -> (Vec<u8>, ThreadId) {
    (key.into(), thread(number))
}

/// By their bytes, then by thread, in any pages.
pub fn keys_are_listed_in_order(backend: &mut dyn Backend) {
    let long = [&[0xff; KEY_BYTES_MAX][..], &[0; KEY_BYTES_MAX]];
    let of = |number: u64| -> Vec<&[u8]> {
        match number {
            1 => vec![b"timer/5", b"", b"a", b"a\0", b"a\0\0", b"a\0\x01", b"a\x01", b"b"],
            2 => vec![b"timer/5", b"timer/3", b"timer/30", b"timer0", long[0], b"\xff"],
            3 => vec![b"timer/4", b"timer/5", long[1], b"\0", b"\0\x01"],
            _ => vec![],
        }
    };
    let mut expected = Vec::new();
    for number in [2, 3, 1] {
        put(backend.store(), keyed(number, 0, of(number)[..2].iter().map(|key| add(key)).collect())).unwrap();
        expected.extend(of(number).into_iter().map(|key| pair(key, number)));
        if number == 3 {
            backend.reopen();
        }
    }
    for number in 1..4 {
        put(backend.store(), keyed(number, 1, of(number)[2..].iter().rev().map(|key| add(key)).collect())).unwrap();
    }
    expected.sort();
    for _ in 0..3 {
        let store = backend.store();
        for page in [1, 2, 3, 100, usize::MAX] {
            assert_eq!(listed(store, &KeyRange::all(), page), expected, "{page}");
            let timers = [pair(b"timer/3", 2), pair(b"timer/30", 2), pair(b"timer/4", 3)];
            let fives = [1, 2, 3].map(|number| pair(b"timer/5", number));
            assert_eq!(listed(store, &KeyRange::prefix(b"timer/"), page), [&timers[..], &fives].concat());
            assert_eq!(listed(store, &KeyRange::one(b"timer/5"), page), fives);
            let due = KeyRange::from(b"timer/".to_vec()..b"timer/5".to_vec());
            assert_eq!(listed(store, &due, page), timers);
        }
        assert_eq!(listed(store, &KeyRange::one(b"a"), 1), [pair(b"a", 1)]);
        assert_eq!(listed(store, &KeyRange::prefix(b"nothing"), 1), []);
        assert_eq!(listed(store, &KeyRange::from(b"z".to_vec()..b"a".to_vec()), 1), []);
        assert_eq!(store.keys(&KeyRange::all(), None, 0).unwrap(), []);
        let after =
            |key: &[u8], number| store.keys(&KeyRange::prefix(b"timer/"), Some((key, thread(number))), 1).unwrap();
        assert_eq!(after(b"a", 9), [pair(b"timer/3", 2)], "before the range");
        assert_eq!(after(b"timer/5", 1), [pair(b"timer/5", 2)]);
        assert_eq!(after(b"z", 0), []);
        for number in 1..4 {
            let mut own = of(number);
            own.sort_unstable();
            assert_eq!(store.keys_of(thread(number)).unwrap(), own);
        }
        assert_eq!(store.keys_of(thread(9)).unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(store.verify().unwrap().faults, []);
        backend.reopen();
    }
}

/// Adding what is there and removing what is not there are no changes.
pub fn keys_change_atomically_with_the_records(backend: &mut dyn Backend) {
    put(backend.store(), keyed(1, 0, vec![add(b"a"), add(b"b"), add(b"a"), remove(b"never there")])).unwrap();
    put(backend.store(), keyed(2, 0, vec![add(b"b")])).unwrap();
    for reopens in [false, true] {
        let wrong = put(backend.store(), keyed(1, 7, vec![add(b"c"), remove(b"a")]));
        assert!(matches!(wrong, Err(StoreError::Conflict { .. })), "{wrong:?}");
        assert_eq!(all_keys(backend.store()), [pair(b"a", 1), pair(b"b", 1), pair(b"b", 2)]);
        if reopens {
            backend.reopen();
        }
    }
    put(backend.store(), keyed(1, 1, vec![remove(b"b"), add(b"a"), remove(b"x")])).unwrap();
    // In this order.
    put(backend.store(), keyed(2, 1, vec![remove(b"b"), add(b"b"), add(b"c"), remove(b"c")])).unwrap();
    for _ in 0..3 {
        assert_eq!(all_keys(backend.store()), [pair(b"a", 1), pair(b"b", 2)]);
        assert_eq!(backend.store().keys_of(thread(2)).unwrap(), [b"b"]);
        assert_eq!(texts(backend.store(), thread(1)), ["x", "x"]);
        assert_eq!(backend.store().verify().unwrap().faults, []);
        backend.reopen();
    }
    put(backend.store(), keyed(1, 2, vec![remove(b"a"), add(b"b")])).unwrap();
    assert_eq!(all_keys(backend.store()), [pair(b"b", 1), pair(b"b", 2)]);
    put(backend.store(), keyed(1, 3, vec![remove(b"b")])).unwrap();
    put(backend.store(), keyed(2, 2, vec![remove(b"b")])).unwrap();
    for _ in 0..2 {
        assert_eq!(all_keys(backend.store()), []);
        backend.reopen();
    }
}

/// Not even by what was queued after it and failed with it.
pub fn a_failed_append_changes_no_keys(backend: &mut dyn Backend) {
    put(backend.store(), keyed(1, 0, vec![add(b"a")])).unwrap();
    let store = backend.store();
    let wrong = store.append(keyed(1, 5, vec![add(b"b")]));
    let later = store.append(keyed(1, 1, vec![add(b"c"), remove(b"a")]));
    assert!(matches!(block_on(later), Err(StoreError::Fenced { .. })));
    assert!(matches!(block_on(wrong), Err(StoreError::Conflict { .. })));
    for _ in 0..2 {
        assert_eq!(all_keys(backend.store()), [pair(b"a", 1)]);
        backend.reopen();
    }
}

/// Neither those before the fork point nor those after it.
pub fn a_fork_does_not_inherit_keys(backend: &mut dyn Backend) {
    put(backend.store(), keyed(1, 0, vec![add(b"a")])).unwrap();
    put(backend.store(), fork(thread(2), thread(1), 0, &["y"])).unwrap();
    put(backend.store(), Append { keys: vec![add(b"b")], ..fork(thread(3), thread(1), 0, &["y"]) }).unwrap();
    for _ in 0..2 {
        assert_eq!(all_keys(backend.store()), [pair(b"a", 1), pair(b"b", 3)]);
        assert_eq!(backend.store().keys_of(thread(2)).unwrap(), Vec::<Vec<u8>>::new());
        backend.reopen();
    }
}

/// Also if a stream with its id begins again at once, with other keys or the same.
pub fn keys_of_a_deleted_stream_are_gone(backend: &mut dyn Backend) {
    for number in 1..5 {
        put(backend.store(), keyed(number, 0, vec![add(b"a"), add(b"b"), add(b"b\0")])).unwrap();
    }
    backend.reopen();
    put(backend.store(), keyed(2, 1, vec![add(b"c"), remove(b"a")])).unwrap();
    backend.store().delete_all(&[thread(1), thread(2), thread(3)]).unwrap();
    assert_eq!(backend.store().keys_of(thread(2)).unwrap(), Vec::<Vec<u8>>::new());
    let store = backend.store();
    // Nothing is waited for in between.
    let answers = [
        store.append(append(thread(2), 0, &["anew"])),
        store.append(keyed(2, 1, vec![add(b"b"), remove(b"c")])),
        store.append(keyed(3, 0, vec![add(b"d")])),
    ];
    for answer in answers {
        block_on(answer).unwrap();
    }
    let four = [pair(b"a", 4), pair(b"b", 4), pair(b"b\0", 4)];
    for _ in 0..3 {
        let store = backend.store();
        let mut expected = [&four[..], &[pair(b"b", 2), pair(b"d", 3)]].concat();
        expected.sort();
        assert_eq!(all_keys(store), expected);
        assert_eq!(listed(store, &KeyRange::all(), 1), expected);
        assert_eq!(store.keys_of(thread(1)).unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(store.keys_of(thread(2)).unwrap(), [b"b"]);
        assert_eq!(store.verify().unwrap().faults, []);
        backend.reopen();
    }
    backend.store().delete_all(&[thread(3), thread(2)]).unwrap();
    for _ in 0..2 {
        assert_eq!(all_keys(backend.store()), four);
        backend.reopen();
    }
}

/// Of a key, of an append, and of a stream, also when nothing is waited for.
pub fn keys_have_limits(backend: &mut dyn Backend) {
    let numbered = |from: usize, n: usize| (from..from + n).map(|number| add(format!("{number:05}").as_bytes()));
    let too_long = put(backend.store(), keyed(1, 0, vec![add(&[1; KEY_BYTES_MAX + 1])]));
    assert!(matches!(too_long, Err(StoreError::TooLarge { what: "a key", .. })), "{too_long:?}");
    let too_many = put(backend.store(), keyed(1, 0, numbered(0, KEYS_MAX + 1).collect()));
    assert!(matches!(too_many, Err(StoreError::Invalid(_))), "{too_many:?}");
    let too_many = put(backend.store(), keyed(1, 0, vec![remove(b"x"); 2 * KEYS_MAX + 1]));
    assert!(matches!(too_many, Err(StoreError::Invalid(_))), "{too_many:?}");
    assert!(matches!(backend.store().stream(thread(1)), Err(StoreError::NotFound { .. })));
    let store = backend.store();
    let first = store.append(keyed(1, 0, numbered(0, KEYS_MAX / 2).collect()));
    let second = store.append(keyed(1, 1, numbered(KEYS_MAX / 4, KEYS_MAX * 3 / 4).collect()));
    let third = store.append(keyed(1, 2, vec![add(b"one more")]));
    block_on(first).unwrap();
    block_on(second).unwrap();
    let too_many = block_on(third);
    assert!(matches!(too_many, Err(StoreError::Invalid(_))), "{too_many:?}");
    for _ in 0..2 {
        assert_eq!(backend.store().keys_of(thread(1)).unwrap().len(), KEYS_MAX);
        let too_many = put(backend.store(), keyed(1, 2, vec![add(b"one more")]));
        assert!(matches!(too_many, Err(StoreError::Invalid(_))), "{too_many:?}");
        backend.reopen();
    }
    // All of them are replaced at once.
    let replaced = numbered(0, KEYS_MAX).map(|change| remove(change.key())).chain(numbered(KEYS_MAX, KEYS_MAX));
    put(backend.store(), keyed(1, 2, replaced.collect())).unwrap();
    for _ in 0..2 {
        let keys = all_keys(backend.store());
        assert_eq!((keys.len(), keys.first()), (KEYS_MAX, Some(&pair(b"01024", 1))));
        assert_eq!(backend.store().verify().unwrap().faults, []);
        backend.reopen();
    }
}

/// Those that it is given, and none of those that the stream had.
pub fn import_includes_its_keys(backend: &mut dyn Backend) {
    put(backend.store(), keyed(1, 0, vec![add(b"a"), add(b"b")])).unwrap();
    let records = backend.store().read_stream(thread(1), Seq(0)..Seq(9), 9).unwrap();
    let keys = vec![b"b".to_vec(), b"c".to_vec()];
    let import = Import { fork_of: None, tag: Tag(0), records, blobs: Vec::new(), keys, values: Vec::new() };
    let refused = backend.store().import_with(import.clone());
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    assert_eq!(all_keys(backend.store()), [pair(b"a", 1), pair(b"b", 1)]);
    backend.store().delete(thread(1)).unwrap();
    for wrong in [vec![vec![0; KEY_BYTES_MAX + 1]], vec![Vec::new(); KEYS_MAX + 1]] {
        assert!(backend.store().import_with(Import { keys: wrong, ..import.clone() }).is_err());
    }
    backend.store().import_with(import).unwrap();
    for _ in 0..3 {
        assert_eq!(all_keys(backend.store()), [pair(b"b", 1), pair(b"c", 1)]);
        assert_eq!(backend.store().keys_of(thread(1)).unwrap(), [b"b", b"c"]);
        backend.reopen();
    }
}
