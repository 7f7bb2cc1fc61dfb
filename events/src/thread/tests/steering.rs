//! Messages that come while a run is going on.

use super::conversations::CHAT;
use super::*;
use crate::event::OnMessage;

#[test]
fn a_message_that_steers_is_read_by_the_next_model_call() {
    let mut bench = Bench::new(CHAT, "one");
    bench.asks(&["read"]);
    bench.run_as("and two", OnMessage::Steer);
    bench.tool_says("42");
    bench.note_request();
    bench.run_as("and three", OnMessage::Steer);
    bench.says("both");
    bench.note_request();
    bench.says("all");
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
            model is called, tools Some(Auto):
              user: one
              assistant: read(c3_0)
              tool: c3_0: 42
              user: and two
          9 MESSAGE_ADDED
         10 LLM_CALL_COMPLETED call=8
         11 LLM_CALL_REQUESTED 3
            model is called, tools Some(Auto):
              user: one
              assistant: read(c3_0)
              tool: c3_0: 42
              user: and two
              assistant: both
              user: and three
         12 LLM_CALL_COMPLETED call=11
         13 LLM_EXECUTION_COMPLETED node=ask "all"
         14 NODE_COMPLETED node=ask
         15 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_message_that_steers_and_that_no_model_reads_begins_a_run() {
    let mut bench = Bench::new(CHAT, "one");
    bench.run_as("two", OnMessage::Steer);
    bench.run_as("three", OnMessage::Steer);
    bench.model_fails(ErrorKind::Server);
    bench.note_request();
    bench.says("second");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 MESSAGE_ADDED
          5 MESSAGE_ADDED
          6 LLM_CALL_FAILED call=3 server
          7 LLM_EXECUTION_FAILED node=ask server
          8 NODE_FAILED node=ask attempt=1 server
          9 THREAD_FAILED node=ask server
         10 RUN_STARTED from=unread
         11 NODE_STARTED node=ask attempt=1
         12 LLM_EXECUTION_REQUEST node=ask
         13 LLM_CALL_REQUESTED 1
            model is called, tools Some(Auto):
              user: one
              user: two

        three
         14 LLM_CALL_COMPLETED call=13
         15 LLM_EXECUTION_COMPLETED node=ask "second"
         16 NODE_COMPLETED node=ask
         17 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn an_interruption_ends_the_model_call_and_asks_again() {
    let mut bench = Bench::new(CHAT, "one");
    bench.run_as("stop, two", OnMessage::Interrupt);
    bench.note_request();
    bench.says("second");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 MESSAGE_ADDED
          5 LLM_CALL_FAILED call=3 interrupted
          6 LLM_CALL_REQUESTED 1
            model is called, tools Some(Auto):
              user: one
              user: stop, two
          7 LLM_CALL_COMPLETED call=6
          8 LLM_EXECUTION_COMPLETED node=ask "second"
          9 NODE_COMPLETED node=ask
         10 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn an_interruption_waits_only_for_tools_that_may_not_be_repeated() {
    let mut bench = Bench::new(CHAT, "one");
    bench.asks(&["read", "send", "put", "wipe"]);
    bench.run_as("stop", OnMessage::Interrupt);
    let send = bench.open().0;
    bench.tool_answers(send, "sent");
    bench.note_request();
    bench.says("second");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_REQUEST name=send
          7 MESSAGE_ADDED
          8 TOOL_EXECUTION_FAILED call=5 interrupted
          9 TOOL_EXECUTION_COMPLETED call=6
         10 LLM_CALL_REQUESTED 2
            model is called, tools Some(Auto):
              user: one
              assistant: read(c3_0) send(c3_1) put(c3_2) wipe(c3_3)
              tool: c3_0! Error (interrupted): not run: a message of the user came first
              tool: c3_1: sent
              tool: c3_2! not run: a message of the user came first
              tool: c3_3! not run: a message of the user came first
              user: stop
         11 LLM_CALL_COMPLETED call=10
         12 LLM_EXECUTION_COMPLETED node=ask "second"
         13 NODE_COMPLETED node=ask
         14 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn an_interruption_ends_a_question_about_a_tool() {
    let mut bench = Bench::new(
        "
version: '1'
name: chat
nodes:
  - id: ask
    llm: {provider: mock, model: m, user_prompt: '{{ input }}', tool_mode: auto, available_tools: [wipe, ask, read]}
",
        "one",
    );
    bench.asks(&["wipe", "ask"]);
    bench.run_as("leave it", OnMessage::Interrupt);
    bench.note_request();
    bench.says("left");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 USER_INTERACTION_REQUESTED node=ask APPROVE_TOOL wipe
          6 USER_INTERACTION_REQUESTED node=ask ANSWER_TOOL ask
          7 MESSAGE_ADDED
          8 USER_INTERACTION_FAILED interaction=5 "cancelled"
          9 USER_INTERACTION_FAILED interaction=6 "cancelled"
         10 LLM_CALL_REQUESTED 2
            model is called, tools Some(Auto):
              user: one
              assistant: wipe(c3_0) ask(c3_1)
              tool: c3_0! Error (denied): not approved: the question was cancelled
              tool: c3_1! Error (cancelled): the question was cancelled
              user: leave it
         11 LLM_CALL_COMPLETED call=10
         12 LLM_EXECUTION_COMPLETED node=ask "left"
         13 NODE_COMPLETED node=ask
         14 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}
