//! Queues: runs that wait in the log for their turn.

use std::sync::Arc;
use std::time::Duration;

use rethread::errors::{RuntimeError, StartThreadError};
use rethread::operate::Labels;
use rethread::runs::{OnBusy, RunRequest};
use rethread::store::{MemoryStore, Store};
use rethread::{Limits, StartThread, Status, ThreadFilter, ThreadId, Workflow};
use rethread_store::testing::{Fault, FaultyStore};
use serde_json::{Value, json};

use crate::support::{Tally, World, block_on, check_laws, disk, until, workflow};

/// The runs of a thread wait for a signal with its input, one run for each customer at a time.
fn one_each(queue: &str) -> Arc<Workflow> {
    workflow(&format!(
        "queue: {queue}\nnodes: [{{id: hold, signal: {{name: go, where: {{id: '{{{{ input.id }}}}'}}}}}}]"
    ))
}

async fn start(world: &World, of: &Arc<Workflow>, id: &str, customer: &str, more: Value) -> ThreadId {
    let mut input = json!({ "id": id, "customer": customer, "priority": 0, "shop": "a" });
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.runtime.start(StartThread::new(of.clone(), input)).await.unwrap().id()
}

async fn status(world: &World, thread: ThreadId) -> Status {
    world.runtime.thread(thread).summary().await.unwrap().status
}

async fn until_status(world: &World, thread: ThreadId, wanted: Status) {
    while status(world, thread).await != wanted {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Resumes the run that waits for this signal.
async fn go(world: &World, id: &str) {
    let signal = rethread::operate::Signal::new("go", json!({ "id": id }));
    world.runtime.signal(signal).await.unwrap();
}

async fn with_status(world: &World, wanted: Status) -> usize {
    world.runtime.threads(ThreadFilter { status: vec![wanted], ..ThreadFilter::default() }).await.unwrap().len()
}

#[test]
fn one_run_of_each_key_at_a_time_also_after_a_restart() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let world = World::on(disk(folder.path()), &Tally::default()).await;
        let of = one_each("{key: input.customer, concurrency: 1}");
        let first = start(&world, &of, "1", "Ada", json!({})).await;
        let second = start(&world, &of, "2", "Ada", json!({})).await;
        let other = start(&world, &of, "3", "Bob", json!({})).await;
        until_status(&world, first, Status::Suspended).await;
        until_status(&world, other, Status::Suspended).await;
        assert_eq!(status(&world, second).await, Status::Queued);
        world.end().await;

        let world = World::on(disk(folder.path()), &Tally::default()).await;
        let third = start(&world, &of, "4", "Ada", json!({})).await;
        assert_eq!(with_status(&world, Status::Queued).await, 2);
        go(&world, "1").await;
        until_status(&world, second, Status::Suspended).await;
        assert_eq!((status(&world, first).await, status(&world, third).await), (Status::Completed, Status::Queued));
        world.runtime.thread(second).cancel(None).await.unwrap();
        until_status(&world, third, Status::Suspended).await;
        world.end().await;
    });
}

#[test]
fn the_next_run_of_a_thread_waits_like_a_thread() {
    block_on(async {
        let world = World::new().await;
        let of = one_each("{key: input.customer, concurrency: 1}");
        let chat = start(&world, &of, "1", "Ada", json!({})).await;
        until_status(&world, chat, Status::Suspended).await;
        let other = start(&world, &of, "2", "Ada", json!({})).await;
        go(&world, "1").await;
        until_status(&world, other, Status::Suspended).await;
        let next = json!({ "id": "3", "customer": "Ada" });
        world.runtime.thread(chat).run(RunRequest::new(next)).await.unwrap();
        assert_eq!(status(&world, chat).await, Status::Queued);
        go(&world, "2").await;
        until_status(&world, chat, Status::Suspended).await;
        world.end().await;
    });
}

#[test]
fn runs_started_without_a_limit_count_for_a_later_limit() {
    block_on(async {
        let world = World::new().await;
        let without = one_each("{key: input.customer, rate: {starts: 9, per_ms: 1}}");
        let first = start(&world, &without, "1", "Ada", json!({})).await;
        until_status(&world, first, Status::Suspended).await;
        let of = one_each("{key: input.customer, concurrency: 1}");
        let second = start(&world, &of, "2", "Ada", json!({})).await;
        let other = start(&world, &of, "3", "Bob", json!({})).await;
        until_status(&world, other, Status::Suspended).await;
        assert_eq!(status(&world, second).await, Status::Queued);
        go(&world, "1").await;
        until_status(&world, second, Status::Suspended).await;
        world.end().await;
    });
}

#[test]
fn highest_priority_starts_first_and_groups_alternate() {
    block_on(async {
        let world = World::new().await;
        let of = one_each("{concurrency: 1, priority: input.priority, fair: input.shop}");
        let first = start(&world, &of, "0", "x", json!({})).await;
        until_status(&world, first, Status::Suspended).await;
        for (id, priority, shop) in [
            ("a1", 0, "a"),
            ("a2", 0, "a"),
            ("a3", 0, "a"),
            ("b1", 0, "b"),
            ("b2", 0, "b"),
            ("p", 1, "a"),
            ("n", -1, "b"),
        ] {
            start(&world, &of, id, "x", json!({ "priority": priority, "shop": shop })).await;
        }
        let mut order = Vec::new();
        let mut running = "0".to_owned();
        while order.len() < 7 {
            go(&world, &running).await;
            while with_status(&world, Status::Suspended).await == 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            let filter = ThreadFilter { status: vec![Status::Suspended], ..ThreadFilter::default() };
            let thread = world.runtime.threads(filter).await.unwrap()[0].thread_id;
            let state = world.runtime.thread(thread).state().await.unwrap();
            running = state.variables()["input"].0["id"].as_str().unwrap().to_owned();
            order.push(running.clone());
        }
        assert_eq!((&*order[0], &*order[6]), ("p", "n"), "{order:?}");
        let shops: String = order[1..5].iter().map(|id| &id[..1]).collect();
        assert!(["abab", "baba"].contains(&&*shops), "{order:?}");
        go(&world, &running).await;
        world.end().await;
    });
}

#[test]
fn a_rate_counts_starts_in_the_log() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let of = workflow("queue: {rate: {starts: 2, per_ms: 86400000}}\nnodes: [{id: done, end: {}}]");
        let world = World::on(disk(folder.path()), &Tally::default()).await;
        for _ in 0..2 {
            let thread = world.start(&of, "x").await;
            assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        }
        world.end().await;
        let world = World::on(disk(folder.path()), &Tally::default()).await;
        let third = world.start(&of, "x").await.id();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(status(&world, third).await, Status::Queued, "the starts before the restart count");
        world.end().await;
    });
}

#[test]
fn newest_run_of_a_burst_starts() {
    block_on(async {
        let world = World::new().await;
        let of = workflow("queue: {key: input, debounce_ms: 150}\nnodes: [{id: done, end: {}}]");
        let mut threads = Vec::new();
        for _ in 0..5 {
            threads.push(world.start(&of, "page").await);
        }
        let newest = threads.pop().unwrap();
        let outcome = newest.outcome().await.unwrap();
        assert_eq!(outcome.status, Status::Completed);
        let place = outcome.state.queue_place().unwrap();
        assert!(place.dequeued_at.unwrap() >= place.queued.not_before.unwrap());
        for thread in threads {
            let outcome = thread.outcome().await.unwrap();
            assert_eq!(outcome.status, Status::Cancelled);
            assert!(outcome.error.unwrap().message.contains("only the newest one of the queue begins"));
        }
        world.end().await;
    });
}

#[test]
fn starts_beyond_the_limit_of_live_threads_wait_in_the_log() {
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let few = |limits: &mut Limits| limits.live_threads_max = 4;
        let world = World::with(store, &Tally::default(), |builder| builder.limits(few)).await;
        let slow = crate::support::scripted(
            "wait_look",
            "{tool_calls: [{name: wait_look, arguments: {text: x}}]}, {text: done}",
        );
        let start = |tenant: &str, on_busy| {
            let labels: Labels = format!("tenant={tenant}").parse().unwrap();
            world.runtime.start(StartThread::new(slow.clone(), "x").labels(labels).on_busy(on_busy))
        };
        let mut all = Vec::new();
        for tenant in ["a", "a", "a", "a", "a", "a", "b"] {
            all.push(start(tenant, OnBusy::Queue).await.unwrap());
        }
        assert_eq!(with_status(&world, Status::Queued).await, 4);
        let refused = start("c", OnBusy::Refuse).await.unwrap_err();
        assert!(matches!(refused, StartThreadError::Runtime(RuntimeError::Busy { .. })), "{refused}");
        world.tally.gate().open();
        for thread in all {
            assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        }
        start("c", OnBusy::Refuse).await.unwrap().outcome().await.unwrap();
        world.end().await;
    });
}

#[test]
fn imported_run_that_waits_begins_when_a_caller_asks_for_it() {
    block_on(async {
        let world = World::new().await;
        let of = one_each("{concurrency: 1}");
        let first = start(&world, &of, "1", "Ada", json!({})).await;
        until_status(&world, first, Status::Suspended).await;
        let second = start(&world, &of, "2", "Ada", json!({})).await;
        let file = tempfile::NamedTempFile::new().unwrap();
        world.runtime.export(second, file.reopen().unwrap()).await.unwrap();
        world.end().await;
        let world = World::new().await;
        world.runtime.import(std::io::BufReader::new(file.reopen().unwrap())).await.unwrap();
        let third = start(&world, &of, "3", "Ada", json!({})).await;
        until_status(&world, third, Status::Suspended).await;
        go(&world, "3").await;
        until_status(&world, third, Status::Completed).await;
        assert_eq!(status(&world, second).await, Status::Queued);
        world.runtime.thread(second).wake().await.unwrap();
        until_status(&world, second, Status::Suspended).await;
        world.end().await;
    });
}

/// The process dies at each append: each run begins once, and never two of one key at a time.
#[test]
fn each_run_begins_once_across_a_death_at_each_append() {
    let of = one_each("{key: input.customer, concurrency: 1, rate: {starts: 100, per_ms: 1000}}");
    for (nth, fault) in (0..9).flat_map(|nth| [(nth, Fault::DiesBefore), (nth, Fault::DiesAfter)]) {
        let at = format!("append {nth}: {fault:?}");
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let dies = Arc::new(FaultyStore::new(inner.clone()));
        let ids = [1, 2, 3].map(|n| ThreadId::from_bytes([n; 16]));
        let begin = |world: &World, i: usize| {
            let input = json!({ "id": (i + 1).to_string(), "customer": "Ada" });
            let (runtime, start) = (world.runtime.clone(), StartThread::new(of.clone(), input).id(ids[i]));
            async move { runtime.start(start).await.map(|thread| thread.id()) }
        };
        block_on(async {
            let first = World::on(dies.clone(), &Tally::default()).await;
            dies.plan_after(nth, fault);
            let work = async {
                for i in 0..3 {
                    begin(&first, i).await.unwrap();
                }
                for id in ["1", "2", "3"] {
                    while first.runtime.signal(rethread::operate::Signal::new("go", json!({ "id": id }))).await.is_err()
                    {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = work => {}
                () = dies.died() => {}
            }
        });
        drop(dies);
        block_on(async {
            until(|| Arc::strong_count(&inner) == 1).await;
            let second = World::on(inner.clone(), &Tally::default()).await;
            for i in 0..3 {
                // What the caller does not know to be started is started again, with its id.
                let _ = begin(&second, i).await;
            }
            for (i, thread) in ids.iter().enumerate() {
                while !status(&second, *thread).await.is_ended() {
                    let n_running =
                        with_status(&second, Status::Suspended).await + with_status(&second, Status::Running).await;
                    assert!(n_running <= 1, "{at}: {n_running} at once");
                    let signal = rethread::operate::Signal::new("go", json!({ "id": (i + 1).to_string() }));
                    let _ = second.runtime.signal(signal).await;
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                let outcome = second.runtime.thread(*thread).outcome().await.unwrap();
                assert_eq!(outcome.status, Status::Completed, "{at}");
                assert_eq!(outcome.state.queue_starts().len(), 1, "{at}");
            }
            check_laws(&second.runtime).await;
            second.crash(1).await;
        });
    }
}
