//! Hooks of a workflow: what runs when a run fails, is cancelled, or ends.

use super::*;

/// Two tools one after the other; a tool for each hook.
const ORDER: &str = "
version: '1'
name: order
on_failed: refund
on_cancel: refund
finally: release
nodes:
  - {id: pay, tool: {tool_name: send}}
  - {id: ship, tool: {tool_name: send}}
  - {id: refund, tool: {tool_name: send, parameters: {why: '{{ ending.status }}'}}}
  - {id: release, tool: {tool_name: send}}
";

fn cancel(bench: &mut Bench, reason: &str) {
    bench.give(Input::Cancel { reason: Some(reason.into()) });
}

fn run(bench: &mut Bench, input: &str) {
    bench.give(Input::Run(Box::new(RunInput { input: input.into(), ..RunInput::default() })));
}

fn cause(bench: &Bench) -> Option<String> {
    bench.state().error().and_then(|error| error.cause)
}

/// Without the lines of these keys.
fn without(keys: &[&str]) -> String {
    let lines = ORDER.lines().filter(|line| !keys.iter().any(|key| line.starts_with(key)));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn failed_run_runs_on_failed_and_finally() {
    let mut bench = Bench::new(ORDER, "");
    bench.tool_says("paid");
    bench.tool_fails(ErrorKind::Denied, false);
    bench.note_value("ending");
    bench.note_value("output");
    bench.tool_says("refunded");
    bench.note_value("output");
    bench.tool_says("released");
    bench.note_value("output");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=pay attempt=1
          2 TOOL_EXECUTION_REQUEST name=send
          3 TOOL_EXECUTION_COMPLETED call=2
          4 NODE_COMPLETED node=pay
          5 NODE_STARTED node=ship attempt=1
          6 TOOL_EXECUTION_REQUEST name=send
          7 TOOL_EXECUTION_FAILED call=6 denied
          8 NODE_FAILED node=ship attempt=1 denied
          9 HOOK_STARTED on_failed node=refund ending=failed
         10 NODE_STARTED node=refund attempt=1
         11 TOOL_EXECUTION_REQUEST name=send
            ending = {"error":{"kind":"denied","message":"it broke","source":null},"node":"ship","reason":null,"status":"failed"}
            output = "paid"
         12 TOOL_EXECUTION_COMPLETED call=11
         13 NODE_COMPLETED node=refund
         14 HOOK_ENDED on_failed node=refund
         15 HOOK_STARTED finally node=release ending=failed
         16 NODE_STARTED node=release attempt=1
         17 TOOL_EXECUTION_REQUEST name=send
            output = "paid"
         18 TOOL_EXECUTION_COMPLETED call=17
         19 NODE_COMPLETED node=release
         20 HOOK_ENDED finally node=release
         21 THREAD_FAILED node=ship denied
            output = "paid"
        => error, waits for nothing
    "#]]);
}

#[test]
fn completed_run_runs_finally_alone() {
    let mut bench = Bench::new(ORDER, "");
    bench.tool_says("paid");
    bench.tool_says("shipped");
    bench.note_value("ending");
    assert_eq!(bench.state().status(), Status::Running);
    bench.tool_says("released");
    bench.note_value("output");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=pay attempt=1
          2 TOOL_EXECUTION_REQUEST name=send
          3 TOOL_EXECUTION_COMPLETED call=2
          4 NODE_COMPLETED node=pay
          5 NODE_STARTED node=ship attempt=1
          6 TOOL_EXECUTION_REQUEST name=send
          7 TOOL_EXECUTION_COMPLETED call=6
          8 NODE_COMPLETED node=ship
          9 HOOK_STARTED finally node=release ending=completed
         10 NODE_STARTED node=release attempt=1
         11 TOOL_EXECUTION_REQUEST name=send
            ending = {"error":null,"node":"ship","reason":null,"status":"completed"}
         12 TOOL_EXECUTION_COMPLETED call=11
         13 NODE_COMPLETED node=release
         14 HOOK_ENDED finally node=release
         15 THREAD_COMPLETED node=ship
            output = "shipped"
        => completed, waits for nothing
    "#]]);
}

#[test]
fn cancelled_run_runs_on_cancel_and_finally() {
    let mut bench = Bench::new(ORDER, "");
    cancel(&mut bench, "enough");
    bench.note_value("ending");
    bench.tool_says("refunded");
    bench.tool_says("released");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=pay attempt=1
          2 TOOL_EXECUTION_REQUEST name=send
          3 TOOL_EXECUTION_FAILED call=2 cancelled
          4 NODE_FAILED node=pay attempt=1 cancelled
          5 HOOK_STARTED on_cancel node=refund ending=cancelled
          6 NODE_STARTED node=refund attempt=1
          7 TOOL_EXECUTION_REQUEST name=send
            ending = {"error":null,"node":null,"reason":"enough","status":"cancelled"}
          8 TOOL_EXECUTION_COMPLETED call=7
          9 NODE_COMPLETED node=refund
         10 HOOK_ENDED on_cancel node=refund
         11 HOOK_STARTED finally node=release ending=cancelled
         12 NODE_STARTED node=release attempt=1
         13 TOOL_EXECUTION_REQUEST name=send
         14 TOOL_EXECUTION_COMPLETED call=13
         15 NODE_COMPLETED node=release
         16 HOOK_ENDED finally node=release
         17 THREAD_CANCELLED "enough"
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn run_without_the_hook_of_its_ending_runs_finally() {
    let mut bench = Bench::new(&without(&["on_failed", "on_cancel", "  - {id: refund"]), "");
    bench.tool_fails(ErrorKind::Denied, false);
    bench.tool_says("released");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=pay attempt=1
          2 TOOL_EXECUTION_REQUEST name=send
          3 TOOL_EXECUTION_FAILED call=2 denied
          4 NODE_FAILED node=pay attempt=1 denied
          5 HOOK_STARTED finally node=release ending=failed
          6 NODE_STARTED node=release attempt=1
          7 TOOL_EXECUTION_REQUEST name=send
          8 TOOL_EXECUTION_COMPLETED call=7
          9 NODE_COMPLETED node=release
         10 HOOK_ENDED finally node=release
         11 THREAD_FAILED node=pay denied
        => error, waits for nothing
    "#]]);
}

#[test]
fn run_without_finally_ends_after_the_hook_of_its_ending() {
    let mut bench = Bench::new(&without(&["on_cancel", "finally", "  - {id: release"]), "");
    bench.tool_fails(ErrorKind::Denied, false);
    bench.tool_says("refunded");
    bench.give(Input::Run(Box::default()));
    // It has no hook for this.
    cancel(&mut bench, "enough");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=pay attempt=1
          2 TOOL_EXECUTION_REQUEST name=send
          3 TOOL_EXECUTION_FAILED call=2 denied
          4 NODE_FAILED node=pay attempt=1 denied
          5 HOOK_STARTED on_failed node=refund ending=failed
          6 NODE_STARTED node=refund attempt=1
          7 TOOL_EXECUTION_REQUEST name=send
          8 TOOL_EXECUTION_COMPLETED call=7
          9 NODE_COMPLETED node=refund
         10 HOOK_ENDED on_failed node=refund
         11 THREAD_FAILED node=pay denied
         12 RUN_STARTED from=input
         13 NODE_STARTED node=pay attempt=1
         14 TOOL_EXECUTION_REQUEST name=send
         15 TOOL_EXECUTION_FAILED call=14 cancelled
         16 NODE_FAILED node=pay attempt=1 cancelled
         17 THREAD_CANCELLED "enough"
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn failed_hook_is_the_cause_and_finally_runs() {
    let mut bench = Bench::new(ORDER, "");
    bench.tool_fails(ErrorKind::Denied, false);
    bench.tool_fails(ErrorKind::NotFound, false);
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
          8 TOOL_EXECUTION_FAILED call=7 not_found
          9 NODE_FAILED node=refund attempt=1 not_found
         10 HOOK_ENDED on_failed node=refund not_found
         11 HOOK_STARTED finally node=release ending=failed
         12 NODE_STARTED node=release attempt=1
         13 TOOL_EXECUTION_REQUEST name=send
         14 TOOL_EXECUTION_COMPLETED call=13
         15 NODE_COMPLETED node=release
         16 HOOK_ENDED finally node=release
         17 THREAD_FAILED node=pay denied (hook `on_failed` failed at node `refund`: not_found: it broke)
            Some("hook `on_failed` failed at node `refund`: not_found: it broke")
        => error, waits for nothing
    "#]]);
}

#[test]
fn completed_run_whose_finally_fails_has_failed() {
    let mut bench = Bench::new(ORDER, "");
    bench.tool_says("paid");
    bench.tool_says("shipped");
    bench.tool_fails(ErrorKind::NotFound, false);
    bench.note_value("output");
    assert_eq!(bench.state().error().unwrap().message, "hook `finally` failed: it broke");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=pay attempt=1
          2 TOOL_EXECUTION_REQUEST name=send
          3 TOOL_EXECUTION_COMPLETED call=2
          4 NODE_COMPLETED node=pay
          5 NODE_STARTED node=ship attempt=1
          6 TOOL_EXECUTION_REQUEST name=send
          7 TOOL_EXECUTION_COMPLETED call=6
          8 NODE_COMPLETED node=ship
          9 HOOK_STARTED finally node=release ending=completed
         10 NODE_STARTED node=release attempt=1
         11 TOOL_EXECUTION_REQUEST name=send
         12 TOOL_EXECUTION_FAILED call=11 not_found
         13 NODE_FAILED node=release attempt=1 not_found
         14 HOOK_ENDED finally node=release not_found
         15 THREAD_FAILED node=release not_found
            output = "shipped"
        => error, waits for nothing
    "#]]);
}

#[test]
fn failed_hooks_of_a_cancelled_run_are_its_cause() {
    let mut bench = Bench::new(ORDER, "");
    cancel(&mut bench, "enough");
    bench.tool_fails(ErrorKind::NotFound, false);
    bench.tool_fails(ErrorKind::Failed, false);
    let why = cause(&bench);
    bench.note(format_args!("{why:?}"));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=pay attempt=1
          2 TOOL_EXECUTION_REQUEST name=send
          3 TOOL_EXECUTION_FAILED call=2 cancelled
          4 NODE_FAILED node=pay attempt=1 cancelled
          5 HOOK_STARTED on_cancel node=refund ending=cancelled
          6 NODE_STARTED node=refund attempt=1
          7 TOOL_EXECUTION_REQUEST name=send
          8 TOOL_EXECUTION_FAILED call=7 not_found
          9 NODE_FAILED node=refund attempt=1 not_found
         10 HOOK_ENDED on_cancel node=refund not_found
         11 HOOK_STARTED finally node=release ending=cancelled
         12 NODE_STARTED node=release attempt=1
         13 TOOL_EXECUTION_REQUEST name=send
         14 TOOL_EXECUTION_FAILED call=13 failed
         15 NODE_FAILED node=release attempt=1 failed
         16 HOOK_ENDED finally node=release failed
         17 THREAD_CANCELLED "enough"
            Some("hook `on_cancel` failed at node `refund`: not_found: it broke; hook `finally` failed at node `release`: failed: it broke")
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn second_cancel_ends_the_run_at_once() {
    let mut bench = Bench::new(ORDER, "");
    cancel(&mut bench, "enough");
    bench.give(Input::Cancel { reason: None }.by(Some(Principal::named("Ada"))));
    let why = cause(&bench);
    bench.note(format_args!("{why:?}"));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=pay attempt=1
          2 TOOL_EXECUTION_REQUEST name=send
          3 TOOL_EXECUTION_FAILED call=2 cancelled
          4 NODE_FAILED node=pay attempt=1 cancelled
          5 HOOK_STARTED on_cancel node=refund ending=cancelled
          6 NODE_STARTED node=refund attempt=1
          7 TOOL_EXECUTION_REQUEST name=send
          8 TOOL_EXECUTION_FAILED call=7 cancelled
          9 NODE_FAILED node=refund attempt=1 cancelled
         10 THREAD_CANCELLED "enough"
            Some("hook `on_cancel` was cancelled")
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn cancel_does_not_stop_the_hooks_of_another_ending() {
    let mut bench = Bench::new(ORDER, "");
    bench.tool_fails(ErrorKind::Denied, false);
    cancel(&mut bench, "enough");
    run(&mut bench, "again");
    cancel(&mut bench, "enough");
    bench.tool_says("refunded");
    bench.tool_says("released");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=pay attempt=1
          2 TOOL_EXECUTION_REQUEST name=send
          3 TOOL_EXECUTION_FAILED call=2 denied
          4 NODE_FAILED node=pay attempt=1 denied
          5 HOOK_STARTED on_failed node=refund ending=failed
          6 NODE_STARTED node=refund attempt=1
          7 TOOL_EXECUTION_REQUEST name=send
            refused: the run is ending: wait until its hook `on_failed` is over
          8 RUN_QUEUED
          9 RUN_CANCELLED "the thread was cancelled: enough"
         10 TOOL_EXECUTION_COMPLETED call=7
         11 NODE_COMPLETED node=refund
         12 HOOK_ENDED on_failed node=refund
         13 HOOK_STARTED finally node=release ending=failed
         14 NODE_STARTED node=release attempt=1
         15 TOOL_EXECUTION_REQUEST name=send
         16 TOOL_EXECUTION_COMPLETED call=15
         17 NODE_COMPLETED node=release
         18 HOOK_ENDED finally node=release
         19 THREAD_FAILED node=pay denied
        => error, waits for nothing
    "#]]);
}

#[test]
fn run_that_is_given_while_hooks_run_follows() {
    let mut bench = Bench::new(ORDER, "");
    cancel(&mut bench, "enough");
    let (input, on_message) = ("again".into(), Some(crate::event::OnMessage::Steer));
    bench.give(Input::Run(Box::new(RunInput { input, on_message, ..RunInput::default() })));
    bench.tool_says("refunded");
    bench.tool_says("released");
    let (_, cancelled) = bench.log.iter().find(|(_, event)| matches!(event, Event::ThreadCancelled(_))).unwrap();
    assert_eq!(cancelled.data().unwrap()["run_follows"], true);
    bench.note_value("ending is defined");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=pay attempt=1
          2 TOOL_EXECUTION_REQUEST name=send
          3 TOOL_EXECUTION_FAILED call=2 cancelled
          4 NODE_FAILED node=pay attempt=1 cancelled
          5 HOOK_STARTED on_cancel node=refund ending=cancelled
          6 NODE_STARTED node=refund attempt=1
          7 TOOL_EXECUTION_REQUEST name=send
          8 RUN_QUEUED
          9 TOOL_EXECUTION_COMPLETED call=7
         10 NODE_COMPLETED node=refund
         11 HOOK_ENDED on_cancel node=refund
         12 HOOK_STARTED finally node=release ending=cancelled
         13 NODE_STARTED node=release attempt=1
         14 TOOL_EXECUTION_REQUEST name=send
         15 TOOL_EXECUTION_COMPLETED call=14
         16 NODE_COMPLETED node=release
         17 HOOK_ENDED finally node=release
         18 THREAD_CANCELLED "enough"
         19 RUN_STARTED from=queue
         20 NODE_STARTED node=pay attempt=1
         21 TOOL_EXECUTION_REQUEST name=send
            ending is defined = false
        => running, waits for the world until +12000
    "#]]);
}

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
fn loops_and_sub_workflows_end_before_a_hook_begins() {
    let yaml = "
version: '1'
name: nested
on_cancel: undo
nodes:
  - id: each
    loop: {times: 2, body: {nodes: [{id: inner, sub_workflow: {workflow: inner}}]}}
  - {id: undo, sub_workflow: {workflow: inner}}
workflows:
  inner: {nodes: [{id: deep, loop: {times: 1, body: {nodes: [{id: write, tool: {tool_name: send}}]}}}]}
";
    let mut bench = Bench::new(yaml, "");
    cancel(&mut bench, "enough");
    bench.tool_says("undone");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=each attempt=1
          2 LOOP_STARTED node=each
          3 NODE_COMPLETED node=each
          4 LOOP_ITERATION_STARTED node=each index=0
          5 NODE_STARTED node=inner attempt=1
          6 SUB_WORKFLOW_STARTED node=inner workflow=inner
          7 NODE_STARTED node=deep attempt=1
          8 LOOP_STARTED node=deep
          9 NODE_COMPLETED node=deep
         10 LOOP_ITERATION_STARTED node=deep index=0
         11 NODE_STARTED node=write attempt=1
         12 TOOL_EXECUTION_REQUEST name=send
         13 TOOL_EXECUTION_FAILED call=12 cancelled
         14 NODE_FAILED node=write attempt=1 cancelled
         15 LOOP_ENDED node=deep n_iterations=1 cancelled
         16 SUB_WORKFLOW_FAILED node=inner cancelled
         17 NODE_FAILED node=inner attempt=1 cancelled
         18 LOOP_ENDED node=each n_iterations=1 cancelled
         19 HOOK_STARTED on_cancel node=undo ending=cancelled
         20 NODE_STARTED node=undo attempt=1
         21 SUB_WORKFLOW_STARTED node=undo workflow=inner
         22 NODE_STARTED node=deep attempt=1
         23 LOOP_STARTED node=deep
         24 NODE_COMPLETED node=deep
         25 LOOP_ITERATION_STARTED node=deep index=0
         26 NODE_STARTED node=write attempt=1
         27 TOOL_EXECUTION_REQUEST name=send
         28 TOOL_EXECUTION_COMPLETED call=27
         29 NODE_COMPLETED node=write
         30 NODE_STARTED node=deep.end attempt=1
         31 NODE_COMPLETED node=deep.end
         32 LOOP_ENDED node=deep n_iterations=1
         33 SUB_WORKFLOW_COMPLETED node=undo output=undone
         34 NODE_COMPLETED node=undo
         35 HOOK_ENDED on_cancel node=undo
         36 THREAD_CANCELLED "enough"
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn node_that_waits_for_its_next_try_has_ended_before_a_hook_begins() {
    let retried = "{id: pay, retry: {max_attempts: 2, backoff_ms: 100}, tool: {tool_name: read}}";
    let mut bench = Bench::new(&ORDER.replace("{id: pay, tool: {tool_name: send}}", retried), "");
    bench.tool_fails(ErrorKind::Failed, false);
    cancel(&mut bench, "enough");
    bench.tool_says("refunded");
    bench.tool_says("released");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=pay attempt=1
          2 TOOL_EXECUTION_REQUEST name=read
          3 TOOL_EXECUTION_FAILED call=2 failed
          4 NODE_FAILED node=pay attempt=1 failed retry_at=+100
          5 HOOK_STARTED on_cancel node=refund ending=cancelled
          6 NODE_STARTED node=refund attempt=1
          7 TOOL_EXECUTION_REQUEST name=send
          8 TOOL_EXECUTION_COMPLETED call=7
          9 NODE_COMPLETED node=refund
         10 HOOK_ENDED on_cancel node=refund
         11 HOOK_STARTED finally node=release ending=cancelled
         12 NODE_STARTED node=release attempt=1
         13 TOOL_EXECUTION_REQUEST name=send
         14 TOOL_EXECUTION_COMPLETED call=13
         15 NODE_COMPLETED node=release
         16 HOOK_ENDED finally node=release
         17 THREAD_CANCELLED "enough"
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn open_branches_are_cancelled_before_a_hook_begins() {
    let yaml = "
version: '1'
name: branched
on_cancel: undo
nodes:
  - id: both
    parallel:
      branches:
        left: {nodes: [{id: l, tool: {tool_name: send}}]}
        right: {nodes: [{id: r, tool: {tool_name: send}}]}
  - {id: undo, tool: {tool_name: send}}
";
    let mut family = Family::new(yaml, "");
    family.with("0", |bench| bench.tool_says("left is done"));
    family.with("-", |bench| cancel(bench, "enough"));
    family.with("-", |bench| bench.tool_says("undone"));
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=both attempt=1
        -     2 FORK_STARTED node=both n_needed=2
        -     3 BRANCH_STARTED index=0
        -     4 BRANCH_STARTED index=1
        0     3 THREAD_FORKED
        0     4 NODE_STARTED node=l attempt=1
        0     5 TOOL_EXECUTION_REQUEST name=send
        1     3 THREAD_FORKED
        1     4 NODE_STARTED node=r attempt=1
        1     5 TOOL_EXECUTION_REQUEST name=send
        0     6 TOOL_EXECUTION_COMPLETED call=5
        0     7 NODE_COMPLETED node=l
        0     8 THREAD_COMPLETED node=both.join
        -     5 BRANCH_ENDED output=left is done index=0
        -     6 BRANCH_ENDED index=1 cancelled
        -     7 NODE_FAILED node=both attempt=1 cancelled
        -     8 HOOK_STARTED on_cancel node=undo ending=cancelled
        -     9 NODE_STARTED node=undo attempt=1
        -    10 TOOL_EXECUTION_REQUEST name=send
        1     6 TOOL_EXECUTION_FAILED call=5 cancelled
        1     7 NODE_FAILED node=r attempt=1 cancelled
        1     8 THREAD_CANCELLED "not needed"
        -    11 TOOL_EXECUTION_COMPLETED call=10
        -    12 NODE_COMPLETED node=undo
        -    13 HOOK_ENDED on_cancel node=undo
        -    14 THREAD_CANCELLED "enough"
        => - cancelled
        => 0 completed
        => 1 cancelled
        output 
    "#]]);
}

#[test]
fn branches_of_a_hook_see_the_ending_and_have_no_hooks() {
    let yaml = "
version: '1'
name: branched
on_failed: undo
finally: release
nodes:
  - {id: pay, tool: {tool_name: send}}
  - id: undo
    parallel:
      on_failed: ignore
      branches:
        first: {nodes: [{id: f, tool: {tool_name: send, parameters: {why: '{{ ending.error.kind }}'}}}]}
        second: {nodes: [{id: s, tool: {tool_name: send}}]}
        third: {nodes: [{id: t, tool: {tool_name: send}}]}
  - {id: release, tool: {tool_name: send}}
";
    let mut family = Family::new(yaml, "");
    family.with("-", |bench| bench.tool_fails(ErrorKind::Denied, false));
    family.with("0", |bench| {
        bench.note_value("ending.error.kind");
        bench.tool_says("undone");
    });
    family.with("1", |bench| bench.tool_fails(ErrorKind::NotFound, false));
    family.with("2", |bench| cancel(bench, "not this one"));
    family.with("-", |bench| bench.tool_says("released"));
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=pay attempt=1
        -     2 TOOL_EXECUTION_REQUEST name=send
        -     3 TOOL_EXECUTION_FAILED call=2 denied
        -     4 NODE_FAILED node=pay attempt=1 denied
        -     5 HOOK_STARTED on_failed node=undo ending=failed
        -     6 NODE_STARTED node=undo attempt=1
        -     7 FORK_STARTED node=undo n_needed=3
        -     8 BRANCH_STARTED index=0
        -     9 BRANCH_STARTED index=1
        -    10 BRANCH_STARTED index=2
        0     8 THREAD_FORKED
        0     9 NODE_STARTED node=f attempt=1
        0    10 TOOL_EXECUTION_REQUEST name=send
        1     8 THREAD_FORKED
        1     9 NODE_STARTED node=s attempt=1
        1    10 TOOL_EXECUTION_REQUEST name=send
        2     8 THREAD_FORKED
        2     9 NODE_STARTED node=t attempt=1
        2    10 TOOL_EXECUTION_REQUEST name=send
        0       ending.error.kind = "denied"
        0    11 TOOL_EXECUTION_COMPLETED call=10
        0    12 NODE_COMPLETED node=f
        0    13 THREAD_COMPLETED node=undo.join
        -    11 BRANCH_ENDED output=undone index=0
        1    11 TOOL_EXECUTION_FAILED call=10 not_found
        1    12 NODE_FAILED node=s attempt=1 not_found
        1    13 THREAD_FAILED node=s not_found
        -    12 BRANCH_ENDED index=1 not_found
        2    11 TOOL_EXECUTION_FAILED call=10 cancelled
        2    12 NODE_FAILED node=t attempt=1 cancelled
        2    13 THREAD_CANCELLED "not this one"
        -    13 BRANCH_ENDED index=2 cancelled
        -    14 JOIN_COMPLETED node=undo n_completed=1 n_failed=2
        -    15 NODE_COMPLETED node=undo
        -    16 NODE_STARTED node=undo.join attempt=1
        -    17 NODE_COMPLETED node=undo.join
        -    18 HOOK_ENDED on_failed node=undo.join
        -    19 HOOK_STARTED finally node=release ending=failed
        -    20 NODE_STARTED node=release attempt=1
        -    21 TOOL_EXECUTION_REQUEST name=send
        -    22 TOOL_EXECUTION_COMPLETED call=21
        -    23 NODE_COMPLETED node=release
        -    24 HOOK_ENDED finally node=release
        -    25 THREAD_FAILED node=pay denied
        => - error
        => 0 completed
        => 1 error
        => 2 cancelled
        output 
    "#]]);
}

#[test]
fn output_that_a_hook_sets_is_that_of_the_run() {
    let yaml = "
version: '1'
name: sets
finally: sum_up
nodes:
  - {id: work, tool: {tool_name: read}}
  - {id: sum_up, context_processor: {processor_name: extract, processor_config: {variable: output, expression: \"output ~ ', released'\"}}}
  - {id: more, tool: {tool_name: read}}
";
    let mut bench = Bench::new(yaml, "");
    bench.tool_says("done");
    bench.tool_says("nothing of interest");
    bench.note_value("output");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 TOOL_EXECUTION_REQUEST name=read
          3 TOOL_EXECUTION_COMPLETED call=2
          4 NODE_COMPLETED node=work
          5 HOOK_STARTED finally node=sum_up ending=completed
          6 NODE_STARTED node=sum_up attempt=1
          7 CONTEXT_PROCESSING_REQUESTED node=sum_up processor=extract
          8 CONTEXT_PROCESSED call=7 output=done, released [] {"output":"done, released"}
          9 NODE_COMPLETED node=sum_up
         10 NODE_STARTED node=more attempt=1
         11 TOOL_EXECUTION_REQUEST name=read
         12 TOOL_EXECUTION_COMPLETED call=11
         13 NODE_COMPLETED node=more
         14 HOOK_ENDED finally node=more
         15 THREAD_COMPLETED node=work
            output = "done, released"
        => completed, waits for nothing
    "#]]);
}

#[test]
fn output_that_a_hook_sets_must_fit_the_schema() {
    let yaml = "
version: '1'
name: typed
output_schema: {type: number}
finally: break_it
nodes:
  - {id: work, tool: {tool_name: read}}
  - {id: break_it, context_processor: {processor_name: extract, processor_config: {variable: output, expression: \"'text'\"}}}
";
    let mut bench = Bench::new(yaml, "");
    bench.tool_says("12");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 TOOL_EXECUTION_REQUEST name=read
          3 TOOL_EXECUTION_COMPLETED call=2
          4 NODE_COMPLETED node=work
          5 VARIABLES_UPDATED
          6 HOOK_STARTED finally node=break_it ending=completed
          7 NODE_STARTED node=break_it attempt=1
          8 CONTEXT_PROCESSING_REQUESTED node=break_it processor=extract
          9 CONTEXT_PROCESSED call=8 output=text [] {"output":"text"}
         10 NODE_COMPLETED node=break_it
         11 HOOK_ENDED finally node=break_it
         12 THREAD_FAILED node=work invalid_output
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

#[test]
fn fork_of_a_moment_in_a_hook_goes_on_with_it() {
    let repeatable = ORDER.replace("refund, tool: {tool_name: send", "refund, tool: {tool_name: put");
    let mut bench = Bench::new(&repeatable, "");
    bench.tool_fails(ErrorKind::Denied, false);
    let hook = bench.state().to_json()["hook"].clone();
    assert_eq!((&hook["hook"], &hook["ending"]["error"]["kind"]), (&"on_failed".into(), &"denied".into()));
    bench.now = bench.now.plus_ms(1_000_000);
    let mut fork = bench.fork(bench.log.len() - 1, ForkChanges::default());
    fork.tool_says("refunded");
    fork.tool_says("released");
    fork.check(expect![[r#"
          8 THREAD_FORKED
          9 THREAD_RECOVERED calls=[7]
         10 TOOL_CALL_RETRIED attempt=2 call=7 not_before=+1000000
         11 TOOL_EXECUTION_COMPLETED call=7
         12 NODE_COMPLETED node=refund
         13 HOOK_ENDED on_failed node=refund
         14 HOOK_STARTED finally node=release ending=failed
         15 NODE_STARTED node=release attempt=1
         16 TOOL_EXECUTION_REQUEST name=send
         17 TOOL_EXECUTION_COMPLETED call=16
         18 NODE_COMPLETED node=release
         19 HOOK_ENDED finally node=release
         20 THREAD_FAILED node=pay denied
        => error, waits for nothing
    "#]]);
}

#[test]
fn run_does_not_begin_in_a_hook() {
    let workflow = workflow::parse(ORDER.as_bytes()).unwrap();
    for (entry, is_refused) in [("ship", false), ("refund", true), ("release", true)] {
        let given = Start { entry: Some(entry.into()), ..Start::new("") };
        let started = Thread::started(&workflow, given, bench::START);
        assert_eq!(
            started.is_err_and(|faults| faults.to_string().contains("belongs to a hook")),
            is_refused,
            "{entry}"
        );
    }
}
