//! Tools of all three recovery classes, alone and several at once.

use std::sync::Arc;

use expect_test::expect;
use rethread::store::MemoryStore;
use rethread::{ErrorKind, Recovery, Status, Tool, ToolContext};

use crate::support::{Gate, Nothing, Tally, World, block_on, check, print_log, scripted, workflow};

#[test]
fn a_model_uses_tools_of_all_classes() {
    let script = "{tool_calls: [{name: look, arguments: {text: seen}}]}, \
                  {tool_calls: [{name: put, arguments: {text: stored}}]}, \
                  {tool_calls: [{name: pay, arguments: {text: paid}}]}, {text: done}";
    check(
        &scripted("look, put, pay", script),
        "go",
        &expect![[r#"
        0 THREAD_STARTED
        1 NODE_STARTED work try 1
        2 LLM_EXECUTION_REQUEST
        3 LLM_CALL_REQUESTED iteration 1
        4 LLM_CALL_COMPLETED call 3: "" look
        5 TOOL_EXECUTION_REQUEST look {"text":"seen"}
        6 TOOL_EXECUTION_COMPLETED call 5: "seen"
        7 LLM_CALL_REQUESTED iteration 2
        8 LLM_CALL_COMPLETED call 7: "" put
        9 TOOL_EXECUTION_REQUEST put {"text":"stored"}
        10 TOOL_EXECUTION_COMPLETED call 9: "stored"
        11 LLM_CALL_REQUESTED iteration 3
        12 LLM_CALL_COMPLETED call 11: "" pay
        13 TOOL_EXECUTION_REQUEST pay {"text":"paid"}
        14 TOOL_EXECUTION_COMPLETED call 13: "paid"
        15 LLM_CALL_REQUESTED iteration 4
        16 LLM_CALL_COMPLETED call 15: "done"
        17 LLM_EXECUTION_COMPLETED
        18 NODE_COMPLETED work
        19 THREAD_COMPLETED
        completed: "done"
    "#]],
    );
}

#[test]
fn tools_of_one_answer_run_concurrently_with_ordered_results() {
    block_on(async {
        let world = World::new().await;
        let script = "{tool_calls: [{name: wait_pay, arguments: {text: first}}, \
                      {name: look, arguments: {text: second}}]}, {text: done}";
        let thread = world.start(&scripted("wait_pay, look", script), "go").await;
        world.tally.called("wait_pay", 1).await;
        world.tally.called("look", 1).await;
        world.tally.gate().open();
        let outcome = thread.outcome().await.unwrap();
        let results: Vec<_> = outcome.state.to_json()["tool_calls"].as_array().cloned().unwrap_or_default();
        assert!(results.is_empty(), "they are under the variables");
        let calls = outcome.state.tool_calls();
        let names: Vec<_> = calls.as_array().unwrap().iter().map(|call| call["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["wait_pay", "look"]);
        world.end().await;
    });
}

#[test]
fn a_tool_node_runs_its_tool() {
    let node = "nodes: [{id: pay, tool: {tool_name: pay, parameters: {text: 'for {{ input }}'}}}]";
    check(
        &workflow(node),
        "lunch",
        &expect![[r#"
        0 THREAD_STARTED
        1 NODE_STARTED pay try 1
        2 TOOL_EXECUTION_REQUEST pay {"text":"for lunch"}
        3 TOOL_EXECUTION_COMPLETED call 2: "for lunch"
        4 NODE_COMPLETED pay
        5 THREAD_COMPLETED
        completed: "for lunch"
    "#]],
    );
}

#[test]
fn error_of_a_tool_is_reported_to_the_model() {
    let script = "{tool_calls: [{name: fail, arguments: {text: 'no paper'}}]}, {match: 'no paper', text: sorry}";
    check(
        &scripted("fail", script),
        "print",
        &expect![[r#"
        0 THREAD_STARTED
        1 NODE_STARTED work try 1
        2 LLM_EXECUTION_REQUEST
        3 LLM_CALL_REQUESTED iteration 1
        4 LLM_CALL_COMPLETED call 3: "" fail
        5 TOOL_EXECUTION_REQUEST fail {"text":"no paper"}
        6 TOOL_EXECUTION_FAILED call 5: failed
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
fn invalid_arguments_and_unknown_tools_are_reported_to_the_model() {
    let script = "{tool_calls: [{name: look, arguments: {text: 7}}, {name: pay, arguments: {}}, \
                  {name: look, arguments_raw: '{\"text'}]}, {text: sorry}";
    check(
        &scripted("look", script),
        "go",
        &expect![[r#"
        0 THREAD_STARTED
        1 NODE_STARTED work try 1
        2 LLM_EXECUTION_REQUEST
        3 LLM_CALL_REQUESTED iteration 1
        4 LLM_CALL_COMPLETED call 3: "" look pay look
        5 TOOL_EXECUTION_REQUEST look {"text":7}
        6 TOOL_EXECUTION_REQUEST pay {}
        7 TOOL_EXECUTION_FAILED call 6: unknown_tool
        8 TOOL_EXECUTION_REQUEST look null
        9 TOOL_EXECUTION_FAILED call 5: invalid_arguments
        10 TOOL_EXECUTION_FAILED call 8: invalid_arguments
        11 LLM_CALL_REQUESTED iteration 2
        12 LLM_CALL_COMPLETED call 11: "sorry"
        13 LLM_EXECUTION_COMPLETED
        14 NODE_COMPLETED work
        15 THREAD_COMPLETED
        completed: "sorry"
    "#]],
    );
}

#[test]
fn tool_reports_progress() {
    let script = "{tool_calls: [{name: report, arguments: {text: all}}]}, {text: done}";
    check(
        &scripted("report", script),
        "go",
        &expect![[r#"
        0 THREAD_STARTED
        1 NODE_STARTED work try 1
        2 LLM_EXECUTION_REQUEST
        3 LLM_CALL_REQUESTED iteration 1
        4 LLM_CALL_COMPLETED call 3: "" report
        5 TOOL_EXECUTION_REQUEST report {"text":"all"}
        6 TOOL_EXECUTION_PROGRESS call 5: "half of it"
        7 TOOL_EXECUTION_COMPLETED call 5: "all"
        8 LLM_CALL_REQUESTED iteration 2
        9 LLM_CALL_COMPLETED call 8: "done"
        10 LLM_EXECUTION_COMPLETED
        11 NODE_COMPLETED work
        12 THREAD_COMPLETED
        completed: "done"
    "#]],
    );
}

#[test]
fn every_call_has_a_unique_key() {
    block_on(async {
        let world = World::new().await;
        let script =
            "{tool_calls: [{name: pay, arguments: {text: a}}, {name: pay, arguments: {text: a}}]}, {text: done}";
        let workflow = scripted("pay", script);
        world.run(&workflow, "go").await;
        world.run(&workflow, "go").await;
        assert_eq!(world.tally.of("pay"), (4, 4));
        world.end().await;
    });
}

#[test]
fn call_without_a_permit_is_not_started_and_reported() {
    block_on(async {
        let (gate, began) = (Gate::default(), Gate::default());
        let (pass, begins) = (gate.clone(), began.clone());
        let narrow = Tool::from_fn("narrow", "For tests.", move |_: Nothing, _: ToolContext| {
            let pass = pass.clone();
            begins.open();
            async move {
                pass.pass().await;
                Ok("through".to_owned())
            }
        });
        let narrow = narrow.recovery(Recovery::AtMostOnce).concurrency_max(1);
        let store = Arc::new(MemoryStore::new());
        let wait_max = |limits: &mut rethread::Limits| limits.call_wait_max_ms = 200;
        let world = World::with(store, &Tally::default(), |builder| builder.tool(narrow).limits(wait_max)).await;
        let within = |ms: u64| workflow(&format!("nodes: [{{id: go, tool: {{tool_name: narrow, timeout_ms: {ms}}}}}]"));
        let first = world.start(&within(600_000), "go").await;
        began.pass().await;
        let (_, second) = world.run(&within(600_000), "go").await;
        let error = second.error.unwrap();
        assert_eq!(error.kind, ErrorKind::Overloaded, "{}", error.message);
        assert!(error.message.contains("was not started"), "{}", error.message);
        gate.open();
        assert_eq!(first.outcome().await.unwrap().status, Status::Completed);
        world.end().await;
    });
}

#[test]
fn tool_continues_during_a_pause_within_its_timeout() {
    block_on(async {
        let world = World::new().await;
        let node = "nodes: [{id: pay, tool: {tool_name: wait_pay, timeout_ms: 500}}]";
        let thread = world.start(&workflow(node), "go").await;
        world.tally.called("wait_pay", 1).await;
        thread.pause(None).await.unwrap();
        let stopped = async {
            while !print_log(&thread).await.contains("TOOL_EXECUTION_FAILED call 2: timeout") {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(120), stopped).await.unwrap();
        assert_eq!(thread.at_rest().await.unwrap().status, Status::Paused);
        thread.resume().await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().error.unwrap().kind, ErrorKind::Timeout);
        world.end().await;
    });
}
