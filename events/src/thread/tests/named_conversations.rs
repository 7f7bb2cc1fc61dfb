//! Conversations that a thread stores by name.

use super::*;

#[test]
fn a_conversation_with_a_name_is_kept_across_visits_and_runs() {
    let yaml = "
version: '1'
name: named
max_iterations: 20
nodes:
  - id: helper
    llm: {provider: mock, model: m, user_prompt: 'helper: {{ input }}', context: {named: side}}
  - id: main
    llm: {provider: mock, model: m, user_prompt: 'main: {{ output }}'}
";
    let mut bench = Bench::new(yaml, "one");
    bench.says("H1");
    bench.note_request();
    bench.says("M1");
    bench.give(Input::Run(Box::new(RunInput { input: "two".into(), ..RunInput::default() })));
    bench.note_request();
    bench.model_fails(ErrorKind::Server);
    bench.give(Input::Run(Box::new(RunInput { input: "three".into(), ..RunInput::default() })));
    bench.note("what a failed try said is void");
    bench.note_request();
    bench.says("H3");
    bench.note_request();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=helper attempt=1
          2 LLM_EXECUTION_REQUEST node=helper
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=helper "H1"
          6 NODE_COMPLETED node=helper
          7 NODE_STARTED node=main attempt=1
          8 LLM_EXECUTION_REQUEST node=main
          9 LLM_CALL_REQUESTED 1
            model is called, tools None:
              user: main: H1
         10 LLM_CALL_COMPLETED call=9
         11 LLM_EXECUTION_COMPLETED node=main "M1"
         12 NODE_COMPLETED node=main
         13 THREAD_COMPLETED node=main
         14 RUN_STARTED from=input
         15 NODE_STARTED node=helper attempt=1
         16 LLM_EXECUTION_REQUEST node=helper
         17 LLM_CALL_REQUESTED 1
            model is called, tools None:
              user: helper: one
              assistant: H1
              user: helper: two
         18 LLM_CALL_FAILED call=17 server
         19 LLM_EXECUTION_FAILED node=helper server
         20 NODE_FAILED node=helper attempt=1 server
         21 THREAD_FAILED node=helper server
         22 RUN_STARTED from=input
         23 NODE_STARTED node=helper attempt=1
         24 LLM_EXECUTION_REQUEST node=helper
         25 LLM_CALL_REQUESTED 1
            what a failed try said is void
            model is called, tools None:
              user: helper: one
              assistant: H1
              user: helper: three
         26 LLM_CALL_COMPLETED call=25
         27 LLM_EXECUTION_COMPLETED node=helper "H3"
         28 NODE_COMPLETED node=helper
         29 NODE_STARTED node=main attempt=1
         30 LLM_EXECUTION_REQUEST node=main
         31 LLM_CALL_REQUESTED 1
            model is called, tools None:
              user: main: H1
              assistant: M1
              user: main: H3
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn a_message_in_a_conversation_with_a_name_is_there_once() {
    let yaml = "
version: '1'
name: named
max_iterations: 20
nodes:
  - id: helper
    llm: {provider: mock, model: m, user_prompt: 'helper: {{ input }}', context: {named: side}}
    retry: {max_attempts: 2, backoff_ms: 0}
";
    let mut bench = Bench::new(yaml, "one");
    bench.give(Input::AddMessage(Message::text(Role::User, "by the way")));
    bench.model_fails(ErrorKind::Server);
    bench.give(Input::Tick);
    bench.says("H1");
    for _ in 0..2 {
        while bench.state().model_request().is_some() {
            bench.says("H");
        }
        bench.give(Input::Run(Box::new(RunInput { input: "next".into(), ..RunInput::default() })));
    }
    let request = bench.state().model_request().unwrap();
    let n_read = request.messages.iter().filter(|it| it.joined_text() == "by the way").count();
    assert_eq!(n_read, 1);
    let of_thread = bench.state().conversation();
    assert!(of_thread.entries.iter().filter(|entry| entry.message.joined_text() == "by the way").count() <= 1);
}

#[test]
fn a_conversation_with_a_name_has_one_holder_at_a_time() {
    let yaml = "
version: '1'
name: nested
nodes:
  - id: outer
    sub_workflow: {workflow: inner, context: {named: side}}
workflows:
  inner:
    nodes:
      - id: ask
        llm: {provider: mock, model: m, user_prompt: 'hello', context: {named: side}}
";
    let mut bench = Bench::new(yaml, "one");
    bench.note(bench.state().error().unwrap().message);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=outer attempt=1
          2 SUB_WORKFLOW_STARTED node=outer workflow=inner
          3 NODE_STARTED node=ask attempt=1
          4 NODE_FAILED node=ask attempt=1 configuration
          5 SUB_WORKFLOW_FAILED node=outer configuration
          6 NODE_FAILED node=outer attempt=1 configuration
          7 THREAD_FAILED node=outer configuration
            conversation `side` is open in a sub-workflow or agent around this node: give it another name
        => error, waits for nothing
    "#]]);
}
