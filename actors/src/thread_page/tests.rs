use futures::executor::block_on;
use rethread_events::event::Event;
use rethread_events::ids::{Hash, Seq};
use rethread_events::workflow::search_entry;
use rethread_store::{Append, KeyChange, MemoryStore, Store as _};
use serde_json::{Value, json};

use super::*;
use crate::recorded::new_record;
use crate::stream_keys::search_key;

/// The id of the thread with this number, made at this second.
fn id(second: u64, number: u8) -> ThreadId {
    ThreadId::new(second * 1_000, [number; 10])
}

fn at(second: u64) -> Time {
    Time::from_unix_us(second * 1_000_000)
}

/// A log with a thread at each of these seconds; each third one runs `b`, the others `a`; each second one is waiting.
fn log(seconds: &[u64]) -> (MemoryStore, Vec<ThreadId>) {
    let store = MemoryStore::new();
    let ids: Vec<_> = seconds.iter().zip(0..).map(|(second, n)| id(*second, n)).collect();
    for (n, thread) in ids.iter().enumerate() {
        let started = json!({
            "workflow": { "name": if n % 3 == 2 { "b" } else { "a" }, "hash": Hash::ZERO }, "input": "", "variables": {},
            "entry": "n", "deadline": null, "max_iterations": 5, "workspace": null, "budget": null, "on_limit": "fail",
            "labels": {}, "messages": [],
        });
        let event = Event::from_data("THREAD_STARTED", started).unwrap();
        let status = if n % 2 == 1 { Status::Waiting } else { Status::Running };
        let append = Append {
            thread: *thread,
            expected: Seq(0),
            fork_of: None,
            trace: None,
            tag: Tag(status.code()),
            records: vec![new_record(&event, at(seconds[n]), None, None).unwrap()],
            blobs: Vec::new(),
            keys: attributes(n).into_iter().filter_map(|(name, value)| search_entry(name, &value)).map(key).collect(),
            is_awaited: true,
        };
        block_on(store.append(append)).unwrap();
    }
    (store, ids)
}

fn key(entry: Hash) -> KeyChange {
    KeyChange::Add(search_key(entry))
}

/// The search attribute of the thread with this number: a text for every second one, a number for the others.
fn attributes(n: usize) -> [(&'static str, Value); 2] {
    [("third", if n.is_multiple_of(2) { json!((n % 3).to_string()) } else { json!(n % 3) }), ("fourth", json!(n % 4))]
}

/// All pages of a list, one after the other.
fn all(store: &dyn LogReader, query: &ThreadQuery) -> Vec<ThreadId> {
    let (mut found, mut query) = (Vec::new(), query.clone());
    loop {
        let page = page(store, &Crashes::off(), &query, &|_| true).unwrap();
        assert!(page.threads.len() <= query.limit);
        found.extend(page.threads.iter().map(|thread| thread.thread_id));
        match page.next {
            Some(next) => query.after = Some(next),
            None => return found,
        }
    }
}

/// Close together, far apart, and long ago.
const SECONDS: [u64; 12] =
    [5, 5, 5, 1_000, 1_001, 90_000, 90_000, 5_000_000, 1_700_000_000, 1_700_000_000, 1_700_000_001, 1_700_000_009];

#[test]
fn pages_of_every_size_hold_each_thread_once_in_both_orders() {
    let (store, ids) = log(&SECONDS);
    let mut newest = ids.clone();
    newest.reverse();
    for limit in 1..14 {
        let query = ThreadQuery { limit, ..ThreadQuery::default() };
        assert_eq!(all(&store, &query), newest, "limit {limit}");
        assert_eq!(all(&store, &ThreadQuery { oldest_first: true, ..query }), ids, "limit {limit}, oldest first");
    }
    assert!(all(&MemoryStore::new(), &ThreadQuery { limit: 1, ..ThreadQuery::default() }).is_empty());
}

#[test]
fn filters_leave_what_they_say() {
    let (store, ids) = log(&SECONDS);
    for limit in [1, 3, 50] {
        for oldest_first in [false, true] {
            let query = ThreadQuery { limit, oldest_first, ..ThreadQuery::default() };
            let expect = |what: ThreadQuery, keep: &dyn Fn(usize) -> bool| {
                let mut kept: Vec<_> = (0..ids.len()).filter(|n| keep(*n)).map(|n| ids[n]).collect();
                if !oldest_first {
                    kept.reverse();
                }
                assert_eq!(all(&store, &what), kept, "{what:?}");
            };
            expect(ThreadQuery { status: vec![Status::Waiting], ..query.clone() }, &|n| n % 2 == 1);
            expect(ThreadQuery { workflow: Some("b".into()), ..query.clone() }, &|n| n % 3 == 2);
            expect(ThreadQuery { since: Some(at(1_000)), ..query.clone() }, &|n| SECONDS[n] >= 1_000);
            expect(ThreadQuery { until: Some(at(90_000)), ..query.clone() }, &|n| SECONDS[n] < 90_000);
            let both = ThreadQuery { since: Some(at(5)), until: Some(at(6)), ..query.clone() };
            expect(both, &|n| SECONDS[n] == 5);
            let found = |search: &str| ThreadQuery { search: search.parse().unwrap(), ..query.clone() };
            expect(found("third=1"), &|n| n % 3 == 1);
            expect(found("third=\"1\""), &|n| n % 3 == 1 && n % 2 == 0);
            expect(found("third=1,fourth=2"), &|n| n % 3 == 1 && n % 4 == 2);
            expect(found("third=7,fourth=2"), &|_| false);
            expect(ThreadQuery { status: vec![Status::Waiting], ..found("third=1") }, &|n| n % 3 == 1 && n % 2 == 1);
            expect(ThreadQuery { branch_of: BranchFilter::Of(ids[0]), ..query.clone() }, &|_| false);
            expect(ThreadQuery { branch_of: BranchFilter::TopLevel, ..query }, &|_| true);
        }
    }
}

#[test]
fn many_threads_of_one_moment_do_not_make_a_page_without_end() {
    let (store, ids) = log(&[1_700_000_000; 200]);
    let found = all(&store, &ThreadQuery { limit: 7, ..ThreadQuery::default() });
    assert_eq!(found.len(), ids.len());
}

#[test]
fn thread_without_a_runtime_is_pending_or_interrupted() {
    let (store, ids) = log(&SECONDS);
    // The first one has done more than to begin.
    let entered = Event::from_data("NODE_STARTED", json!({ "node_id": "n", "attempt": 1, "deadline": null })).unwrap();
    let append = Append {
        thread: ids[0],
        expected: Seq(1),
        fork_of: None,
        trace: None,
        tag: Tag(Status::Running.code()),
        records: vec![new_record(&entered, at(SECONDS[0]), None, None).unwrap()],
        blobs: Vec::new(),
        keys: Vec::new(),
        is_awaited: true,
    };
    block_on(store.append(append)).unwrap();
    let statuses = |status: Vec<Status>, works_on: bool| {
        let query = ThreadQuery { status, oldest_first: true, limit: 100, ..ThreadQuery::default() };
        let page = page(&store, &Crashes::off(), &query, &|_| works_on).unwrap();
        page.threads.iter().map(|thread| thread.status).collect::<Vec<_>>()
    };
    let n = SECONDS.len() / 2;
    assert_eq!(statuses(vec![Status::Interrupted], false), [Status::Interrupted]);
    assert_eq!(statuses(vec![Status::Pending], false).len(), n - 1);
    assert_eq!(statuses(vec![Status::Running], false), []);
    assert_eq!(statuses(vec![Status::Running], true).len(), n);
    assert_eq!(statuses(vec![Status::Pending, Status::Interrupted], true), []);
    assert_eq!(statuses(vec![Status::Waiting], false).len(), n);
}
