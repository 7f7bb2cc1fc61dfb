//! Named moments.

use super::*;

fn name(bench: &mut Bench, label: &str) {
    bench.give(Input::Checkpoint { label: label.into() });
}

#[test]
fn a_moment_gets_a_name_once() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    name(&mut bench, "asked");
    name(&mut bench, "asked");
    name(&mut bench, "");
    name(&mut bench, "12");
    name(&mut bench, "a\nb");
    name(&mut bench, &"x".repeat(201));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 CHECKPOINT_CREATED "asked"
            refused: the thread has a checkpoint `asked` already
            refused: a checkpoint's name has 1 to 200 bytes and no control characters
            refused: `12` would be read as a seq: add a letter to the name
            refused: a checkpoint's name has 1 to 200 bytes and no control characters
            refused: a checkpoint's name has 1 to 200 bytes and no control characters
        => running, waits for the world until +120000
    "#]]);
}

const ROUND: &str = "
version: '1'
name: round
max_iterations: 9
nodes:
  - id: go
    start: {}
    checkpoint: round
  - id: ask
    llm: {provider: mock, model: m, user_prompt: again?}
  - id: done
    end: {}
    checkpoint: done
edges:
  - {from: go, to: ask}
  - {from: ask, to: go, when: output == 'yes'}
  - {from: ask, to: done}
";

#[test]
fn a_node_names_the_moment_after_each_visit() {
    let mut bench = Bench::new(ROUND, "hello");
    bench.says("yes");
    bench.says("yes");
    bench.says("no");
    let shown = format!("{:?}", bench.state().checkpoints());
    bench.note(shown);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=go attempt=1
          2 NODE_COMPLETED node=go
          3 CHECKPOINT_CREATED "round"
          4 NODE_STARTED node=ask attempt=1
          5 LLM_EXECUTION_REQUEST node=ask
          6 LLM_CALL_REQUESTED 1
          7 LLM_CALL_COMPLETED call=6
          8 LLM_EXECUTION_COMPLETED node=ask "yes"
          9 NODE_COMPLETED node=ask
         10 ROUTE_TAKEN from=ask to=go condition=output == 'yes'
         11 NODE_STARTED node=go attempt=1
         12 NODE_COMPLETED node=go
         13 CHECKPOINT_CREATED "round#2"
         14 NODE_STARTED node=ask attempt=1
         15 LLM_EXECUTION_REQUEST node=ask
         16 LLM_CALL_REQUESTED 1
         17 LLM_CALL_COMPLETED call=16
         18 LLM_EXECUTION_COMPLETED node=ask "yes"
         19 NODE_COMPLETED node=ask
         20 ROUTE_TAKEN from=ask to=go condition=output == 'yes'
         21 NODE_STARTED node=go attempt=1
         22 NODE_COMPLETED node=go
         23 CHECKPOINT_CREATED "round#3"
         24 NODE_STARTED node=ask attempt=1
         25 LLM_EXECUTION_REQUEST node=ask
         26 LLM_CALL_REQUESTED 1
         27 LLM_CALL_COMPLETED call=26
         28 LLM_EXECUTION_COMPLETED node=ask "no"
         29 NODE_COMPLETED node=ask
         30 ROUTE_TAKEN from=ask to=done
         31 NODE_STARTED node=done attempt=1
         32 NODE_COMPLETED node=done
         33 CHECKPOINT_CREATED "done"
         34 THREAD_COMPLETED node=done
            [Checkpoint { label: "round", seq: Seq(3) }, Checkpoint { label: "round#2", seq: Seq(13) }, Checkpoint { label: "round#3", seq: Seq(23) }, Checkpoint { label: "done", seq: Seq(33) }]
        => completed, waits for nothing
    "#]]);
}

#[test]
fn names_that_were_given_by_hand_are_passed_over() {
    let mut bench = Bench::new(ROUND, "hello");
    name(&mut bench, "round#2");
    name(&mut bench, "round#7");
    name(&mut bench, "round#02");
    bench.says("yes");
    name(&mut bench, &format!("round#{}", u64::MAX));
    bench.says("yes");
    let labels: Vec<_> = bench.state().checkpoints().iter().map(|checkpoint| checkpoint.label.as_str()).collect();
    assert_eq!(labels.len(), labels.iter().collect::<std::collections::BTreeSet<_>>().len());
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=go attempt=1
          2 NODE_COMPLETED node=go
          3 CHECKPOINT_CREATED "round"
          4 NODE_STARTED node=ask attempt=1
          5 LLM_EXECUTION_REQUEST node=ask
          6 LLM_CALL_REQUESTED 1
          7 CHECKPOINT_CREATED "round#2"
          8 CHECKPOINT_CREATED "round#7"
          9 CHECKPOINT_CREATED "round#02"
         10 LLM_CALL_COMPLETED call=6
         11 LLM_EXECUTION_COMPLETED node=ask "yes"
         12 NODE_COMPLETED node=ask
         13 ROUTE_TAKEN from=ask to=go condition=output == 'yes'
         14 NODE_STARTED node=go attempt=1
         15 NODE_COMPLETED node=go
         16 CHECKPOINT_CREATED "round#8"
         17 NODE_STARTED node=ask attempt=1
         18 LLM_EXECUTION_REQUEST node=ask
         19 LLM_CALL_REQUESTED 1
         20 CHECKPOINT_CREATED "round#18446744073709551615"
         21 LLM_CALL_COMPLETED call=19
         22 LLM_EXECUTION_COMPLETED node=ask "yes"
         23 NODE_COMPLETED node=ask
         24 ROUTE_TAKEN from=ask to=go condition=output == 'yes'
         25 NODE_STARTED node=go attempt=1
         26 NODE_COMPLETED node=go
         27 CHECKPOINT_CREATED "round#3"
         28 NODE_STARTED node=ask attempt=1
         29 LLM_EXECUTION_REQUEST node=ask
         30 LLM_CALL_REQUESTED 1
        => running, waits for the world until +120000
    "#]]);
}
