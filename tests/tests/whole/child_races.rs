//! What may happen to a `start_thread` node and to a wait for a thread while they are in progress.

use std::sync::Arc;

use rethread::operate::Signal;
use rethread::store::{LogReader, MemoryStore};
use rethread::{Event, Mode, Seq, StartThread, Status, ThreadFilter, ThreadHandle, ThreadId};
use rethread_store::StoreError;
use rethread_store::testing::{Fault, FaultyStore};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::children::{all_threads, collect, leaving, until_status};
use crate::support::{Tally, World, block_on, disk, workflow};

/// The child that a thread wants, once its request is in the log.
async fn requested(parent: &ThreadHandle) -> Option<ThreadId> {
    let events = parent.recorded_events(Seq(0)).await.unwrap_or_default();
    events.into_iter().find_map(|recorded| match recorded.event {
        Event::ChildStartRequested(e) => Some(e.child),
        _ => None,
    })
}

/// A thread that has requested its child, whose first append waits for a permit and then fails with this error, if there
/// is one.
async fn while_it_starts(policy: &str, then: Option<StoreError>) -> (World, ThreadHandle, ThreadId, Arc<Semaphore>) {
    for nth in 0..20 {
        let until = Arc::new(Semaphore::new(0));
        let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())));
        let world = World::on(store.clone(), &Tally::default()).await;
        store.plan_after(nth, Fault::Waits { until: until.clone(), then: then.clone() });
        let id = ThreadId::from_bytes([1; 16]);
        let (runtime, start) = (world.runtime.clone(), StartThread::new(leaving(policy), "x").id(id));
        let started = tokio::spawn(async move { runtime.start(start).await.map(drop) });
        let parent = world.runtime.thread(id);
        let n_before = store.n_appends();
        loop {
            let child = requested(&parent).await;
            let is_there = |child| store.stream(child).is_ok();
            if let Some(child) = child.filter(|child| !is_there(*child) && store.n_appends() > nth) {
                started.await.unwrap().unwrap();
                return (world, parent, child, until);
            }
            // Another append waits.
            if store.n_appends() > nth && (child.is_none() || child.is_some_and(is_there)) {
                break;
            }
            assert!(store.n_appends() >= n_before);
            tokio::task::yield_now().await;
        }
        until.add_permits(1);
        drop(started.await);
        drop(world.runtime.shutdown().await);
    }
    panic!("no append begins the child");
}

#[test]
fn parent_that_ends_while_its_child_starts_cancels_it_as_its_policy_says() {
    for (policy, expected) in [("cancel", Status::Cancelled), ("leave", Status::Suspended)] {
        block_on(async {
            let (world, parent, child, starts) = while_it_starts(policy, None).await;
            parent.cancel(Some("enough".into())).await.unwrap();
            assert_eq!(parent.summary().await.unwrap().status, Status::Cancelled);
            starts.add_permits(1);
            until_status(&world.runtime.thread(child), expected).await;
            assert_eq!(all_threads(&world).await.len(), 2);
            world.end().await;
        });
    }
}

#[test]
fn start_whose_append_fails_is_repeated_and_starts_the_child_once() {
    let errors = [StoreError::Busy { bytes: 2, bytes_max: 1 }, StoreError::Full { path: "/log".into() }];
    for error in errors {
        block_on(async {
            let (world, parent, child, starts) = while_it_starts("leave", Some(error)).await;
            starts.add_permits(1);
            until_status(&world.runtime.thread(child), Status::Suspended).await;
            until_status(&parent, Status::Suspended).await;
            world.runtime.signal(Signal::new("end", json!({ "by": 1 }))).await.unwrap();
            assert_eq!(parent.outcome().await.unwrap().status, Status::Completed);
            assert_eq!(all_threads(&world).await.len(), 2);
            world.end().await;
        });
    }
}

/// Two threads wait for each other. Each activates the other, once. A person ends it.
#[test]
fn threads_that_wait_for_each_other_on_demand_end_when_one_is_cancelled() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let first = World::on(disk(folder.path()), &Tally::default()).await;
        let holds = workflow(
            "nodes:\n  - {id: hold, signal: {name: go}}\n  - {id: collect, wait: {thread: '{{ output.thread }}'}}",
        );
        let one = first.start(&holds, "x").await;
        until_status(&one, Status::Suspended).await;
        let other = first.start(&collect(), &one.id().to_string()).await;
        until_status(&other, Status::Suspended).await;
        first.runtime.signal(Signal::new("go", json!({ "thread": other.id().to_string() }))).await.unwrap();
        let waits = |events: Vec<rethread::RecordedEvent>| {
            events.iter().any(|recorded| matches!(recorded.event, Event::ThreadAwaited(_)))
        };
        while !waits(one.recorded_events(Seq(0)).await.unwrap()) {
            tokio::task::yield_now().await;
        }
        until_status(&one, Status::Suspended).await;
        let (one, other) = (one.id(), other.id());
        first.runtime.shutdown().await.unwrap();
        drop(first);

        let on_demand = |builder: rethread::RuntimeBuilder| builder.mode(Mode::RunOnDemand);
        let second = World::with(disk(folder.path()), &Tally::default(), on_demand).await;
        let outcome = tokio::spawn({
            let other = second.runtime.thread(other);
            async move { other.outcome().await.unwrap() }
        });
        until_status(&second.runtime.thread(one), Status::Suspended).await;
        second.runtime.thread(one).cancel(Some("in a circle".into())).await.unwrap();
        let outcome = outcome.await.unwrap();
        assert_eq!(outcome.output.unwrap(), json!(["cancelled", "in a circle"]));
        let all = second.runtime.threads(ThreadFilter::default()).await.unwrap();
        assert!(all.len() == 2 && all.iter().all(|thread| thread.status.is_ended()));
        second.end().await;
    });
}
