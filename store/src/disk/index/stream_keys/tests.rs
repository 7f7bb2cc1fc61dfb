#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{Random, thread};

#[test]
fn rows_have_the_order_of_keys_and_threads() {
    let mut random = Random::new(1);
    let mut pairs: Vec<(Vec<u8>, ThreadId)> = (0..2_000)
        .map(|_| {
            // Of few bytes, so that many keys begin alike.
            let key = (0..random.below(5)).map(|_| [0, 1, 2, 254, 255][random.below(5) as usize]).collect();
            (key, ThreadId::from_bytes([[0, 1, 255][random.below(3) as usize]; 16]))
        })
        .collect();
    pairs.push((vec![u8::MAX; KEY_BYTES_MAX], thread(1)));
    pairs.sort();
    let rows: Vec<Vec<u8>> = pairs.iter().map(|(key, thread)| sorted_key(key, *thread)).collect();
    assert!(rows.is_sorted());
    assert!(rows.iter().all(|row| row[..] < END[..]));
    let read: Vec<_> = rows.iter().map(|row| read_sorted_key(row).unwrap()).collect();
    assert_eq!(read, pairs);
    for _ in 0..500 {
        let [a, b, c] = [0; 3].map(|_| &pairs[random.below(2_001) as usize]);
        let range = KeyRange { start: a.0.clone(), end: (b.0 != [255]).then(|| b.0.clone()) };
        let after = (random.below(2) == 0).then_some((&c.0[..], c.1));
        let is_wanted = |(key, thread): &&(Vec<u8>, ThreadId)| {
            *key >= range.start && range.is_before_end(key) && after.is_none_or(|after| after < (&key[..], *thread))
        };
        let expected: Vec<_> = pairs.iter().filter(is_wanted).map(|(key, thread)| sorted_key(key, *thread)).collect();
        let is_in = |row: &&Vec<u8>| rows_of(&range, after).is_some_and(|wanted| wanted.contains(*row));
        assert_eq!(rows.iter().filter(is_in).cloned().collect::<Vec<_>>(), expected, "{range:?} after {after:?}");
    }
}

#[test]
fn invalid_rows_are_malformed() {
    for row in [&b"short"[..], b"no end of the key..", &[&b"a\0b\0\0"[..], &[7; 16]].concat()] {
        assert_eq!(read_sorted_key(row), Err(Malformed), "{row:?}");
    }
    assert_eq!(read_key_of(&[7; 15]), Err(Malformed));
}
