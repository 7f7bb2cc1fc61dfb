//! Deadlines are in the state; a tick says that time has passed.

use super::*;

#[test]
fn a_model_that_is_too_slow_fails() {
    let mut bench = Bench::new(&ONE_LLM.replace("max_iterations", "llm_timeout_ms: 500, max_iterations"), "hello");
    assert_eq!(bench.state().next_deadline(), Some(bench.now.plus_ms(500)));
    bench.tick_after_ms(499);
    bench.tick_after_ms(1);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
            499 ms later
            1 ms later
          4 LLM_CALL_FAILED call=3 timeout
          5 LLM_EXECUTION_FAILED node=ask timeout
          6 NODE_FAILED node=ask attempt=1 timeout
          7 THREAD_FAILED node=ask timeout
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_safe_tool_that_is_too_slow_is_tried_again() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["read"]);
    bench.tick_after_ms(12_000);
    bench.tick_after_ms(12_049);
    bench.tick_after_ms(1);
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
            12000 ms later
          6 TOOL_CALL_RETRIED attempt=2 call=5 timeout not_before=+12050
            12049 ms later
            1 ms later
          7 TOOL_EXECUTION_FAILED call=5 timeout
          8 LLM_CALL_REQUESTED 2
            user: hello
            assistant: read(c3_0)
            tool: c3_0! Error (timeout): tool `read` timed out
        => running, waits for the world until +144050
    "#]]);
}

#[test]
fn a_tool_that_writes_and_is_too_slow_is_not_tried_again() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["send"]);
    bench.tick_after_ms(12_000);
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=send
            12000 ms later
          6 TOOL_EXECUTION_FAILED call=5 timeout
          7 LLM_CALL_REQUESTED 2
            user: hello
            assistant: send(c3_0)
            tool: c3_0! Error (timeout): tool `send` timed out: it may or may not have taken effect, and it was not run again
        => running, waits for the world until +132000
    "#]]);
}

#[test]
fn one_tick_ends_every_tool_that_is_too_slow() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["send", "send", "read"]);
    bench.tick_after_ms(12_000);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=send
          6 TOOL_EXECUTION_REQUEST name=send
            12000 ms later
          7 TOOL_EXECUTION_FAILED call=5 timeout
          8 TOOL_EXECUTION_FAILED call=6 timeout
          9 TOOL_EXECUTION_REQUEST name=read
        => running, waits for the world until +24000
    "#]]);
}

#[test]
fn a_node_that_is_too_slow_ends_with_all_that_is_open_in_it() {
    let mut bench = Bench::new(&ONE_LLM.replace("    llm:", "    timeout_ms: 700\n    llm:"), "hello");
    bench.asks(&["read", "send", "put"]);
    bench.tick_after_ms(700);
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_REQUEST name=send
            700 ms later
          7 TOOL_EXECUTION_FAILED call=5 timeout
          8 TOOL_EXECUTION_FAILED call=6 timeout
          9 LLM_EXECUTION_FAILED node=ask timeout
         10 NODE_FAILED node=ask attempt=1 timeout
         11 THREAD_FAILED node=ask timeout
            user: hello
            assistant: read(c3_0) send(c3_1) put(c3_2)
            tool: c3_0! Error (timeout): node `ask` timed out
            tool: c3_1! Error (timeout): node `ask` timed out
            tool: c3_2! not run: node `ask` timed out
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_thread_that_is_too_slow_ends_with_all_that_is_open_in_it() {
    let mut bench = Bench::new(&ONE_LLM.replace("name: one", "name: one\ntimeout_ms: 600"), "hello");
    bench.asks(&["read", "send"]);
    bench.tick_after_ms(600);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_REQUEST name=send
            600 ms later
          7 TOOL_EXECUTION_FAILED call=5 timeout
          8 TOOL_EXECUTION_FAILED call=6 timeout
          9 LLM_EXECUTION_FAILED node=ask timeout
         10 NODE_FAILED node=ask attempt=1 timeout
         11 THREAD_FAILED node=ask timeout
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_tick_before_the_deadline_or_after_the_end_changes_nothing() {
    let mut bench = Bench::new(&ONE_LLM.replace("name: one", "name: one\ntimeout_ms: 600"), "hello");
    bench.tick_after_ms(599);
    bench.says("hi");
    bench.tick_after_ms(600);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
            599 ms later
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=ask "hi"
          6 NODE_COMPLETED node=ask
          7 THREAD_COMPLETED node=ask
            600 ms later
        => completed, waits for nothing
    "#]]);
}

/// The waits of every call.
struct AllWait(PermitWait);

impl Permits for AllWait {
    fn wait(&self, _call: CallId, _attempt: u32) -> PermitWait {
        self.0
    }
}

#[test]
fn the_wait_for_a_permit_is_not_part_of_a_calls_time() {
    let llm = ONE_LLM.replace("max_iterations", "llm_timeout_ms: 500, max_iterations");
    let mut of_model = Bench::new(&llm, "hello");
    let mut of_tool = Bench::new(ONE_LLM, "hello");
    of_tool.asks(&["send"]);
    for bench in [&mut of_model, &mut of_tool] {
        let deadline = bench.state().next_deadline().unwrap();
        assert_eq!(bench.state().next_deadline_with(&AllWait(PermitWait::Waiting)), None);
        let waited = AllWait(PermitWait::Waited { ms: 60_000 });
        assert_eq!(bench.state().next_deadline_with(&waited), Some(deadline.plus_ms(60_000)));
        let around = bench.around();
        let mut tick = |now: Time, permits: &dyn Permits| {
            bench.thread.step(Input::Tick, &Env { now, permits, ..around }).unwrap().len()
        };
        assert_eq!(tick(deadline.plus_ms(600_000), &AllWait(PermitWait::Waiting)), 0);
        let mut later = |ms| tick(deadline.plus_ms(ms), &AllWait(PermitWait::Waited { ms: 700_000 }));
        assert_eq!(later(699_999), 0);
        assert!(later(700_000) > 0);
    }
}
