//! A model asks a person through a tool.

use serde_json::json;

use super::*;

const ASKING: &str = "
version: '1'
name: asking
nodes:
  - id: help
    llm: {provider: mock, model: m, user_prompt: '{{ input }}', tool_mode: auto, available_tools: [read, ask]}
";

/// The model asks with these arguments.
fn model_asks(bench: &mut Bench, arguments: serde_json::Value) {
    let (call, attempt) = bench.open();
    let mut answer = bench::answer(call, "", &["ask"], FinishReason::ToolCalls);
    let Part::ToolCall(tool) = &mut Arc::make_mut(&mut answer.message).content[0] else { panic!() };
    tool.arguments = arguments.into();
    bench.give(Input::reported(attempt, answer));
}

#[test]
fn answer_of_a_person_is_the_result_of_the_tool() {
    let mut bench = Bench::new(ASKING, "hello");
    model_asks(&mut bench, json!({"question": "Which colour?", "choices": ["red", "blue"]}));
    let Effect::AskPerson(ask) = bench.thread.effects().remove(0) else { panic!() };
    bench.note(format_args!("{:?} {:?} {:?}", ask.prompt, ask.metadata, ask.deadline));
    let status = bench.state().status();
    bench.note(status);
    bench.person_says(json!("red"));
    bench.note_request();
    bench.says("red it is");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=help attempt=1
          2 LLM_EXECUTION_REQUEST node=help
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 USER_INTERACTION_REQUESTED node=help ANSWER_TOOL ask
            Some("Which colour?") Some({"choices":["red","blue"]}) None
            waiting
          6 USER_INTERACTION_RESPONDED interaction=5 "red"
          7 USER_INTERACTION_PROCESSED interaction=5 answer
          8 LLM_CALL_REQUESTED 2
            model is called, tools Some(Auto):
              user: hello
              assistant: ask(c3_0)
              tool: c3_0: red
          9 LLM_CALL_COMPLETED call=8
         10 LLM_EXECUTION_COMPLETED node=help "red it is"
         11 NODE_COMPLETED node=help
         12 THREAD_COMPLETED node=help
        => completed, waits for nothing
    "#]]);
}

#[test]
fn question_without_text_is_a_failed_call_without_an_interaction() {
    let mut bench = Bench::new(ASKING, "hello");
    model_asks(&mut bench, json!({"question": " "}));
    model_asks(&mut bench, json!({"question": "?", "choices": "red"}));
    model_asks(&mut bench, json!({"question": "?", "timeout_ms": 0}));
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=help attempt=1
          2 LLM_EXECUTION_REQUEST node=help
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=ask
          6 TOOL_EXECUTION_FAILED call=5 invalid_arguments
          7 LLM_CALL_REQUESTED 2
          8 LLM_CALL_COMPLETED call=7
          9 TOOL_EXECUTION_REQUEST name=ask
         10 TOOL_EXECUTION_FAILED call=9 invalid_arguments
         11 LLM_CALL_REQUESTED 3
         12 LLM_CALL_COMPLETED call=11
         13 TOOL_EXECUTION_REQUEST name=ask
         14 TOOL_EXECUTION_FAILED call=13 invalid_arguments
         15 LLM_CALL_REQUESTED 4
            user: hello
            assistant: ask(c3_0)
            tool: c3_0! Error (invalid_arguments): `ask` was not asked: `question` must be a text that is not empty
            assistant: ask(c7_0)
            tool: c7_0! Error (invalid_arguments): `ask` was not asked: `choices` must be a list of texts
            assistant: ask(c11_0)
            tool: c11_0! Error (invalid_arguments): `ask` was not asked: `timeout_ms` must be between 1 and 2592000000
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn a_question_waits_for_ever_unless_the_call_says_how_long() {
    let mut bench = Bench::new(ASKING, "hello");
    model_asks(&mut bench, json!({"question": "Which colour?"}));
    bench.tick_after_ms(1_000_000_000);
    bench.person_says(json!({"colour": "red"}));
    model_asks(&mut bench, json!({"question": "And which size?", "timeout_ms": 60_000}));
    bench.tick_after_ms(60_000);
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=help attempt=1
          2 LLM_EXECUTION_REQUEST node=help
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 USER_INTERACTION_REQUESTED node=help ANSWER_TOOL ask
            1000000000 ms later
          6 USER_INTERACTION_RESPONDED interaction=5
          7 USER_INTERACTION_PROCESSED interaction=5 answer
          8 LLM_CALL_REQUESTED 2
          9 LLM_CALL_COMPLETED call=8
         10 USER_INTERACTION_REQUESTED node=help ANSWER_TOOL ask
            60000 ms later
         11 USER_INTERACTION_FAILED interaction=10 "timeout"
         12 LLM_CALL_REQUESTED 3
            user: hello
            assistant: ask(c3_0)
            tool: c3_0: {"colour":"red"}
            assistant: ask(c8_0)
            tool: c8_0! Error (timeout): no answer arrived in time
        => running, waits for the world until +1000180000
    "#]]);
}

#[test]
fn answer_after_the_deadline_is_refused_before_the_timeout_event() {
    let mut bench = Bench::new(ASKING, "hello");
    model_asks(&mut bench, json!({"question": "Which size?", "timeout_ms": 60_000}));
    bench.now = bench.now.plus_ms(60_000);
    bench.person_says(json!("small"));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=help attempt=1
          2 LLM_EXECUTION_REQUEST node=help
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 USER_INTERACTION_REQUESTED node=help ANSWER_TOOL ask
            refused: interaction 5 is closed: it was answered, cancelled or timed out
        => waiting, waits for a person until +60000
    "#]]);
}

#[test]
fn a_tool_node_asks_as_well() {
    let yaml = "
version: '1'
name: node
nodes:
  - id: help
    tool: {tool_name: ask, timeout_ms: 700, parameters: {question: 'Who is {{ input }}?'}}
";
    let mut bench = Bench::new(yaml, "Ada");
    let shown = bench.state().interaction().unwrap().prompt.clone().unwrap();
    bench.note(shown);
    bench.person_says(json!(["a", "programmer"]));
    assert_eq!(bench.state().output(), Some(&json!(["a", "programmer"]).into()));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=help attempt=1
          2 USER_INTERACTION_REQUESTED node=help ANSWER_TOOL ask
            Who is Ada?
          3 USER_INTERACTION_RESPONDED interaction=2
          4 USER_INTERACTION_PROCESSED interaction=2 answer
          5 NODE_COMPLETED node=help
          6 THREAD_COMPLETED node=help
        => completed, waits for nothing
    "#]]);

    let mut bench = Bench::new(yaml, "Ada");
    bench.tick_after_ms(700);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=help attempt=1
          2 USER_INTERACTION_REQUESTED node=help ANSWER_TOOL ask
            700 ms later
          3 USER_INTERACTION_FAILED interaction=2 "timeout"
          4 NODE_FAILED node=help attempt=1 timeout (the question timed out)
          5 THREAD_FAILED node=help timeout (the question timed out)
        => error, waits for nothing
    "#]]);
}
