//! Hooks of a workflow: what runs when a run fails, is cancelled, or ends.

use super::*;

/// Two tools one after the other; a tool for each hook.
pub(super) const ORDER: &str = "
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

pub(super) fn cancel(bench: &mut Bench, reason: &str) {
    bench.give(Input::Cancel { reason: Some(reason.into()) });
}

pub(super) fn run(bench: &mut Bench, input: &str) {
    bench.give(Input::Run(Box::new(RunInput { input: input.into(), ..RunInput::default() })));
}

pub(super) fn cause(bench: &Bench) -> Option<String> {
    bench.state().error().and_then(|error| error.cause)
}

/// Without the lines of these keys.
pub(super) fn without(keys: &[&str]) -> String {
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
