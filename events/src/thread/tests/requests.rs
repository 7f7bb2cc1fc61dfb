//! The requests of model calls: instructions, messages, tools.

use super::*;

#[test]
fn tool_mode_none_offers_no_tool() {
    let mut bench = Bench::new(&ONE_LLM.replace("tool_mode: auto", "tool_mode: none"), "hello");
    bench.note_request();
    bench.asks(&["send"]);
    bench.note_request();
    bench.says("then not");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
            model is called, tools None:
              user: hello
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=send
          6 TOOL_EXECUTION_FAILED call=5 unknown_tool
          7 LLM_CALL_REQUESTED 2
            model is called, tools None:
              user: hello
              assistant: send(c3_0)
              tool: c3_0! Error (unknown_tool): there is no tool `send`: no tool is offered
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=ask "then not"
         10 NODE_COMPLETED node=ask
         11 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn tool_mode_required_binds_the_first_answer_only() {
    let mut bench = Bench::new(&ONE_LLM.replace("tool_mode: auto", "tool_mode: required"), "hello");
    bench.note_request();
    bench.asks(&["read"]);
    bench.tool_says("42");
    bench.note_request();
    bench.says("it is 42");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
            model is called, tools Some(Required):
              user: hello
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_COMPLETED call=5
          7 LLM_CALL_REQUESTED 2
            model is called, tools Some(Auto):
              user: hello
              assistant: read(c3_0)
              tool: c3_0: 42
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=ask "it is 42"
         10 NODE_COMPLETED node=ask
         11 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn the_instructions_stand_first_and_are_said_once() {
    let yaml = "
version: '1'
name: two
nodes:
  - id: a
    llm: {provider: mock, model: m, user_prompt: first, system_prompt: 'be {{ input }}'}
  - id: b
    llm: {provider: mock, model: m, user_prompt: second, system_prompt: 'be {{ input }}'}
  - id: c
    llm: {provider: mock, model: m, user_prompt: third, system_prompt: be rude}
";
    let mut bench = Bench::new(yaml, "kind");
    bench.says("one");
    bench.note_request();
    bench.says("two");
    bench.note_request();
    bench.says("three");
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=a attempt=1
          2 LLM_EXECUTION_REQUEST node=a
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=a "one"
          6 NODE_COMPLETED node=a
          7 NODE_STARTED node=b attempt=1
          8 LLM_EXECUTION_REQUEST node=b
          9 LLM_CALL_REQUESTED 1
            model is called, tools None:
              system: be kind
              user: first
              assistant: one
              user: second
         10 LLM_CALL_COMPLETED call=9
         11 LLM_EXECUTION_COMPLETED node=b "two"
         12 NODE_COMPLETED node=b
         13 NODE_STARTED node=c attempt=1
         14 LLM_EXECUTION_REQUEST node=c
         15 LLM_CALL_REQUESTED 1
            model is called, tools None:
              system: be kind
              user: first
              assistant: one
              user: second
              assistant: two
              system: be rude
              user: third
         16 LLM_CALL_COMPLETED call=15
         17 LLM_EXECUTION_COMPLETED node=c "three"
         18 NODE_COMPLETED node=c
         19 THREAD_COMPLETED node=c
            system: be kind
            user: first
            assistant: one
            user: second
            assistant: two
            system: be rude
            user: third
            assistant: three
        => completed, waits for nothing
    "#]]);
}
