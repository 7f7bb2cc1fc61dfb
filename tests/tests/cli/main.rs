//! The command line as a shell and a script see it: what is printed where, in which shape, with which exit code.

// All of it is test code, its helpers included.
#![allow(clippy::unwrap_used, clippy::panic)]

use expect_test::Expect;
use rethread_tests::binary::Scene;
use serde_json::Value;

mod approvals;
mod calls;
mod chat;
mod children;
mod configuration;
mod control;
mod debugging;
mod ends;
mod equipment;
mod explain;
mod fallbacks;
mod families;
mod gates;
mod gc;
mod guide;
mod held;
mod imports;
mod inbox;
mod label_limits;
mod labels;
mod limits;
mod memory;
mod one_run;
mod pages;
mod people;
mod rerun;
mod reserved;
mod retries;
mod sent;
mod shapes;
mod shown;
mod spending;
mod terminal;
mod usage;
mod validate;
mod waits;

const GREETING: &str = r#"
version: "1"
name: greeting
variables: {greeting: Greet}
nodes:
  - id: look
    llm:
      provider: mock
      model: scripted
      user_prompt: What is here, {{ input }}?
      tool_mode: auto
      extra:
        script:
          answers:
            - {text: I look., tool_calls: [{name: list_folder, arguments: {path: .}}]}
            - text: A folder.
    checkpoint: looked
  - id: greet
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ greeting }} {{ input }}."
      extra:
        script:
          answers:
            - {match: Praise, text: "Well done, all of you."}
            - {match: Scold, text: "Shame, all of you."}
            - text: Hello, all of you.
"#;

const FAILING: &str = r#"
version: "1"
name: failing
nodes:
  - {id: ask, llm: {provider: mock, model: m, user_prompt: hi, extra: {script: {answers: [{error: {kind: authentication, message: no such key}}]}}}}
"#;

const ASKING: &str = r#"
version: "1"
name: asking
nodes:
  - id: ask
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: May {{ input }} go on?
      variables: [{variable_name: approved, expression: "{{ input }}"}]
  - id: act
    llm: {provider: mock, model: m, user_prompt: "approved is {{ approved }}", extra: {script: {answers: [{text: Acted.}]}}}
"#;

const SLOW: &str = r#"
version: "1"
name: slow
nodes:
  - {id: ask, llm: {provider: mock, model: m, user_prompt: hi, extra: {script: {answers: [{text: At last., delay_ms: 60000}]}}}}
"#;

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("greeting.yaml", GREETING);
    scene.write("failing.yaml", FAILING);
    scene.write("asking.yaml", ASKING);
    scene.write("slow.yaml", SLOW);
    scene
}

fn id_of(json: &Value) -> String {
    json["thread_id"].as_str().unwrap().to_owned()
}

fn keys(json: &Value) -> String {
    json.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(actual: &str, expected: &Expect) {
    expected.assert_eq(actual);
}
