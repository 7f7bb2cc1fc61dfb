//! Cancel and abort, in every phase.

use super::*;

fn cancel(bench: &mut Bench) {
    bench.give(Input::Cancel { reason: Some("enough".into()) });
}

#[test]
fn cancelling_while_the_model_is_called_ends_the_call() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    cancel(&mut bench);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_FAILED call=3 cancelled
          5 LLM_EXECUTION_FAILED node=ask cancelled
          6 NODE_FAILED node=ask attempt=1 cancelled
          7 THREAD_CANCELLED "enough"
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn cancelling_while_tools_run_answers_every_tool_call() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["read", "send", "put"]);
    bench.tool_says("42");
    bench.tick_after_ms(10);
    cancel(&mut bench);
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_REQUEST name=send
          7 TOOL_EXECUTION_COMPLETED call=5
          8 TOOL_EXECUTION_REQUEST name=put
            10 ms later
          9 TOOL_EXECUTION_FAILED call=6 cancelled
         10 TOOL_EXECUTION_FAILED call=8 cancelled
         11 LLM_EXECUTION_FAILED node=ask cancelled
         12 NODE_FAILED node=ask attempt=1 cancelled
         13 THREAD_CANCELLED "enough"
            user: hello
            assistant: read(c3_0) send(c3_1) put(c3_2)
            tool: c3_0: 42
            tool: c3_1! Error (cancelled): the thread was cancelled: enough
            tool: c3_2! Error (cancelled): the thread was cancelled: enough
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn cancel_in_a_pause_answers_tools_that_never_began() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["read", "send", "put"]);
    bench.give(Input::Pause { reason: Some("lunch".into()) });
    bench.tool_says("first");
    bench.tool_says("second");
    cancel(&mut bench);
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_REQUEST name=send
          7 THREAD_PAUSED "lunch"
          8 TOOL_EXECUTION_COMPLETED call=5
          9 TOOL_EXECUTION_COMPLETED call=6
         10 LLM_EXECUTION_FAILED node=ask cancelled
         11 NODE_FAILED node=ask attempt=1 cancelled
         12 THREAD_CANCELLED "enough"
            user: hello
            assistant: read(c3_0) send(c3_1) put(c3_2)
            tool: c3_0: first
            tool: c3_1: second
            tool: c3_2! not run: the thread was cancelled: enough
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn cancelling_while_a_person_is_asked_takes_the_question_back() {
    let mut bench = Bench::new(interaction::APPROVAL, "hello");
    cancel(&mut bench);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=approve attempt=1
          2 USER_INTERACTION_REQUESTED node=approve
          3 USER_INTERACTION_FAILED interaction=2 "cancelled"
          4 NODE_FAILED node=approve attempt=1 cancelled
          5 THREAD_CANCELLED "enough"
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn cancel_before_the_effect_of_an_answer_ends_the_question() {
    let mut bench = Bench::new(interaction::APPROVAL, "hello");
    bench.give(Input::Pause { reason: Some("lunch".into()) });
    bench.person_says(serde_json::json!(true));
    cancel(&mut bench);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=approve attempt=1
          2 USER_INTERACTION_REQUESTED node=approve
          3 THREAD_PAUSED "lunch"
          4 USER_INTERACTION_RESPONDED interaction=2
          5 USER_INTERACTION_FAILED interaction=2 "cancelled"
          6 NODE_FAILED node=approve attempt=1 cancelled
          7 THREAD_CANCELLED "enough"
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn cancelling_while_a_node_waits_for_its_next_try_ends_the_thread() {
    let mut bench = Bench::new(node_retry::RETRIED, "hello");
    bench.model_fails(ErrorKind::Server);
    cancel(&mut bench);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_FAILED call=3 server
          5 LLM_EXECUTION_FAILED node=ask server
          6 NODE_FAILED node=ask attempt=1 server retry_at=+100
          7 THREAD_CANCELLED "enough"
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn cancelling_while_a_tool_node_runs_ends_the_tool() {
    let mut bench = Bench::new(tool_node::PUT, "hello");
    cancel(&mut bench);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=write attempt=1
          2 TOOL_EXECUTION_REQUEST name=put
          3 TOOL_EXECUTION_FAILED call=2 cancelled
          4 NODE_FAILED node=write attempt=1 cancelled
          5 THREAD_CANCELLED "enough"
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn aborting_ends_in_an_error() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["send"]);
    bench.give(Input::Abort { reason: Some("fire".into()) });
    assert_eq!(bench.state().error().map(|e| e.message), Some("the thread was aborted: fire".into()));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=send
          6 TOOL_EXECUTION_FAILED call=5 cancelled
          7 LLM_EXECUTION_FAILED node=ask cancelled
          8 NODE_FAILED node=ask attempt=1 cancelled
          9 THREAD_FAILED node=ask cancelled
        => error, waits for nothing
    "#]]);
}
