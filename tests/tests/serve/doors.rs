//! What the tests of all doors need: workflows, a server, the program of a page.

use std::process::Command;

use rethread_tests::binary::{Running, Scene, root};
pub(crate) use rethread_tests::workflows::CHAT;

use crate::place::Place;

pub(crate) const ASKS: &str = r#"
version: "1"
name: asks
nodes:
  - id: ask
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: Which colour?
      answer: choice
      choices: [red, blue]
      variables: [{variable_name: colour, expression: "{{ input }}"}]
  - id: paint
    llm:
      provider: mock
      model: scripted
      user_prompt: "Paint it {{ colour }}."
      extra: {script: {answers: [{match: blue, text: Painted blue.}]}}
edges: [{from: ask, to: paint}]
"#;

pub(crate) const FAILS: &str = r#"
version: "1"
name: fails
nodes:
  - id: answer
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ input }}"
      extra: {script: {otherwise: {error: {kind: authentication, message: no such key}}}}
"#;

/// Says something, calls a tool, and then says nothing for an hour.
pub(crate) const HANGS: &str = r#"
version: "1"
name: hangs
nodes:
  - id: answer
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ input }}"
      stream: true
      tool_mode: auto
      extra:
        script:
          answers:
            - {call: 0, chunks: ["Well, "], tool_calls: [{name: list_folder, arguments: {}}]}
            - {call: 1, chunks: [never], delay_ms: 3600000}
"#;

/// Calls a tool that a person approves.
pub(crate) const APPROVES: &str = r#"
version: "1"
name: approves
nodes:
  - id: answer
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ input }}"
      tool_mode: auto
      approve_tools: [list_folder]
      extra:
        script:
          answers:
            - {match: ^Hello, tool_calls: [{name: list_folder, arguments: {}}]}
            - {match: ^yes, text: Yes what?}
          otherwise: {text: Looked.}
"#;

/// Asks for the approval of a call whose arguments are too long to be shown, or have a hidden character.
pub(crate) fn long_and_hidden() -> String {
    let long = "x".repeat(20_000);
    let calls = [("long", long.as_str()), ("hidden", "a\\u202eb")].map(|(word, path)| {
        format!(
            "            - {{match: ^{word}, tool_calls: [{{name: list_folder, arguments: {{path: \"{path}\"}}}}]}}\n"
        )
    });
    APPROVES
        .replace("name: approves", "name: long")
        .replace("            - {match: ^Hello, tool_calls: [{name: list_folder, arguments: {}}]}\n", &calls.concat())
}

/// Asks whether to go on, in a question as long as its input.
pub(crate) const DECIDES: &str = r#"
version: "1"
name: decides
nodes:
  - id: ask
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: "{{ input }}"
      answer: boolean
      variables: [{variable_name: result, expression: "{{ input }}"}]
"#;

/// A tool of the client, in `rethread.toml`.
pub(crate) const CLIENT_TOOLS: &str = r#"
[serve.client_tools.confirm]
description = "Asks the user."
parameters = { type = "object", properties = { what = { type = "string" } }, required = ["what"] }
"#;

/// The same workflow with another name, which takes tools as requests describe them: `pick` in place of `confirm`.
pub(crate) fn as_described(workflow: &str, name: &str, other: &str) -> String {
    let workflow =
        workflow.replace(&format!("name: {name}\n"), &format!("name: {other}\nvariables: {{client_tools: []}}\n"));
    workflow
        .replace("available_tools: [confirm]", "available_tools: []\n      client_tools: client_tools")
        .replace("confirm", "pick")
}

/// A server that needs tokens and has these workflows, and a token of the scope `operate`.
pub(crate) fn serve(scene: Scene, options: &str, workflows: &[&str]) -> (Place, String) {
    let token = scene.run("token create --scope operate").ok().stdout.trim().to_owned();
    let admin = scene.run("token create --scope admin").ok().stdout.trim().to_owned();
    let mut place = Place::on(scene, &format!("--require-token {options}"));
    place.token = Some(admin);
    for workflow in workflows {
        place.put(workflow);
    }
    (place, token)
}

/// Runs a client of others at a path of the server, and checks that it says so when it is done.
#[track_caller]
pub(crate) fn run_client(mut command: Command, place: &Place, path: &str, token: &str) {
    command.args([&format!("http://{}{path}", place.address), token]);
    assert_eq!(Running::start(command).end().ok().stdout.trim(), "done");
}

/// Stores the workflow of the page about a door, runs its program in this language, and compares what that prints with what
/// the page says.
#[track_caller]
pub(crate) fn check_page(page: &str, language: &str, command: impl FnOnce(&str) -> Command) {
    let page = std::fs::read_to_string(root().join("docs/doors").join(page)).unwrap();
    let (workflow, rest) = block(&page, "yaml");
    let (program, rest) = block(rest, language);
    let (printed, _) = block(rest, "");
    let place = Place::new();
    place.put(workflow);
    let command = command(&program.replace("127.0.0.1:7117", &place.address.to_string()));
    assert_eq!(Running::start(command).end().ok().stdout.trim(), printed.trim());
}

/// The first block of code of this language, and what follows it.
pub(crate) fn block<'a>(page: &'a str, language: &str) -> (&'a str, &'a str) {
    let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap()
}
