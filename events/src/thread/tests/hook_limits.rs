//! Hooks and the limits of a run: time, nodes, budgets, crashes.

use super::hooks::{ORDER, cancel, cause, run};
use super::*;

#[test]
fn deadline_of_the_run_does_not_stop_its_hooks() {
    let mut bench = Bench::new(&ORDER.replace("finally", "timeout_ms: 500\nhook_timeout_ms: 3000\nfinally"), "");
    bench.tick_after_ms(500);
    bench.tick_after_ms(600);
    bench.tool_says("refunded");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=pay attempt=1
          2 TOOL_EXECUTION_REQUEST name=send
            500 ms later
          3 TOOL_EXECUTION_FAILED call=2 timeout
          4 NODE_FAILED node=pay attempt=1 timeout
          5 HOOK_STARTED on_failed node=refund ending=failed
          6 NODE_STARTED node=refund attempt=1
          7 TOOL_EXECUTION_REQUEST name=send
            600 ms later
          8 TOOL_EXECUTION_COMPLETED call=7
          9 NODE_COMPLETED node=refund
         10 HOOK_ENDED on_failed node=refund
         11 HOOK_STARTED finally node=release ending=failed
         12 NODE_STARTED node=release attempt=1
         13 TOOL_EXECUTION_REQUEST name=send
        => running, waits for the world until +4100
    "#]]);
}

#[test]
fn hook_that_takes_too_long_fails_and_finally_has_time_of_its_own() {
    let yaml = ORDER.replace("finally", "hook_timeout_ms: 300\nfinally");
    let mut bench = Bench::new(&yaml, "");
    bench.tool_fails(ErrorKind::Denied, false);
    bench.tick_after_ms(300);
    bench.tick_after_ms(200);
    bench.tool_says("released");
    let why = cause(&bench);
    bench.note(format_args!("{why:?}"));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=pay attempt=1
          2 TOOL_EXECUTION_REQUEST name=send
          3 TOOL_EXECUTION_FAILED call=2 denied
          4 NODE_FAILED node=pay attempt=1 denied
          5 HOOK_STARTED on_failed node=refund ending=failed
          6 NODE_STARTED node=refund attempt=1
          7 TOOL_EXECUTION_REQUEST name=send
            300 ms later
          8 TOOL_EXECUTION_FAILED call=7 timeout
          9 NODE_FAILED node=refund attempt=1 timeout
         10 HOOK_ENDED on_failed node=refund timeout
         11 HOOK_STARTED finally node=release ending=failed
         12 NODE_STARTED node=release attempt=1
         13 TOOL_EXECUTION_REQUEST name=send
            200 ms later
         14 TOOL_EXECUTION_COMPLETED call=13
         15 NODE_COMPLETED node=release
         16 HOOK_ENDED finally node=release
         17 THREAD_FAILED node=pay denied (hook `on_failed` failed at node `refund`: timeout: hook `on_failed` timed out)
            Some("hook `on_failed` failed at node `refund`: timeout: hook `on_failed` timed out")
        => error, waits for nothing
    "#]]);
}

#[test]
fn clock_of_a_hook_stands_still_in_a_pause() {
    let yaml = ORDER.replace("finally", "hook_timeout_ms: 300\nfinally");
    let mut bench = Bench::new(&yaml, "");
    bench.give(Input::Pause { reason: None });
    cancel(&mut bench, "enough");
    bench.tick_after_ms(100);
    bench.give(Input::Pause { reason: Some("lunch".into()) });
    bench.tick_after_ms(10_000);
    bench.give(Input::Resume);
    bench.tick_after_ms(199);
    bench.tool_says("refunded");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=pay attempt=1
          2 TOOL_EXECUTION_REQUEST name=send
          3 THREAD_PAUSED
          4 TOOL_EXECUTION_FAILED call=2 cancelled
          5 NODE_FAILED node=pay attempt=1 cancelled
          6 HOOK_STARTED on_cancel node=refund ending=cancelled
          7 NODE_STARTED node=refund attempt=1
          8 TOOL_EXECUTION_REQUEST name=send
            100 ms later
          9 THREAD_PAUSED "lunch"
            10000 ms later
         10 THREAD_RESUMED
            199 ms later
         11 TOOL_EXECUTION_COMPLETED call=8
         12 NODE_COMPLETED node=refund
         13 HOOK_ENDED on_cancel node=refund
         14 HOOK_STARTED finally node=release ending=cancelled
         15 NODE_STARTED node=release attempt=1
         16 TOOL_EXECUTION_REQUEST name=send
        => running, waits for the world until +10599
    "#]]);
}

#[test]
fn hooks_enter_as_many_nodes_as_the_run() {
    let mut bench = Bench::new(
        &ORDER.replace("finally", "max_iterations: 2\nfinally").replace("nodes:", "nodes:\n  - {id: begin, start: {}}"),
        "",
    );
    bench.tool_says("paid");
    bench.tool_says("refunded");
    bench.tool_says("released");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=begin attempt=1
          2 NODE_COMPLETED node=begin
          3 NODE_STARTED node=pay attempt=1
          4 TOOL_EXECUTION_REQUEST name=send
          5 TOOL_EXECUTION_COMPLETED call=4
          6 NODE_COMPLETED node=pay
          7 HOOK_STARTED on_failed node=refund ending=failed
          8 NODE_STARTED node=refund attempt=1
          9 TOOL_EXECUTION_REQUEST name=send
         10 TOOL_EXECUTION_COMPLETED call=9
         11 NODE_COMPLETED node=refund
         12 HOOK_ENDED on_failed node=refund
         13 HOOK_STARTED finally node=release ending=failed
         14 NODE_STARTED node=release attempt=1
         15 TOOL_EXECUTION_REQUEST name=send
         16 TOOL_EXECUTION_COMPLETED call=15
         17 NODE_COMPLETED node=release
         18 HOOK_ENDED finally node=release
         19 THREAD_FAILED node=ship limit
        => error, waits for nothing
    "#]]);
}

#[test]
fn thread_that_is_given_up_or_aborted_runs_no_hooks() {
    let mut bench = Bench::new(ORDER, "");
    let error = ExecutionError::new(ErrorKind::CrashedProcess, "the process ended 3 times in this step");
    bench.give(Input::Crashed { error: error.clone() });
    run(&mut bench, "again");
    bench.give(Input::Abort { reason: Some("fire".into()) });
    run(&mut bench, "once more");
    cancel(&mut bench, "enough");
    bench.give(Input::Crashed { error });
    let why = cause(&bench);
    bench.note(format_args!("{why:?}"));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=pay attempt=1
          2 TOOL_EXECUTION_REQUEST name=send
          3 TOOL_EXECUTION_FAILED call=2 crashed_process
          4 NODE_FAILED node=pay attempt=1 crashed_process
          5 THREAD_FAILED node=pay crashed_process
          6 RUN_STARTED from=input
          7 NODE_STARTED node=pay attempt=1
          8 TOOL_EXECUTION_REQUEST name=send
          9 TOOL_EXECUTION_FAILED call=8 cancelled
         10 NODE_FAILED node=pay attempt=1 cancelled
         11 THREAD_FAILED node=pay cancelled
         12 RUN_STARTED from=input
         13 NODE_STARTED node=pay attempt=1
         14 TOOL_EXECUTION_REQUEST name=send
         15 TOOL_EXECUTION_FAILED call=14 cancelled
         16 NODE_FAILED node=pay attempt=1 cancelled
         17 HOOK_STARTED on_cancel node=refund ending=cancelled
         18 NODE_STARTED node=refund attempt=1
         19 TOOL_EXECUTION_REQUEST name=send
         20 TOOL_EXECUTION_FAILED call=19 crashed_process (hook `on_cancel` was cut off, and the run was to end as cancelled)
         21 NODE_FAILED node=refund attempt=1 crashed_process (hook `on_cancel` was cut off, and the run was to end as cancelled)
         22 THREAD_FAILED node=refund crashed_process (hook `on_cancel` was cut off, and the run was to end as cancelled)
            Some("hook `on_cancel` was cut off, and the run was to end as cancelled")
        => error, waits for nothing
    "#]]);
}

#[test]
fn spent_budget_fails_the_run_and_its_hooks_run() {
    let yaml = "
version: '1'
name: frugal
budget: {tokens: 10, on_exceeded: fail}
on_failed: refund
nodes:
  - {id: one, llm: {provider: mock, model: m, user_prompt: hello}}
  - {id: two, condition: {judge: is it so, then: three, else: three}}
  - {id: three, end: {}}
  - {id: refund, tool: {tool_name: send}}
edges:
  - {from: one, to: two}
judge: {provider: mock, model: j}
";
    let mut bench = Bench::new(yaml, "");
    bench.says("so");
    bench.tool_says("refunded");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=one attempt=1
          2 LLM_EXECUTION_REQUEST node=one
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=one "so"
          6 NODE_COMPLETED node=one
          7 NODE_STARTED node=two attempt=1
          8 NODE_COMPLETED node=two
          9 BUDGET_EXCEEDED
         10 HOOK_STARTED on_failed node=refund ending=failed
         11 NODE_STARTED node=refund attempt=1
         12 TOOL_EXECUTION_REQUEST name=send
         13 TOOL_EXECUTION_COMPLETED call=12
         14 NODE_COMPLETED node=refund
         15 HOOK_ENDED on_failed node=refund
         16 THREAD_FAILED node=two limit
        => error, waits for nothing
    "#]]);
}
