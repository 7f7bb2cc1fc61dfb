//! A panic stops what panicked, is recorded, and touches nothing else.

use std::sync::Arc;

use expect_test::expect;
use futures::FutureExt;
use rethread::Status;
use rethread::store::MemoryStore;

use crate::handler::Says;
use crate::interaction::approval;
use crate::support::{Tally, World, block_on, check, print_log, scripted};

#[test]
fn a_tool_that_panics_has_failed() {
    let script = "{tool_calls: [{name: crash, arguments: {text: 'index out of bounds'}}]}, {text: sorry}";
    check(
        &scripted("crash", script),
        "go",
        &expect![[r#"
        0 THREAD_STARTED
        1 NODE_STARTED work try 1
        2 LLM_EXECUTION_REQUEST
        3 LLM_CALL_REQUESTED iteration 1
        4 LLM_CALL_COMPLETED call 3: "" crash
        5 TOOL_EXECUTION_REQUEST crash {"text":"index out of bounds"}
        6 TOOL_EXECUTION_FAILED call 5: panicked
        7 LLM_CALL_REQUESTED iteration 2
        8 LLM_CALL_COMPLETED call 7: "sorry"
        9 LLM_EXECUTION_COMPLETED
        10 NODE_COMPLETED work
        11 THREAD_COMPLETED
        completed: "sorry"
    "#]],
    );
}

#[test]
fn panicking_handler_fails_and_others_continue() {
    block_on(async {
        let handler = Says(|_, _| async { panic!("no terminal") }.boxed());
        let world =
            World::with(Arc::new(MemoryStore::new()), &Tally::default(), |b| b.interaction_handler(handler)).await;
        let thread = world.start(&approval(), "7 €").await;
        assert_eq!(thread.outcome().await.unwrap().status, Status::Error);
        assert!(print_log(&thread).await.contains("USER_INTERACTION_FAILED HandlerError"));
        let (_, outcome) = world.run(&scripted("", "{text: fine}"), "go").await;
        assert_eq!(outcome.status, Status::Completed);
        world.end().await;
    });
}

#[test]
fn a_handler_that_panics_before_it_has_a_future_has_failed() {
    block_on(async {
        let handler = Says(|_, _| panic!("no dialog"));
        let world =
            World::with(Arc::new(MemoryStore::new()), &Tally::default(), |b| b.interaction_handler(handler)).await;
        let thread = world.start(&approval(), "7 €").await;
        assert_eq!(thread.outcome().await.unwrap().status, Status::Error);
        world.end().await;
    });
}
