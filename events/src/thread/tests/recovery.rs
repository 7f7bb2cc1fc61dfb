//! A thread whose calls were interrupted is reloaded.

use super::*;

#[test]
fn a_model_is_asked_again() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.now = bench.now.plus_ms(3_600_000);
    bench.give(Input::Recover);
    assert_eq!(bench.state().next_deadline(), Some(bench.now.plus_ms(120_000)));
    bench.says("hi");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 THREAD_RECOVERED calls=[3]
          5 LLM_CALL_RETRIED attempt=2 call=3
          6 LLM_CALL_COMPLETED call=3
          7 LLM_EXECUTION_COMPLETED node=ask "hi"
          8 NODE_COMPLETED node=ask
          9 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn calls_that_are_known_to_run_stay_as_they_are() {
    let mut bench = Bench::new(&ONE_LLM.replace("concurrent_tools: 2", "concurrent_tools: 8"), "hello");
    bench.asks(&["read", "send", "send"]);
    let running = bench.thread.effects()[2].key();
    bench.recover_but(|key| key == running);
    bench.recover_but(|_| true);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_REQUEST name=send
          7 TOOL_EXECUTION_REQUEST name=send
          8 THREAD_RECOVERED calls=[5,6]
          9 TOOL_CALL_RETRIED attempt=2 call=5 not_before=+0
         10 TOOL_EXECUTION_FAILED call=6 indeterminate
        => running, waits for the world until +12000
    "#]]);
}

#[test]
fn tools_are_treated_as_they_declared() {
    let mut bench = Bench::new(&ONE_LLM.replace("concurrent_tools: 2", "concurrent_tools: 8"), "hello");
    bench.asks(&["read", "put", "send"]);
    bench.give(Input::Recover);
    bench.tool_says("read");
    bench.tool_says("put");
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_REQUEST name=put
          7 TOOL_EXECUTION_REQUEST name=send
          8 THREAD_RECOVERED calls=[5,6,7]
          9 TOOL_CALL_RETRIED attempt=2 call=5 not_before=+0
         10 TOOL_CALL_RETRIED attempt=2 call=6 not_before=+0
         11 TOOL_EXECUTION_FAILED call=7 indeterminate
         12 TOOL_EXECUTION_COMPLETED call=5
         13 TOOL_EXECUTION_COMPLETED call=6
         14 LLM_CALL_REQUESTED 2
            user: hello
            assistant: read(c3_0) put(c3_1) send(c3_2)
            tool: c3_0: read
            tool: c3_1: put
            tool: c3_2! Error (indeterminate): the answer of `send` was lost: it may or may not have taken effect, and it was not run again
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn writing_tool_node_fails_as_indeterminate_without_a_retry() {
    let yaml = tool_node::PUT
        .replace("tool_name: put", "tool_name: send")
        .replace("    tool:", "    retry: {max_attempts: 5}\n    tool:");
    let mut bench = Bench::new(&yaml, "hello");
    bench.give(Input::Recover);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=write attempt=1
          2 TOOL_EXECUTION_REQUEST name=send
          3 THREAD_RECOVERED calls=[2]
          4 TOOL_EXECUTION_FAILED call=2 indeterminate
          5 NODE_FAILED node=write attempt=1 indeterminate
          6 THREAD_FAILED node=write indeterminate
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_retry_that_has_not_begun_was_not_cut_off() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["send"]);
    bench.tool_fails(ErrorKind::Failed, true);
    bench.give(Input::Recover);
    bench.note(format_args!("{} waits", bench.thread.effects().len()));
    bench.tick_after_ms(50);
    bench.give(Input::Recover);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=send
          6 TOOL_CALL_RETRIED attempt=2 call=5 failed not_before=+50
            1 waits
            50 ms later
          7 THREAD_RECOVERED calls=[5]
          8 TOOL_EXECUTION_FAILED call=5 indeterminate
          9 LLM_CALL_REQUESTED 2
        => running, waits for the world until +120050
    "#]]);
}

#[test]
fn a_clock_that_was_set_back_hides_no_call_that_was_running() {
    let mut bench = Bench::new(&ONE_LLM.replace("concurrent_tools: 2", "concurrent_tools: 8"), "hello");
    bench.now = bench.now.plus_ms(10_000);
    bench.asks(&["read", "send"]);
    bench.now = bench::START.plus_ms(4_000);
    bench.give(Input::Recover);
    for effect in bench.thread.effects() {
        assert!(effect.not_before() <= bench.state().time_at(bench.now), "{effect:?} does not begin");
    }
    bench.tool_says("read");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_REQUEST name=send
          7 THREAD_RECOVERED calls=[5,6]
          8 TOOL_CALL_RETRIED attempt=2 call=5 not_before=+10000
          9 TOOL_EXECUTION_FAILED call=6 indeterminate
         10 TOOL_EXECUTION_COMPLETED call=5
         11 LLM_CALL_REQUESTED 2
        => running, waits for the world until +130000
    "#]]);
}

#[test]
fn retry_before_a_clock_change_was_interrupted() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.now = bench.now.plus_ms(10_000);
    bench.asks(&["send"]);
    bench.tool_fails(ErrorKind::Failed, true);
    bench.now = bench::START.plus_ms(4_000);
    bench.give(Input::Recover);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=send
          6 TOOL_CALL_RETRIED attempt=2 call=5 failed not_before=+10050
          7 THREAD_RECOVERED calls=[5]
          8 TOOL_EXECUTION_FAILED call=5 indeterminate
          9 LLM_CALL_REQUESTED 2
        => running, waits for the world until +130000
    "#]]);
}

#[test]
fn a_question_outlives_the_runtime() {
    let mut bench = Bench::new(interaction::APPROVAL, "hello");
    bench.give(Input::Recover);
    bench.person_says(serde_json::json!(true));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=approve attempt=1
          2 USER_INTERACTION_REQUESTED node=approve
          3 USER_INTERACTION_RESPONDED interaction=2
          4 USER_INTERACTION_PROCESSED interaction=2
          5 NODE_COMPLETED node=approve
          6 ROUTE_TAKEN from=approve to=in condition=approved
          7 NODE_STARTED node=in attempt=1
          8 NODE_COMPLETED node=in
          9 THREAD_COMPLETED node=in
        => completed, waits for nothing
    "#]]);
}

#[test]
fn nothing_is_recovered_where_nothing_was_open() {
    let mut bench = Bench::new(node_retry::RETRIED, "hello");
    bench.model_fails(ErrorKind::Server);
    bench.give(Input::Recover);
    bench.tick_after_ms(100);
    bench.says("hi");
    bench.give(Input::Recover);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_FAILED call=3 server
          5 LLM_EXECUTION_FAILED node=ask server
          6 NODE_FAILED node=ask attempt=1 server retry_at=+100
            100 ms later
          7 NODE_STARTED node=ask attempt=2
          8 LLM_EXECUTION_REQUEST node=ask
          9 LLM_CALL_REQUESTED 1
         10 LLM_CALL_COMPLETED call=9
         11 LLM_EXECUTION_COMPLETED node=ask "hi"
         12 NODE_COMPLETED node=ask
         13 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_paused_thread_recovers_and_begins_nothing() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["read"]);
    bench.give(Input::Pause { reason: None });
    bench.now = bench.now.plus_ms(5_000);
    bench.give(Input::Recover);
    bench.now = bench.now.plus_ms(5_000);
    bench.give(Input::Resume);
    let Effect::CallTool(run) = &bench.thread.effects()[0] else { panic!() };
    assert_eq!((run.attempt, run.not_before), (2, bench.now));
    assert_eq!(run.deadline, bench.now.plus_ms(1_000));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 THREAD_PAUSED
          7 THREAD_RECOVERED calls=[5]
          8 TOOL_CALL_RETRIED attempt=2 call=5 not_before=+0
          9 THREAD_RESUMED
        => running, waits for the world until +22000
    "#]]);
}

#[test]
fn a_call_that_takes_the_process_down_again_and_again_is_given_up() {
    for tool in ["read", "put"] {
        let mut bench = Bench::new(ONE_LLM, "hello");
        bench.asks(&[tool]);
        for _ in 1..RECOVERIES_MAX {
            bench.give(Input::Recover);
        }
        assert_eq!(bench.open().1, RECOVERIES_MAX);
        bench.give(Input::Recover);
        let (_, last) = bench.log.iter().rev().nth(1).unwrap();
        let Event::ToolExecutionFailed(e) = last else { panic!("{last:?}") };
        assert_eq!(e.error.kind, ErrorKind::Limit);
        laws::hold(&bench);
    }
    let mut bench = Bench::new(ONE_LLM, "hello");
    for _ in 0..RECOVERIES_MAX {
        bench.give(Input::Recover);
    }
    assert_eq!(bench.state().status(), Status::Error);
    laws::hold(&bench);
}

#[test]
fn an_answer_of_the_attempt_before_the_crash_is_stale() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    let (call, attempt) = bench.open();
    bench.give(Input::Recover);
    let answer = bench::answer(call, "too late", &[], FinishReason::Stop);
    bench.give(Input::reported(attempt, answer));
    bench.says("in time");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 THREAD_RECOVERED calls=[3]
          5 LLM_CALL_RETRIED attempt=2 call=3
          6 WARNING call=3 "stale_attempt"
          7 LLM_CALL_COMPLETED call=3
          8 LLM_EXECUTION_COMPLETED node=ask "in time"
          9 NODE_COMPLETED node=ask
         10 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}
