//! Limits of the threads with a label, against failures of the log and callers that leave.

use std::sync::Arc;

use futures::future::poll_immediate;
use rethread::errors::{LabelLimit, LabelLimitReached, RuntimeError, StartThreadError};
use rethread::event::LimitRaised;
use rethread::operate::LabelLimits;
use rethread::store::{MemoryStore, StoreError};
use rethread::{RuntimeBuilder, StartThread, Status, ThreadHandle, Workflow};
use rethread_store::testing::{Fault, FaultyStore};
use tokio::sync::Semaphore;

use crate::support::{Tally, World, block_on, llm, scripted, workflow};

fn one(builder: RuntimeBuilder) -> RuntimeBuilder {
    let limits = LabelLimits { live_threads_max: Some(1), ..LabelLimits::default() };
    builder.limits(|all| all.labels = [("tenant".to_owned(), limits)].into())
}

fn acme(workflow: &Arc<Workflow>) -> StartThread {
    StartThread::new(workflow.clone(), "go").labels("tenant=acme".parse().unwrap())
}

fn is_reached(started: Result<ThreadHandle, StartThreadError>) -> bool {
    let Err(StartThreadError::Runtime(RuntimeError::LabelLimit(reached))) = started else { return false };
    let LabelLimitReached { label, limit, n_max, .. } = reached;
    (label.as_str(), limit, n_max) == ("tenant=acme", LabelLimit::LiveThreadsMax, 1)
}

fn waits() -> Arc<Workflow> {
    scripted("wait_look", "{tool_calls: [{name: wait_look, arguments: {text: x}}]}, {text: done}")
}

#[test]
fn start_refused_by_the_log_is_not_counted() {
    block_on(async {
        let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())));
        let world = World::with(store.clone(), &Tally::default(), one).await;
        let waits = waits();
        store.plan(Fault::Fails(StoreError::Busy { bytes: 2, bytes_max: 1 }));
        let refused = world.runtime.start(acme(&waits)).await.unwrap_err();
        assert!(matches!(refused, StartThreadError::Runtime(RuntimeError::Store(_))), "{refused}");
        let thread = world.runtime.start(acme(&waits)).await.unwrap();
        assert!(is_reached(world.runtime.start(acme(&waits)).await));
        world.tally.gate().open();
        assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        let next = world.runtime.start(acme(&waits)).await.unwrap();
        assert_eq!(next.outcome().await.unwrap().status, Status::Completed);
        world.end().await;
    });
}

#[test]
fn start_whose_caller_has_left_counts_until_it_is_known() {
    block_on(async {
        let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())));
        let world = World::with(store.clone(), &Tally::default(), one).await;
        let waits = waits();
        // So that the definition is in the log.
        world.tally.gate().open();
        world.start(&waits, "go").await.outcome().await.unwrap();
        let until = Arc::new(Semaphore::new(0));
        store.plan(Fault::Waits { until: until.clone(), then: None });
        let n_before = store.n_appends();
        let mut left = Box::pin(world.runtime.start(acme(&waits)));
        assert!(poll_immediate(&mut left).await.is_none());
        while store.n_appends() == n_before {
            tokio::task::yield_now().await;
        }
        drop(left);
        assert!(is_reached(world.runtime.start(acme(&waits)).await));
        until.add_permits(1);
        let begun = loop {
            let threads = world.runtime.threads(rethread::ThreadFilter::default()).await.unwrap();
            if let [_, begun] = &threads[..] {
                break world.runtime.thread(begun.thread_id);
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(begun.outcome().await.unwrap().status, Status::Completed);
        let next = world.runtime.start(acme(&waits)).await.unwrap();
        assert_eq!(next.outcome().await.unwrap().status, Status::Completed);
        world.end().await;
    });
}

#[test]
fn start_with_an_id_of_a_thread_is_a_conflict_at_the_limit() {
    block_on(async {
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), one).await;
        let thread = world.runtime.start(acme(&waits())).await.unwrap();
        let again = world.runtime.start(acme(&waits()).id(thread.id())).await.unwrap_err();
        let is_conflict = matches!(again, StartThreadError::Runtime(RuntimeError::Store(StoreError::Conflict { .. })));
        assert!(is_conflict, "{again}");
        world.end().await;
    });
}

#[test]
fn branches_count_with_their_parent_thread() {
    block_on(async {
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), one).await;
        let both = workflow(&format!(
            "nodes:\n- id: both\n  parallel:\n    branches:\n      left: {{nodes: [{}]}}\n      right: {{nodes: [{}]}}\n",
            llm("l", "", "{text: L}"),
            llm("r", "", "{text: R}"),
        ));
        for _ in 0..2 {
            let thread = world.runtime.start(acme(&both)).await.unwrap();
            assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        }
        world.end().await;
    });
}

#[test]
fn branches_pause_at_the_tokens_of_the_day() {
    block_on(async {
        let limit = LabelLimits { tokens_per_day: Some(1), ..LabelLimits::default() };
        let limited =
            |builder: RuntimeBuilder| builder.limits(|all| all.labels = [("tenant".to_owned(), limit)].into());
        let store = Arc::new(MemoryStore::new());
        let world = World::with(store, &Tally::default(), limited).await;
        let both = workflow(&format!(
            "nodes:\n- id: both\n  parallel:\n    concurrency: 1\n    branches:\n      left: {{nodes: [{}]}}\n      right: {{nodes: [{}]}}\n",
            llm("l", "", "{text: L}"),
            llm("r", "", "{text: R}"),
        ));
        let thread = world.runtime.start(acme(&both)).await.unwrap();
        // The first branch has used the tokens, so the second one pauses before its call.
        let rests = thread.at_rest().await.unwrap();
        assert!(!rests.status.is_ended(), "{:?}", rests.status);
        assert_eq!(rests.totals.n_llm_calls, 1);
        let threads = world.runtime.threads(rethread::ThreadFilter::default()).await.unwrap();
        let statuses: Vec<_> = threads.iter().map(|thread| thread.status).collect();
        assert!(statuses.contains(&Status::Completed) && statuses.contains(&Status::Paused), "{statuses:?}");
        let refused = thread.resume_tree(LimitRaised::default()).await.unwrap_err();
        assert!(matches!(refused.runtime(), Some(RuntimeError::LabelLimit(_))), "{refused}");
        world.end().await;
    });
}
