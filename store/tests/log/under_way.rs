//! What happens while something is on its way: a group to the disk, a segment into sled.

use std::io;
use std::path::Path;
use std::sync::Arc;

use futures::executor::block_on;
use futures::future::join_all;
use parking_lot::{Condvar, Mutex};
use rethread_events::ids::{Hash, Seq};
use rethread_store::testing::{append, copy_as_killed, fork, keyed, keys_of, put, scratch, texts, thread};
use rethread_store::{Append, KeyRange, LogReader, Options, SledStore, Store, StoreError, Watcher};

/// Holds one of the log's threads back before a sync.
#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The name of the thread that is to be held.
    holds: Option<&'static str>,
    /// Whether it is there.
    held: bool,
    /// Whether what it syncs then fails.
    fails: bool,
}

impl Gate {
    fn hold(&self, thread: &'static str) {
        self.state.lock().holds = Some(thread);
    }

    fn wait_until_held(&self) {
        let mut state = self.state.lock();
        while !state.held {
            let waited = self.changed.wait_for(&mut state, std::time::Duration::from_secs(120));
            assert!(!waited.timed_out(), "no thread came to the gate");
        }
    }

    fn open(&self, fails: bool) {
        let mut state = self.state.lock();
        (state.holds, state.fails) = (None, fails);
        self.changed.notify_all();
    }
}

impl Watcher for Gate {
    fn before_sync(&self, _path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        while state.holds.is_some() && std::thread::current().name() == state.holds {
            state.held = true;
            self.changed.notify_all();
            self.changed.wait(&mut state);
        }
        match state.held && std::mem::take(&mut state.fails) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

/// Opens the gate in any case: a test that failed is not to hang.
struct Opens<'a>(&'a Gate);

impl Drop for Opens<'_> {
    fn drop(&mut self) {
        self.0.open(false);
    }
}

fn open(dir: &Path, gate: &Arc<Gate>, tail_bytes: usize) -> SledStore {
    let options = Options { watcher: Some(Arc::clone(gate) as _), tail_bytes, ..Options::default() };
    SledStore::open(dir, options).unwrap()
}

fn with_keys(append: Append, added: &[&str], removed: &[&str]) -> Append {
    Append { keys: keyed(append.thread, 0, added, removed).keys, ..append }
}

/// Two groups: the first is held before its sync, the second is put together on top of it, the first one's streams
/// and new ones, a fork at the end of a stream that is not durable yet included.
fn two_groups(store: &SledStore, gate: &Gate, fails: bool) -> Vec<Result<rethread_store::Appended, StoreError>> {
    put(store, with_keys(append(thread(1), 0, &["before"]), &["before"], &[])).unwrap();
    // A group goes on its way alone only when it is large: all of these wait while the small one before them syncs.
    gate.hold("log writer");
    let held = store.append(append(thread(1), 1, &["small"]));
    gate.wait_until_held();
    let first = |seq| with_keys(append(thread(1), seq, &["first"]), &["first"], &["before"]);
    let first: Vec<_> = (2..66).map(|seq| store.append(first(seq))).collect();
    gate.state.lock().held = false;
    gate.hold("log journal");
    gate.changed.notify_all();
    gate.wait_until_held();
    let second = |seq| with_keys(append(thread(1), seq, &["second"]), &["second", "before"], &["first"]);
    let second: Vec<_> = (66..130).map(|seq| store.append(second(seq))).collect();
    let child = store.append(fork(thread(2), thread(1), 129, &["child"]));
    block_on(held).unwrap();
    let all = first.into_iter().chain(second).chain([child]);
    std::thread::scope(|scope| {
        let all = scope.spawn(|| block_on(join_all(all)));
        gate.open(fails);
        all.join().unwrap()
    })
}

#[test]
fn group_prepared_during_a_sync_follows_the_one_before_it() {
    let (dir, gate) = (scratch(), Arc::new(Gate::default()));
    let store = open(dir.path(), &gate, 1 << 20);
    for (at, done) in two_groups(&store, &gate, false).into_iter().enumerate() {
        let at = if at == 128 { 130 } else { at as u64 + 2 };
        assert_eq!(done.unwrap().last_seq, Seq(at));
    }
    drop(store);
    let store = open(dir.path(), &gate, 1 << 20);
    assert_eq!(texts(&store, thread(1)).len(), 130);
    assert_eq!(texts(&store, thread(2)).last().unwrap(), "child");
    assert_eq!(keys_of(&store, thread(1)), ["before", "second"]);
    assert_eq!(store.verify().unwrap().faults, []);
}

#[test]
fn group_built_on_a_failed_one_fails_with_it() {
    let (dir, gate) = (scratch(), Arc::new(Gate::default()));
    let store = open(dir.path(), &gate, 1 << 20);
    for (at, done) in two_groups(&store, &gate, true).into_iter().enumerate() {
        let error = done.unwrap_err();
        // What was taken only after the failure was seen meets what it left: no such end to fork from.
        let may_be_late = at == 128 && matches!(error, StoreError::NotFound { .. });
        let is_refused = matches!(error, StoreError::Full { .. } | StoreError::Fenced { .. });
        assert!(is_refused || may_be_late, "{at}: {error:?}");
    }
    assert_eq!(texts(&store, thread(1)), ["before", "small"]);
    assert_eq!(keys_of(&store, thread(1)), ["before"]);
    put(&store, with_keys(append(thread(1), 2, &["after"]), &["first"], &["before", "second"])).unwrap();
    put(&store, fork(thread(2), thread(1), 2, &["child"])).unwrap();
    drop(store);
    let store = open(dir.path(), &gate, 1 << 20);
    assert_eq!(texts(&store, thread(1)), ["before", "small", "after"]);
    assert_eq!(texts(&store, thread(2)), ["before", "small", "after", "child"]);
    assert_eq!(keys_of(&store, thread(1)), ["first"]);
    assert_eq!(store.verify().unwrap().faults, []);
}

#[test]
fn blob_of_a_restarted_thread_survives_the_earlier_delete() {
    let (dir, gate) = (scratch(), Arc::new(Gate::default()));
    let store = open(dir.path(), &gate, 4 << 10);
    let owner = Some(thread(1));
    let bytes = [7; 5_000];
    put(&store, append(thread(1), 0, &["old"])).unwrap();
    gate.hold("log sealer");
    store.put_blob(owner, &bytes).unwrap();
    // One more lets the writer see that there is enough to be moved into sled.
    put(&store, append(thread(2), 0, &["other"])).unwrap();
    gate.wait_until_held();
    // What is being moved names the blob, for an owner that is deleted now and comes again.
    store.delete(thread(1)).unwrap();
    put(&store, append(thread(1), 0, &["new"])).unwrap();
    let hash = store.put_blob(owner, &bytes).unwrap();
    assert_eq!(hash, Hash::of(&bytes));
    gate.open(false);
    drop(store);
    let store = open(dir.path(), &gate, 4 << 10);
    assert_eq!(store.blob(hash).unwrap(), bytes);
    assert_eq!(store.verify().unwrap().faults, []);
}

#[test]
fn keys_are_read_while_a_segment_moves_into_sled() {
    let (dir, gate) = (scratch(), Arc::new(Gate::default()));
    let store = open(dir.path(), &gate, 4 << 10);
    for number in 1..5 {
        put(&store, keyed(thread(number), 0, &["a", "b", "c"], &[])).unwrap();
    }
    drop(store);
    let store = open(dir.path(), &gate, 4 << 10);
    gate.hold("log sealer");
    // In the segment that moves: a key less, one more, a stream that is deleted and one that begins anew.
    put(&store, keyed(thread(1), 1, &["d"], &["a"])).unwrap();
    put(&store, keyed(thread(2), 1, &["d"], &["a"])).unwrap();
    store.delete_all(&[thread(3), thread(4)]).unwrap();
    put(&store, keyed(thread(4), 0, &["b", "e"], &[])).unwrap();
    put(&store, append(thread(9), 0, &[&"enough ".repeat(1000)])).unwrap();
    gate.wait_until_held();
    let opens = Opens(&gate);
    let check = |store: &SledStore, expected: &[(&str, u64)]| {
        let expected: Vec<_> = expected.iter().map(|(key, of)| (key.as_bytes().to_vec(), thread(*of))).collect();
        assert_eq!(store.keys(&KeyRange::all(), None, 99).unwrap(), expected);
        for n in 0..expected.len() {
            let after = expected[n].0.clone();
            let page = store.keys(&KeyRange::all(), Some((&after, expected[n].1)), 2).unwrap();
            assert_eq!(page, expected[n + 1..expected.len().min(n + 3)]);
        }
        for number in 1..6 {
            let own = expected.iter().filter(|(_, of)| *of == thread(number)).map(|(key, _)| key);
            assert!(store.keys_of(thread(number)).unwrap().iter().eq(own), "{number}");
        }
    };
    check(&store, &[("b", 1), ("b", 2), ("b", 4), ("c", 1), ("c", 2), ("d", 1), ("d", 2), ("e", 4)]);
    // And again in the one after it.
    put(&store, keyed(thread(1), 2, &["a"], &["d", "b"])).unwrap();
    store.delete(thread(2)).unwrap();
    store.delete(thread(4)).unwrap();
    put(&store, keyed(thread(2), 0, &["c"], &[])).unwrap();
    put(&store, keyed(thread(3), 0, &["a"], &["b"])).unwrap();
    let expected = [("a", 1), ("a", 3), ("c", 1), ("c", 2)];
    check(&store, &expected);
    drop(opens);
    for _ in 0..3 {
        check(&store, &expected);
        store.put_value("more", &[0; 5_000]).unwrap();
    }
    drop(store);
    let store = open(dir.path(), &gate, 4 << 10);
    check(&store, &expected);
    assert_eq!(store.verify().unwrap().faults, []);
}

/// Holds the sealer back before the sync of each pack, and lets syncs of the journal fail.
#[derive(Default)]
struct Slow {
    state: Mutex<SlowState>,
    changed: Condvar,
}

#[derive(Default)]
struct SlowState {
    /// How often the sealer came, and how often it may pass.
    n_came: u32,
    n_pass: u32,
    journal_fails: bool,
}

impl Slow {
    fn change(&self, change: impl FnOnce(&mut SlowState)) {
        change(&mut self.state.lock());
        self.changed.notify_all();
    }

    fn wait_until_sealer_came(&self, n: u32) {
        let mut state = self.state.lock();
        while state.n_came < n {
            let waited = self.changed.wait_for(&mut state, std::time::Duration::from_secs(120));
            assert!(!waited.timed_out(), "the sealer came {} times", state.n_came);
        }
    }
}

impl Watcher for Slow {
    fn before_sync(&self, path: &Path) -> io::Result<()> {
        let (mut state, path) = (self.state.lock(), path.to_string_lossy());
        if path.contains("journal") && state.journal_fails {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if path.contains("packs/") {
            state.n_came += 1;
            self.changed.notify_all();
            while state.n_came > state.n_pass {
                // A test that failed is not to hang.
                if self.changed.wait_for(&mut state, std::time::Duration::from_secs(120)).timed_out() {
                    break;
                }
            }
        }
        Ok(())
    }
}

#[test]
fn remains_of_a_failed_sync_are_not_the_end_of_a_seal() {
    let (dir, left, slow) = (scratch(), scratch(), Arc::new(Slow::default()));
    let options = Options { watcher: Some(Arc::clone(&slow) as _), tail_bytes: 1 << 10, ..Options::default() };
    let store = SledStore::open(dir.path(), options.clone()).unwrap();
    let long = "long ".repeat(1000);
    put(&store, append(thread(1), 0, &[&long])).unwrap();
    slow.wait_until_sealer_came(1);
    // Enough to be moved, too, once the first is.
    put(&store, append(thread(1), 1, &[&long])).unwrap();
    slow.change(|state| state.journal_fails = true);
    assert!(matches!(store.put_value("name", b"refused"), Err(StoreError::Full { .. })));
    assert!(matches!(put(&store, append(thread(1), 2, &["refused"])), Err(StoreError::Full { .. })));
    slow.change(|state| (state.journal_fails, state.n_pass) = (false, 1));
    slow.wait_until_sealer_came(2);
    put(&store, append(thread(1), 2, &["after"])).unwrap();
    copy_as_killed(dir.path(), left.path()).unwrap();
    slow.change(|state| state.n_pass = u32::MAX);
    let after = SledStore::open(left.path(), Options::default()).unwrap();
    assert_eq!(texts(&after, thread(1)), [&long, &long, "after"]);
    assert_eq!(after.value("name").unwrap(), None);
    assert_eq!(after.verify().unwrap().faults, []);
}
