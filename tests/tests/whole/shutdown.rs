//! An orderly end, also in the middle of work.

use std::sync::Arc;

use rethread::errors::{ReadError, RuntimeError, StartThreadError};
use rethread::store::{MemoryStore, Store as _, StoreError};
use rethread::{RuntimeBuilder, Status};

use crate::support::{Tally, World, block_on, disk, print_log, scripted};

/// A grace time that no machine is too slow for; a shutdown lasts only as long as what runs.
fn patient(builder: RuntimeBuilder) -> RuntimeBuilder {
    builder.limits(|limits| limits.shutdown_grace_ms = 120_000)
}

#[test]
fn calls_that_end_within_the_grace_time_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let tally = Tally::default();
        let world = World::with(disk(folder.path()), &tally, patient).await;
        let pays = scripted("wait_pay", "{tool_calls: [{name: wait_pay, arguments: {text: paid}}]}, {text: done}");
        let thread = world.start(&pays, "go").await;
        tally.called("wait_pay", 1).await;
        let stopping = tokio::spawn({
            let runtime = world.runtime.clone();
            async move { runtime.shutdown().await }
        });
        // New work is refused from here on. What is started before calls no tool, which might begin or not.
        let idle = scripted("", "{text: done}");
        while !matches!(
            world.runtime.start_thread(idle.clone(), "no").await,
            Err(StartThreadError::Runtime(RuntimeError::ShuttingDown))
        ) {
            tokio::task::yield_now().await;
        }
        tally.gate().open();
        stopping.await.unwrap().unwrap();
        let id = thread.id();
        drop((world, thread));

        let world = World::on(disk(folder.path()), &tally).await;
        let outcome = world.runtime.thread(id).outcome().await.unwrap();
        assert_eq!((outcome.status, outcome.output.unwrap()), (Status::Completed, "done".into()));
        assert_eq!(tally.of("wait_pay"), (1, 1), "its answer was not lost");
        world.end().await;
    });
}

#[test]
fn tool_call_in_the_grace_time_is_run_by_the_next_runtime() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let tally = Tally::default();
        let world = World::with(disk(folder.path()), &tally, patient).await;
        let asks = "{tool_calls: [{name: pay, arguments: {text: x}}], delay_ms: 300}, {text: done}";
        let thread = world.start(&scripted("pay", asks), "go").await;
        world.runtime.shutdown().await.unwrap();
        let id = thread.id();
        drop((world, thread));

        let world = World::on(disk(folder.path()), &tally).await;
        let thread = world.runtime.thread(id);
        assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        let log = print_log(&thread).await;
        assert_eq!(tally.of("pay"), (1, 1), "{log}");
        assert!(!log.contains("indeterminate"), "{log}");
        world.end().await;
    });
}

#[test]
fn calls_that_do_not_end_are_left_to_recovery() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let tally = Tally::default();
        let world =
            World::with(disk(folder.path()), &tally, |builder| builder.limits(|limits| limits.shutdown_grace_ms = 1))
                .await;
        let looks = scripted("wait_look", "{tool_calls: [{name: wait_look, arguments: {text: seen}}]}, {text: done}");
        let thread = world.start(&looks, "go").await;
        tally.called("wait_look", 1).await;
        world.runtime.shutdown().await.unwrap();
        let id = thread.id();
        let error = thread.outcome().await.expect_err("the runtime is gone");
        assert!(matches!(error, ReadError::Runtime(RuntimeError::ShuttingDown | RuntimeError::Store(_))), "{error}");
        drop((world, thread));

        tally.gate().open();
        let world = World::on(disk(folder.path()), &tally).await;
        assert_eq!(world.runtime.thread(id).outcome().await.unwrap().status, Status::Completed);
        assert_eq!(tally.of("wait_look"), (1, 2), "the same call, run again");
        world.end().await;
    });
}

#[test]
fn second_shutdown_has_no_effect_and_waiters_are_notified() {
    block_on(async {
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
            builder.limits(|limits| limits.shutdown_grace_ms = 1)
        })
        .await;
        let waits = scripted("wait_look", "{tool_calls: [{name: wait_look, arguments: {text: x}}]}, {text: done}");
        let thread = world.start(&waits, "go").await;
        world.tally.called("wait_look", 1).await;
        let (outcome, first) = futures::join!(thread.outcome(), world.runtime.shutdown());
        assert!(matches!(outcome, Err(ReadError::Runtime(RuntimeError::ShuttingDown))), "{outcome:?}");
        first.unwrap();
        world.runtime.shutdown().await.unwrap();
    });
}

#[test]
fn concurrent_shutdowns_return_the_same_result() {
    block_on(async {
        let store = Arc::new(MemoryStore::new());
        let world = World::with(store.clone(), &Tally::default(), patient).await;
        let waits = scripted("wait_look", "{tool_calls: [{name: wait_look, arguments: {text: x}}]}, {text: done}");
        world.start(&waits, "go").await;
        world.tally.called("wait_look", 1).await;
        let (mut first, mut second) = (Box::pin(world.runtime.shutdown()), Box::pin(world.runtime.shutdown()));
        assert!(futures::poll!(&mut first).is_pending());
        assert!(futures::poll!(&mut second).is_pending(), "the first is not done");
        // The first was dropped, and the second still works.
        drop(first);
        store.close().unwrap();
        world.tally.gate().open();
        for told in [second.await, world.runtime.shutdown().await] {
            assert!(matches!(told, Err(RuntimeError::Store(StoreError::Closed))), "{told:?}");
        }
    });
}
