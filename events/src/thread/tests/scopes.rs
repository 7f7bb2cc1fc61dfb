//! The four scopes of variables: G4.

use super::*;

const SCOPES: &str = "
version: '1'
name: scopes
variables: {x: thread}
nodes:
  - {id: sub, sub_workflow: {workflow: inner}}
  - {id: last, llm: {provider: mock, model: m, user_prompt: '{{ x }}'}}
workflows:
  inner:
    variables: {x: sub}
    nodes:
      - id: round
        loop:
          for_each: '[1, 2]'
          as: x
          body:
            nodes:
              - id: ask
                user_interaction:
                  operation_type: UPDATE_VARIABLES
                  variables:
                    - {variable_name: g, expression: '{{ input }} for all', scope: global}
                    - {variable_name: t, expression: '{{ input }} for the thread', scope: thread}
                    - {variable_name: s, expression: '{{ input }} for the sub', scope: subgraph}
                    - {variable_name: l, expression: '{{ input }} for the loop', scope: loop}
              - {id: say, llm: {provider: mock, model: m, user_prompt: '{{ x }} {{ l }}'}}
";

#[test]
fn a_variable_lives_as_long_as_its_scope() {
    let mut bench = Bench::new(SCOPES, "hello");
    bench.note_value("x");
    bench.person_says(serde_json::json!("one"));
    bench.out.clear();
    bench.note_value("[x, g, t, s, l]");
    bench.says("said one");
    bench.note_value("[x, g, t, s, l is defined, output]");
    bench.person_says(serde_json::json!("two"));
    bench.says("said two");
    bench.note_value("[x, g, t, s is defined, l is defined, output]");
    bench.says("the end");
    let json = bench.state().to_json();
    bench.note(format_args!("{} {} {}", json["variables"], json["globals"], json["scopes"]));
    bench.note(serde_json::to_string(&bench.state().globals_written()).unwrap());
    bench.check(expect![[r#"
            [x, g, t, s, l] = [1,"one for all","one for the thread","one for the sub","one for the loop"]
         15 LLM_CALL_COMPLETED call=14
         16 LLM_EXECUTION_COMPLETED node=say "said one"
         17 NODE_COMPLETED node=say
         18 NODE_STARTED node=round.end attempt=1
         19 NODE_COMPLETED node=round.end
         20 LOOP_ITERATION_STARTED node=round index=1
         21 NODE_STARTED node=ask attempt=1
         22 USER_INTERACTION_REQUESTED node=ask
            [x, g, t, s, l is defined, output] = [2,"one for all","one for the thread","one for the sub",false,"said one"]
         23 USER_INTERACTION_RESPONDED interaction=22 "two"
         24 USER_INTERACTION_PROCESSED interaction=22
         25 NODE_COMPLETED node=ask
         26 NODE_STARTED node=say attempt=1
         27 LLM_EXECUTION_REQUEST node=say
         28 LLM_CALL_REQUESTED 1
         29 LLM_CALL_COMPLETED call=28
         30 LLM_EXECUTION_COMPLETED node=say "said two"
         31 NODE_COMPLETED node=say
         32 NODE_STARTED node=round.end attempt=1
         33 NODE_COMPLETED node=round.end
         34 LOOP_ENDED node=round n_iterations=2
         35 SUB_WORKFLOW_COMPLETED node=sub output=said two
         36 NODE_COMPLETED node=sub
         37 NODE_STARTED node=last attempt=1
         38 LLM_EXECUTION_REQUEST node=last
         39 LLM_CALL_REQUESTED 1
            [x, g, t, s is defined, l is defined, output] = ["thread","two for all","two for the thread",false,false,"said two"]
         40 LLM_CALL_COMPLETED call=39
         41 LLM_EXECUTION_COMPLETED node=last "the end"
         42 NODE_COMPLETED node=last
         43 THREAD_COMPLETED node=last
            {"x":"thread","input":"hello","t":"two for the thread","output":"the end","llm_calls":[{"seq":40,"content":"the end","tool_calls":[]}],"tool_calls":[]} {"g":"two for all"} []
            {"g":"two for all"}
        => completed, waits for nothing
    "#]]);
}

#[test]
fn the_state_shows_the_scopes_that_are_open() {
    let mut bench = Bench::new(SCOPES, "hello");
    bench.person_says(serde_json::json!("one"));
    bench.out.clear();
    let shown = serde_json::to_string_pretty(&bench.state().to_json()["scopes"]).unwrap();
    bench.note(shown);
    bench.check(expect![[r#"
            [
          {
            "kind": "subgraph",
            "node": "sub",
            "workflow": "inner",
            "variables": {
              "x": "sub",
              "s": "one for the sub",
              "output": "one"
            }
          },
          {
            "kind": "loop",
            "node": "round",
            "iterations": 1,
            "variables": {
              "x": 1,
              "loop": {
                "index": 0,
                "iteration": 1,
                "first": true,
                "last": false,
                "n": 2
              },
              "l": "one for the loop"
            }
          }
        ]
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn a_loop_outside_of_a_sub_workflow_is_not_seen_in_it() {
    let yaml = "
version: '1'
name: border
nodes:
  - id: round
    loop:
      times: 1
      body:
        nodes:
          - {id: sub, sub_workflow: {workflow: inner, inputs: {i: '{{ loop.index }}'}}}
workflows:
  inner:
    nodes:
      - {id: ask, llm: {provider: mock, model: m, user_prompt: '{{ i }} {{ loop is defined }}'}}
";
    let mut bench = Bench::new(yaml, "hello");
    bench.out.clear();
    bench.note_request();
    bench.check(expect![[r#"
            model is called, tools None:
              user: 0 false
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn the_application_sets_variables_of_the_thread() {
    let mut bench = Bench::new(SCOPES, "hello");
    bench.out.clear();
    let variables = OrderedMap::from_iter([("x".to_owned(), "from outside".into()), ("y".to_owned(), "new".into())]);
    bench.give(Input::SetVariables(variables));
    bench.note_value("[x, y]");
    let json = bench.state().to_json();
    bench.note(&json["variables"]);
    bench.check(expect![[r#"
          9 VARIABLES_UPDATED
            [x, y] = [1,"new"]
            {"x":"from outside","input":"hello","y":"new","llm_calls":[],"tool_calls":[]}
        => waiting, waits for a person
    "#]]);
}

#[test]
fn branch_that_begins_after_a_sibling_ended_sees_its_globals() {
    let yaml = "
version: '1'
name: one_by_one
nodes:
  - id: each
    parallel:
      for_each: input
      as: it
      concurrency: 1
      body:
        nodes:
          - id: ask
            user_interaction:
              operation_type: UPDATE_VARIABLES
              variables: [{variable_name: seen, expression: '{{ (seen if seen is defined else []) + [it] }}', scope: global}]
";
    let mut family = Family::new(yaml, serde_json::json!(["a", "b", "c"]));
    family.with("0", |bench| bench.person_says(serde_json::json!(1)));
    assert_eq!(family.threads["1"].state().globals()["seen"], serde_json::json!(["a"]).into());
    assert!(family.threads["1"].state().globals_written().is_empty(), "it has set nothing itself");
    // A fork of the family at this moment begins the branch with the same.
    let seq = family.root().log.len() - 1;
    let root = family.fork_root(seq, |_| None);
    let mut again = family.without_root(root);
    again.settle();
    for family in [&mut family, &mut again] {
        family.with("1", |bench| bench.person_says(serde_json::json!(1)));
        family.with("2", |bench| bench.person_says(serde_json::json!(1)));
        assert_eq!(family.root().state().status(), Status::Completed);
        assert_eq!(family.root().state().globals()["seen"], serde_json::json!(["a", "b", "c"]).into());
    }
}
