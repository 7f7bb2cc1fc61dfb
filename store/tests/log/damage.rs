//! After any damage to a file of the log: a typed error or nothing at all, and never a silent loss, a panic or an
//! endless wait.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use rethread_events::ids::{Hash, Position, Seq, ThreadId};
use rethread_store::testing::{
    append, copy_as_killed, keyed, put, scratch, thread, wait_for_mark, wait_for_mark_after, write_small_log,
};
use rethread_store::{KeyRange, LogReader, Options, Record, SledStore, Store, StoreError};

/// What a sound log holds.
#[derive(Debug, Clone)]
struct Sound {
    streams: BTreeMap<ThreadId, Vec<Record>>,
    records: Vec<Record>,
    values: Vec<(String, Vec<u8>)>,
    blobs: Vec<Hash>,
    keys: Vec<(Vec<u8>, ThreadId)>,
}

fn sound(store: &dyn Store) -> Sound {
    let streams = store.streams(None, &[], 100).unwrap();
    Sound {
        streams: streams
            .iter()
            .map(|info| {
                let range = Seq(0)..Seq(u64::MAX);
                (info.thread, store.read_stream(info.thread, range, 1000).unwrap())
            })
            .collect(),
        records: store.read_all(Position(0), 10_000).unwrap(),
        values: store.values("").unwrap(),
        blobs: vec![Hash::of(b"a workflow"), Hash::of(&[7; 40_000])],
        keys: store.keys(&KeyRange::all(), None, 100).unwrap(),
    }
}

/// Part of the log is in sled, the rest in the journal; closed in order or not.
fn make(dir: &Path, clean: bool) -> Sound {
    let work = scratch();
    let store = SledStore::open(work.path(), Options::default()).unwrap();
    write_small_log(&store).unwrap();
    for number in 20..26 {
        put(&store, append(thread(number), 0, &["some text"; 5])).unwrap();
        put(&store, keyed(thread(number), 5, &["shared", &format!("key {number}")], &[])).unwrap();
    }
    drop(store);
    let store = SledStore::open(work.path(), Options::default()).unwrap();
    store.put_value("late", b"value").unwrap();
    for number in 22..28 {
        let next = store.stream(thread(number)).map_or(0, |info| info.last_seq.0 + 1);
        put(&store, append(thread(number), next, &["more text"; 3])).unwrap();
        put(&store, keyed(thread(number), next + 3, &["recent"], &["shared"])).unwrap();
    }
    let sound = sound(&store);
    if clean {
        drop(store);
        copy_as_killed(work.path(), dir).unwrap();
    } else {
        wait_for_mark(work.path(), store.next_position());
        copy_as_killed(work.path(), dir).unwrap();
    }
    sound
}

/// Opens and reads everything. What it says is what is damaged, if anything.
fn look(dir: &Path, sound: &Sound) -> Result<Vec<String>, String> {
    let store = match SledStore::open(dir, Options::default()) {
        Ok(store) => store,
        Err(error @ (StoreError::Damaged(_) | StoreError::Format { .. } | StoreError::Io { .. })) => {
            return Ok(vec![error.to_string()]);
        }
        Err(error) => return Err(format!("opening says {error:?}")),
    };
    let mut found = Vec::new();
    let mut check = |what: String, as_written: Result<bool, StoreError>| match as_written {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("{what} is not what was written, silently")),
        Err(StoreError::Damaged(damage)) => {
            found.push(damage.to_string());
            Ok(())
        }
        Err(error) => Err(format!("{what} says {error:?}")),
    };
    for (thread, records) in &sound.streams {
        let read = store.read_stream(*thread, Seq(0)..Seq(u64::MAX), 1000);
        check(format!("{thread}"), read.map(|read| read == *records))?;
        let last = records.last().unwrap();
        let info = store.stream(*thread);
        check(format!("the head of {thread}"), info.map(|info| info.hash == last.hash))?;
        let own = sound.keys.iter().filter(|(_, of)| of == thread).map(|(key, _)| key);
        check(format!("the keys of {thread}"), store.keys_of(*thread).map(|keys| keys.iter().eq(own)))?;
    }
    let listed = store.streams(None, &[], 100);
    check("the list".into(), listed.map(|listed| listed.len() == sound.streams.len()))?;
    let all = store.read_all(Position(0), 10_000);
    check("the whole log".into(), all.map(|all| all == sound.records))?;
    check("the values".into(), store.values("").map(|values| values == sound.values))?;
    let keys = store.keys(&KeyRange::all(), None, 100);
    check("the keys".into(), keys.map(|keys| keys == sound.keys))?;
    for hash in &sound.blobs {
        let blob = store.blob(*hash);
        check(format!("blob {hash}"), blob.map(|blob| Hash::of(&blob) == *hash))?;
    }
    let verification = store.verify().map_err(|error| format!("verify says {error:?}"))?;
    if !found.is_empty() && verification.faults.is_empty() {
        return Err(format!("verify found nothing, though {found:?}"));
    }
    // Undamaged threads keep working: a new one does in any case, unless it is refused with a reason.
    match put(&store, append(thread(77), 0, &["after the damage"])) {
        Ok(_) | Err(StoreError::Damaged(_)) => {}
        Err(error) => return Err(format!("an append says {error:?}")),
    }
    found.extend(verification.faults.iter().map(ToString::to_string));
    let _ = store.close();
    Ok(found)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Damages one file of a copy and reads it; returns how many damages were noticed.
fn try_each(clean: bool, damages: impl Fn(&[u8]) -> Vec<Option<Vec<u8>>>) -> (usize, usize) {
    let origin = scratch();
    let sound = make(origin.path(), clean);
    // The copy itself is sound.
    let copy = scratch();
    copy_as_killed(origin.path(), copy.path()).unwrap();
    assert_eq!(look(copy.path(), &sound), Ok(Vec::new()));
    let (mut n, mut n_noticed) = (0, 0);
    for file in files(origin.path()) {
        let bytes = std::fs::read(&file).unwrap();
        for (index, damaged) in damages(&bytes).into_iter().enumerate() {
            let copy = scratch();
            copy_as_killed(origin.path(), copy.path()).unwrap();
            let name = file.strip_prefix(origin.path()).unwrap();
            match damaged {
                Some(bytes) => std::fs::write(copy.path().join(name), bytes).unwrap(),
                None => std::fs::remove_file(copy.path().join(name)).unwrap(),
            }
            let what = format!("{}, damage {index}, clean: {clean}", name.display());
            let (sender, receiver) = sync_channel(1);
            let (dir, sound) = (copy.path().to_path_buf(), sound.clone());
            let looker = std::thread::spawn(move || {
                let _ = sender.send(look(&dir, &sound));
            });
            match receiver.recv_timeout(Duration::from_secs(120)) {
                Ok(Ok(found)) => n_noticed += usize::from(!found.is_empty()),
                Ok(Err(wrong)) => panic!("{what}: {wrong}"),
                Err(error) => panic!("{what}: {error}"),
            }
            looker.join().unwrap();
            n += 1;
        }
    }
    (n, n_noticed)
}

/// About that many places, those that are not zero first, because most of a file may be.
fn places(bytes: &[u8], n: usize) -> Vec<usize> {
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let mut places: Vec<usize> = used.iter().step_by((used.len() / n).max(1)).copied().collect();
    places.extend((0..bytes.len()).step_by((bytes.len() / 8).max(1)));
    places
}

fn flips(bytes: &[u8]) -> Vec<Option<Vec<u8>>> {
    let flipped = |at: &usize| {
        let mut bytes = bytes.to_vec();
        bytes[*at] ^= 1 << (at % 8);
        Some(bytes)
    };
    places(bytes, 40).iter().map(flipped).collect()
}

fn cuts(bytes: &[u8]) -> Vec<Option<Vec<u8>>> {
    let mut cuts: Vec<_> = places(bytes, 20).iter().map(|at| Some(bytes[..*at].to_vec())).collect();
    cuts.push(Some(Vec::new()));
    cuts.push(None);
    cuts
}

#[test]
fn flipped_bits_in_a_closed_log_are_detected() {
    let (n, n_noticed) = try_each(true, flips);
    assert!(n > 100 && n_noticed > 0, "{n_noticed} of {n}");
}

#[test]
fn flipped_bits_in_a_killed_log_are_detected() {
    let (n, n_noticed) = try_each(false, flips);
    assert!(n > 100 && n_noticed > 0, "{n_noticed} of {n}");
}

#[test]
fn cut_or_missing_files_of_a_closed_log_are_detected() {
    let (n, n_noticed) = try_each(true, cuts);
    assert!(n > 50 && n_noticed > 0, "{n_noticed} of {n}");
}

#[test]
fn cut_or_missing_files_of_a_killed_log_are_detected() {
    let (n, n_noticed) = try_each(false, cuts);
    assert!(n > 50 && n_noticed > 0, "{n_noticed} of {n}");
}

/// The last group is acknowledged as a whole: what is after the damage in it counts, too.
#[test]
fn damage_inside_the_last_group_is_detected() {
    let (work, dir) = (scratch(), scratch());
    let store = SledStore::open(work.path(), Options::default()).unwrap();
    // Of two that are under way at once the second is soon in the group of the first.
    let together = (0..1000).any(|n| {
        let both = [thread(2 * n), thread(2 * n + 1)].map(|thread| store.append(append(thread, 0, &["text"])));
        let [_, second] = both.map(|one| futures::executor::block_on(one).unwrap());
        second.group == 2
    });
    assert!(together);
    wait_for_mark(work.path(), store.next_position());
    copy_as_killed(work.path(), dir.path()).unwrap();
    let journal = dir.path().join("journal-a");
    let mut bytes = std::fs::read(&journal).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[end] ^= 1;
    std::fs::write(&journal, bytes).unwrap();
    let opened = SledStore::open(dir.path(), Options::default());
    assert!(matches!(opened, Err(StoreError::Damaged(_))), "{opened:?}");
}

#[test]
fn damage_to_a_value_at_the_end_is_detected() {
    let (work, dir) = (scratch(), scratch());
    let store = SledStore::open(work.path(), Options::default()).unwrap();
    put(&store, append(thread(1), 0, &["text"])).unwrap();
    let group = wait_for_mark(work.path(), store.next_position());
    store.put_value("cursor/billing", b"12").unwrap();
    wait_for_mark_after(work.path(), group);
    copy_as_killed(work.path(), dir.path()).unwrap();
    let journal = dir.path().join("journal-a");
    let mut bytes = std::fs::read(&journal).unwrap();
    let last = bytes.windows(14).rposition(|window| window == b"cursor/billing").unwrap();
    bytes[last] ^= 1;
    std::fs::write(&journal, bytes).unwrap();
    let opened = SledStore::open(dir.path(), Options::default());
    assert!(matches!(opened, Err(StoreError::Damaged(_))), "{opened:?}");
}

/// They say only where sled's pages lie, which its file says, too.
#[test]
fn sled_snapshots_that_do_not_match_its_file_are_ignored() {
    let dir = scratch();
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    write_small_log(&store).unwrap();
    let sound = sound(&store);
    drop(store);
    // Sled writes them when it opens a file that has something in it.
    SledStore::open(dir.path(), Options::default()).unwrap().close().unwrap();
    let notes: Vec<PathBuf> = files(&dir.path().join("index"))
        .into_iter()
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("snap."))
        .collect();
    assert!(!notes.is_empty());
    for note in &notes {
        let mut bytes = std::fs::read(note).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(note, bytes).unwrap();
    }
    assert_eq!(look(dir.path(), &sound), Ok(Vec::new()));
    let left = files(&dir.path().join("index"));
    assert!(!left.iter().any(|path| path.to_string_lossy().contains("aside")), "{left:?}");
}
