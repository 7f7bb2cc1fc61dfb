use futures::executor::block_on;
use rethread_events::event::Event;
use rethread_events::ids::Time;
use rethread_store::{Append, ForkPoint, MemoryStore, Store, Tag};
use serde_json::json;

use super::*;
use crate::recorded::new_record;

const LAST: u64 = 9_000;
const AT: [u64; 3] = [2_500, 4_000, 7_000];

fn thread(n: u8) -> ThreadId {
    ThreadId::from_bytes([n; 16])
}

fn append(store: &dyn Store, thread: ThreadId, expected: u64, fork_of: Option<ForkPoint>, events: &[Event]) {
    let records = events.iter().zip(expected..).map(|(event, n)| new_record(event, Time::from_unix_us(n), None, None));
    let records = records.collect::<Result<_, _>>().unwrap();
    let append = Append {
        thread,
        expected: Seq(expected),
        fork_of,
        trace: None,
        tag: Tag(0),
        records,
        blobs: Vec::new(),
        keys: Vec::new(),
        is_awaited: true,
    };
    block_on(store.append(append)).unwrap();
}

fn messages(n: u64) -> Vec<Event> {
    let message = |i| json!({ "message": { "role": "user", "content": format!("message {i}") }, "effect": "add" });
    (0..n).map(|i| Event::from_data("MESSAGE_ADDED", message(i)).unwrap()).collect()
}

/// A thread of messages in a log.
fn log() -> MemoryStore {
    let store = MemoryStore::new();
    let started = json!({
        "workflow": { "name": "w", "hash": Hash::ZERO }, "input": "", "variables": {}, "entry": "a", "deadline": null,
        "max_iterations": 5, "workspace": null, "budget": null, "on_limit": "fail",
        "labels": {}, "messages": [],
    });
    append(&store, thread(1), 0, None, &[Event::from_data("THREAD_STARTED", started).unwrap()]);
    append(&store, thread(1), 1, None, &messages(LAST));
    store
}

fn folded(store: &dyn LogReader, thread: ThreadId, seq: u64) -> Loaded {
    fold(store, thread, Loaded::empty(thread), Seq(seq + 1)).unwrap()
}

fn snapshot(store: &dyn LogReader, of: ThreadId, seq: u64) -> Snapshot {
    let Loaded { state, last_hash, .. } = folded(store, of, seq);
    Snapshot { seq: Seq(seq), hash: last_hash, version: STATE_VERSION, state: codec::encode(&state).unwrap() }
}

fn with_snapshots() -> MemoryStore {
    let store = log();
    AT.iter().for_each(|seq| store.put_snapshot(thread(1), snapshot(&store, thread(1), *seq)).unwrap());
    store
}

/// Asks for the state at a seq in each way there is, compares it with the fold from the first event, and gives the
/// snapshot that it was built on.
fn built_on(store: &dyn LogReader, thread: ThreadId, seq: u64) -> Option<u64> {
    let right = folded(store, thread, seq);
    let loaded = at(store, thread, Seq(seq)).unwrap();
    let looked = at_from(store, thread, Seq(seq), &KeptStates::default()).unwrap();
    for found in [&loaded, &looked] {
        assert!(found.state == right.state, "another state at {seq}");
        assert_eq!((found.last_position, found.last_hash), (right.last_position, right.last_hash));
    }
    assert_eq!(loaded.snapshot, looked.snapshot);
    loaded.snapshot.map(|seq| seq.0)
}

#[test]
fn a_state_through_a_snapshot_is_the_fold_from_the_first_event() {
    let store = with_snapshots();
    let around = AT.iter().flat_map(|seq| [seq - 1, *seq, seq + 1]);
    let seqs: Vec<u64> = around.chain([0, 1, 499, 500, 501, LAST - 1, LAST]).chain((0..LAST).step_by(611)).collect();
    for seq in seqs {
        let newest = AT.into_iter().rfind(|at| *at <= seq);
        assert_eq!(built_on(&store, thread(1), seq), newest, "{seq}");
    }
    assert_eq!(present(&store, thread(1)).unwrap().snapshot, Some(Seq(7_000)));
}

#[test]
fn cached_state_saves_reading_a_slightly_newer_snapshot() {
    let (store, kept) = (with_snapshots(), KeptStates::default());
    let at = |seq| at_from(&store, thread(1), Seq(seq), &kept).unwrap().snapshot;
    assert_eq!(at(3_000), Some(Seq(2_500)));
    store.keep_snapshots(thread(1), &[]).unwrap();
    assert_eq!(at(2_600), Some(Seq(2_500)), "the state of the snapshot was kept in memory");
    store.put_snapshot(thread(1), snapshot(&store, thread(1), 4_000)).unwrap();
    assert_eq!(at(4_100), Some(Seq(2_500)));
    store.put_snapshot(thread(1), snapshot(&store, thread(1), 7_000)).unwrap();
    assert_eq!(at(7_100), Some(Seq(7_000)));
}

#[test]
fn a_snapshot_is_read_where_it_saves_the_least_that_is_worth_it() {
    let (store, min) = (log(), snapshots::EVENTS_MIN);
    store.put_snapshot(thread(1), snapshot(&store, thread(1), min - 2)).unwrap();
    assert_eq!(built_on(&store, thread(1), min - 1), None);
    assert!(snapshots::is_due(Seq(min), Seq(0)), "the first that is written is at the seq before");
    store.put_snapshot(thread(1), snapshot(&store, thread(1), min - 1)).unwrap();
    assert_eq!(built_on(&store, thread(1), min - 1), Some(min - 1));
    assert_eq!(built_on(&store, thread(1), LAST), Some(min - 1));
}

#[test]
fn a_state_says_how_much_was_read_for_it() {
    let store = with_snapshots();
    let payloads = |seqs: Range<u64>| -> usize {
        let records = store.read_stream(thread(1), Seq(seqs.start)..Seq(seqs.end), LAST as usize).unwrap();
        records.iter().map(|record| record.payload.len()).sum()
    };
    let of_snapshot = store.snapshot(thread(1), Seq(2_500)).unwrap().unwrap().state.len();
    let kept = KeptStates::default();
    let read = |seq| at_from(&store, thread(1), Seq(seq), &kept).unwrap().bytes;
    assert_eq!(read(1_000), payloads(0..1_001));
    assert_eq!(read(3_000), of_snapshot + payloads(2_501..3_001));
    assert_eq!(read(2_500), of_snapshot, "kept in memory");
}

#[test]
fn a_snapshot_that_is_not_good_is_passed_over_for_the_one_before() {
    let store = with_snapshots();
    let good = snapshot(&store, thread(1), 7_000);
    let damaged = Snapshot { state: good.state[..good.state.len() / 2].to_vec(), ..good.clone() };
    let of_others = Snapshot { hash: Hash::ZERO, ..good.clone() };
    let of_another_moment = Snapshot { state: snapshot(&store, thread(1), 6_999).state, ..good.clone() };
    for bad in [damaged, of_others, of_another_moment] {
        store.put_snapshot(thread(1), bad).unwrap();
        assert_eq!(built_on(&store, thread(1), 8_000), Some(4_000));
    }
    store.put_snapshot(thread(1), Snapshot { version: STATE_VERSION + 1, ..good }).unwrap();
    assert_eq!(built_on(&store, thread(1), 8_000), None, "those before it are no younger");
    assert_eq!(built_on(&store, thread(1), 6_000), Some(4_000));
}

#[test]
fn a_fork_begins_with_the_snapshots_of_those_it_inherits_from() {
    let store = with_snapshots();
    let fork = |child, parent, seq: u64| {
        let point = ForkPoint { parent: thread(parent), seq: Seq(seq) };
        let forked = json!({
            "parent": thread(parent), "seq": seq, "changes": {}, "branch": null, "branches": [], "globals": {},
        });
        let forked = Event::from_data("THREAD_FORKED", forked).unwrap();
        append(&store, thread(child), seq + 1, Some(point), &[forked]);
        append(&store, thread(child), seq + 2, None, &messages(2_000));
    };
    fork(2, 1, 5_000);
    fork(3, 2, 6_000);
    for child in [2, 3] {
        for (seq, newest) in [(2_499, None), (2_500, Some(2_500)), (4_999, Some(4_000)), (5_001, Some(4_000))] {
            assert_eq!(built_on(&store, thread(child), seq), newest, "{child} at {seq}");
        }
    }
    store.put_snapshot(thread(2), snapshot(&store, thread(2), 5_500)).unwrap();
    let (second, third) = (built_on(&store, thread(2), 6_500), built_on(&store, thread(3), 6_500));
    assert_eq!((second, third), (Some(5_500), Some(5_500)), "the nearest of all of them");
    store.put_snapshot(thread(2), snapshot(&store, thread(2), 6_400)).unwrap();
    assert_eq!(built_on(&store, thread(3), 6_500), Some(5_500), "not what the parent became afterwards");
}

#[test]
fn reimported_thread_is_folded_from_its_own_events() {
    let store = with_snapshots();
    let records = store.read_stream(thread(1), Seq(0)..Seq(LAST + 1), LAST as usize + 1).unwrap();
    let before = folded(&store, thread(1), LAST);
    store.delete(thread(1)).unwrap();
    store.import(None, Tag(0), records).unwrap();
    assert_eq!(built_on(&store, thread(1), LAST), None);
    assert!(present(&store, thread(1)).unwrap().state == before.state);
}

#[test]
fn cached_state_of_an_imported_thread_has_its_new_position() {
    let (store, kept) = (log(), KeptStates::default());
    let seq = Seq(4_999);
    at_from(&store, thread(1), Seq(LAST), &kept).unwrap();
    let known = kept.before(thread(1), seq).unwrap();
    assert_eq!(known.state.last_seq(), Some(seq));
    let records = store.read_stream(thread(1), Seq(0)..Seq(LAST + 1), LAST as usize + 1).unwrap();
    store.delete(thread(1)).unwrap();
    append(&store, thread(2), 0, None, &messages(10));
    store.import(None, Tag(0), records).unwrap();
    let record = store.read_stream(thread(1), seq..seq.next(), 1).unwrap().remove(0);
    assert!(record.hash == known.last_hash && record.position != known.last_position);
    let loaded = at_from(&store, thread(1), seq, &kept).unwrap();
    assert_eq!((loaded.last_hash, loaded.last_position), (record.hash, record.position));
}
