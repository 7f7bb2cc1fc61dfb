//! What is deleted leaves the stream, and a replica that is filled again is the same as one that was there.

use std::path::Path;
use std::time::{Duration, Instant};

use rethread_events::ids::{Hash, Seq};
use rethread_store::testing::{Random, append, fork, keyed, put, record, thread};
use rethread_store::{Append, Cause, Import, JetStreamStore, LogReader, Store};

use super::{ONE, assert_same, open, options, own};

/// Whether these bytes are in any file below a folder.
fn contains(folder: &Path, needle: &[u8]) -> bool {
    let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| match entry.file_type().unwrap().is_dir() {
        true => contains(&entry.path(), needle),
        false => {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            bytes.windows(needle.len()).any(|window| window == needle)
        }
    })
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn deleted_thread_leaves_the_stream() {
    let Some(servers) = own(1, "") else { return };
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), &servers.options("erased"));
    // Without a repetition, so that packing leaves them as they are.
    let (secret, blob, kept) = (b"c4t-u9Wq!zR", b"blob-7Hd-Xk2", b"kept-m3Vp_Ls");
    let mut first = append(thread(1), 0, &["x"]);
    first.records[0].payload = secret.to_vec();
    put(&store, first).unwrap();
    store.put_blob(None, blob).unwrap();
    let mut other = append(thread(2), 0, &["x"]);
    other.records[0].payload = kept.to_vec();
    put(&store, other).unwrap();
    for needle in [&secret[..], blob, kept] {
        wait_until("it was not stored", || contains(servers.folder(), needle));
    }
    store.delete(thread(1)).unwrap();
    store.release_blobs(&[Hash::of(blob)], &[]).unwrap();
    for needle in [&secret[..], blob] {
        wait_until("it was not erased", || !contains(servers.folder(), needle));
    }
    assert!(contains(servers.folder(), kept));
}

/// Changes of all kinds, some of which are refused.
fn change(store: &dyn Store, random: &mut Random) {
    let id = thread(random.below(8));
    let next = store.stream(id).map_or(0, |info| info.last_seq.0 + 1);
    let refused = match random.below(14) {
        0 => store.delete(id).err(),
        1 => {
            let parent = thread(random.below(8));
            put(store, fork(id, parent, random.below(5), &["forked"])).err()
        }
        2 => put(store, append(id, next + 1, &["too late"])).err(),
        3 => store.put_value(&format!("v{}", random.below(4)), &[random.below(255) as u8]).err(),
        4 => store.remove_value(&format!("v{}", random.below(4))).err(),
        5 => store.put_blob(None, &[random.below(3) as u8; 50]).err(),
        6 => store.release_blobs(&[Hash::of(&[random.below(3) as u8; 50])], &[]).err(),
        7 => put(store, Append { blobs: vec![vec![9; 70]], ..keyed(id, next, &["a", "b"], &[]) }).err(),
        8 => moved(store, id),
        9 => {
            let mut caused = append(id, next, &["caused"]);
            caused.records[0].cause = next.checked_sub(1).map(|seq| Cause::Own(Seq(seq)));
            put(store, caused).err()
        }
        _ => {
            let records = (0..1 + random.below(4)).map(|n| record(&format!("{n}"))).collect();
            put(store, Append { records, ..append(id, next, &[]) }).err()
        }
    };
    drop(refused);
}

/// Exports a thread, deletes it and imports it again, with a value.
fn moved(store: &dyn Store, id: rethread_events::ids::ThreadId) -> Option<rethread_store::StoreError> {
    let info = store.stream(id).ok()?;
    let first = info.fork_of.map_or(Seq(0), |point| point.seq.next());
    let records = store.read_stream(id, first..Seq(u64::MAX), 1000).unwrap();
    let keys = store.keys_of(id).unwrap();
    store.delete(id).ok()?;
    let (fork_of, tag) = (info.fork_of, info.tag);
    let values = vec![("moved".to_owned(), vec![records.len() as u8])];
    store.import_with(Import { fork_of, tag, records, blobs: vec![vec![3; 40]], keys, values }).err()
}

#[test]
fn replica_filled_again_is_the_same() {
    let Some(options) = options(&ONE) else { return };
    let mut random = Random::new(11);
    let mut dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path(), &options);
    for round in 0..12 {
        for _ in 0..60 {
            change(&store, &mut random);
        }
        drop(store);
        let fresh = tempfile::tempdir().unwrap();
        let filled = open(fresh.path(), &options);
        // The folder of a closed replica is a log.
        let folder =
            rethread_store::SledStore::open(dir.path().join("log"), rethread_store::Options::default()).unwrap();
        assert_same(&folder, &filled);
        for byte in 0..3 {
            let hash = Hash::of(&[byte; 50]);
            assert_eq!(folder.blob(hash).ok(), filled.blob(hash).ok(), "round {round}");
        }
        drop(folder);
        (dir, store) = (fresh, filled);
    }
}

#[test]
fn replica_that_was_away_misses_nothing() {
    let Some(options) = options(&ONE) else { return };
    let mut random = Random::new(5);
    let (here, away) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for _ in 0..8 {
        for dir in [&away, &here] {
            let store: JetStreamStore = open(dir.path(), &options);
            for _ in 0..40 {
                change(&store, &mut random);
            }
        }
    }
    let store = open(away.path(), &options);
    let fresh = tempfile::tempdir().unwrap();
    store.close().unwrap();
    let folder = rethread_store::SledStore::open(away.path().join("log"), rethread_store::Options::default()).unwrap();
    let filled = open(fresh.path(), &options);
    assert_same(&folder, &filled);
}
