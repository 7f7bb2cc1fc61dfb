//! Nodes that run one tool.

use super::*;

pub(super) const PUT: &str = "
version: '1'
name: tool
variables: {n: 3, list: [1, two]}
nodes:
  - id: write
    tool:
      tool_name: put
      timeout: 250
      parameters:
        count: '{{ n }}'
        next: '{{ n + 1 }}'
        list: '{{ list }}'
        text: 'n is {{ n }}'
        plain: {deep: ['{{ list[1] }}', 7, null]}
        who: '{{ input }}'
";

fn arguments(bench: &Bench) -> String {
    let Effect::CallTool(run) = &bench.thread.effects()[0] else { panic!() };
    format!("{} ({} ms)", run.arguments.0, run.options.timeout_ms)
}

#[test]
fn parameter_that_is_one_expression_has_its_type() {
    let mut bench = Bench::new(PUT, "me");
    bench.note(arguments(&bench));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=write attempt=1
          2 TOOL_EXECUTION_REQUEST name=put
            {"count":3,"next":4,"list":[1,"two"],"text":"n is 3","plain":{"deep":["two",7,null]},"who":"me"} (250 ms)
        => running, waits for the world until +10500
    "#]]);
}

#[test]
fn the_answer_is_the_output_with_its_type() {
    let mut bench = Bench::new(PUT, "me");
    let (call, attempt) = bench.open();
    let value = Some(serde_json::json!({"rows": 3}).into());
    bench.give(bench::tool_answered(call, attempt, vec![Part::text("3 rows")], value));
    let shown = format!("{:?}", bench.state().output());
    bench.note(shown);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=write attempt=1
          2 TOOL_EXECUTION_REQUEST name=put
          3 TOOL_EXECUTION_COMPLETED call=2
          4 NODE_COMPLETED node=write
          5 THREAD_COMPLETED node=write
            Some({"rows":3})
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_tool_without_a_value_gives_its_text() {
    let mut bench = Bench::new(PUT, "me");
    bench.tool_says("3 rows");
    assert_eq!(bench.state().output(), Some(&Json::from("3 rows")));
    laws::hold(&bench);
}

#[test]
fn an_expression_over_nothing_fails_the_node() {
    let mut bench = Bench::stored(&PUT.replace("{{ n + 1 }}", "{{ m + 1 }}"), "me");
    bench.note(bench.state().error().unwrap());
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=write attempt=1
          2 NODE_FAILED node=write attempt=1 expression
          3 THREAD_FAILED node=write expression
            invalid operation: tried to use + operator on unsupported types undefined and number (`m` is undefined) in ` m + 1 `
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_tool_that_is_not_there_fails_the_node() {
    let bench = Bench::new(&PUT.replace("tool_name: put", "tool_name: fly"), "me");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=write attempt=1
          2 NODE_FAILED node=write attempt=1 unknown_tool
          3 THREAD_FAILED node=write unknown_tool
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_failed_tool_fails_the_node_which_is_tried_again() {
    let yaml = PUT.replace("    tool:", "    retry: {max_attempts: 2}\n    tool:");
    let mut bench = Bench::new(&yaml, "me");
    bench.tool_fails(ErrorKind::Failed, false);
    bench.tool_says("done");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=write attempt=1
          2 TOOL_EXECUTION_REQUEST name=put
          3 TOOL_EXECUTION_FAILED call=2 failed
          4 NODE_FAILED node=write attempt=1 failed retry_at=+0
          5 NODE_STARTED node=write attempt=2
          6 TOOL_EXECUTION_REQUEST name=put
          7 TOOL_EXECUTION_COMPLETED call=6
          8 NODE_COMPLETED node=write
          9 THREAD_COMPLETED node=write
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_tool_that_was_in_doubt_once_is_not_called_under_another_key() {
    let yaml = PUT.replace("    tool:", "    retry: {max_attempts: 2}\n    tool:");
    let mut bench = Bench::new(&yaml, "me");
    let key = |bench: &Bench| match &bench.thread.effects()[0] {
        Effect::CallTool(run) => run.key(bench.state().thread()),
        other => panic!("{other:?}"),
    };
    let first = key(&bench);
    bench.tick_after_ms(10_500);
    bench.tool_fails(ErrorKind::Failed, false);
    assert_eq!(key(&bench), first);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=write attempt=1
          2 TOOL_EXECUTION_REQUEST name=put
            10500 ms later
          3 TOOL_CALL_RETRIED attempt=2 call=2 timeout not_before=+10550
          4 TOOL_EXECUTION_FAILED call=2 failed
          5 NODE_FAILED node=write attempt=1 failed retry_at=+10500
          6 NODE_STARTED node=write attempt=2
          7 TOOL_EXECUTION_REQUEST name=put
        => running, waits for the world until +21000
    "#]]);
}

#[test]
fn null_answer_of_a_tool_has_no_value_and_text_is_the_output() {
    let yaml = "
version: '1'
name: nothing
nodes:
  - {id: run, tool: {tool_name: read}}
";
    let mut bench = Bench::new(yaml, "hello");
    let (call, attempt) = bench.open();
    let (content, value) = (vec![Part::text("null")], Some(Json::null()));
    bench.give(bench::tool_answered(call, attempt, content, value));
    assert_eq!(bench.state().output(), Some(&Json::from("null")));
    laws::hold(&bench);
}
