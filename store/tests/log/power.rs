//! A power cut at any moment loses nothing that was acknowledged, for any part of the rest that reached the disk.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rethread_events::ids::{Hash, Seq, ThreadId};
use rethread_store::testing::{
    PowerCut, Random, append, copy_as_killed, fork, keyed, keys_of, put, scratch, texts, thread,
};
use rethread_store::{
    Append, Import, KeyChange, KeyRange, LogReader, Options, SledStore, Store, StoreError, Tag, Watcher,
};

fn options(power: Option<&PowerCut>) -> Options {
    Options { tail_bytes: 12 << 10, watcher: power.map(|power| Arc::new(power.clone()) as _), ..Options::default() }
}

/// What was acknowledged.
#[derive(Debug, Default)]
struct Acknowledged {
    heads: HashMap<ThreadId, (Seq, Hash)>,
    deleted: Vec<ThreadId>,
    values: HashMap<String, Vec<u8>>,
    blobs: Vec<Hash>,
    keys: BTreeSet<(Vec<u8>, ThreadId)>,
}

impl Acknowledged {
    fn check(&self, store: &dyn Store, what: &str) {
        for (thread, (seq, hash)) in &self.heads {
            let records = store.read_stream(*thread, *seq..seq.next(), 1);
            let records = records.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(records[0].hash, *hash, "{what}: {thread} {seq}");
        }
        for thread in &self.deleted {
            assert!(store.stream(*thread).is_err(), "{what}: {thread} was deleted");
        }
        for (name, value) in &self.values {
            assert_eq!(store.value(name).unwrap().as_ref(), Some(value), "{what}: {name}");
        }
        for blob in &self.blobs {
            store.blob(*blob).unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        let keys = store.keys(&KeyRange::all(), None, usize::MAX).unwrap();
        assert!(keys.iter().eq(&self.keys), "{what}: {keys:?}");
        assert_eq!(store.verify().unwrap().faults, [], "{what}");
    }

    /// Some changes to the keys of a thread, which are made if its next append is acknowledged.
    fn change_keys(&mut self, thread: ThreadId, random: &mut Random) -> Vec<KeyChange> {
        let mut changes = Vec::new();
        for _ in 0..random.below(4) {
            let key = format!("key {}", random.below(30)).into_bytes();
            if random.below(3) > 0 {
                self.keys.insert((key.clone(), thread));
                changes.push(KeyChange::Add(key));
            } else {
                self.keys.remove(&(key.clone(), thread));
                changes.push(KeyChange::Remove(key));
            }
        }
        changes
    }
}

/// Does something at random and waits for it; what is not waited for may or may not be there.
fn work(store: &dyn Store, random: &mut Random, done: &mut Acknowledged) {
    let id = thread(random.below(12));
    let next = done.heads.get(&id).map_or(0, |(seq, _)| seq.0 + 1);
    match random.below(20) {
        0 => {
            let name = format!("value {}", random.below(4));
            let value = vec![random.below(256) as u8; random.below(200) as usize];
            store.put_value(&name, &value).unwrap();
            done.values.insert(name, value);
        }
        1 => {
            let bytes = vec![random.below(256) as u8; random.below(60_000) as usize];
            done.blobs.push(store.put_blob(None, &bytes).unwrap());
        }
        2 if next > 0 => {
            let child = thread(1000 + random.below(1 << 40));
            let keys = done.change_keys(child, random);
            let first = Append { keys, ..fork(child, id, random.below(next), &["forked"]) };
            let appended = put(store, first).unwrap();
            done.heads.insert(child, (appended.last_seq, appended.hash));
            if random.below(2) == 0 {
                store.delete(child).unwrap();
                done.heads.remove(&child);
                done.keys.retain(|(_, thread)| *thread != child);
                done.deleted.push(child);
            }
        }
        3 => {
            let text = format!("large {}", random.below(1000)).repeat(3000);
            let appended = put(store, append(id, next, &[&text])).unwrap();
            done.heads.insert(id, (appended.last_seq, appended.hash));
        }
        _ => {
            let texts: Vec<String> =
                (0..=random.below(4)).map(|n| format!("{n} {}", "text ".repeat(random.below(60) as usize))).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let keys = done.change_keys(id, random);
            let appended = put(store, Append { keys, ..append(id, next, &texts) }).unwrap();
            done.heads.insert(id, (appended.last_seq, appended.hash));
        }
    }
}

#[test]
fn a_power_cut_loses_nothing_acknowledged() {
    let mut n_cuts = 0;
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let dir = scratch();
        let power = PowerCut::default();
        let mut done = Acknowledged::default();
        let mut store = SledStore::open(dir.path(), options(Some(&power))).unwrap();
        for round in 0..25 {
            for _ in 0..random.below(12) {
                work(&store, &mut random, &mut done);
            }
            // Some appends without a waiting caller are in flight at the power cut.
            let in_flight: Vec<_> = (0..random.below(4))
                .map(|n| store.append(append(thread(5000 + round * 10 + n), 0, &["in flight"])))
                .collect();
            for keep in [0, 50, 90, 100] {
                let left = scratch();
                power.cut(dir.path(), left.path(), || random.below(100) < keep).unwrap();
                let what = format!("seed {seed}, round {round}, {keep} % of the unsynced kept");
                let after = SledStore::open(left.path(), options(None));
                let after = after.unwrap_or_else(|error| panic!("{what}: {error}"));
                done.check(&after, &what);
                // Life goes on there.
                put(&after, append(thread(99), 0, &["after the cut"])).unwrap();
                drop(after);
                let again = SledStore::open(left.path(), options(None)).unwrap();
                done.check(&again, &what);
                n_cuts += 1;
            }
            drop(in_flight);
            if random.below(6) == 0 {
                store.close().unwrap();
                store = SledStore::open(dir.path(), options(Some(&power))).unwrap();
            }
        }
    }
    assert_eq!(n_cuts, 400);
}

/// Sled's file is written and cannot be synced by the sealer.
struct Unsynced;

impl Watcher for Unsynced {
    fn before_sync(&self, path: &Path) -> io::Result<()> {
        let is_seal = path.ends_with("db") && std::thread::current().name() == Some("log sealer");
        if is_seal { Err(io::Error::other("the disk does not answer")) } else { Ok(()) }
    }
}

#[test]
fn unsynced_journal_is_synced_before_it_is_overwritten() {
    let dir = scratch();
    let unsynced = Options { watcher: Some(Arc::new(Unsynced)), ..Options::default() };
    let store = SledStore::open(dir.path(), unsynced).unwrap();
    put(&store, append(thread(1), 0, &["one", "two"])).unwrap();
    // All that is left is in sled, of which nothing needs to be on the disk yet.
    assert!(matches!(store.close(), Err(StoreError::Io { .. })));
    let power = PowerCut::default();
    let store = SledStore::open(dir.path(), options(Some(&power))).unwrap();
    put(&store, append(thread(2), 0, &["other"])).unwrap();
    let left = scratch();
    power.cut(dir.path(), left.path(), || false).unwrap();
    let after = SledStore::open(left.path(), options(None)).unwrap();
    assert_eq!(texts(&after, thread(1)), ["one", "two"]);
    assert_eq!(texts(&after, thread(2)), ["other"]);
    assert_eq!(after.verify().unwrap().faults, []);
}

/// Cuts the power before each sync of the journal while it is on, with more and more of what was written on the disk.
#[derive(Default)]
struct BeforeSync {
    power: PowerCut,
    dir: PathBuf,
    /// How many sectors reached the disk, in each cut.
    sectors: Mutex<Vec<usize>>,
    left: Mutex<Vec<tempfile::TempDir>>,
}

impl Watcher for BeforeSync {
    fn write(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.power.write(path, offset, bytes)
    }

    fn resize(&self, path: &Path, bytes: u64) -> io::Result<()> {
        self.power.resize(path, bytes)
    }

    fn before_sync(&self, path: &Path) -> io::Result<()> {
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("journal")) {
            for sectors in std::mem::take(&mut *self.sectors.lock().unwrap()) {
                let (left, mut n) = (scratch(), 0..sectors);
                self.power.cut(&self.dir, left.path(), || n.next().is_some())?;
                self.left.lock().unwrap().push(left);
            }
        }
        Ok(())
    }

    fn synced(&self, path: &Path) {
        self.power.synced(path);
    }
}

/// What each cut during the second piece of work left, of a log on which the first was done.
fn cut_during(
    first: impl FnOnce(&dyn Store),
    sectors: Vec<usize>,
    second: impl FnOnce(&dyn Store),
) -> Vec<tempfile::TempDir> {
    let dir = scratch();
    let watcher = Arc::new(BeforeSync { dir: dir.path().into(), ..BeforeSync::default() });
    let watched = Options { watcher: Some(watcher.clone()), ..Options::default() };
    let store = SledStore::open(dir.path(), watched).unwrap();
    first(&store);
    *watcher.sectors.lock().unwrap() = sectors;
    second(&store);
    std::mem::take(&mut *watcher.left.lock().unwrap())
}

#[test]
fn import_that_a_power_cut_interrupts_is_whole_or_not_there() {
    let records = {
        let dir = scratch();
        let store = SledStore::open(dir.path(), Options::default()).unwrap();
        let texts: Vec<String> = (0..5).map(|n| n.to_string().repeat(2 << 20)).collect();
        put(&store, append(thread(1), 0, &texts.iter().map(String::as_str).collect::<Vec<_>>())).unwrap();
        store.read_stream(thread(1), Seq(0)..Seq(9), 9).unwrap()
    };
    // The blobs, and three frames of records, of which the first two have 4 MiB each.
    let sectors = (0..29).map(|n| n * 1_000).chain([usize::MAX]).collect();
    let import = Import {
        fork_of: None,
        tag: Tag(0),
        records,
        blobs: vec![vec![1; 600_000]],
        keys: vec![b"imported".to_vec()],
        values: vec![("imported".to_owned(), b"yes".to_vec())],
    };
    let before = |store: &dyn Store| {
        put(store, append(thread(2), 0, &["other"])).unwrap();
    };
    let mut found = Vec::new();
    for left in cut_during(before, sectors, |store| store.import_with(import).map(drop).unwrap()) {
        let store = SledStore::open(left.path(), options(None)).unwrap();
        let n = store.read_stream(thread(1), Seq(0)..Seq(9), 9).map_or(0, |records| records.len());
        let blob = store.blob(Hash::of(&[1; 600_000])).is_ok();
        let is_keyed = store.keys(&KeyRange::all(), None, 9).unwrap() == [(b"imported".to_vec(), thread(1))];
        found.push((n, blob, store.value("imported").unwrap().is_some(), is_keyed));
        put(&store, append(thread(2), 1, &["goes on"])).unwrap();
        drop(store);
        let store = SledStore::open(left.path(), options(None)).unwrap();
        assert_eq!(texts(&store, thread(2)), ["other", "goes on"]);
        assert_eq!(store.verify().unwrap().faults, []);
    }
    assert_eq!(found.len(), 30);
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, [(0, false, false, false), (5, true, true, true)]);
}

#[test]
fn release_that_a_power_cut_interrupts_is_whole_or_not_there() {
    let hashes: Vec<Hash> = (0..40_u8).map(|byte| Hash::of(&[byte; 100])).collect();
    let before = |store: &dyn Store| {
        for byte in 0..40_u8 {
            store.put_blob(None, &[byte; 100]).unwrap();
        }
        store.put_value("names", b"before").unwrap();
    };
    let release =
        |store: &dyn Store| store.release_blobs(&hashes, &[("names".to_owned(), Some(b"after".to_vec()))]).unwrap();
    // What reached the disk may begin with pages of the index.
    let sectors: Vec<usize> = (0..300).step_by(3).chain([usize::MAX]).collect();
    let mut found = Vec::new();
    for left in cut_during(before, sectors.clone(), release) {
        let store = SledStore::open(left.path(), options(None)).unwrap();
        let n = hashes.iter().filter(|hash| store.blob(**hash).is_ok()).count();
        found.push((n, store.value("names").unwrap().unwrap()));
    }
    assert_eq!(found.len(), sectors.len());
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, [(0, b"after".to_vec()), (40, b"before".to_vec())]);
}

/// Cuts the power at every single write and sync, those of making the log and of moving records into sled included.
struct AtEveryStep {
    power: PowerCut,
    dir: PathBuf,
    random: Mutex<Random>,
    n_acknowledged: AtomicU64,
    /// What was left, and how many appends were acknowledged by then.
    left: Mutex<Vec<(tempfile::TempDir, u64, String)>>,
}

impl AtEveryStep {
    fn cut(&self, what: &str, path: &Path) {
        // Before it is counted: what is acknowledged meanwhile need not be in what is left.
        let n = self.n_acknowledged.load(Ordering::SeqCst);
        let left = scratch();
        let keep = [0, 50, 100][self.random.lock().unwrap().below(3) as usize];
        let mut random = self.random.lock().unwrap().clone();
        self.power.cut(&self.dir, left.path(), || random.below(100) < keep).unwrap();
        let what = format!("{what} {}, {keep} % of the unsynced kept", path.display());
        self.left.lock().unwrap().push((left, n, what));
    }
}

impl Watcher for AtEveryStep {
    fn write(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.power.write(path, offset, bytes)?;
        if !path.ends_with("mark") {
            self.cut("write to", path);
        }
        Ok(())
    }

    fn resize(&self, path: &Path, bytes: u64) -> io::Result<()> {
        self.power.resize(path, bytes)?;
        self.cut("resize of", path);
        Ok(())
    }

    fn before_sync(&self, path: &Path) -> io::Result<()> {
        self.cut("before the sync of", path);
        Ok(())
    }

    fn synced(&self, path: &Path) {
        self.power.synced(path);
        self.cut("after the sync of", path);
    }
}

#[test]
fn a_power_cut_at_every_step_loses_nothing_acknowledged() {
    let dir = scratch();
    let watcher = Arc::new(AtEveryStep {
        power: PowerCut::default(),
        dir: dir.path().into(),
        random: Mutex::new(Random::new(3)),
        n_acknowledged: AtomicU64::new(0),
        left: Mutex::default(),
    });
    let options = Options { tail_bytes: 6 << 10, watcher: Some(watcher.clone() as _), ..Options::default() };
    for round in 0..3 {
        let store = SledStore::open(dir.path(), options.clone()).unwrap();
        for number in round * 20..(round + 1) * 20_u64 {
            let text = format!("{number} {}", "text ".repeat(60));
            let before = number.checked_sub(7).map_or_else(String::new, |number| number.to_string());
            let keys = keyed(thread(0), 0, &[&number.to_string()], &[&before]).keys;
            put(&store, Append { keys, ..append(thread(number % 7), number / 7, &[&text]) }).unwrap();
            watcher.n_acknowledged.store(number + 1, Ordering::SeqCst);
        }
        store.close().unwrap();
    }
    let left = std::mem::take(&mut *watcher.left.lock().unwrap());
    assert!(left.len() > 200, "{}", left.len());
    for (dir, n_acknowledged, what) in left {
        let store = SledStore::open(dir.path(), self::options(None));
        let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
        for number in 0..n_acknowledged {
            let seq = Seq(number / 7);
            let found = store.read_stream(thread(number % 7), seq..seq.next(), 1);
            let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(found[0].payload.starts_with(format!("{number} ").as_bytes()), "{what}");
        }
        // The one key of each thread says which of its records is the last.
        let mut expected = Vec::new();
        for info in store.streams(None, &[], 10).unwrap() {
            let last = texts(&store, info.thread).pop().unwrap();
            let key = last.split(' ').next().unwrap().to_owned();
            assert_eq!(keys_of(&store, info.thread), [key.as_str()], "{what}");
            expected.push((key.into_bytes(), info.thread));
        }
        expected.sort();
        assert_eq!(store.keys(&KeyRange::all(), None, 99).unwrap(), expected, "{what}");
        assert_eq!(store.verify().unwrap().faults, [], "{what}");
    }
}

/// Copies what the folder held when sled's file was about to be synced by the sealer, and what that file held before.
struct AtSync {
    power: PowerCut,
    dir: PathBuf,
    synced: Mutex<Vec<u8>>,
    left: Mutex<Vec<(tempfile::TempDir, Vec<u8>)>>,
}

impl Watcher for AtSync {
    fn write(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.power.write(path, offset, bytes)
    }

    fn resize(&self, path: &Path, bytes: u64) -> io::Result<()> {
        self.power.resize(path, bytes)
    }

    fn before_sync(&self, path: &Path) -> io::Result<()> {
        if path.ends_with("db") && std::thread::current().name() == Some("log sealer") {
            let left = scratch();
            self.power.cut(&self.dir, left.path(), || true)?;
            self.left.lock().unwrap().push((left, self.synced.lock().unwrap().clone()));
        }
        Ok(())
    }

    fn synced(&self, path: &Path) {
        self.power.synced(path);
        if path.ends_with("db") {
            *self.synced.lock().unwrap() = std::fs::read(path).unwrap();
        }
    }
}

/// Thread 2 has records of several chunks, thread 1 lies before it and others after it.
fn several_chunks(store: &SledStore) {
    put(store, append(thread(1), 0, &["small"])).unwrap();
    for seq in 0..10 {
        put(store, append(thread(2), seq * 10, &[kilobyte(seq).as_str(); 10])).unwrap();
    }
    for number in 3..60 {
        put(store, append(thread(number), 0, &["other"])).unwrap();
        put(store, keyed(thread(number), 1, &["shared", &format!("key {number}")], &[])).unwrap();
    }
}

fn kilobyte(number: u64) -> String {
    format!("{number} ").repeat(1000).split_at(1000).0.into()
}

#[test]
fn power_cut_in_a_segment_of_several_chunks_is_recovered() {
    let dir = scratch();
    let watcher = Arc::new(AtSync {
        power: PowerCut::default(),
        dir: dir.path().into(),
        synced: Mutex::default(),
        left: Mutex::default(),
    });
    let options = Options { watcher: Some(watcher.clone() as _), ..Options::default() };
    let store = SledStore::open(dir.path(), options).unwrap();
    several_chunks(&store);
    store.close().unwrap();
    let left = std::mem::take(&mut *watcher.left.lock().unwrap());
    let [(left, before)] = &left[..] else { panic!("{} seals", left.len()) };
    let now = std::fs::read(left.path().join("index/db")).unwrap();
    let is_new = |at: usize, sector: &[u8]| before.get(at * 512..at * 512 + sector.len()) != Some(sector);
    let new: Vec<usize> = (0..).zip(now.chunks(512)).filter(|(at, one)| is_new(*at, one)).map(|(at, _)| at).collect();
    assert!(new.len() > 10, "{new:?}");
    for n_kept in 0..=new.len() {
        let what = format!("{n_kept} of {} sectors reached the disk", new.len());
        let (cut, mut bytes) = (scratch(), now.clone());
        copy_as_killed(left.path(), cut.path()).unwrap();
        for at in &new[n_kept..] {
            let sector = at * 512..(at * 512 + 512).min(bytes.len());
            let old = before.get(sector.clone()).map_or_else(|| vec![0; sector.len()], <[u8]>::to_vec);
            bytes[sector].copy_from_slice(&old);
        }
        std::fs::write(cut.path().join("index/db"), bytes).unwrap();
        let store = SledStore::open(cut.path(), Options::default());
        let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
        put(&store, append(thread(1), 1, &[kilobyte(1).as_str(); 20])).unwrap();
        store.close().unwrap_or_else(|error| panic!("{what}: {error}"));
        let store = SledStore::open(cut.path(), Options::default()).unwrap();
        for from in (0..100).step_by(9) {
            let found = store.read_stream(thread(2), Seq(from)..Seq(100), 100);
            let found = found.unwrap_or_else(|error| panic!("{what}, from {from}: {error}"));
            assert_eq!(found.len() as u64, 100 - from, "{what}");
        }
        assert_eq!(texts(&store, thread(1)).len(), 21, "{what}");
        assert_eq!(store.streams(None, &[], 100).unwrap().len(), 59, "{what}");
        assert_eq!(store.keys(&KeyRange::all(), None, 1000).unwrap().len(), 2 * 57, "{what}");
        assert_eq!(store.verify().unwrap().faults, [], "{what}");
    }
}
