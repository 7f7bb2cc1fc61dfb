use futures::executor::block_on;
use rethread_store::{Append, MemoryStore, Tag};
use serde_json::json;

use super::*;
use crate::recorded::new_record;

const N: u64 = 12_345;

fn thread() -> ThreadId {
    ThreadId::from_bytes([1; 16])
}

/// A stream of `N` events, each with its seq as its time.
fn stream() -> MemoryStore {
    let store = MemoryStore::new();
    let event = Event::from_data("THREAD_RESUMED", json!({})).unwrap();
    for first in (0..N).step_by(1_000) {
        let records = (first..(first + 1_000).min(N))
            .map(|seq| new_record(&event, Time::from_unix_us(seq), None).unwrap())
            .collect();
        let append =
            Append { thread: thread(), expected: Seq(first), fork_of: None, trace: None, tag: Tag(1), records };
        block_on(store.append(append)).unwrap();
    }
    store
}

#[test]
fn every_event_of_a_range_is_shown_once_in_order() {
    let store = stream();
    for (start, end) in [(0, N), (7, N - 1), (1_000, 2_000), (1_500, 1_501), (5, 5), (3_999, 9_001), (9, 3)] {
        let mut next = start;
        pages(&store, thread(), Seq(start)..Seq(end), |page| {
            for (at, _) in &page.events {
                assert_eq!(at.unix_us(), next);
                next += 1;
            }
            assert_eq!(page.last_position, Position(next - 1));
            assert!(next.is_multiple_of(PAGE) || next == end, "{next}");
            Ok(())
        })
        .unwrap();
        assert_eq!(next, end.max(start));
    }
}

#[test]
fn nothing_is_shown_behind_a_fault() {
    let store = stream();
    let mut n_shown = 0;
    let stopped = pages(&store, thread(), Seq(0)..Seq(N), |_| {
        n_shown += 1;
        if n_shown == 4 { Err(RuntimeError::ShuttingDown) } else { Ok(()) }
    });
    assert!(matches!(stopped, Err(RuntimeError::ShuttingDown)) && n_shown == 4, "{stopped:?}");
    let mut n_shown = 0;
    let missing = pages(&store, thread(), Seq(0)..Seq(N + 1), |page| {
        n_shown += page.events.len();
        Ok(())
    });
    assert!(matches!(missing, Err(RuntimeError::NoSeq { seq: Seq(N), .. })), "{missing:?}");
    assert_eq!(n_shown as u64, N / PAGE * PAGE, "the last page is not whole");
}
