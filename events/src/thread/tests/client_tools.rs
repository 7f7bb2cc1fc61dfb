//! Tools that the client of a thread runs.

use serde_json::json;

use super::*;
use crate::event::ToolMode;
use crate::message::ToolChoice;

fn workflow(variable: &str, node: &str) -> String {
    format!(
        "
version: '1'
name: shop
variables: {{client_tools: {variable}}}
nodes:
  - id: ask
    llm: {{provider: mock, model: m, user_prompt: '{{{{ input }}}}', client_tools: client_tools{node}}}
"
    )
}

const CONFIRM: &str = "[{name: confirm, description: Asks., parameters: {type: object}}]";

#[test]
fn call_of_a_client_s_tool_is_a_question_and_its_answer_the_result() {
    let mut bench = Bench::new(&workflow(CONFIRM, ""), "hello");
    let call = bench.thread.effects()[0].key().0;
    let request = bench.state().model_request_of(call).unwrap();
    let offered: Vec<_> = request.execution.tools_beside().map(|tool| tool.name).collect();
    assert_eq!((offered, request.tool_choice), (vec!["confirm".to_owned()], Some(ToolChoice::Auto)));
    bench.asks(&["confirm"]);
    let question = bench.state().interaction().unwrap();
    assert_eq!(question.metadata, Some(json!({ "client_tool": true }).into()));
    let asked = "The client runs the tool `confirm` with {\"question\":\"why?\"}: answer with its result";
    assert_eq!((question.prompt.as_deref(), question.question().as_deref()), (Some(asked), Some(asked)));
    bench.person_says(json!({"decision": "answer", "content": {"ok": true}}));
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 USER_INTERACTION_REQUESTED node=ask APPROVE_TOOL confirm
          6 USER_INTERACTION_RESPONDED interaction=5
          7 USER_INTERACTION_PROCESSED interaction=5 answer
          8 LLM_CALL_REQUESTED 2
            user: hello
            assistant: confirm(c3_0)
            tool: c3_0: {"ok":true}
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn approval_of_a_client_s_tool_is_an_error_that_the_model_reads() {
    let mut bench = Bench::new(&workflow(CONFIRM, ""), "hello");
    bench.asks(&["confirm", "other"]);
    bench.person_says(json!("yes"));
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 USER_INTERACTION_REQUESTED node=ask APPROVE_TOOL confirm
          6 TOOL_EXECUTION_REQUEST name=other
          7 TOOL_EXECUTION_FAILED call=6 unknown_tool
          8 USER_INTERACTION_RESPONDED interaction=5 "yes"
          9 USER_INTERACTION_PROCESSED interaction=5 approve
         10 TOOL_EXECUTION_REQUEST name=confirm
         11 TOOL_EXECUTION_FAILED call=10 configuration
         12 LLM_CALL_REQUESTED 2
            user: hello
            assistant: confirm(c3_0) other(c3_1)
            tool: c3_0! Error (configuration): `confirm` runs in the client: answer the call with its result in place of approving it
            tool: c3_1! Error (unknown_tool): there is no tool `other`: offered are confirm
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn tools_of_a_client_stay_those_of_the_request() {
    let mut bench = Bench::new(&workflow(CONFIRM, ""), "hello");
    bench.give(Input::SetVariables([("client_tools".to_owned(), json!([]).into())].into_iter().collect()));
    bench.asks(&["confirm"]);
    assert!(bench.state().interaction().is_some());
}

#[test]
fn without_tools_of_a_client_the_model_is_offered_none() {
    let bench = Bench::new(&workflow("[]", ""), "hello");
    let call = bench.thread.effects()[0].key().0;
    let request = bench.state().model_request_of(call).unwrap();
    assert_eq!((request.execution.tool_mode, request.tool_choice), (ToolMode::None, None));
}

#[test]
fn tools_of_a_client_that_cannot_be_offered_fail_the_node() {
    let error = |variable: &str, node: &str| {
        let bench = Bench::new(&workflow(variable, node), "hello");
        bench.state().error().map(|error| error.message.clone())
    };
    let tool = |name: &str| format!("[{{name: {name}}}]");
    let mut seen = String::new();
    let many = format!("[{}]", (0..129).map(|i| format!("{{name: t{i}}}")).collect::<Vec<_>>().join(", "));
    for (variable, node) in [
        ("a text", ""),
        ("[a text]", ""),
        ("[{name: a, strict: true}]", ""),
        ("[{name: a, parameters: [1]}]", ""),
        ("[{name: 'a b'}]", ""),
        ("[{name: a}, {name: a}]", ""),
        (&tool("read"), ", tool_mode: auto, available_tools: [read]"),
        ("[]", ", tool_mode: required, available_tools: []"),
        (&many, ""),
    ] {
        seen += &format!("{}\n", error(variable, node).unwrap_or_else(|| "no error".into()));
    }
    expect![[r#"
        `client_tools` of node `ask` gives a text, not a list
        `client_tools` of node `ask`: [0]: invalid type: string "a text", expected struct ToolSpec; a tool is an object with `name`, `description` and `parameters`
        `client_tools` of node `ask`: [0]: unknown field `strict`, expected one of `name`, `description`, `parameters`; a tool is an object with `name`, `description` and `parameters`
        `client_tools` of node `ask`: [0]: the `parameters` of `a` are no JSON Schema of an object
        `client_tools` of node `ask`: [0]: a tool has a name of at most 64 letters, digits, `_` and `-`
        `client_tools` of node `ask`: [1]: another tool has the name `a`
        `client_tools` of node `ask`: the node offers another tool with the name `read`
        node `ask` requires the use of a tool, and offers none
        `client_tools` of node `ask`: 129 tools, the limit is 128
    "#]].assert_eq(&seen);
    assert_eq!(error(&tool("read"), ", tool_mode: auto, available_tools: [put]"), None);
}
