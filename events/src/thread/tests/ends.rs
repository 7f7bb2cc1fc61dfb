//! Inputs and outputs that a schema describes.

use serde_json::json;

use super::bench::START;
use super::*;
use crate::thread::rerun::Rerun;

const SUM: &str = "
version: '1'
name: sum
input_schema: {type: object, required: [a], properties: {a: {type: integer}}}
output_schema: {type: object, required: [total], properties: {total: {type: number}}}
nodes:
  - {id: add, llm: {provider: mock, model: m, user_prompt: 'add {{ input.a }}'}}
";

fn start(yaml: &str, input: serde_json::Value) -> Result<Json, String> {
    let workflow = workflow::parse(yaml.as_bytes()).unwrap_or_else(|faults| panic!("{faults}"));
    let started = Thread::started(&workflow, Start::new(input), START);
    started.map(|started| started.input).map_err(|faults| faults.to_string())
}

#[test]
fn input_that_does_not_fit_starts_no_thread() {
    assert_eq!(start(SUM, json!({ "a": 1 })).unwrap(), json!({ "a": 1 }).into());
    assert_eq!(start(SUM, json!(r#"{"a": 1}"#)).unwrap(), json!({ "a": 1 }).into(), "a text is read as JSON once");
    let refused = |input| start(SUM, input).unwrap_err();
    expect![[r#"input/a: "x" is not of type "integer""#]].assert_eq(&refused(json!({ "a": "x" })));
    expect![[r#"input: "a" is a required property"#]].assert_eq(&refused(json!({})));
    expect![[r#"input: "hello" is not of type "object""#]].assert_eq(&refused(json!("hello")));
    expect![[r#"input: null is not of type "object" (give an input: the workflow has an `input_schema`)"#]]
        .assert_eq(&refused(json!(null)));
}

#[test]
fn absent_input_is_null_if_there_is_a_schema() {
    let absent = |yaml: &str| workflow::parse(yaml.as_bytes()).unwrap().absent_input();
    assert_eq!(absent(SUM), Json::null());
    assert_eq!(absent(ONE_LLM), Json::from(""));
}

#[test]
fn output_that_is_json_in_a_text_is_set_before_the_end() {
    let mut bench = Bench::new(SUM, json!({ "a": 1 }));
    bench.says(r#"{"total": 3}"#);
    bench.note_value("output.total + 1");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=add attempt=1
          2 LLM_EXECUTION_REQUEST node=add
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=add "{\"total\": 3}"
          6 NODE_COMPLETED node=add
          7 VARIABLES_UPDATED
          8 THREAD_COMPLETED node=add
            output.total + 1 = 4
        => completed, waits for nothing
    "#]]);
}

#[test]
fn output_that_does_not_fit_fails_the_thread() {
    let mut bench = Bench::new(SUM, json!({ "a": 1 }));
    bench.says(r#"{"total": "three"}"#);
    bench.note(bench.state().error().unwrap());
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=add attempt=1
          2 LLM_EXECUTION_REQUEST node=add
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=add "{\"total\": \"three\"}"
          6 NODE_COMPLETED node=add
          7 THREAD_FAILED node=add invalid_output
            the output does not fit `output_schema`: output/total: "three" is not of type "number"
        => error, waits for nothing
    "#]]);
    // Another try of the last node is a fork, not a retry.
    let bench = Bench::new(&SUM.replace("llm:", "retry: {max_attempts: 3}, llm:"), json!({ "a": 1 }));
    let mut bench = bench;
    bench.says("three");
    assert_eq!(bench.state().error().unwrap().kind, ErrorKind::InvalidOutput);
}

#[test]
fn absent_output_is_null_for_the_schema() {
    let yaml = "{version: '1', name: w, output_schema: {type: TYPE}, nodes: [{id: a, end: {}}]}";
    let of = |kind: &str| Bench::new(&yaml.replace("TYPE", kind), "x").state().status();
    assert_eq!((of("'null'"), of("string")), (Status::Completed, Status::Error));
}

/// A crash between the last answer and the check, or between the check and the end, changes nothing.
#[test]
fn end_is_the_same_from_every_prefix() {
    for answer in [r#"{"total": 3}"#, "three", r#"{"total": true}"#] {
        let mut bench = Bench::new(SUM, json!({ "a": 1 }));
        bench.says(answer);
        let answered = bench.log.iter().position(|(_, event)| matches!(event, Event::LlmCallCompleted(_))).unwrap();
        for seq in answered..bench.log.len() {
            let mut thread = Thread::resume(bench.fold_to(seq), bench.thread.workflow().clone());
            let events = thread.recover_but(|_| false, &bench.around()).unwrap();
            let expected: Vec<_> = bench.log[seq + 1..].iter().map(|(_, event)| event.clone()).collect();
            let decided: Vec<_> =
                events.into_iter().filter(|event| !matches!(event, Event::ThreadRecovered(_))).collect();
            assert_eq!(decided, expected, "{answer}, after seq {seq}");
        }
    }
}

const OUTER: &str = "
version: '1'
name: outer
nodes:
  - id: bill
    on_error: end
    sub_workflow: {workflow: inner, inputs: {price: '{{ input }}'}, outputs: {sum: output.total}}
  - {id: end, end: {}}
workflows:
  inner:
    input_schema: {type: object, properties: {price: {type: number}}, additionalProperties: false}
    output_schema: {type: object, required: [total]}
    nodes:
      - {id: add, llm: {provider: mock, model: m, user_prompt: 'add {{ price }}'}}
";

#[test]
fn inputs_of_a_sub_workflow_that_do_not_fit_fail_its_node() {
    let mut bench = Bench::new(OUTER, "much");
    bench.note_value("error.message");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=bill attempt=1
          2 NODE_FAILED node=bill attempt=1 invalid_input
          3 ROUTE_TAKEN from=bill to=end condition=error invalid_input invalid_input
          4 NODE_STARTED node=end attempt=1
          5 NODE_COMPLETED node=end
          6 THREAD_COMPLETED node=end
            error.message = "the inputs do not fit `input_schema` of workflow `inner`: inputs/price: \"much\" is not of type \"number\""
        => completed, waits for nothing
    "#]]);
}

#[test]
fn output_of_a_sub_workflow_that_does_not_fit_fails_its_node() {
    let mut bench = Bench::new(OUTER, json!(2));
    bench.says("three");
    bench.note_value("error.message");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=bill attempt=1
          2 SUB_WORKFLOW_STARTED node=bill workflow=inner {"price":2}
          3 NODE_STARTED node=add attempt=1
          4 LLM_EXECUTION_REQUEST node=add
          5 LLM_CALL_REQUESTED 1
          6 LLM_CALL_COMPLETED call=5
          7 LLM_EXECUTION_COMPLETED node=add "three"
          8 NODE_COMPLETED node=add
          9 SUB_WORKFLOW_FAILED node=bill invalid_output
         10 NODE_FAILED node=bill attempt=1 invalid_output
         11 ROUTE_TAKEN from=bill to=end condition=error invalid_output invalid_output
         12 NODE_STARTED node=end attempt=1
         13 NODE_COMPLETED node=end
         14 THREAD_COMPLETED node=end
            error.message = "the output does not fit `output_schema` of workflow `inner`: output: \"three\" is not of type \"object\""
        => completed, waits for nothing
    "#]]);
}

#[test]
fn output_of_a_sub_workflow_is_read_before_its_outputs() {
    let mut bench = Bench::new(OUTER, json!(2));
    bench.says(r#"{"total": 3}"#);
    bench.note_value("[sum, output]");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=bill attempt=1
          2 SUB_WORKFLOW_STARTED node=bill workflow=inner {"price":2}
          3 NODE_STARTED node=add attempt=1
          4 LLM_EXECUTION_REQUEST node=add
          5 LLM_CALL_REQUESTED 1
          6 LLM_CALL_COMPLETED call=5
          7 LLM_EXECUTION_COMPLETED node=add "{\"total\": 3}"
          8 NODE_COMPLETED node=add
          9 SUB_WORKFLOW_COMPLETED node=bill output={"total":3} {"sum":3}
         10 NODE_COMPLETED node=bill
         11 NODE_STARTED node=end attempt=1
         12 NODE_COMPLETED node=end
         13 THREAD_COMPLETED node=end
            [sum, output] = [3,{"total":3}]
        => completed, waits for nothing
    "#]]);
}

#[test]
fn branch_ends_without_the_schema_of_the_workflow() {
    let yaml = "
version: '1'
name: w
output_schema: {type: object}
nodes:
  - id: both
    parallel:
      branches:
        left: {nodes: [{id: l, llm: {provider: mock, model: m, user_prompt: l}}]}
";
    let mut family = Family::new(yaml, "x");
    family.with("0", |bench| bench.says("a text"));
    assert_eq!(family.of("0").state().status(), Status::Completed);
    assert_eq!(family.root().state().status(), Status::Completed, "its own output is an object of branches");
}

#[test]
fn rerun_on_a_definition_that_refuses_the_input_differs_at_the_start() {
    let mut bench = Bench::new(&SUM.replace("{{ input.a }}", "{{ input }}"), json!({ "a": 1 }));
    bench.says(r#"{"total": 3}"#);
    let stricter = SUM.replace("{{ input.a }}", "{{ input }}").replace("required: [a]", "required: [a, b]");
    let rerun = Rerun {
        base: State::new(bench.state().thread()),
        recorded_on: bench.thread.workflow().clone(),
        workflow: Arc::new(workflow::parse(stricter.as_bytes()).unwrap()),
        of_runs: bench.of_runs(),
        events: bench.log.clone(),
    };
    let diverged = rerun.run().diverged.unwrap();
    expect![[r#"0: it cannot begin with what is recorded: input: "b" is a required property"#]]
        .assert_eq(&format!("{}: {}", diverged.seq, diverged.why));
}
