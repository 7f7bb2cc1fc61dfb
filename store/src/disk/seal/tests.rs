//! A seal that was interrupted after any of its steps, and what comes after that.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use rethread_events::ids::{Seq, ThreadId, TraceId};

use super::*;
use crate::contract::{Append, LogReader as _, Store as _, Tag};
use crate::disk::SledStore;
use crate::disk::cache::Cache;
use crate::disk::damage_policy::DamagePolicy;
use crate::disk::files::Files;
use crate::disk::index::sorted_key;
use crate::disk::options::Options;
use crate::disk::recover::recover;
use crate::disk::sealer::Task;
use crate::disk::writer::hand_over;
use crate::keys::{KeyChange, KeyRange};
use crate::plan::{Addition, Recent};
use crate::testing::{append, copy_as_killed, fork, keyed, keys_of, put, scratch, texts, thread};

fn open(dir: &Path) -> SledStore {
    SledStore::open(dir, Options::default()).unwrap()
}

/// What a process leaves that is killed after this work.
fn killed_after(dir: &Path, work: impl FnOnce(&SledStore)) -> tempfile::TempDir {
    let (store, left) = (open(dir), scratch());
    work(&store);
    copy_as_killed(dir, left.path()).unwrap();
    left
}

fn closed_after(dir: &Path, work: impl FnOnce(&SledStore)) {
    let store = open(dir);
    work(&store);
    store.close().unwrap();
}

/// What a seal had written when it was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    Tags,
    Heads,
}

/// Seals what the journal of the log in `dir` holds, up to there, after `more` was done to it.
fn seal_until(dir: &Path, until: Until, more: impl FnOnce(&mut Segment)) {
    let found = recover(dir, 1 << 20, &Files::default(), &mut DamagePolicy::Strict).unwrap();
    let (tail, index, packs, cache) = (found.tail, found.index, found.packs, Cache::new(1 << 20));
    let (reader, mut journal) = (Reader { tail, index, packs, cache, is_salvage: false }, found.journal);
    more(&mut reader.tail.state.write().active);
    let Ok(Some(Task::Seal(segment))) = hand_over(&reader, &mut journal) else { panic!("nothing is to be sealed") };
    let index = &reader.index;
    let threads: Vec<ThreadId> = segment.streams.keys().copied().collect();
    let before = index
        .with(|trees| {
            let heads = threads.iter().map(|thread| trees.heads.get(thread.as_bytes()));
            Ok((heads.collect::<sled::Result<Vec<_>>>()?, trees.meta.get("watermark")?))
        })
        .unwrap();
    seal(&reader, &segment, &[]).unwrap();
    let restore = |trees: &crate::disk::index::Trees| {
        let (heads, watermark) = before;
        match watermark {
            Some(watermark) => trees.meta.insert("watermark", watermark)?,
            None => trees.meta.remove("watermark")?,
        };
        if until == Until::Tags {
            trees.heads.write(threads.iter().map(|thread| thread.as_bytes().to_vec()).zip(heads).collect())?;
        }
        Ok(())
    };
    index.with(restore).unwrap();
    index.sync().unwrap();
    index.close().unwrap();
}

fn as_it_was(_: &mut Segment) {}

/// Many records of thread 2, after some of thread 1 in the order of threads: in several chunks.
fn two_threads(store: &SledStore) {
    put(store, append(thread(1), 0, &["small"])).unwrap();
    for seq in 0..100 {
        put(store, append(thread(2), seq, &[&kilobyte(seq)])).unwrap();
    }
}

fn kilobyte(seq: u64) -> String {
    format!("{seq} ").repeat(1000).split_at(1000).0.into()
}

/// All of thread 2 can be read, from any place on.
fn check_two_threads(dir: &Path) {
    let store = open(dir);
    assert_eq!(texts(&store, thread(2)), (0..100).map(kilobyte).collect::<Vec<_>>());
    for seq in 0..100 {
        let found = store.read_stream(thread(2), Seq(seq)..Seq(100), 7).unwrap();
        assert_eq!(found.len() as u64, (100 - seq).min(7), "{seq}");
    }
    assert_eq!(store.verify().unwrap().faults, []);
}

#[test]
fn half_sealed_records_are_sealed_unchanged_before_later_ones() {
    for until in [Until::Tags, Until::Heads] {
        let dir = scratch();
        let left = killed_after(dir.path(), two_threads);
        seal_until(left.path(), until, as_it_was);
        closed_after(left.path(), |store| {
            put(store, append(thread(1), 1, &[kilobyte(1).as_str(); 20])).unwrap();
        });
        check_two_threads(left.path());
    }
}

#[test]
fn longer_segment_replaces_a_half_sealed_one() {
    let dir = scratch();
    let left = killed_after(dir.path(), two_threads);
    seal_until(left.path(), Until::Tags, as_it_was);
    let longer = |segment: &mut Segment| {
        let addition = Addition::from(append(thread(1), 1, &[kilobyte(1).as_str(); 20]));
        let (head, mut records) = (segment.streams[&thread(1)].head.unwrap(), Vec::new());
        let first = segment.next_position();
        let next = addition.place(Some(&head), head.hash, &Recent::default(), first, |record| records.push(record));
        segment.append(thread(1), head.hash, next, records);
    };
    seal_until(left.path(), Until::Heads, longer);
    let index = Index::open(&left.path().join("index"), 1 << 20, Files::default()).unwrap();
    let runs = index.runs(thread(2), Seq(0), 100).unwrap();
    let mut next = 0;
    for run in &runs {
        assert_eq!(run.first, Seq(next), "{runs:?}");
        next += run.n;
    }
    assert_eq!(next, 100, "{runs:?}");
}

#[test]
fn half_sealed_keys_are_those_of_the_last_append() {
    for until in [Until::Tags, Until::Heads] {
        let dir = scratch();
        closed_after(dir.path(), |store| {
            put(store, keyed(thread(1), 0, &["a", "b"], &[])).unwrap();
            put(store, keyed(thread(2), 0, &["a", "b"], &[])).unwrap();
        });
        let left = killed_after(dir.path(), |store| {
            put(store, keyed(thread(1), 1, &["c", "d"], &["a"])).unwrap();
            store.delete(thread(2)).unwrap();
            put(store, keyed(thread(2), 0, &["b", "e"], &[])).unwrap();
        });
        // An attempt that came further than the next one begins: it ends with what the segment says, not with both.
        let longer = |segment: &mut Segment| {
            segment.change_keys(thread(1), &[KeyChange::Add(b"a".to_vec()), KeyChange::Remove(b"d".to_vec())]);
            segment.delete(thread(2));
        };
        let again = scratch();
        copy_as_killed(left.path(), again.path()).unwrap();
        seal_until(left.path(), until, as_it_was);
        let store = open(left.path());
        assert_eq!(
            (keys_of(&store, thread(1)), keys_of(&store, thread(2))),
            (owned(&["b", "c", "d"]), owned(&["b", "e"]))
        );
        put(&store, keyed(thread(1), 2, &[], &["b"])).unwrap();
        store.close().unwrap();
        let store = open(left.path());
        assert_eq!(store.keys(&KeyRange::one(b"b"), None, 9).unwrap(), [(b"b".to_vec(), thread(2))]);
        assert_eq!(store.verify().unwrap().faults, []);
        seal_until(again.path(), Until::Tags, as_it_was);
        seal_until(again.path(), until, longer);
        let index = Index::open(&again.path().join("index"), 1 << 20, Files::default()).unwrap();
        let all = index.sorted_keys(&(Vec::new()..=vec![0xff]), 99).unwrap();
        assert_eq!(all, [&b"a"[..], b"b", b"c"].map(|key| sorted_key(key, thread(1))), "{until:?}");
        assert_eq!(index.keys_of(thread(2)).unwrap(), Vec::<Vec<u8>>::new());
    }
}

fn owned(keys: &[&str]) -> Vec<String> {
    keys.iter().map(ToString::to_string).collect()
}

fn tagged(seq: u64, tag: u8) -> Append {
    Append { tag: Tag(tag), ..append(thread(1), seq, &["tagged"]) }
}

#[test]
fn half_sealed_tag_is_the_last_one_set() {
    for until in [Until::Tags, Until::Heads] {
        let dir = scratch();
        closed_after(dir.path(), |store| {
            put(store, tagged(0, 1)).unwrap();
        });
        let left = killed_after(dir.path(), |store| {
            put(store, tagged(1, 2)).unwrap();
        });
        seal_until(left.path(), until, as_it_was);
        closed_after(left.path(), |store| {
            put(store, tagged(2, 1)).unwrap();
        });
        let store = open(left.path());
        let with = |tag: u8| store.streams(None, &[Tag(tag)], 10).unwrap().len();
        assert_eq!((with(1), with(2)), (1, 0), "{until:?}");
        assert_eq!(store.verify().unwrap().faults, []);
        store.close().unwrap();
        let index = Index::open(&left.path().join("index"), 1 << 20, Files::default()).unwrap();
        let rows = index.with(|trees| trees.tags.range(&[], &[0xff; 20], 10)).unwrap();
        assert_eq!(rows, [(pair_key(&[1], thread(1).as_bytes()), Vec::new())], "{until:?}");
    }
}

#[test]
fn half_sealed_fork_that_is_deleted_releases_its_parent() {
    for until in [Until::Tags, Until::Heads] {
        let dir = scratch();
        closed_after(dir.path(), |store| {
            put(store, append(thread(1), 0, &["parent"])).unwrap();
        });
        let left = killed_after(dir.path(), |store| {
            put(store, fork(thread(2), thread(1), 0, &["child"])).unwrap();
        });
        seal_until(left.path(), until, as_it_was);
        closed_after(left.path(), |store| store.delete(thread(2)).unwrap());
        closed_after(left.path(), |store| store.delete(thread(1)).unwrap());
    }
}

#[test]
fn restarted_thread_with_a_new_trace_does_not_block_opening() {
    let on = |trace: u8, first: u64| Append {
        trace: Some(TraceId::from_bytes([trace; 16])),
        ..append(thread(1), first, &["one", "two"])
    };
    for until in [Until::Tags, Until::Heads] {
        let dir = scratch();
        closed_after(dir.path(), |store| {
            put(store, on(1, 0)).unwrap();
        });
        let left = killed_after(dir.path(), |store| {
            put(store, on(1, 2)).unwrap();
            put(store, on(1, 4)).unwrap();
            store.delete(thread(1)).unwrap();
            put(store, on(2, 0)).unwrap();
            put(store, on(2, 2)).unwrap();
        });
        seal_until(left.path(), until, as_it_was);
        let store = open(left.path());
        assert_eq!(texts(&store, thread(1)).len(), 4, "{until:?}");
        drop(store);
        let store = open(left.path());
        assert_eq!(texts(&store, thread(1)).len(), 4, "{until:?}");
        assert_eq!(store.verify().unwrap().faults, []);
    }
}
