use futures::executor::block_on;
use rethread_events::event::Event;
use rethread_events::ids::{Hash, RunId, Time};
use rethread_store::{Append, MemoryStore, Snapshot, Store, Tag};
use serde_json::json;

use super::*;
use crate::recorded::new_record;

const THREAD: ThreadId = ThreadId::from_bytes([1; 16]);

/// Begins a thread and gives it this many messages.
fn begin(store: &dyn Store, n_messages: u64, says: &str) -> StreamInfo {
    let started = json!({
        "workflow": { "name": "w", "hash": Hash::ZERO }, "input": "", "variables": {}, "entry": "a", "deadline": null,
        "max_iterations": 5, "workspace": null, "budget": null, "on_limit": "fail",
        "labels": {}, "messages": [],
    });
    let message = |i| json!({ "message": { "role": "user", "content": format!("{says} {i}") }, "effect": "add" });
    let messages = (0..n_messages).map(|i| Event::from_data("MESSAGE_ADDED", message(i)).unwrap());
    let events = std::iter::once(Event::from_data("THREAD_STARTED", started).unwrap()).chain(messages);
    let records =
        events.map(|event| new_record(&event, Time::from_unix_us(1), None, None)).collect::<Result<_, _>>().unwrap();
    let append = Append {
        thread: THREAD,
        expected: Seq(0),
        fork_of: None,
        trace: None,
        tag: Tag(0),
        records,
        blobs: Vec::new(),
        keys: Vec::new(),
        is_awaited: true,
    };
    block_on(store.append(append)).unwrap();
    store.stream(THREAD).unwrap()
}

fn snapshot(store: &dyn LogReader, seq: u64) -> Snapshot {
    let loaded = load::fold(store, THREAD, Loaded::empty(THREAD), Seq(seq + 1)).unwrap();
    let state = codec::encode(&loaded.state).unwrap();
    Snapshot { seq: Seq(seq), hash: loaded.last_hash, version: STATE_VERSION, state }
}

#[test]
fn an_event_of_another_run_is_a_fault() {
    let store = MemoryStore::new();
    let info = begin(&store, 2, "a");
    for (run, found) in [(0, None), (2, Some(Seq(3)))] {
        let message = json!({ "message": { "role": "user", "content": "b" }, "effect": "add" });
        let event = Event::from_data("MESSAGE_ADDED", message).unwrap();
        let record = new_record(&event, Time::from_unix_us(2), None, Some(RunId(Seq(run)))).unwrap();
        let expected = store.stream(THREAD).unwrap().last_seq.next();
        let append = Append {
            thread: THREAD,
            expected,
            fork_of: None,
            trace: None,
            tag: Tag(0),
            records: vec![record],
            blobs: Vec::new(),
            keys: Vec::new(),
            is_awaited: true,
        };
        block_on(store.append(append)).unwrap();
        let fault = check_stream(&store, &Crashes::off(), StreamInfo { last_seq: expected, ..info }).unwrap();
        assert_eq!(fault.and_then(|fault| fault.seq), found.map(|_| expected));
    }
}

#[test]
fn a_thread_that_is_deleted_meanwhile_is_passed_over() {
    let store = MemoryStore::new();
    let info = begin(&store, 20, "former");
    store.delete(THREAD).unwrap();
    assert_eq!(check_stream(&store, &Crashes::off(), info).unwrap(), None);
}

#[test]
fn a_thread_that_began_anew_meanwhile_is_checked_as_it_is() {
    for n_messages in [1, 20, 600] {
        let store = MemoryStore::new();
        let info = begin(&store, 20, "former");
        store.delete(THREAD).unwrap();
        begin(&store, n_messages, "later");
        assert_eq!(check_stream(&store, &Crashes::off(), info).unwrap(), None);
        store.put_snapshot(THREAD, Snapshot { state: b"bad".to_vec(), ..snapshot(&store, 1) }).unwrap();
        assert_eq!(check_stream(&store, &Crashes::off(), info).unwrap().and_then(|fault| fault.seq), Some(Seq(1)));
    }
}

#[test]
fn a_snapshot_of_a_former_thread_of_that_id_is_no_fault() {
    let store = MemoryStore::new();
    begin(&store, 20, "former");
    let late = snapshot(&store, 10);
    store.delete(THREAD).unwrap();
    let info = begin(&store, 30, "later");
    store.put_snapshot(THREAD, late).unwrap();
    store.put_snapshot(THREAD, snapshot(&store, 15)).unwrap();
    assert_eq!(check_stream(&store, &Crashes::off(), info).unwrap(), None);
    store.put_snapshot(THREAD, Snapshot { state: b"bad".to_vec(), ..snapshot(&store, 20) }).unwrap();
    assert_eq!(check_stream(&store, &Crashes::off(), info).unwrap().and_then(|fault| fault.seq), Some(Seq(20)));
}
