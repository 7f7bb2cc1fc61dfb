//! From an input to an outcome.

use expect_test::expect;
use rethread::errors::{NextMove, StartThreadError};
use rethread::{StartThread, ThreadFilter};

use crate::support::{World, block_on, check, llm, scripted, workflow};

#[test]
fn a_model_answers() {
    check(
        &scripted("", "{text: 'Hello, Ada!'}"),
        "Ada",
        &expect![[r#"
        0 THREAD_STARTED
        1 NODE_STARTED work try 1
        2 LLM_EXECUTION_REQUEST
        3 LLM_CALL_REQUESTED iteration 1
        4 LLM_CALL_COMPLETED call 3: "Hello, Ada!"
        5 LLM_EXECUTION_COMPLETED
        6 NODE_COMPLETED work
        7 THREAD_COMPLETED
        completed: "Hello, Ada!"
    "#]],
    );
}

#[test]
fn nodes_run_in_order_and_see_the_conversation() {
    let two = workflow(&format!(
        "nodes: [{}, {}]",
        llm("first", "", "{text: one}"),
        llm("second", "", "{match: two, text: 'not this'}, {text: 'after {{ input }}'}")
    ));
    check(
        &two,
        "go",
        &expect![[r#"
        0 THREAD_STARTED
        1 NODE_STARTED first try 1
        2 LLM_EXECUTION_REQUEST
        3 LLM_CALL_REQUESTED iteration 1
        4 LLM_CALL_COMPLETED call 3: "one"
        5 LLM_EXECUTION_COMPLETED
        6 NODE_COMPLETED first
        7 NODE_STARTED second try 1
        8 LLM_EXECUTION_REQUEST
        9 LLM_CALL_REQUESTED iteration 1
        10 LLM_CALL_COMPLETED call 9: "after {{ input }}"
        11 LLM_EXECUTION_COMPLETED
        12 NODE_COMPLETED second
        13 THREAD_COMPLETED
        completed: "after {{ input }}"
    "#]],
    );
}

#[test]
fn a_model_that_fails_fails_the_thread() {
    check(
        &scripted("", "{error: {kind: authentication, message: 'no such key'}}"),
        "Ada",
        &expect![[r#"
        0 THREAD_STARTED
        1 NODE_STARTED work try 1
        2 LLM_EXECUTION_REQUEST
        3 LLM_CALL_REQUESTED iteration 1
        4 LLM_CALL_FAILED call 3: authentication
        5 LLM_EXECUTION_FAILED
        6 NODE_FAILED work try 1: authentication
        7 THREAD_FAILED authentication
        error: mock: authentication: no such key (authentication)
    "#]],
    );
}

#[test]
fn failed_node_is_retried() {
    let again = workflow(
        "nodes: [{id: work, retry: {max_attempts: 2, backoff_ms: 1}, tool: {tool_name: fail, parameters: {text: no}}}]",
    );
    check(
        &again,
        "go",
        &expect![[r#"
        0 THREAD_STARTED
        1 NODE_STARTED work try 1
        2 TOOL_EXECUTION_REQUEST fail {"text":"no"}
        3 TOOL_EXECUTION_FAILED call 2: failed
        4 NODE_FAILED work try 1: failed, again
        5 NODE_STARTED work try 2
        6 TOOL_EXECUTION_REQUEST fail {"text":"no"}
        7 TOOL_EXECUTION_FAILED call 6: failed
        8 NODE_FAILED work try 2: failed
        9 THREAD_FAILED failed
        error: no (failed)
    "#]],
    );
}

#[test]
fn start_with_the_callers_id_is_idempotent() {
    block_on(async {
        let world = World::new().await;
        let workflow = scripted("", "{text: once}");
        let (thread, _) = world.run(&workflow, "go").await;
        let again = world.runtime.start(StartThread::new(workflow.clone(), "go").id(thread.id())).await;
        let error = again.expect_err("it has begun already");
        assert!(error.next_move() == NextMove::ReadAgain, "{error}");
        assert_eq!(world.runtime.threads(ThreadFilter::default()).await.unwrap().len(), 1);
        world.end().await;
    });
}

#[test]
fn workflow_with_missing_requirements_is_not_started() {
    block_on(async {
        let world = World::new().await;
        let workflow = scripted("no_such_tool", "{text: never}");
        let error = world.runtime.start_thread(workflow, "go").await.expect_err("the tool is missing");
        assert!(matches!(error, StartThreadError::Workflow(_)), "{error}");
        assert_eq!(world.runtime.threads(ThreadFilter::default()).await.unwrap(), []);
        world.end().await;
    });
}
