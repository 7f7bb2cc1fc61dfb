//! The way through the graph.

use super::*;

fn graph(edges: &str) -> String {
    format!(
        "
version: '1'
name: graph
max_iterations: 4
nodes:
  - {{id: a, llm: {{provider: mock, model: m, user_prompt: hello}}}}
  - {{id: b, end: {{}}}}
  - {{id: c, start: {{}}}}
edges: {edges}
"
    )
}

const BY_SCORE: &str =
    "[{from: a, to: b, when: 'output|int > 3'}, {from: a, to: c, when: 'output|int > 1'}, {from: a, to: b}]";

#[test]
fn the_first_condition_that_holds_wins() {
    for (said, expected) in [
        (
            "5",
            expect![[r#"
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=a "5"
          6 NODE_COMPLETED node=a
          7 ROUTE_TAKEN from=a to=b condition=output|int > 3
          8 NODE_STARTED node=b attempt=1
          9 NODE_COMPLETED node=b
         10 THREAD_COMPLETED node=b
        => completed, waits for nothing
    "#]],
        ),
        (
            "2",
            expect![[r#"
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=a "2"
          6 NODE_COMPLETED node=a
          7 ROUTE_TAKEN from=a to=c condition=output|int > 1
          8 NODE_STARTED node=c attempt=1
          9 NODE_COMPLETED node=c
         10 THREAD_COMPLETED node=c
        => completed, waits for nothing
    "#]],
        ),
        (
            "0",
            expect![[r#"
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=a "0"
          6 NODE_COMPLETED node=a
          7 ROUTE_TAKEN from=a to=b
          8 NODE_STARTED node=b attempt=1
          9 NODE_COMPLETED node=b
         10 THREAD_COMPLETED node=b
        => completed, waits for nothing
    "#]],
        ),
    ] {
        let mut bench = Bench::new(&graph(BY_SCORE), "hello");
        bench.out.clear();
        bench.says(said);
        bench.check(expected);
    }
}

#[test]
fn thread_without_a_true_condition_or_default_fails() {
    let mut bench =
        Bench::new(&graph("[{from: a, to: b, when: 'false'}, {from: a, to: c, when: input == 'x'}]"), "hello");
    bench.says("hi");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=a attempt=1
          2 LLM_EXECUTION_REQUEST node=a
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=a "hi"
          6 NODE_COMPLETED node=a
          7 THREAD_FAILED node=a expression
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_condition_that_cannot_be_evaluated_fails_the_thread() {
    for (condition, expected) in [
        (
            "missing",
            expect![[r#"
                  4 LLM_CALL_COMPLETED call=3
                  5 LLM_EXECUTION_COMPLETED node=a "hi"
                  6 NODE_COMPLETED node=a
                  7 THREAD_FAILED node=a expression
                    variable `missing` is undefined in `missing`
                => error, waits for nothing
            "#]],
        ),
        (
            "output.x.y",
            expect![[r#"
                  4 LLM_CALL_COMPLETED call=3
                  5 LLM_EXECUTION_COMPLETED node=a "hi"
                  6 NODE_COMPLETED node=a
                  7 THREAD_FAILED node=a expression
                    `output.x` is undefined in `output.x.y`
                => error, waits for nothing
            "#]],
        ),
        (
            "1 / 0",
            expect![[r#"
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=a "hi"
          6 NODE_COMPLETED node=a
          7 THREAD_FAILED node=a expression
            invalid operation: unable to calculate 1 / 0 in `1 / 0`
        => error, waits for nothing
    "#]],
        ),
    ] {
        let mut bench =
            Bench::stored(&graph(&format!("[{{from: a, to: b, when: '{condition}'}}, {{from: a, to: c}}]")), "hello");
        bench.out.clear();
        bench.says("hi");
        bench.note(bench.state().error().unwrap());
        bench.check(expected);
    }
}

#[test]
fn a_thread_that_goes_round_meets_max_iterations() {
    let mut bench = Bench::new(&graph("[{from: a, to: c}, {from: c, to: a, when: 'true'}, {from: c, to: b}]"), "hello");
    for _ in 0..2 {
        bench.says("hi");
    }
    bench.note(bench.state().error().unwrap());
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=a attempt=1
          2 LLM_EXECUTION_REQUEST node=a
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=a "hi"
          6 NODE_COMPLETED node=a
          7 NODE_STARTED node=c attempt=1
          8 NODE_COMPLETED node=c
          9 ROUTE_TAKEN from=c to=a condition=true
         10 NODE_STARTED node=a attempt=1
         11 LLM_EXECUTION_REQUEST node=a
         12 LLM_CALL_REQUESTED 1
         13 LLM_CALL_COMPLETED call=12
         14 LLM_EXECUTION_COMPLETED node=a "hi"
         15 NODE_COMPLETED node=a
         16 NODE_STARTED node=c attempt=1
         17 NODE_COMPLETED node=c
         18 ROUTE_TAKEN from=c to=a condition=true
         19 THREAD_FAILED node=a limit
            the thread has entered 4 nodes (max_iterations)
        => error, waits for nothing
    "#]]);
}

#[test]
fn end_point_ends_the_thread_even_with_edges() {
    let yaml = graph("[{from: a, to: b}, {from: a, to: c, when: 'true'}]")
        .replace("{from: a, to: b}, {from: a, to: c, when: 'true'}", "{from: a, to: c, when: 'true'}, {from: a, to: b}")
        .replace("edges:", "end_points: [c]\nedges:")
        .replace("]\n", ", {from: c, to: a}]\n");
    let mut bench = Bench::new(&yaml.replace("end_points: [c, {from: c, to: a}]", "end_points: [c]"), "hello");
    bench.says("hi");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=a attempt=1
          2 LLM_EXECUTION_REQUEST node=a
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=a "hi"
          6 NODE_COMPLETED node=a
          7 ROUTE_TAKEN from=a to=c condition=true
          8 NODE_STARTED node=c attempt=1
          9 NODE_COMPLETED node=c
         10 THREAD_COMPLETED node=c
        => completed, waits for nothing
    "#]]);
}
