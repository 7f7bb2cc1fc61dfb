//! Hooks and what is open when they begin, what they output, and forks of them.

use super::hooks::{ORDER, cancel};
use super::*;

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
        -    11 BRANCH_SPENT index=1
        -    12 TOOL_EXECUTION_COMPLETED call=10
        -    13 NODE_COMPLETED node=undo
        -    14 HOOK_ENDED on_cancel node=undo
        -    15 THREAD_CANCELLED "enough"
        => - cancelled
        => 0 completed
        => 1 cancelled
        output 
    "#]]);
}

/// A fork whose branch `pay` has ended with a receipt when this happens to the other one: what the hook sees of it.
fn seen_by_hook(fork: &str, then: impl FnOnce(&mut Family)) -> String {
    let yaml = format!(
        "
version: '1'
name: branched
on_cancel: undo
on_failed: undo
timeout_ms: 9000
nodes:
  - id: both
{fork}
  - {{id: undo, tool: {{tool_name: send}}}}
"
    );
    let mut family = Family::new(&yaml, serde_json::json!(["a", "b"]));
    family.with("0", |bench| bench.tool_says("receipt-81"));
    then(&mut family);
    let root = family.root();
    assert!(root.state().hooks().is_some(), "{}", root.out);
    let names = ["pay", "ask", "all"];
    let shown = names.map(|name| {
        format!("{name}: {}", root.state().variables().get(name).map_or("none".into(), |it| it.0.to_string()))
    });
    shown.join(", ")
}

#[test]
fn hook_sees_what_ended_branches_did() {
    const NAMED: &str = "    parallel: {into: all, timeout_ms: 5000, branches: {pay: {nodes: [{id: p, tool: {tool_name: send}}]}, ask: {nodes: [{id: q, tool: {tool_name: send}}]}}}";
    let named = |then: &dyn Fn(&mut Family), fork: &str| {
        expect![[r#"pay: "receipt-81", ask: null, all: {"pay":"receipt-81","ask":null}"#]]
            .assert_eq(&seen_by_hook(fork, then));
    };
    let cancelled = |family: &mut Family| family.with("-", |bench| cancel(bench, "enough"));
    named(&cancelled, NAMED);
    named(&|family| family.with("1", |bench| bench.tool_fails(ErrorKind::Failed, false)), NAMED);
    named(&|family| family.tick_after_ms("-", 5_000), NAMED);
    named(&|family| family.tick_after_ms("-", 9_000), NAMED);
    let in_a_loop = "    loop: {times: 2, body: {nodes: [{id: f, parallel: {into: all, branches: {pay: {nodes: [{id: p, tool: {tool_name: send}}]}, ask: {nodes: [{id: q, tool: {tool_name: send}}]}}}}]}}";
    named(&cancelled, in_a_loop);
    let each = "    parallel: {into: all, for_each: input, as: one, body: {nodes: [{id: p, tool: {tool_name: send}}]}}";
    expect![[r#"pay: none, ask: none, all: ["receipt-81",null]"#]].assert_eq(&seen_by_hook(each, cancelled));
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
