//! Blocks against a plain map: any rows in any order, after any interruption, and for concurrent readers.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::{BLOCK_BYTES_MAX, Blocks, Changes, MARK};

fn empty() -> Blocks {
    Blocks::new(sled::Config::new().temporary(true).open().unwrap().open_tree("rows").unwrap())
}

fn key(number: u32) -> Vec<u8> {
    [&b"thread"[..], &number.to_be_bytes()].concat()
}

fn value(number: u32) -> Vec<u8> {
    vec![(number % 200) as u8; (number % 97) as usize]
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn write(blocks: &Blocks, plain: &mut Rows, changes: Changes) {
    for (key, value) in &changes {
        match value {
            Some(value) => plain.insert(key.clone(), value.clone()),
            None => plain.remove(key),
        };
    }
    blocks.write(changes).unwrap();
}

/// Everything that can be asked answers what a plain map would.
fn check(blocks: &Blocks, plain: &Rows) {
    let all = blocks.range(&[], &[0xff; 20], usize::MAX).unwrap();
    assert!(all.iter().map(|(key, value)| (key, value)).eq(plain), "{} rows of {}", all.len(), plain.len());
    let keys: Vec<Vec<u8>> = (0..300).map(key).collect();
    let values: Vec<Option<Vec<u8>>> = keys.iter().map(|key| plain.get(key).cloned()).collect();
    assert_eq!(blocks.get_all(keys.iter().map(|key| &key[..])).unwrap(), values);
    for (key, value) in keys.iter().zip(values) {
        assert_eq!(blocks.get(key).unwrap(), value);
    }
    for (low, high) in [(0, 300), (10, 20), (17, 17), (150, 299), (299, 400)] {
        let (low, high) = (key(low), key(high));
        let within: Vec<_> = plain.range(low.clone()..=high.clone()).map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(blocks.range(&low, &high, 5).unwrap(), within[..within.len().min(5)]);
        assert_eq!(blocks.last(&low, &high, |_, _| true).unwrap().as_ref(), within.last());
        let is_long = |_: &[u8], value: &[u8]| value.len() > 90;
        let long = within.iter().rev().find(|(key, value)| is_long(key, value));
        assert_eq!(blocks.last(&low, &high, is_long).unwrap().as_ref(), long);
    }
}

fn numbers() -> impl Strategy<Value = Vec<Vec<(u32, bool)>>> {
    prop::collection::vec(prop::collection::vec((0_u32..300, prop::bool::weighted(0.7)), 1..80), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn blocks_match_a_map(batches in numbers()) {
        let (blocks, mut plain) = (empty(), Rows::new());
        for (round, batch) in (0..).zip(batches) {
            let changes = batch.into_iter().map(|(n, is_put)| (key(n), is_put.then(|| value(n + round)))).collect();
            write(&blocks, &mut plain, changes);
            check(&blocks, &plain);
        }
    }

    #[test]
    fn interrupted_write_of_blocks_is_completed_by_a_repeat(batches in numbers(), cut in 0_usize..40) {
        let (blocks, mut plain) = (empty(), Rows::new());
        for (round, batch) in (0..).zip(batches) {
            let changes: Changes =
                batch.into_iter().map(|(n, is_put)| (key(n), is_put.then(|| value(n + round)))).collect();
            let before = rows_of(&blocks);
            blocks.write(changes.clone()).unwrap();
            interrupt(&blocks, &before, cut);
            // What was not to be changed is there all the same.
            for (key, value) in plain.iter().filter(|(key, _)| !changes.contains_key(*key)) {
                assert_eq!(blocks.get(key).unwrap().as_ref(), Some(value));
            }
            write(&blocks, &mut plain, changes);
            check(&blocks, &plain);
        }
    }
}

fn rows_of(blocks: &Blocks) -> BTreeMap<sled::IVec, sled::IVec> {
    blocks.0.iter().map(Result::unwrap).collect()
}

/// Leaves the tree as it was when only some of the steps of a write had been made: blocks one after the other, of each
/// the pieces from the last to the first.
fn interrupt(blocks: &Blocks, before: &BTreeMap<sled::IVec, sled::IVec>, n_steps: usize) {
    let after = rows_of(blocks);
    let mut steps = Vec::new();
    let mut pieces = Vec::new();
    for (key, value) in &after {
        // A piece belongs to the block before it; that one is written after it.
        if before.contains_key(key) {
            steps.extend(pieces.drain(..).rev());
        }
        if before.get(key) != Some(value) {
            pieces.push((key, Some(value)));
        }
    }
    steps.extend(pieces.into_iter().rev());
    steps.extend(before.keys().filter(|key| !after.contains_key(*key)).map(|key| (key, None)));
    for (key, _) in steps.into_iter().skip(n_steps) {
        match before.get(key) {
            Some(value) => blocks.0.insert(key, value).unwrap(),
            None => blocks.0.remove(key).unwrap(),
        };
    }
}

#[test]
fn rows_are_few_to_sled_and_blocks_are_small() {
    let blocks = empty();
    for begin in (0..10_000).step_by(200) {
        // As threads come: later ones after those before, some at the same time.
        blocks.write((begin..begin + 300).map(|n| (key(n), Some(vec![1; 48]))).collect()).unwrap();
    }
    let sizes: Vec<usize> = blocks.0.iter().map(|row| row.unwrap().1.len()).collect();
    assert!(sizes.iter().all(|bytes| *bytes < BLOCK_BYTES_MAX + 64), "{sizes:?}");
    assert!(sizes.len() < 10_100 / 6, "{} blocks", sizes.len());
    blocks.write((0..10_100).map(|n| (key(n), None)).collect()).unwrap();
    assert_eq!(blocks.0.len(), 0);
}

#[test]
fn changed_block_is_an_error() {
    let blocks = empty();
    blocks.0.insert(key(1), [&MARK[..], &[3, 1, 1, 1]].concat()).unwrap();
    assert!(matches!(blocks.get(&key(1)), Err(sled::Error::Corruption { .. })));
    assert!(matches!(blocks.range(&[], &key(9), 9), Err(sled::Error::Corruption { .. })));
}

#[test]
fn concurrent_reader_finds_every_row() {
    let (blocks, is_done) = (empty(), AtomicBool::new(false));
    let stays: Vec<u32> = (0..300).filter(|n| n % 3 == 0).collect();
    blocks.write(stays.iter().map(|n| (key(*n), Some(vec![1; 30]))).collect()).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut n_reads = 0;
            while !is_done.load(Ordering::SeqCst) {
                let all = blocks.range(&[], &[0xff; 20], usize::MAX).unwrap();
                assert!(all.is_sorted());
                let listed: Vec<_> = all.iter().map(|(key, _)| key).collect();
                for n in &stays {
                    assert!(listed.binary_search(&&key(*n)).is_ok(), "{n} is not listed");
                    assert!(blocks.get(&key(*n)).unwrap().is_some(), "{n} is not there");
                    let last = blocks.last(&[], &key(*n), |_, _| true).unwrap();
                    assert_eq!(last.unwrap().0, key(*n));
                }
                n_reads += 1;
            }
            n_reads
        });
        for round in 0..200_u32 {
            let goes = (0..300).filter(|n| n % 3 != 0);
            let rows = goes.map(|n| (key(n), (n + round).is_multiple_of(2).then(|| vec![2; 60]))).collect();
            blocks.write(rows).unwrap();
        }
        is_done.store(true, Ordering::SeqCst);
        assert!(reader.join().unwrap() > 0);
    });
}
