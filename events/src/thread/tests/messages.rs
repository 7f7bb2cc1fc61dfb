//! Messages and variables from the application.

use super::*;

fn add(bench: &mut Bench, text: &str) {
    bench.give(Input::AddMessage(Message::text(Role::User, text)));
}

#[test]
fn a_message_added_while_the_model_is_called_comes_after_its_answer() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    add(&mut bench, "and quick");
    bench.note_request();
    bench.asks(&["read"]);
    add(&mut bench, "please");
    bench.tool_says("42");
    bench.note_request();
    bench.says("it is 42");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 MESSAGE_ADDED
            model is called, tools Some(Auto):
              user: hello
          5 LLM_CALL_COMPLETED call=3
          6 TOOL_EXECUTION_REQUEST name=read
          7 MESSAGE_ADDED
          8 TOOL_EXECUTION_COMPLETED call=6
          9 LLM_CALL_REQUESTED 2
            model is called, tools Some(Auto):
              user: hello
              assistant: read(c3_0)
              tool: c3_0: 42
              user: and quick
              user: please
         10 LLM_CALL_COMPLETED call=9
         11 LLM_EXECUTION_COMPLETED node=ask "it is 42"
         12 NODE_COMPLETED node=ask
         13 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn every_attempt_of_a_call_is_made_with_the_same_messages() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    let before = bench.state().model_request();
    add(&mut bench, "and quick");
    bench.give(Input::Recover);
    assert_eq!(bench.state().model_request(), before);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 MESSAGE_ADDED
          5 THREAD_RECOVERED calls=[3]
          6 LLM_CALL_RETRIED attempt=2 call=3
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn a_message_added_during_a_try_outlives_it() {
    let mut bench = Bench::new(node_retry::RETRIED, "hello");
    bench.asks(&["read"]);
    add(&mut bench, "remember this");
    bench.tool_says("42");
    bench.model_fails(ErrorKind::Server);
    add(&mut bench, "and this");
    bench.tick_after_ms(100);
    bench.note_request();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 MESSAGE_ADDED
          7 TOOL_EXECUTION_COMPLETED call=5
          8 LLM_CALL_REQUESTED 2
          9 LLM_CALL_FAILED call=8 server
         10 LLM_EXECUTION_FAILED node=ask server
         11 NODE_FAILED node=ask attempt=1 server retry_at=+100
         12 MESSAGE_ADDED
            100 ms later
         13 NODE_STARTED node=ask attempt=2
         14 LLM_EXECUTION_REQUEST node=ask
         15 LLM_CALL_REQUESTED 1
            model is called, tools Some(Auto):
              system: be kind
              user: remember this
              user: and this
              user: hello
        => running, waits for the world until +120100
    "#]]);
}

#[test]
fn a_message_that_no_model_would_accept_is_refused() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.give(Input::AddMessage(Message::text(Role::System, "obey")));
    bench.give(Input::AddMessage(Message::text(Role::Tool, "42")));
    let call = bench::answer(CallId(Seq(0)), "", &["read"], FinishReason::ToolCalls);
    bench.give(Input::AddMessage(Message::clone(&call.message)));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
            refused: a message that is added has the role user or assistant
            refused: a message that is added has the role user or assistant
            refused: a message that is added has no tool call and no tool result
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn variables_are_set_for_the_nodes_that_follow() {
    let yaml = "
version: '1'
name: two
nodes:
  - id: a
    llm: {provider: mock, model: m, user_prompt: first}
  - id: b
    llm: {provider: mock, model: m, user_prompt: '{{ topic }} after {{ output }}, {{ llm_calls|length }} call'}
";
    let mut bench = Bench::new(yaml, "hello");
    let topic = Ordered::from_iter([("topic".to_owned(), Json::from("tea"))]);
    bench.give(Input::SetVariables(topic));
    bench.says("one");
    bench.note_request();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=a attempt=1
          2 LLM_EXECUTION_REQUEST node=a
          3 LLM_CALL_REQUESTED 1
          4 VARIABLES_UPDATED
          5 LLM_CALL_COMPLETED call=3
          6 LLM_EXECUTION_COMPLETED node=a "one"
          7 NODE_COMPLETED node=a
          8 NODE_STARTED node=b attempt=1
          9 LLM_EXECUTION_REQUEST node=b
         10 LLM_CALL_REQUESTED 1
            model is called, tools None:
              user: first
              assistant: one
              user: tea after one, 1 call
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn a_variable_that_no_expression_could_name_is_refused() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    for name in ["", "1a", "a b", "a-b", "ä", "messages", "tool_calls", &"x".repeat(201)] {
        bench.give(Input::SetVariables(Ordered::from_iter([(name.to_owned(), Json::null())])));
    }
    bench.give(Input::SetVariables(Ordered::from_iter([("deep".to_owned(), limits::nested(101).into())])));
    bench.give(Input::SetVariables(Ordered::from_iter([("deep".to_owned(), limits::nested(100).into())])));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
            refused: `` cannot be a variable: letters, digits and _, not beginning with a digit, at most 200
            refused: `1a` cannot be a variable: letters, digits and _, not beginning with a digit, at most 200
            refused: `a b` cannot be a variable: letters, digits and _, not beginning with a digit, at most 200
            refused: `a-b` cannot be a variable: letters, digits and _, not beginning with a digit, at most 200
            refused: `ä` cannot be a variable: letters, digits and _, not beginning with a digit, at most 200
            refused: `messages` is made from the conversation and cannot be set
            refused: `tool_calls` is made from the conversation and cannot be set
            refused: `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx` cannot be a variable: letters, digits and _, not beginning with a digit, at most 200
            refused: a value is nested deeper than 100 levels
          4 VARIABLES_UPDATED
        => running, waits for the world until +120000
    "#]]);
}
