//! Loops: A6, A7, C4.

use super::*;

/// A loop over what `head` says, with a model in it; what it says goes into the next node.
fn around(head: &str) -> String {
    format!(
        "
version: '1'
name: around
nodes:
  - id: go
    loop:
      {head}
      body:
        nodes:
          - {{id: ask, llm: {{provider: mock, model: m, user_prompt: '{{{{ loop.iteration }}}} of {{{{ loop.n }}}}'}}}}
    checkpoint: gone
  - {{id: done, end: {{}}}}
"
    )
}

#[test]
fn a_loop_goes_round_so_many_times() {
    let mut bench = Bench::new(&around("times: 2"), "hello");
    bench.note_value("loop");
    bench.says("one");
    bench.note_value("[loop, output]");
    bench.says("two");
    bench.note_value("loop is defined");
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=go attempt=1
          2 LOOP_STARTED node=go
          3 NODE_COMPLETED node=go
          4 LOOP_ITERATION_STARTED node=go index=0
          5 NODE_STARTED node=ask attempt=1
          6 LLM_EXECUTION_REQUEST node=ask
          7 LLM_CALL_REQUESTED 1
            loop = {"first":true,"index":0,"iteration":1,"last":false,"n":2}
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=ask "one"
         10 NODE_COMPLETED node=ask
         11 NODE_STARTED node=go.end attempt=1
         12 NODE_COMPLETED node=go.end
         13 LOOP_ITERATION_STARTED node=go index=1
         14 NODE_STARTED node=ask attempt=1
         15 LLM_EXECUTION_REQUEST node=ask
         16 LLM_CALL_REQUESTED 1
            [loop, output] = [{"first":false,"index":1,"iteration":2,"last":true,"n":2},"one"]
         17 LLM_CALL_COMPLETED call=16
         18 LLM_EXECUTION_COMPLETED node=ask "two"
         19 NODE_COMPLETED node=ask
         20 NODE_STARTED node=go.end attempt=1
         21 NODE_COMPLETED node=go.end
         22 LOOP_ENDED node=go n_iterations=2
         23 CHECKPOINT_CREATED "gone"
         24 NODE_STARTED node=done attempt=1
         25 NODE_COMPLETED node=done
         26 THREAD_COMPLETED node=done
            loop is defined = false
            user: 1 of 2
            assistant: one
            user: 2 of 2
            assistant: two
        => completed, waits for nothing
    "#]]);
}

#[test]
fn loop_without_iterations_continues_after_its_end() {
    let log = |head: &str| {
        let bench = Bench::new(&around(head), "hello");
        laws::hold(&bench);
        bench.out
    };
    assert_eq!(log("times: 0"), log("for_each: '[]'"));
    assert_eq!(log("times: 0"), log("while: input == 'never'\n      max_iterations: 3"));
    Bench::new(&around("times: 0"), "hello").check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=go attempt=1
          2 LOOP_STARTED node=go
          3 NODE_COMPLETED node=go
          4 LOOP_ENDED node=go n_iterations=0
          5 CHECKPOINT_CREATED "gone"
          6 NODE_STARTED node=done attempt=1
          7 NODE_COMPLETED node=done
          8 THREAD_COMPLETED node=done
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_loop_over_a_list_gives_each_element_its_turn() {
    let yaml = around("for_each: '{{ input.names }}'\n      as: name").replace("loop.n ", "name ");
    let mut bench = Bench::new(&yaml, serde_json::json!({"names": ["ann", "bob"]}));
    bench.note_value("[name, loop.first, loop.last]");
    bench.says("a");
    // What the list is was decided when the loop began.
    let input = serde_json::json!({"names": []});
    bench.give(Input::SetVariables(OrderedMap::from_iter([("input".to_owned(), input.into())])));
    bench.note_value("[name, loop.first, loop.last]");
    bench.says("b");
    bench.note_value("name is defined");
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=go attempt=1
          2 LOOP_STARTED node=go
          3 NODE_COMPLETED node=go
          4 LOOP_ITERATION_STARTED node=go index=0
          5 NODE_STARTED node=ask attempt=1
          6 LLM_EXECUTION_REQUEST node=ask
          7 LLM_CALL_REQUESTED 1
            [name, loop.first, loop.last] = ["ann",true,false]
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=ask "a"
         10 NODE_COMPLETED node=ask
         11 NODE_STARTED node=go.end attempt=1
         12 NODE_COMPLETED node=go.end
         13 LOOP_ITERATION_STARTED node=go index=1
         14 NODE_STARTED node=ask attempt=1
         15 LLM_EXECUTION_REQUEST node=ask
         16 LLM_CALL_REQUESTED 1
         17 VARIABLES_UPDATED
            [name, loop.first, loop.last] = ["bob",false,true]
         18 LLM_CALL_COMPLETED call=16
         19 LLM_EXECUTION_COMPLETED node=ask "b"
         20 NODE_COMPLETED node=ask
         21 NODE_STARTED node=go.end attempt=1
         22 NODE_COMPLETED node=go.end
         23 LOOP_ENDED node=go n_iterations=2
         24 CHECKPOINT_CREATED "gone"
         25 NODE_STARTED node=done attempt=1
         26 NODE_COMPLETED node=done
         27 THREAD_COMPLETED node=done
            name is defined = false
            user: 1 of ann
            assistant: a
            user: 2 of bob
            assistant: b
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_loop_goes_round_while_its_condition_holds() {
    let mut bench =
        Bench::new(&around("while: output is undefined or output != 'stop'\n      max_iterations: 9"), "hello");
    bench.says("go on");
    bench.says("stop");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=go attempt=1
          2 LOOP_STARTED node=go
          3 NODE_COMPLETED node=go
          4 LOOP_ITERATION_STARTED node=go index=0
          5 NODE_STARTED node=ask attempt=1
          6 LLM_EXECUTION_REQUEST node=ask
          7 LLM_CALL_REQUESTED 1
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=ask "go on"
         10 NODE_COMPLETED node=ask
         11 NODE_STARTED node=go.end attempt=1
         12 NODE_COMPLETED node=go.end
         13 LOOP_ITERATION_STARTED node=go index=1
         14 NODE_STARTED node=ask attempt=1
         15 LLM_EXECUTION_REQUEST node=ask
         16 LLM_CALL_REQUESTED 1
         17 LLM_CALL_COMPLETED call=16
         18 LLM_EXECUTION_COMPLETED node=ask "stop"
         19 NODE_COMPLETED node=ask
         20 NODE_STARTED node=go.end attempt=1
         21 NODE_COMPLETED node=go.end
         22 LOOP_ENDED node=go n_iterations=2
         23 CHECKPOINT_CREATED "gone"
         24 NODE_STARTED node=done attempt=1
         25 NODE_COMPLETED node=done
         26 THREAD_COMPLETED node=done
        => completed, waits for nothing
    "#]]);
}

#[test]
fn whichever_ends_the_loop_first_ends_it() {
    let yaml = around("times: 3\n      while: output is undefined or output != 'stop'\n      for_each: '[1, 2]'");
    let mut bench = Bench::new(&yaml, "hello");
    bench.says("go on");
    bench.says("go on");
    assert_eq!(bench.state().status(), Status::Completed);
    let mut bench = Bench::new(&yaml, "hello");
    bench.says("stop");
    assert_eq!(bench.state().status(), Status::Completed);
}

#[test]
fn a_loop_that_is_not_over_at_its_limit_has_failed() {
    let yaml = around("while: 'true'\n      max_iterations: 2").replace("    checkpoint: gone", "    on_error: done");
    let mut bench = Bench::new(&yaml, "hello");
    bench.says("one");
    bench.says("two");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=go attempt=1
          2 LOOP_STARTED node=go
          3 NODE_COMPLETED node=go
          4 LOOP_ITERATION_STARTED node=go index=0
          5 NODE_STARTED node=ask attempt=1
          6 LLM_EXECUTION_REQUEST node=ask
          7 LLM_CALL_REQUESTED 1
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=ask "one"
         10 NODE_COMPLETED node=ask
         11 NODE_STARTED node=go.end attempt=1
         12 NODE_COMPLETED node=go.end
         13 LOOP_ITERATION_STARTED node=go index=1
         14 NODE_STARTED node=ask attempt=1
         15 LLM_EXECUTION_REQUEST node=ask
         16 LLM_CALL_REQUESTED 1
         17 LLM_CALL_COMPLETED call=16
         18 LLM_EXECUTION_COMPLETED node=ask "two"
         19 NODE_COMPLETED node=ask
         20 NODE_STARTED node=go.end attempt=1
         21 NODE_COMPLETED node=go.end
         22 LOOP_ENDED node=go n_iterations=2 limit
         23 ROUTE_TAKEN from=go to=done condition=error limit limit
         24 NODE_STARTED node=done attempt=1
         25 NODE_COMPLETED node=done
         26 THREAD_COMPLETED node=done
        => completed, waits for nothing
    "#]]);
}

#[test]
fn error_in_a_loop_goes_to_its_on_error_or_outwards() {
    let mut bench = Bench::new(&around("times: 3").replace("    checkpoint: gone", "    on_error: done"), "hello");
    bench.says("one");
    bench.model_fails(ErrorKind::Quota);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=go attempt=1
          2 LOOP_STARTED node=go
          3 NODE_COMPLETED node=go
          4 LOOP_ITERATION_STARTED node=go index=0
          5 NODE_STARTED node=ask attempt=1
          6 LLM_EXECUTION_REQUEST node=ask
          7 LLM_CALL_REQUESTED 1
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=ask "one"
         10 NODE_COMPLETED node=ask
         11 NODE_STARTED node=go.end attempt=1
         12 NODE_COMPLETED node=go.end
         13 LOOP_ITERATION_STARTED node=go index=1
         14 NODE_STARTED node=ask attempt=1
         15 LLM_EXECUTION_REQUEST node=ask
         16 LLM_CALL_REQUESTED 1
         17 LLM_CALL_FAILED call=16 quota
         18 LLM_EXECUTION_FAILED node=ask quota
         19 NODE_FAILED node=ask attempt=1 quota
         20 LOOP_ENDED node=go n_iterations=2 quota
         21 ROUTE_TAKEN from=go to=done condition=error quota quota
         22 NODE_STARTED node=done attempt=1
         23 NODE_COMPLETED node=done
         24 THREAD_COMPLETED node=done
        => completed, waits for nothing
    "#]]);
    let mut bench = Bench::new(&around("times: 3"), "hello");
    bench.model_fails(ErrorKind::Quota);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=go attempt=1
          2 LOOP_STARTED node=go
          3 NODE_COMPLETED node=go
          4 LOOP_ITERATION_STARTED node=go index=0
          5 NODE_STARTED node=ask attempt=1
          6 LLM_EXECUTION_REQUEST node=ask
          7 LLM_CALL_REQUESTED 1
          8 LLM_CALL_FAILED call=7 quota
          9 LLM_EXECUTION_FAILED node=ask quota
         10 NODE_FAILED node=ask attempt=1 quota
         11 LOOP_ENDED node=go n_iterations=1 quota
         12 THREAD_FAILED node=go quota
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_list_that_is_none_fails_the_node() {
    let mut bench = Bench::new(&around("for_each: input"), "hello");
    bench.note(bench.state().error().unwrap());
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=go attempt=1
          2 NODE_FAILED node=go attempt=1 expression
          3 THREAD_FAILED node=go expression
            `for_each` of node `go` gives a text, not a list
        => error, waits for nothing
    "#]]);
}

#[test]
fn markers_say_the_same_as_the_short_form() {
    let markers = "
version: '1'
name: around
nodes:
  - {id: go, loop_start: {end: go.end, times: 2}}
  - {id: ask, llm: {provider: mock, model: m, user_prompt: '{{ loop.iteration }} of {{ loop.n }}'}}
  - {id: go.end, loop_end: {start: go}, checkpoint: gone}
  - {id: done, end: {}}
";
    let log = |yaml: &str| {
        let mut bench = Bench::new(yaml, "hello");
        bench.says("one");
        bench.says("two");
        laws::hold(&bench);
        bench.out
    };
    assert_eq!(log(markers), log(&around("times: 2")));
}

#[test]
fn a_loop_in_a_loop_has_a_scope_of_its_own() {
    let yaml = "
version: '1'
name: nested
nodes:
  - id: rows
    loop:
      for_each: '[[1, 2], [3]]'
      as: row
      body:
        nodes:
          - id: cells
            loop:
              for_each: row
              as: cell
              body:
                nodes:
                  - {id: ask, llm: {provider: mock, model: m, user_prompt: '{{ cell }} of {{ row }}, {{ loop.index }}'}}
";
    let mut bench = Bench::new(yaml, "hello");
    bench.says("a");
    bench.note_value("[row, cell, loop.index]");
    bench.says("b");
    bench.note_value("[row, cell, loop.index]");
    bench.says("c");
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=rows attempt=1
          2 LOOP_STARTED node=rows
          3 NODE_COMPLETED node=rows
          4 LOOP_ITERATION_STARTED node=rows index=0
          5 NODE_STARTED node=cells attempt=1
          6 LOOP_STARTED node=cells
          7 NODE_COMPLETED node=cells
          8 LOOP_ITERATION_STARTED node=cells index=0
          9 NODE_STARTED node=ask attempt=1
         10 LLM_EXECUTION_REQUEST node=ask
         11 LLM_CALL_REQUESTED 1
         12 LLM_CALL_COMPLETED call=11
         13 LLM_EXECUTION_COMPLETED node=ask "a"
         14 NODE_COMPLETED node=ask
         15 NODE_STARTED node=cells.end attempt=1
         16 NODE_COMPLETED node=cells.end
         17 LOOP_ITERATION_STARTED node=cells index=1
         18 NODE_STARTED node=ask attempt=1
         19 LLM_EXECUTION_REQUEST node=ask
         20 LLM_CALL_REQUESTED 1
            [row, cell, loop.index] = [[1,2],2,1]
         21 LLM_CALL_COMPLETED call=20
         22 LLM_EXECUTION_COMPLETED node=ask "b"
         23 NODE_COMPLETED node=ask
         24 NODE_STARTED node=cells.end attempt=1
         25 NODE_COMPLETED node=cells.end
         26 LOOP_ENDED node=cells n_iterations=2
         27 NODE_STARTED node=rows.end attempt=1
         28 NODE_COMPLETED node=rows.end
         29 LOOP_ITERATION_STARTED node=rows index=1
         30 NODE_STARTED node=cells attempt=1
         31 LOOP_STARTED node=cells
         32 NODE_COMPLETED node=cells
         33 LOOP_ITERATION_STARTED node=cells index=0
         34 NODE_STARTED node=ask attempt=1
         35 LLM_EXECUTION_REQUEST node=ask
         36 LLM_CALL_REQUESTED 1
            [row, cell, loop.index] = [[3],3,0]
         37 LLM_CALL_COMPLETED call=36
         38 LLM_EXECUTION_COMPLETED node=ask "c"
         39 NODE_COMPLETED node=ask
         40 NODE_STARTED node=cells.end attempt=1
         41 NODE_COMPLETED node=cells.end
         42 LOOP_ENDED node=cells n_iterations=1
         43 NODE_STARTED node=rows.end attempt=1
         44 NODE_COMPLETED node=rows.end
         45 LOOP_ENDED node=rows n_iterations=2
         46 THREAD_COMPLETED node=rows.end
            user: 1 of [1,2], 0
            assistant: a
            user: 2 of [1,2], 1
            assistant: b
            user: 3 of [3], 0
            assistant: c
        => completed, waits for nothing
    "#]]);
}

#[test]
fn each_iteration_may_enter_as_many_nodes_as_the_workflow() {
    let mut yaml = around("times: 50").replace("name: around", "name: around\nmax_iterations: 3");
    let mut bench = Bench::new(&yaml, "hello");
    for _ in 0..50 {
        bench.says("so");
    }
    assert_eq!(bench.state().status(), Status::Completed);
    assert_eq!(bench.state().totals().n_iterations, 102);
    laws::hold(&bench);
    yaml = yaml.replace("max_iterations: 3", "max_iterations: 1");
    let mut bench = Bench::new(&yaml, "hello");
    bench.says("so");
    bench.note(bench.state().error().unwrap());
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=go attempt=1
          2 LOOP_STARTED node=go
          3 NODE_COMPLETED node=go
          4 LOOP_ITERATION_STARTED node=go index=0
          5 NODE_STARTED node=ask attempt=1
          6 LLM_EXECUTION_REQUEST node=ask
          7 LLM_CALL_REQUESTED 1
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=ask "so"
         10 NODE_COMPLETED node=ask
         11 LOOP_ENDED node=go n_iterations=1 limit
         12 THREAD_FAILED node=go limit
            an iteration of loop `go` has entered 1 nodes (max_iterations)
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_cancelled_thread_closes_its_loops() {
    let mut bench = Bench::new(&around("times: 2"), "hello");
    bench.give(Input::Cancel { reason: None });
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=go attempt=1
          2 LOOP_STARTED node=go
          3 NODE_COMPLETED node=go
          4 LOOP_ITERATION_STARTED node=go index=0
          5 NODE_STARTED node=ask attempt=1
          6 LLM_EXECUTION_REQUEST node=ask
          7 LLM_CALL_REQUESTED 1
          8 LLM_CALL_FAILED call=7 cancelled
          9 LLM_EXECUTION_FAILED node=ask cancelled
         10 NODE_FAILED node=ask attempt=1 cancelled
         11 LOOP_ENDED node=go n_iterations=1 cancelled
         12 THREAD_CANCELLED
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn a_loop_costs_the_same_however_often_it_went_round() {
    let yaml = "
version: '1'
name: long
nodes:
  - {id: go, loop: {times: 100000, body: {nodes: [{id: step, start: {}}]}}}
";
    let mut bench = Bench::new(yaml, "hello");
    let mut n_events = bench.log.len();
    while let Wait::Itself = bench.thread.waits_for(&bench.around()) {
        bench.out.clear();
        bench.log.clear();
        bench.give(Input::Tick);
        n_events += bench.log.len();
    }
    let size = crate::codec::encode(bench.state()).unwrap().len();
    assert!(size < 1_000_000, "a state of {size} bytes");
    assert_eq!(bench.state().status(), Status::Completed);
    // Per iteration: its beginning, and two nodes begun and completed.
    assert_eq!(n_events, 500_006);
    assert_eq!((bench.state().path().len(), bench.state().n_visits_dropped()), (VISITS_MAX, 190_001));
}

#[test]
fn loop_retains_only_the_last_questions_and_checkpoints() {
    let yaml = "
version: '1'
name: long
nodes:
  - id: go
    loop:
      times: 5000
      body:
        nodes:
          - id: ask
            checkpoint: asked
            user_interaction: {operation_type: ADD_MESSAGE, message: {role: user, content_template: 'x'}}
";
    let mut bench = Bench::new(yaml, "hello");
    let first = bench.open().0;
    for _ in 0..5_000 {
        bench.out.clear();
        bench.person_says(serde_json::json!(1));
    }
    assert_eq!(bench.state().status(), Status::Completed);
    assert_eq!(bench.state().questions.len(), 4_096);
    assert_eq!(bench.state().checkpoints().len(), 5_000);
    assert_eq!(bench.state().checkpoints()[4_999].label, "asked#5000");
    assert!(crate::codec::encode(&bench.state().checkpoint_names).unwrap().len() < 100);
    bench.out.clear();
    bench.give(Input::Respond { interaction: first, data: serde_json::json!(1).into() });
    assert_eq!(bench.out.trim(), "refused: the thread has no interaction 6");
}
