//! Sub-workflows: A6, C4.

use super::*;

const OUTER: &str = "
version: '1'
name: outer
nodes:
  - id: greet
    sub_workflow:
      workflow: inner
      inputs: {name: '{{ input }}', times: '{{ 1 + 1 }}'}
  - {id: after, llm: {provider: mock, model: m, user_prompt: 'after {{ output }}'}}
workflows:
  inner:
    variables: {tone: kind}
    nodes:
      - {id: ask, llm: {provider: mock, model: m, user_prompt: '{{ tone }} {{ name }} {{ times + 1 }}'}}
";

#[test]
fn a_workflow_runs_inside_another_with_a_scope_of_its_own() {
    let mut bench = Bench::new(OUTER, "ann");
    bench.note_value("[name, tone, times, input]");
    bench.says("hello ann");
    bench.note_value("name is defined");
    bench.says("so");
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=greet attempt=1
          2 SUB_WORKFLOW_STARTED node=greet workflow=inner {"tone":"kind","name":"ann","times":2}
          3 NODE_STARTED node=ask attempt=1
          4 LLM_EXECUTION_REQUEST node=ask
          5 LLM_CALL_REQUESTED 1
            [name, tone, times, input] = ["ann","kind",2,"ann"]
          6 LLM_CALL_COMPLETED call=5
          7 LLM_EXECUTION_COMPLETED node=ask "hello ann"
          8 NODE_COMPLETED node=ask
          9 SUB_WORKFLOW_COMPLETED node=greet output=hello ann
         10 NODE_COMPLETED node=greet
         11 NODE_STARTED node=after attempt=1
         12 LLM_EXECUTION_REQUEST node=after
         13 LLM_CALL_REQUESTED 1
            name is defined = false
         14 LLM_CALL_COMPLETED call=13
         15 LLM_EXECUTION_COMPLETED node=after "so"
         16 NODE_COMPLETED node=after
         17 THREAD_COMPLETED node=after
            user: after hello ann
            assistant: so
        => completed, waits for nothing
    "#]]);
}

#[test]
fn outputs_are_made_in_the_inner_scope_and_set_in_the_outer() {
    let yaml =
        OUTER.replace("workflow: inner\n", "workflow: inner\n      outputs: {said: output, shown: '{{ name }}!'}\n");
    let mut bench = Bench::new(&yaml, "ann");
    bench.says("hello ann");
    bench.note_value("[said, shown, output]");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=greet attempt=1
          2 SUB_WORKFLOW_STARTED node=greet workflow=inner {"tone":"kind","name":"ann","times":2}
          3 NODE_STARTED node=ask attempt=1
          4 LLM_EXECUTION_REQUEST node=ask
          5 LLM_CALL_REQUESTED 1
          6 LLM_CALL_COMPLETED call=5
          7 LLM_EXECUTION_COMPLETED node=ask "hello ann"
          8 NODE_COMPLETED node=ask
          9 SUB_WORKFLOW_COMPLETED node=greet output=hello ann {"said":"hello ann","shown":"ann!"}
         10 NODE_COMPLETED node=greet
         11 NODE_STARTED node=after attempt=1
         12 LLM_EXECUTION_REQUEST node=after
         13 LLM_CALL_REQUESTED 1
            [said, shown, output] = ["hello ann","ann!","hello ann"]
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn an_output_that_cannot_be_made_fails_the_sub_workflow() {
    let yaml = OUTER.replace("workflow: inner\n", "workflow: inner\n      outputs: {said: nothing.at.all}\n");
    let mut bench = Bench::stored(&yaml, "ann");
    bench.says("hello ann");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=greet attempt=1
          2 SUB_WORKFLOW_STARTED node=greet workflow=inner {"tone":"kind","name":"ann","times":2}
          3 NODE_STARTED node=ask attempt=1
          4 LLM_EXECUTION_REQUEST node=ask
          5 LLM_CALL_REQUESTED 1
          6 LLM_CALL_COMPLETED call=5
          7 LLM_EXECUTION_COMPLETED node=ask "hello ann"
          8 NODE_COMPLETED node=ask
          9 SUB_WORKFLOW_FAILED node=greet expression
         10 NODE_FAILED node=greet attempt=1 expression
         11 THREAD_FAILED node=greet expression
        => error, waits for nothing
    "#]]);
}

#[test]
fn error_in_a_sub_workflow_goes_to_on_error_of_the_node() {
    let mut bench = Bench::new(OUTER, "ann");
    bench.model_fails(ErrorKind::Quota);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=greet attempt=1
          2 SUB_WORKFLOW_STARTED node=greet workflow=inner {"tone":"kind","name":"ann","times":2}
          3 NODE_STARTED node=ask attempt=1
          4 LLM_EXECUTION_REQUEST node=ask
          5 LLM_CALL_REQUESTED 1
          6 LLM_CALL_FAILED call=5 quota
          7 LLM_EXECUTION_FAILED node=ask quota
          8 NODE_FAILED node=ask attempt=1 quota
          9 SUB_WORKFLOW_FAILED node=greet quota
         10 NODE_FAILED node=greet attempt=1 quota
         11 THREAD_FAILED node=greet quota
        => error, waits for nothing
    "#]]);
    let mut bench = Bench::new(&OUTER.replace("  - id: greet\n", "  - id: greet\n    on_error: after\n"), "ann");
    bench.model_fails(ErrorKind::Quota);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=greet attempt=1
          2 SUB_WORKFLOW_STARTED node=greet workflow=inner {"tone":"kind","name":"ann","times":2}
          3 NODE_STARTED node=ask attempt=1
          4 LLM_EXECUTION_REQUEST node=ask
          5 LLM_CALL_REQUESTED 1
          6 LLM_CALL_FAILED call=5 quota
          7 LLM_EXECUTION_FAILED node=ask quota
          8 NODE_FAILED node=ask attempt=1 quota
          9 SUB_WORKFLOW_FAILED node=greet quota
         10 NODE_FAILED node=greet attempt=1 quota
         11 ROUTE_TAKEN from=greet to=after condition=error quota quota
         12 NODE_STARTED node=after attempt=1
         13 NODE_FAILED node=after attempt=1 expression
         14 THREAD_FAILED node=after expression
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_workflow_that_runs_itself_goes_sixteen_deep() {
    let yaml = "
version: '1'
name: outer
nodes:
  - {id: down, sub_workflow: {workflow: inner}}
workflows:
  inner:
    nodes:
      - {id: down, sub_workflow: {workflow: inner}}
";
    let bench = Bench::new(yaml, "ann");
    let started = bench.log.iter().filter(|(_, event)| matches!(event, Event::SubWorkflowStarted(_))).count();
    assert_eq!(started, SUB_WORKFLOWS_DEPTH_MAX);
    laws::hold(&bench);
    let error = bench.state().error().unwrap();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ErrorKind::Limit, "sub-workflows are nested 16 deep, which is the limit")
    );
}

#[test]
fn a_sub_workflow_has_a_limit_of_its_own() {
    let yaml = OUTER
        .replace("    variables: {tone", "    max_iterations: 1\n    variables: {tone")
        .replace("{{ times + 1 }}'}}\n", "{{ times + 1 }}'}}\n      - {id: more, start: {}}\n");
    let mut bench = Bench::new(&yaml, "ann");
    bench.says("so");
    bench.note(bench.state().error().unwrap());
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=greet attempt=1
          2 SUB_WORKFLOW_STARTED node=greet workflow=inner {"tone":"kind","name":"ann","times":2}
          3 NODE_STARTED node=ask attempt=1
          4 LLM_EXECUTION_REQUEST node=ask
          5 LLM_CALL_REQUESTED 1
          6 LLM_CALL_COMPLETED call=5
          7 LLM_EXECUTION_COMPLETED node=ask "so"
          8 NODE_COMPLETED node=ask
          9 SUB_WORKFLOW_FAILED node=greet limit
         10 NODE_FAILED node=greet attempt=1 limit
         11 THREAD_FAILED node=greet limit
            sub-workflow `inner` has entered 1 nodes (max_iterations)
        => error, waits for nothing
    "#]]);
}

#[test]
fn crashed_thread_is_closed_without_running_its_step() {
    let mut bench = Bench::new(OUTER, "ann");
    let error = ExecutionError::new(ErrorKind::CrashedProcess, "the process ended 3 times in this step");
    bench.give(Input::Crashed { error });
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=greet attempt=1
          2 SUB_WORKFLOW_STARTED node=greet workflow=inner {"tone":"kind","name":"ann","times":2}
          3 NODE_STARTED node=ask attempt=1
          4 LLM_EXECUTION_REQUEST node=ask
          5 LLM_CALL_REQUESTED 1
          6 LLM_CALL_FAILED call=5 crashed_process
          7 LLM_EXECUTION_FAILED node=ask crashed_process
          8 NODE_FAILED node=ask attempt=1 crashed_process
          9 SUB_WORKFLOW_FAILED node=greet crashed_process
         10 NODE_FAILED node=greet attempt=1 crashed_process
         11 THREAD_FAILED node=ask crashed_process
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_sub_workflow_that_stops_in_the_middle_is_closed() {
    let mut bench = Bench::new(OUTER, "ann");
    bench.give(Input::Abort { reason: Some("enough".into()) });
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=greet attempt=1
          2 SUB_WORKFLOW_STARTED node=greet workflow=inner {"tone":"kind","name":"ann","times":2}
          3 NODE_STARTED node=ask attempt=1
          4 LLM_EXECUTION_REQUEST node=ask
          5 LLM_CALL_REQUESTED 1
          6 LLM_CALL_FAILED call=5 cancelled
          7 LLM_EXECUTION_FAILED node=ask cancelled
          8 NODE_FAILED node=ask attempt=1 cancelled
          9 SUB_WORKFLOW_FAILED node=greet cancelled
         10 NODE_FAILED node=greet attempt=1 cancelled
         11 THREAD_FAILED node=ask cancelled
        => error, waits for nothing
    "#]]);
}

#[test]
fn sub_workflow_continues_after_a_crash_and_in_a_fork() {
    let mut bench = Bench::new(OUTER, "ann");
    bench.give(Input::Recover);
    let mut fork = bench.fork(4, ForkChanges::default());
    fork.says("in the fork");
    fork.says("so");
    fork.check(expect![[r#"
          5 THREAD_FORKED
          6 LLM_CALL_REQUESTED 1
          7 LLM_CALL_COMPLETED call=6
          8 LLM_EXECUTION_COMPLETED node=ask "in the fork"
          9 NODE_COMPLETED node=ask
         10 SUB_WORKFLOW_COMPLETED node=greet output=in the fork
         11 NODE_COMPLETED node=greet
         12 NODE_STARTED node=after attempt=1
         13 LLM_EXECUTION_REQUEST node=after
         14 LLM_CALL_REQUESTED 1
         15 LLM_CALL_COMPLETED call=14
         16 LLM_EXECUTION_COMPLETED node=after "so"
         17 NODE_COMPLETED node=after
         18 THREAD_COMPLETED node=after
        => completed, waits for nothing
    "#]]);
}
