//! Signals and the threads that wait for them.

use std::error::Error;
use std::sync::Arc;

use rethread::errors::SignalError;
use rethread::operate::Signal;
use rethread::store::{MemoryStore, Store, StoreError};
use rethread::{StartThread, Status, ThreadHandle, ThreadId, Workflow};
use rethread_store::testing::{Fault, FaultyStore};
use serde_json::json;

use crate::passivation::all_passivated;
use crate::support::{Tally, World, block_on, check_laws, disk, until, workflow};

/// Waits for the payment of the order that is its input.
fn order() -> Arc<Workflow> {
    workflow(
        "nodes: [{id: paid, signal: {name: order_paid, where: {order: '{{ input }}'}, schema: {required: [amount]}}}, \
         {id: note, context_processor: {processor_name: extract, processor_config: {variable: v, expression: output.amount}}}]",
    )
}

/// Waits for any signal of that name, twice.
fn twice() -> Arc<Workflow> {
    workflow("nodes: [{id: two, loop: {times: 2, body: {nodes: [{id: tick, signal: {name: tick}}]}, into: all}}]")
}

async fn world(store: Arc<dyn Store>) -> World {
    World::with(store, &Tally::default(), |builder| builder.limits(|limits| limits.passivate_after_ms = 0)).await
}

async fn waiting(world: &World, workflow: &Arc<Workflow>, input: &str) -> ThreadHandle {
    let thread = world.runtime.start_thread(workflow.clone(), input).await.unwrap();
    while thread.summary().await.unwrap().status != Status::Suspended {
        tokio::task::yield_now().await;
    }
    all_passivated(world).await;
    thread
}

fn paid(order: &str) -> Signal {
    Signal::new("order_paid", json!({ "order": order, "amount": 7 }))
}

#[test]
fn signal_reaches_the_threads_that_wait_for_it_and_no_others() {
    block_on(async {
        let world = world(Arc::new(MemoryStore::new())).await;
        let (first, second) = (waiting(&world, &order(), "A").await, waiting(&world, &order(), "B").await);
        let also_second = waiting(&world, &order(), "B").await;
        let other = waiting(&world, &twice(), "B").await;
        let sent = world.runtime.signal(paid("B")).await.unwrap();
        let mut expected = [second.id(), also_second.id()];
        expected.sort_unstable();
        assert_eq!((&sent.threads[..], sent.is_kept, sent.is_known), (&expected[..], false, false));
        assert_eq!(second.outcome().await.unwrap().output.unwrap(), 7);
        assert_eq!(also_second.outcome().await.unwrap().output.unwrap(), 7);
        for thread in [&first, &other] {
            assert_eq!(thread.summary().await.unwrap().status, Status::Suspended);
        }
        let none = world.runtime.signal(paid("B")).await.unwrap_err();
        assert!(matches!(none, SignalError::NotAwaited { .. }), "{none}");
        // A payload that the node does not take changes nothing.
        let unfit = Signal::new("order_paid", json!({ "order": "A" }));
        let refused = world.runtime.signal(Signal { id: Some("1".into()), ..unfit }).await.unwrap_err();
        assert!(rethread::errors::with_sources(&refused).contains("amount"), "{refused}");
        let right = world.runtime.signal(Signal { id: Some("1".into()), ..paid("A") }).await.unwrap();
        assert_eq!((right.threads, right.is_known), (vec![first.id()], false));
        world.end().await;
    });
}

#[test]
fn repeated_signal_changes_nothing_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let first = world(disk(folder.path())).await;
        let thread = waiting(&first, &twice(), "x").await.id();
        let tick = |id: &str| Signal { id: Some(id.into()), ..Signal::new("tick", id) };
        let sent = first.runtime.signal(tick("a")).await.unwrap();
        assert_eq!(sent.threads, [thread]);
        let again = first.runtime.signal(tick("a")).await.unwrap();
        assert_eq!((again.threads, again.is_known), (vec![thread], true));
        all_passivated(&first).await;
        first.end().await;

        let second = world(disk(folder.path())).await;
        assert!(second.runtime.signal(tick("a")).await.unwrap().is_known);
        assert_eq!(second.runtime.thread(thread).summary().await.unwrap().status, Status::Suspended);
        second.runtime.signal(tick("b")).await.unwrap();
        let outcome = second.runtime.thread(thread).outcome().await.unwrap();
        assert_eq!(outcome.state.variables().get("all").unwrap().0.to_string(), r#"["a","b"]"#);
        second.end().await;
    });
}

#[test]
fn kept_signal_goes_to_the_first_thread_that_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let first = world(disk(folder.path())).await;
        let kept = |ms| Signal { id: Some("early".into()), keep_for_ms: Some(ms), ..paid("A") };
        let sent = first.runtime.signal(kept(3_600_000)).await.unwrap();
        assert!(sent.is_kept && sent.threads.is_empty());
        assert!(first.runtime.signal(kept(3_600_000)).await.unwrap().is_known);
        first.end().await;

        let second = world(disk(folder.path())).await;
        // Another one does not get it.
        let other = waiting(&second, &order(), "B").await;
        let thread = second.runtime.start_thread(order(), "A").await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().output.unwrap(), 7);
        let late = waiting(&second, &order(), "A").await;
        assert_eq!(second.runtime.signal(kept(1)).await.unwrap().threads, [thread.id()]);
        for thread in [other, late] {
            assert_eq!(thread.summary().await.unwrap().status, Status::Suspended);
        }
        second.end().await;
    });
}

#[test]
fn kept_signal_expires() {
    block_on(async {
        let world = world(Arc::new(MemoryStore::new())).await;
        world.runtime.signal(Signal { keep_for_ms: Some(0), ..paid("A") }).await.unwrap();
        waiting(&world, &order(), "A").await;
        world.end().await;
    });
}

/// The process dies at each append of a thread that takes a kept signal: one thread receives it, and no second one.
#[test]
fn kept_signal_is_received_once_across_a_death_at_each_append() {
    let kept = || Signal { id: Some("early".into()), keep_for_ms: Some(3_600_000), ..paid("A") };
    let mut deaths = 0;
    for (nth, fault) in (0..).flat_map(|nth| [(nth, Fault::DiesBefore), (nth, Fault::DiesAfter)]) {
        let at = format!("append {nth}: {fault:?}");
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let id = ThreadId::new(1_790_000_000_000, [1; 10]);
        let dies = Arc::new(FaultyStore::new(inner.clone()));
        let is_dead = block_on(async {
            let first = world(dies.clone()).await;
            assert!(first.runtime.signal(kept()).await.unwrap().is_kept, "{at}");
            dies.plan_after(nth, fault);
            let lives = async {
                first.runtime.start(StartThread::new(order(), "A").id(id)).await?;
                first.runtime.thread(id).outcome().await.map_err(Box::<dyn Error>::from)
            };
            tokio::select! {
                done = lives => done.is_err(),
                () = dies.died() => true,
            }
        });
        if !is_dead {
            break;
        }
        deaths += 1;
        drop(dies);
        let (sent, late) = block_on(async {
            until(|| Arc::strong_count(&inner) == 1).await;
            let second = world(inner.clone()).await;
            // It has begun already, where its first event is there.
            let _ = second.runtime.start(StartThread::new(order(), "A").id(id)).await;
            assert_eq!(second.runtime.thread(id).outcome().await.unwrap().output.unwrap(), 7, "{at}");
            let late = waiting(&second, &order(), "A").await.id();
            let sent = second.runtime.signal(kept()).await.unwrap();
            check_laws(&second.runtime).await;
            second.crash(1).await;
            (sent, late)
        });
        assert_eq!((sent.threads, sent.is_kept, sent.is_known), (vec![id], false, true), "{at}");
        // What a start finds to be kept is given first.
        block_on(async {
            let third = world(inner).await;
            let other = third.runtime.signal(Signal::new("other", 1)).await;
            assert!(matches!(other, Err(SignalError::NotAwaited { .. })), "{at}");
            assert_eq!(third.runtime.thread(late).summary().await.unwrap().status, Status::Suspended, "{at}");
            third.end().await;
        });
    }
    assert!(deaths >= 4, "{deaths}");
}

#[test]
fn signal_that_cannot_be_kept_is_not_known_afterwards() {
    block_on(async {
        let world = world(Arc::new(MemoryStore::new())).await;
        let payload = json!({ "order": "A", "amount": 7, "more": "x".repeat(70_000) });
        let large = Signal { id: Some("1".into()), keep_for_ms: Some(60_000), ..Signal::new("order_paid", payload) };
        for _ in 0..2 {
            let error = world.runtime.signal(large.clone()).await.unwrap_err();
            assert!(rethread::errors::with_sources(&error).contains("a value"), "{error}");
        }
        let thread = waiting(&world, &order(), "A").await;
        assert_eq!(world.runtime.signal(large).await.unwrap().threads, [thread.id()]);
        world.end().await;
    });
}

/// A delivery that fails may have happened: the same id again makes it, once.
#[test]
fn undelivered_signal_is_delivered_when_sent_again() {
    block_on(async {
        let faulty = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())));
        let world = world(faulty.clone()).await;
        let threads = [waiting(&world, &order(), "A").await, waiting(&world, &order(), "A").await];
        let signal = Signal { id: Some("1".into()), ..paid("A") };
        faulty.plan(Fault::Fails(StoreError::Full { path: "x".into() }));
        let error = world.runtime.signal(signal.clone()).await.unwrap_err();
        assert!(matches!(&error, SignalError::Unfinished { id, .. } if id == "1"), "{error}");
        let again = world.runtime.signal(signal).await.unwrap();
        assert_eq!((again.threads.len(), again.is_known), (2, true));
        for thread in &threads {
            assert_eq!(thread.outcome().await.unwrap().output.unwrap(), 7);
        }
        world.end().await;
    });
}

#[test]
fn signals_that_cannot_be_sent_are_refused() {
    block_on(async {
        let world = world(Arc::new(MemoryStore::new())).await;
        for signal in [
            Signal::new("", 1),
            Signal::new("a b", 1),
            Signal { id: Some(String::new()), ..Signal::new("a", 1) },
            Signal { id: Some("x".repeat(201)), ..Signal::new("a", 1) },
            Signal { keep_for_ms: Some(u64::MAX), ..Signal::new("a", 1) },
        ] {
            let error = world.runtime.signal(signal).await.unwrap_err();
            assert!(matches!(error, SignalError::Invalid(_)), "{error}");
        }
        world.end().await;
    });
}

/// A signal that is sent while a thread begins to wait is received, whichever comes first.
#[test]
fn concurrent_signal_and_wait_match() {
    block_on(async {
        let world = world(Arc::new(MemoryStore::new())).await;
        for n in 0..40 {
            let input = n.to_string();
            let (start, signal) = (
                world.runtime.start_thread(order(), input.clone()),
                world.runtime.signal(Signal { keep_for_ms: Some(60_000), ..paid(&input) }),
            );
            let (thread, sent) = futures::future::join(start, signal).await;
            sent.unwrap();
            assert_eq!(thread.unwrap().outcome().await.unwrap().output.unwrap(), 7, "{n}");
        }
        world.end().await;
    });
}

#[test]
fn thousands_of_waiting_threads_are_matched_by_fields() {
    block_on(async {
        let world = world(Arc::new(MemoryStore::new())).await;
        let mut threads: Vec<ThreadId> = Vec::new();
        for n in 0..1_100 {
            threads.push(world.runtime.start_thread(order(), format!("order {n}")).await.unwrap().id());
        }
        let last = world.runtime.thread(threads[1_099]);
        while last.summary().await.unwrap().status != Status::Suspended {
            tokio::task::yield_now().await;
        }
        assert_eq!(world.runtime.signal(paid("order 1099")).await.unwrap().threads, [last.id()]);
        all_passivated(&world).await;
        world.end().await;
    });
}
