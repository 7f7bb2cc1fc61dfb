//! Migration of a thread to another definition.

use super::bench::line_of;
use super::*;
use crate::thread::rerun::Rerun;

const OLD: &str = "
version: '1'
name: order
nodes:
  - id: ask
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: Pay?
      variables: [{variable_name: paid, expression: '{{ input }}'}]
  - {id: old, wait: {for_ms: 60000}}
  - {id: done, end: {}}
";

fn new() -> Arc<Workflow> {
    defined(&OLD.replace("Pay?", "Pay now?").replace("id: old", "id: new").replace("60000", "90000"))
}

fn defined(yaml: &str) -> Arc<Workflow> {
    Arc::new(workflow::parse(yaml.as_bytes()).unwrap())
}

/// The bench's own definition with other words.
fn changed(yaml: &str, from: &str, to: &str) -> Arc<Workflow> {
    assert!(yaml.contains(from));
    defined(&yaml.replace(from, to))
}

fn migrate(to: &Arc<Workflow>) -> Input {
    Input::Migrate(to.clone()).by(Some(crate::principal::Principal::Terminal))
}

#[test]
fn open_question_stays_and_what_follows_is_new() {
    let mut bench = Bench::new(OLD, "x");
    bench.give(migrate(&new()));
    assert_eq!(bench.state().workflow(), Some(&new().reference()));
    bench.give(migrate(&new()));
    bench.note(bench.state().interaction().unwrap().prompt.clone().unwrap_or_default());
    bench.person_says("yes".into());
    bench.tick_after_ms(60_000);
    bench.give(migrate(&changed(OLD, "id: old", "id: newest")));
    bench.tick_after_ms(30_000);
    bench.give(migrate(&new()));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 USER_INTERACTION_REQUESTED node=ask
          3 WORKFLOW_CHANGED
            Pay?
          4 USER_INTERACTION_RESPONDED interaction=2 "yes"
          5 USER_INTERACTION_PROCESSED interaction=2
          6 NODE_COMPLETED node=ask
          7 NODE_STARTED node=new attempt=1
          8 WAIT_STARTED node=new
            60000 ms later
            refused: the thread cannot go on with the definition from where it is:
        the thread is at node `new`, which this workflow does not have (keep it as it is there, or fork at a moment before it began)
            30000 ms later
          9 WAIT_COMPLETED
         10 NODE_COMPLETED node=new
         11 NODE_STARTED node=done attempt=1
         12 NODE_COMPLETED node=done
         13 THREAD_COMPLETED node=done
            refused: the thread has ended with status completed
        => completed, waits for nothing
    "#]]);
}

#[test]
fn definition_without_what_is_open_is_refused_with_all_reasons() {
    let mut bench = Bench::new(
        "version: '1'\nname: deep\nnodes: [{id: turns, loop: {times: 2, body: {nodes: [{id: sub, sub_workflow: {workflow: w}}]}}}]
workflows: {w: {nodes: [{id: hold, wait: {for_ms: 1000}}]}}",
        "x",
    );
    bench.give(migrate(&defined("version: '1'\nname: deep\nnodes: [{id: other, end: {}}]")));
    bench.tick_after_ms(1_000);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=turns attempt=1
          2 LOOP_STARTED node=turns
          3 NODE_COMPLETED node=turns
          4 LOOP_ITERATION_STARTED node=turns index=0
          5 NODE_STARTED node=sub attempt=1
          6 SUB_WORKFLOW_STARTED node=sub workflow=w
          7 NODE_STARTED node=hold attempt=1
          8 WAIT_STARTED node=hold
            refused: the thread cannot go on with the definition from where it is:
        the thread is in round 1 of loop `turns`, which this workflow does not have (keep it as it is there, or fork at a moment before it began)
        the thread runs workflow `w` at node `sub`, which this workflow does not have (keep it as it is there, or fork at a moment before it began)
        the thread is in workflow `w`, which is not among the `workflows` of this one (keep it, or fork at a moment before its run began)
            1000 ms later
          9 WAIT_COMPLETED
         10 NODE_COMPLETED node=hold
         11 SUB_WORKFLOW_COMPLETED node=sub
         12 NODE_COMPLETED node=sub
         13 NODE_STARTED node=turns.end attempt=1
         14 NODE_COMPLETED node=turns.end
         15 LOOP_ITERATION_STARTED node=turns index=1
         16 NODE_STARTED node=sub attempt=1
         17 SUB_WORKFLOW_STARTED node=sub workflow=w
         18 NODE_STARTED node=hold attempt=1
         19 WAIT_STARTED node=hold
        => suspended, waits for a person until +2000
    "#]]);
}

#[test]
fn thread_is_not_migrated_while_a_call_runs() {
    const MODEL: &str = "version: '1'\nname: m\nnodes: [{id: say, llm: {provider: mock, model: m, user_prompt: Hi, tool_mode: auto}}, {id: done, end: {}}]";
    let next = changed(MODEL, "user_prompt: Hi", "user_prompt: Hello");
    let mut bench = Bench::new(MODEL, "x");
    bench.give(migrate(&next));
    bench.give(Input::Pause { reason: None });
    bench.give(migrate(&next));
    bench.asks(&["read"]);
    bench.give(migrate(&next));
    bench.give(Input::Resume);
    bench.give(migrate(&changed(MODEL, "user_prompt: Hi", "user_prompt: Hey")));
    bench.tool_says("42");
    bench.says("done");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=say attempt=1
          2 LLM_EXECUTION_REQUEST node=say
          3 LLM_CALL_REQUESTED 1
            refused: a model call is running or was cut off: migrate the thread when it waits, or when it is paused and nothing runs
          4 THREAD_PAUSED
            refused: a model call is running or was cut off: migrate the thread when it waits, or when it is paused and nothing runs
          5 LLM_CALL_COMPLETED call=3
          6 WORKFLOW_CHANGED
          7 THREAD_RESUMED
          8 TOOL_EXECUTION_REQUEST name=read
            refused: a tool call is running or was cut off: migrate the thread when it waits, or when it is paused and nothing runs
          9 TOOL_EXECUTION_COMPLETED call=8
         10 LLM_CALL_REQUESTED 2
         11 LLM_CALL_COMPLETED call=10
         12 LLM_EXECUTION_COMPLETED node=say "done"
         13 NODE_COMPLETED node=say
         14 NODE_STARTED node=done attempt=1
         15 NODE_COMPLETED node=done
         16 THREAD_COMPLETED node=done
        => completed, waits for nothing
    "#]]);
}

#[test]
fn thread_that_waits_for_a_retry_goes_on_by_the_new_definition() {
    let next = changed(node_retry::RETRIED, "system_prompt: be kind", "system_prompt: be brief");
    let mut bench = Bench::new(node_retry::RETRIED, "hello");
    bench.model_fails(ErrorKind::Server);
    bench.give(migrate(&next));
    bench.tick_after_ms(100);
    bench.note_request();
    bench.says("hi");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_FAILED call=3 server
          5 LLM_EXECUTION_FAILED node=ask server
          6 NODE_FAILED node=ask attempt=1 server retry_at=+100
          7 WORKFLOW_CHANGED
            100 ms later
          8 NODE_STARTED node=ask attempt=2
          9 LLM_EXECUTION_REQUEST node=ask
         10 LLM_CALL_REQUESTED 1
            model is called, tools Some(Auto):
              system: be brief
              user: hello
         11 LLM_CALL_COMPLETED call=10
         12 LLM_EXECUTION_COMPLETED node=ask "hi"
         13 NODE_COMPLETED node=ask
         14 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn thread_that_waits_for_branches_is_migrated_and_each_branch_by_itself() {
    let fork = "version: '1'\nname: f\nnodes: [{id: p, parallel: {for_each: '[1]', body: {nodes: [{id: hold, wait: {for_ms: 1000}}]}}}, {id: done, end: {}}]";
    let to = changed(fork, "id: done", "id: end");
    let mut family = Family::new(fork, "x");
    family.with("-", |bench| bench.give(migrate(&to)));
    family.with("0", |bench| bench.give(migrate(&to)));
    family.with("0", |bench| bench.give(migrate(&changed(fork, "id: hold", "id: held"))));
    family.tick_after_ms("0", 1000);
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=p attempt=1
        -     2 FORK_STARTED node=p n_needed=1
        -     3 BRANCH_STARTED index=0
        0     3 THREAD_FORKED
        0     4 NODE_STARTED node=hold attempt=1
        0     5 WAIT_STARTED node=hold
        -     4 WORKFLOW_CHANGED
        0     6 WORKFLOW_CHANGED
        0       refused: the thread cannot go on with the definition from where it is:
        0   the thread is at node `hold`, which this workflow does not have (keep it as it is there, or fork at a moment before it began)
            1000 ms later
        0     7 WAIT_COMPLETED
        0     8 NODE_COMPLETED node=hold
        0     9 THREAD_COMPLETED node=p.join
        -     5 BRANCH_ENDED index=0
        -     6 JOIN_COMPLETED node=p n_completed=1 n_failed=0
        -     7 NODE_COMPLETED node=p
        -     8 NODE_STARTED node=p.join attempt=1
        -     9 NODE_COMPLETED node=p.join
        -    10 NODE_STARTED node=end attempt=1
        -    11 NODE_COMPLETED node=end
        -    12 THREAD_COMPLETED node=end
        => - completed
        => 0 completed
        output [null]
    "#]]);
}

#[test]
fn later_run_goes_on_with_the_definition_that_the_thread_was_given() {
    let mut bench = Bench::new(OLD, "x");
    bench.give(Input::Run(Box::new(RunInput { input: "next".into(), ..RunInput::default() })));
    bench.give(migrate(&changed(OLD, "for_ms: 60000", "for_ms: 1")));
    bench.person_says("yes".into());
    bench.tick_after_ms(1);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 USER_INTERACTION_REQUESTED node=ask
          3 RUN_QUEUED
          4 WORKFLOW_CHANGED
          5 USER_INTERACTION_RESPONDED interaction=2 "yes"
          6 USER_INTERACTION_PROCESSED interaction=2
          7 NODE_COMPLETED node=ask
          8 NODE_STARTED node=old attempt=1
          9 WAIT_STARTED node=old
            1 ms later
         10 WAIT_COMPLETED
         11 NODE_COMPLETED node=old
         12 NODE_STARTED node=done attempt=1
         13 NODE_COMPLETED node=done
         14 THREAD_COMPLETED node=done
         15 RUN_STARTED from=queue
         16 NODE_STARTED node=ask attempt=1
         17 USER_INTERACTION_REQUESTED node=ask
        => waiting, waits for a person
    "#]]);
}

#[test]
fn rerun_on_another_definition_stays_on_it_after_the_change() {
    let next = changed(OLD, "id: old", "id: new");
    let mut bench = Bench::new(OLD, "x");
    bench.give(migrate(&next));
    bench.person_says("yes".into());
    let again = |workflow: &Arc<Workflow>| {
        let base = State::new(bench.state().thread());
        let (recorded_on, workflow) = (bench.begun_on.clone(), workflow.clone());
        Rerun { base, recorded_on, workflow, of_runs: bench.of_runs(), events: bench.log.clone() }.run().diverged
    };
    assert_eq!(again(&bench.begun_on), None);
    assert_eq!(again(&next), None, "what came before the change is the same on both");
    let diverged = again(&changed(OLD, "id: old", "id: newest")).unwrap();
    assert_eq!(diverged.got.map(|event| line_of(&event)), Some("NODE_STARTED node=newest attempt=1".into()));
}
