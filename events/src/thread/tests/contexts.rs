//! Which conversation a node sees.

use super::*;

const THREE: &str = "
version: '1'
name: contexts
nodes:
  - {id: a, llm: {provider: mock, model: m, system_prompt: You are A, user_prompt: A}}
  - {id: b, llm: {provider: mock, model: m, system_prompt: You are B, user_prompt: B, context: fresh}}
  - {id: c, llm: {provider: mock, model: m, user_prompt: C, context: {from: [b]}}}
  - {id: d, llm: {provider: mock, model: m, user_prompt: D}}
";

#[test]
fn node_sees_the_conversation_that_it_asks_for() {
    let mut bench = Bench::new(THREE, "go");
    for answer in ["a", "b", "c", "d"] {
        bench.note_request();
        bench.says(answer);
    }
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=a attempt=1
          2 LLM_EXECUTION_REQUEST node=a
          3 LLM_CALL_REQUESTED 1
            model is called, tools None:
              system: You are A
              user: A
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=a "a"
          6 NODE_COMPLETED node=a
          7 NODE_STARTED node=b attempt=1
          8 LLM_EXECUTION_REQUEST node=b
          9 LLM_CALL_REQUESTED 1
            model is called, tools None:
              system: You are B
              user: B
         10 LLM_CALL_COMPLETED call=9
         11 LLM_EXECUTION_COMPLETED node=b "b"
         12 NODE_COMPLETED node=b
         13 NODE_STARTED node=c attempt=1
         14 LLM_EXECUTION_REQUEST node=c
         15 LLM_CALL_REQUESTED 1
            model is called, tools None:
              user: B
              assistant: b
              user: C
         16 LLM_CALL_COMPLETED call=15
         17 LLM_EXECUTION_COMPLETED node=c "c"
         18 NODE_COMPLETED node=c
         19 NODE_STARTED node=d attempt=1
         20 LLM_EXECUTION_REQUEST node=d
         21 LLM_CALL_REQUESTED 1
            model is called, tools None:
              system: You are A
              user: A
              assistant: a
              user: D
         22 LLM_CALL_COMPLETED call=21
         23 LLM_EXECUTION_COMPLETED node=d "d"
         24 NODE_COMPLETED node=d
         25 THREAD_COMPLETED node=d
            system: You are A
            user: A
            assistant: a
            user: D
            assistant: d
        => completed, waits for nothing
    "#]]);
}

#[test]
fn fresh_node_that_is_tried_again_begins_as_the_first_time() {
    let yaml = THREE.replace("context: fresh}", "context: fresh, tool_mode: auto}, retry: {max_attempts: 2}");
    let mut bench = Bench::new(&yaml, "go");
    bench.says("a");
    bench.asks(&["read"]);
    bench.give(Input::AddMessage(Message::text(Role::User, "quickly")));
    bench.tool_says("42");
    bench.model_fails(ErrorKind::Server);
    bench.note_request();
    bench.says("b");
    bench.note_conversation();
    bench.note_value("llm_calls | length");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=a attempt=1
          2 LLM_EXECUTION_REQUEST node=a
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=a "a"
          6 NODE_COMPLETED node=a
          7 NODE_STARTED node=b attempt=1
          8 LLM_EXECUTION_REQUEST node=b
          9 LLM_CALL_REQUESTED 1
         10 LLM_CALL_COMPLETED call=9
         11 TOOL_EXECUTION_REQUEST name=read
         12 MESSAGE_ADDED
         13 TOOL_EXECUTION_COMPLETED call=11
         14 LLM_CALL_REQUESTED 2
         15 LLM_CALL_FAILED call=14 server
         16 LLM_EXECUTION_FAILED node=b server
         17 NODE_FAILED node=b attempt=1 server retry_at=+0
         18 NODE_STARTED node=b attempt=2
         19 LLM_EXECUTION_REQUEST node=b
         20 LLM_CALL_REQUESTED 1
            model is called, tools Some(Auto):
              system: You are B
              user: quickly
              user: B
         21 LLM_CALL_COMPLETED call=20
         22 LLM_EXECUTION_COMPLETED node=b "b"
         23 NODE_COMPLETED node=b
         24 NODE_STARTED node=c attempt=1
         25 LLM_EXECUTION_REQUEST node=c
         26 LLM_CALL_REQUESTED 1
            user: B
            assistant: b
            user: C
            llm_calls | length = 0
        => running, waits for the world until +120000
    "#]]);
}

const NESTED: &str = "
version: '1'
name: iso
nodes:
  - {id: a, llm: {provider: mock, model: m, system_prompt: You are A, user_prompt: A}}
  - {id: s, sub_workflow: {workflow: w}}
  - {id: c, llm: {provider: mock, model: m, user_prompt: C}}
workflows:
  w: {nodes: [{id: b, llm: {provider: mock, model: m, system_prompt: You are B, user_prompt: B}}]}
";

/// The messages sent to `b` in the sub-workflow and to `c` after it.
fn sent(yaml: &str) -> (Bench, Vec<String>, Vec<String>) {
    let request = |bench: &Bench| {
        let messages = bench.state().model_request().unwrap().messages;
        messages.iter().map(|message| bench::said(message)).collect::<Vec<_>>()
    };
    let mut bench = Bench::new(yaml, "go");
    bench.says("a");
    let b = request(&bench);
    bench.says("b");
    let c = request(&bench);
    bench.says("c");
    assert_eq!(bench.state().status(), Status::Completed);
    laws::hold(&bench);
    (bench, b, c)
}

#[test]
fn sub_workflow_has_its_own_conversation_by_default() {
    let (_, b, c) = sent(NESTED);
    assert_eq!(b, ["system: You are B", "user: B"]);
    assert_eq!(c, ["system: You are A", "user: A", "assistant: a", "user: C"]);

    let (_, b, c) = sent(&NESTED.replace("workflow: w}", "workflow: w, context: {from: [a]}}"));
    assert_eq!(b, ["system: You are B", "user: A", "assistant: a", "user: B"]);
    assert_eq!(c, ["system: You are A", "user: A", "assistant: a", "user: C"]);

    let (_, b, c) = sent(&NESTED.replace("workflow: w}", "workflow: w, context: shared}"));
    assert_eq!(b, ["system: You are A", "user: A", "assistant: a", "system: You are B", "user: B"]);
    let all =
        ["system: You are A", "user: A", "assistant: a", "system: You are B", "user: B", "assistant: b", "user: C"];
    assert_eq!(c, all);
}

#[test]
fn message_outlives_the_conversation_that_it_was_added_to() {
    let yaml = NESTED.replace("  - {id: c,", "  - {id: s2, sub_workflow: {workflow: w}}\n  - {id: c,");
    let mut bench = Bench::new(&yaml, "go");
    bench.says("a");
    bench.give(Input::AddMessage(Message::text(Role::User, "in French")));
    bench.says("b");
    bench.note_request();
    bench.says("b, en francais");
    bench.note_request();
    bench.says("b again");
    bench.note_request();
    bench.says("c");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=a attempt=1
          2 LLM_EXECUTION_REQUEST node=a
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=a "a"
          6 NODE_COMPLETED node=a
          7 NODE_STARTED node=s attempt=1
          8 SUB_WORKFLOW_STARTED node=s workflow=w
          9 NODE_STARTED node=b attempt=1
         10 LLM_EXECUTION_REQUEST node=b
         11 LLM_CALL_REQUESTED 1
         12 MESSAGE_ADDED
         13 LLM_CALL_COMPLETED call=11
         14 LLM_CALL_REQUESTED 2
            model is called, tools None:
              system: You are B
              user: B
              assistant: b
              user: in French
         15 LLM_CALL_COMPLETED call=14
         16 LLM_EXECUTION_COMPLETED node=b "b, en francais"
         17 NODE_COMPLETED node=b
         18 SUB_WORKFLOW_COMPLETED node=s output=b, en francais
         19 NODE_COMPLETED node=s
         20 NODE_STARTED node=s2 attempt=1
         21 SUB_WORKFLOW_STARTED node=s2 workflow=w
         22 NODE_STARTED node=b attempt=1
         23 LLM_EXECUTION_REQUEST node=b
         24 LLM_CALL_REQUESTED 1
            model is called, tools None:
              system: You are B
              user: B
         25 LLM_CALL_COMPLETED call=24
         26 LLM_EXECUTION_COMPLETED node=b "b again"
         27 NODE_COMPLETED node=b
         28 SUB_WORKFLOW_COMPLETED node=s2 output=b again
         29 NODE_COMPLETED node=s2
         30 NODE_STARTED node=c attempt=1
         31 LLM_EXECUTION_REQUEST node=c
         32 LLM_CALL_REQUESTED 1
            model is called, tools None:
              system: You are A
              user: A
              assistant: a
              user: in French
              user: C
         33 LLM_CALL_COMPLETED call=32
         34 LLM_EXECUTION_COMPLETED node=c "c"
         35 NODE_COMPLETED node=c
         36 THREAD_COMPLETED node=c
        => completed, waits for nothing
    "#]]);
}

#[test]
fn context_names_nodes_that_say_something() {
    let yaml = THREE.replace("from: [b]", "from: [b, gone, t]") + "  - {id: t, tool: {tool_name: read}}\n";
    let faults = workflow::parse(yaml.as_bytes()).unwrap_err();
    let said: Vec<_> = faults.0.iter().map(|fault| format!("{}: {}", fault.path, fault.message)).collect();
    assert_eq!(
        said,
        [
            "nodes[2].llm.context.from[1]: there is no node `gone`",
            "nodes[2].llm.context.from[2]: node `t` says nothing"
        ]
    );
}

#[test]
fn target_of_on_error_sees_the_error() {
    let yaml = "
version: '1'
name: caught
nodes:
  - {id: write, tool: {tool_name: send}, retry: {max_attempts: 2}, on_error: sorry}
  - {id: sorry, llm: {provider: mock, model: m, user_prompt: 'say sorry for {{ error.node }}'}}
edges: []
";
    let mut bench = Bench::new(yaml, "hello");
    bench.tool_fails(ErrorKind::Failed, false);
    for name in ["kind", "message", "node", "tool", "source is string"] {
        bench.note_value(&format!("error.{name}"));
    }
    bench.says("sorry");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=write attempt=1
          2 TOOL_EXECUTION_REQUEST name=send
          3 TOOL_EXECUTION_FAILED call=2 failed
          4 NODE_FAILED node=write attempt=1 failed (not tried again, whatever `retry` says: `send` began in this try and may have changed something; a tool whose calls may be repeated is declared `safe`, or `idempotent`)
          5 ROUTE_TAKEN from=write to=sorry condition=error failed failed (not tried again, whatever `retry` says: `send` began in this try and may have changed something; a tool whose calls may be repeated is declared `safe`, or `idempotent`)
          6 NODE_STARTED node=sorry attempt=1
          7 LLM_EXECUTION_REQUEST node=sorry
          8 LLM_CALL_REQUESTED 1
            error.kind = "failed"
            error.message = "it broke"
            error.node = "write"
            error.tool = "send"
            error.source is string = true
          9 LLM_CALL_COMPLETED call=8
         10 LLM_EXECUTION_COMPLETED node=sorry "sorry"
         11 NODE_COMPLETED node=sorry
         12 THREAD_COMPLETED node=sorry
        => completed, waits for nothing
    "#]]);
}

#[test]
fn error_of_a_model_node_names_the_tool_whose_call_failed_it() {
    let yaml = "
version: '1'
name: caught
nodes:
  - id: work
    llm: {provider: mock, model: m, user_prompt: go, tool_mode: auto, available_tools: [read, send]}
    timeout_ms: 1000
    on_error: sorry
  - {id: sorry, llm: {provider: mock, model: m, user_prompt: 'say sorry for {{ error.tool }}'}}
edges: []
";
    let mut bench = Bench::new(yaml, "hello");
    bench.asks(&["send"]);
    bench.tick_after_ms(1_000);
    bench.note_value("error.tool");
    assert!(bench.out.contains("error.tool = \"send\""), "{}", bench.out);
    laws::hold(&bench);
    // An error of the model after a tool failed is not the tool's.
    let mut bench = Bench::new(yaml, "hello");
    bench.asks(&["send"]);
    bench.tool_fails(ErrorKind::Failed, false);
    bench.model_fails(ErrorKind::Quota);
    bench.note_value("error.tool");
    assert!(bench.out.contains("error.tool = null"), "{}", bench.out);
    laws::hold(&bench);
}

#[test]
fn results_of_loops_and_lists_have_a_name() {
    let yaml = "
version: '1'
name: into
nodes:
  - id: each
    loop:
      for_each: input
      into: answers
      body: {nodes: [{id: ask, llm: {provider: mock, model: m, user_prompt: '{{ item }}'}}]}
  - id: none
    loop: {times: 0, into: nothing, body: {nodes: [{id: idle, start: {}}]}}
  - id: all
    parallel: {for_each: '[1, 2]', into: both, body: {nodes: [{id: say, llm: {provider: mock, model: m, user_prompt: x}}]}}
  - {id: last, tool: {tool_name: read}}
";
    let mut family = Family::new(yaml, serde_json::json!(["x", "y"]));
    family.with("-", |bench| bench.says("X"));
    family.with("-", |bench| bench.says("Y"));
    family.with("0", |bench| bench.says("one"));
    family.with("1", |bench| bench.says("two"));
    let state = family.root().state();
    let value = |name: &str| state.variables()[name].0.to_string();
    assert_eq!(
        (value("answers"), value("nothing"), value("both")),
        (r#"["X","Y"]"#.to_owned(), "[]".to_owned(), r#"["one","two"]"#.to_owned(),)
    );
    laws::hold(family.root());
}

/// What the last node is told of `tool_calls`, in each of its tries.
fn told(nodes: &str, drive: impl FnOnce(&mut Bench)) -> Vec<String> {
    let yaml = format!("version: '1'\nname: told\nmax_iterations: 20\nnodes:\n{nodes}");
    let mut bench = Bench::new(&yaml, "go");
    drive(&mut bench);
    let prompts = bench.log.iter().filter_map(|(_, event)| match event {
        Event::LlmExecutionRequest(request) if request.node_id.as_str() == "y" => Some(request.prompt.clone()),
        _ => None,
    });
    prompts.collect()
}

const ASIDE: &str = "  - {id: a, llm: {provider: mock, model: m, user_prompt: A}}
  - {id: x, llm: {provider: mock, model: m, user_prompt: X, context: fresh, tool_mode: auto}}
";

#[test]
fn tool_calls_are_those_of_the_last_node_whatever_conversation_it_had() {
    let nodes = format!(
        "{ASIDE}  - {{id: y, llm: {{provider: mock, model: m, user_prompt: '{{{{ tool_calls | length }}}}'}}, retry: \
         {{max_attempts: 2, backoff_ms: 0}}}}\n"
    );
    let prompts = told(&nodes, |bench| {
        bench.says("a");
        bench.asks(&["read"]);
        bench.tool_says("r");
        bench.says("x");
        bench.model_fails(ErrorKind::Server);
        bench.give(Input::Tick);
    });
    assert_eq!(prompts, ["1", "1"], "a second try is told what the first one was");
}

#[test]
fn tool_calls_of_a_failed_node_are_known_to_the_node_that_handles_it() {
    let nodes = format!(
        "{}  - {{id: y, llm: {{provider: mock, model: m, user_prompt: '{{{{ tool_calls | length }}}}'}}}}\n",
        ASIDE.replace("tool_mode: auto}}", "tool_mode: auto}, on_error: y}")
    );
    let prompts = told(&nodes, |bench| {
        bench.says("a");
        bench.asks(&["read"]);
        bench.tool_says("r");
        bench.model_fails(ErrorKind::Server);
    });
    assert_eq!(prompts, ["1"]);
}
