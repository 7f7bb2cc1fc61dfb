//! Every limit can be reached without harm.

use std::sync::Arc;

use rethread::store::MemoryStore;
use rethread::{Runtime, RuntimeError, StartError, Status, ThreadFilter, Tool};

use crate::support::{Tally, World, block_on, scripted};

#[test]
fn an_input_over_the_limit_is_refused_and_the_log_untouched() {
    block_on(async {
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
            builder.limits(|limits| limits.input_bytes_max = 1_000)
        })
        .await;
        let error = world.runtime.start_thread(scripted("", "{text: no}"), "x".repeat(2_000)).await.unwrap_err();
        assert!(matches!(error, RuntimeError::TooLarge { bytes_max: 1_000, .. }), "{error}");
        assert_eq!(world.store.next_position().0, 0);
        world.end().await;
    });
}

#[test]
fn one_thread_too_many_is_refused_and_finds_room_later() {
    block_on(async {
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
            builder.limits(|limits| limits.live_threads_max = 2)
        })
        .await;
        let waits = scripted("wait_look", "{tool_calls: [{name: wait_look, arguments: {text: x}}]}, {text: done}");
        let first = world.start(&waits, "go").await;
        let second = world.start(&waits, "go").await;
        let error = world.runtime.start_thread(waits.clone(), "go").await.unwrap_err();
        assert!(matches!(error, RuntimeError::Busy { n: 2, n_max: 2, .. }), "{error}");
        world.tally.gate().open();
        for thread in [first, second] {
            assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        }
        let third = loop {
            match world.runtime.start_thread(waits.clone(), "go").await {
                Ok(third) => break third,
                // Whoever waits is told of the end a moment before the thread has left.
                Err(RuntimeError::Busy { .. }) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(third.outcome().await.unwrap().status, Status::Completed);
        assert_eq!(world.runtime.threads(ThreadFilter::default()).await.unwrap().len(), 3);
        world.end().await;
    });
}

#[test]
fn more_model_calls_than_may_run_at_once_wait_for_each_other() {
    block_on(async {
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
            builder.limits(|limits| limits.concurrent_model_calls_max = 1)
        })
        .await;
        let slow = scripted("", "{text: done, delay_ms: 1}");
        let mut threads = Vec::new();
        for _ in 0..20 {
            threads.push(world.start(&slow, "go").await);
        }
        for thread in threads {
            assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        }
        world.end().await;
    });
}

#[test]
fn a_mailbox_that_is_full_makes_those_wait_who_fill_it() {
    block_on(async {
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
            builder.limits(|limits| limits.mailbox_max = 1)
        })
        .await;
        let waits = scripted("wait_look", "{tool_calls: [{name: wait_look, arguments: {text: x}}]}, {text: done}");
        let thread = world.start(&waits, "go").await;
        let labels = (0..100).map(|n| thread.checkpoint(format!("label {n}")));
        for labelled in futures::future::join_all(labels).await {
            labelled.unwrap();
        }
        world.tally.gate().open();
        assert_eq!(thread.outcome().await.unwrap().state.checkpoints().len(), 100);
        world.end().await;
    });
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    block_on(async {
        let error = Runtime::builder().in_memory().arbiters(0).start().await.unwrap_err();
        assert!(matches!(error, StartError::Invalid(_)), "{error}");
        let error = Runtime::builder().in_memory().workspace("/no/such/folder").start().await.unwrap_err();
        assert!(matches!(error, StartError::Workspace(_)), "{error}");
        let tool = || Tool::from_fn("same", "twice", |(): (), _| async { Ok("x") });
        let error = Runtime::builder().in_memory().tool(tool()).tool(tool()).start().await.unwrap_err();
        assert!(matches!(error, StartError::Invalid(_)), "{error}");
    });
}
