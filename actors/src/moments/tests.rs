use futures::executor::block_on;
use rethread_events::event::Event;
use rethread_events::ids::Hash;
use rethread_store::{Append, ForkPoint, MemoryStore, Store as _, Tag};
use serde_json::json;

use super::*;
use crate::recorded::new_record;

fn thread(n: u8) -> ThreadId {
    ThreadId::from_bytes([n; 16])
}

/// Appends an event to a thread, recorded at this second.
fn append(store: &MemoryStore, of: u8, expected: u64, fork_of: Option<ForkPoint>, second: u64) {
    let event = match expected {
        0 => Event::from_data(
            "THREAD_STARTED",
            json!({
                "workflow": { "name": "w", "hash": Hash::ZERO }, "input": "", "variables": {}, "entry": "n",
                "deadline": null, "max_iterations": 5, "workspace": null, "budget": null, "on_limit": "fail",
                "labels": {}, "messages": [],
            }),
        ),
        _ => Event::from_data("THREAD_RESUMED", json!({})),
    };
    let record = new_record(&event.unwrap(), Time::from_unix_us(second * 1_000_000), None, None).unwrap();
    let expected = Seq(expected);
    let append = Append {
        thread: thread(of),
        expected,
        fork_of,
        trace: None,
        tag: Tag(1),
        records: vec![record],
        blobs: Vec::new(),
        keys: Vec::new(),
        is_awaited: true,
    };
    block_on(store.append(append)).unwrap();
}

/// Two threads in turns, then a fork of the first at seq 2.
fn log() -> MemoryStore {
    let store = MemoryStore::new();
    for n in 0..5 {
        append(&store, 1, n, None, 10 * n);
        append(&store, 2, n, None, 100);
    }
    let point = ForkPoint { parent: thread(1), seq: Seq(2) };
    append(&store, 3, 3, Some(point), 200);
    append(&store, 3, 4, None, 210);
    store
}

#[test]
fn first_event_after_a_position_is_found_across_a_fork() {
    let store = log();
    // The first thread has the positions 0, 2, 4, 6, 8; the fork 0, 2, 4 and then 10, 11.
    let behind = |of, position| seq_behind(&store, thread(of), Position(position)).unwrap().0;
    assert_eq!([0, 1, 2, 7, 8, 99].map(|position| behind(1, position)), [1, 1, 2, 4, 5, 5]);
    assert_eq!([0, 4, 5, 9, 10, 11, 99].map(|position| behind(3, position)), [1, 3, 3, 3, 4, 5, 5]);
    assert!(matches!(seq_behind(&store, thread(9), Position(0)), Err(ReadError::NoThread(_))));
}

#[test]
fn last_event_before_a_time_is_found_for_any_clock() {
    let store = log();
    let found = |of, second: u64| {
        seq_at_time(&store, thread(of), Time::from_unix_us(second * 1_000_000)).unwrap().map(|seq| seq.0)
    };
    assert_eq!(
        [0, 9, 10, 25, 40, 999].map(|second| found(1, second)),
        [Some(0), Some(0), Some(1), Some(2), Some(4), Some(4)]
    );
    assert_eq!((found(2, 99), found(3, 199), found(3, 205)), (None, Some(2), Some(3)));
    // The clock was set back: later events come after it all the same.
    append(&store, 1, 5, None, 15);
    assert_eq!((found(1, 12), found(1, 15)), (Some(1), Some(5)));
    for n in 6..1_300 {
        append(&store, 1, n, None, 1_000 + n);
    }
    assert_eq!((found(1, 15), found(1, 1_700)), (Some(5), Some(700)), "over several pages");
}

#[test]
fn a_family_of_one_is_itself() {
    assert_eq!(family::whole(&log(), thread(1)).unwrap(), [thread(1)]);
}
