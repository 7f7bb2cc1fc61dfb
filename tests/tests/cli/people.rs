//! People in a run: tools that wait for approval, models that ask, people who answer for models. Each question outlives
//! a program that is killed before the answer.

use std::fs;

use rethread_tests::binary::{Running, Scene, root};
use serde_json::{Value, json};

use crate::id_of;

/// A model that writes a file only if a person approves, and reads meanwhile.
const CAREFUL: &str = r#"
version: "1"
name: careful
nodes:
  - id: work
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ input }}"
      tool_mode: auto
      available_tools: [write_file, list_folder]
      approve_tools: [write_file]
      extra:
        script:
          answers:
            - tool_calls:
                - {name: write_file, arguments: {path: one.txt, content: one}}
                - {name: list_folder, arguments: {path: .}}
                - {name: write_file, arguments: {path: two.txt, content: two}}
            - text: Done.
"#;

/// The answer to the model's question joins the conversation, and the model continues.
const CHAT: &str = r#"
version: "1"
name: chat
nodes:
  - id: ask
    llm: {provider: mock, model: m, user_prompt: "{{ input }}", extra: {script: {answers: [{text: Which colour?}]}}}
  - id: reply
    user_interaction:
      operation_type: ADD_MESSAGE
      prompt: "{{ output }}"
      message: {role: user, content_template: "I choose {{ input }}."}
  - id: go_on
    llm:
      provider: mock
      model: m
      user_prompt: Go on.
      extra: {script: {answers: [{text: As you wish.}]}}
"#;

/// Approval sets a variable that a route reads.
const APPROVAL: &str = r#"
version: "1"
name: approval
nodes:
  - id: approve
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: May {{ input }} go in?
      variables: [{variable_name: approved, expression: "{{ input }}"}]
  - {id: inside, end: {}}
  - {id: outside, end: {}}
edges:
  - {from: approve, to: inside, when: approved}
  - {from: approve, to: outside}
"#;

const HUMAN: &str = r#"
version: "1"
name: human
nodes:
  - id: chat
    llm:
      provider: human
      model: some-chat
      system_prompt: Be brief.
      user_prompt: What is here, {{ input }}?
      tool_mode: auto
      available_tools: [list_folder]
"#;

fn scene() -> Scene {
    let scene = Scene::new();
    for (name, text) in
        [("careful.yaml", CAREFUL), ("chat.yaml", CHAT), ("approval.yaml", APPROVAL), ("human.yaml", HUMAN)]
    {
        scene.write(name, text);
    }
    scene
}

/// Runs until a question of this kind is in the log, and kills the program there.
fn killed_at(scene: &Scene, words: &str, operation: &str) {
    let mut running = Running::start(scene.command(words.split_whitespace().chain(["--jsonl"])));
    loop {
        let line: Value = serde_json::from_str(&running.wait_for("USER_INTERACTION_REQUESTED")).unwrap();
        if line["data"]["operation_type"] == operation {
            break;
        }
    }
    running.kill();
}

fn inbox(scene: &Scene) -> Vec<Value> {
    scene.run("inbox --json").ok().json().as_array().unwrap().clone()
}

/// The id of the only question.
#[track_caller]
fn question(scene: &Scene) -> String {
    let open = inbox(scene);
    assert_eq!(open.len(), 1, "{open:?}");
    open[0]["id"].as_str().unwrap().to_owned()
}

fn names_of_events(scene: &Scene) -> Vec<String> {
    scene.run("events last --jsonl").ok().lines().iter().map(|line| line["type"].as_str().unwrap().into()).collect()
}

#[test]
fn approval_variable_is_routed_on_across_a_kill() {
    for (answer, node) in [("true", "inside"), ("false", "outside")] {
        let scene = scene();
        killed_at(&scene, "run approval.yaml --input Ada", "UPDATE_VARIABLES");
        scene.run_args(["respond", &question(&scene), "--value", answer]).ok();
        scene.run("resume last").ok();
        let state = scene.run("show last --json").ok().json();
        assert_eq!(state["path"].as_array().unwrap().last().unwrap()["node"], node, "{state}");
    }
}

#[test]
fn interaction_answer_reaches_the_model_across_a_kill() {
    let scene = scene();
    killed_at(&scene, "run chat.yaml --input Hello", "ADD_MESSAGE");
    scene.run_args(["respond", &question(&scene), "--text", "dark red"]).ok();
    assert_eq!(scene.run("resume last --json").ok().json()["output"], "As you wish.");
    let messages = scene.run("show last --json").ok().json()["messages"].to_string();
    assert!(messages.contains("I choose dark red."), "{messages}");
    assert!(!names_of_events(&scene).contains(&"LLM_CALL_RETRIED".to_owned()), "nothing was asked twice");
}

#[test]
fn tools_wait_for_approval_across_a_kill() {
    let scene = scene();
    killed_at(&scene, "run careful.yaml --allow-write --workspace workspace --input go", "APPROVE_TOOL");
    let resume = "resume last --allow-write --workspace workspace --json";
    let waiting = scene.run(&format!("{resume} --no-input")).code(4);
    for part in ["write_file", "--approve", "--reject REASON", "--edit JSON", "rethread resume"] {
        assert!(waiting.stderr.contains(part), "{waiting}");
    }
    let open = inbox(&scene);
    assert_eq!(open.len(), 2);
    assert_eq!(open[0]["tool_call"]["arguments"], json!({"path": "one.txt", "content": "one"}));
    let (one, two) = (open[0]["id"].as_str().unwrap(), open[1]["id"].as_str().unwrap());
    let listed = scene.run("inbox").ok();
    assert!(listed.stdout.contains("approves a tool, asked") && listed.stdout.contains("May the tool"), "{listed}");

    // What decides nothing changes nothing.
    let before = scene.run("tail --from 0 --jsonl").ok().stdout;
    scene.run_args(["respond", one, "--text", "perhaps"]).code(7).says("not a decision").silent();
    scene.run_args(["respond", one, "--edit", "{"]).code(2).silent();
    scene.run_args(["respond", one, "--edit", "[]"]).code(7).says("must be an object").silent();
    scene.run_args(["respond", one, "--approve", "--cancel"]).code(2).silent();
    assert_eq!(scene.run("tail --from 0 --jsonl").ok().stdout, before);

    scene.run_args(["respond", two, "--reject", "one is enough"]).ok();
    scene.run_args(["respond", one, "--edit", r#"{"path": "other.txt", "content": "edited"}"#]).ok();
    scene.run_args(["respond", one, "--approve"]).code(7).silent();
    assert_eq!(scene.run(resume).ok().json()["output"], "Done.");
    assert_eq!(fs::read_to_string(scene.file("workspace/other.txt")).unwrap(), "edited");
    assert!(!scene.file("workspace/one.txt").exists() && !scene.file("workspace/two.txt").exists());
    let messages = scene.run("show last --json").ok().json()["messages"].to_string();
    assert!(messages.contains("a person refused this call: one is enough"), "{messages}");
    assert!(messages.contains("a person changed the arguments of this call"), "{messages}");
}

#[test]
fn a_plain_question_takes_no_decision() {
    let scene = scene();
    scene.run("run approval.yaml --input Ada").code(4);
    let id = question(&scene);
    scene.run_args(["respond", &id, "--approve"]).code(7).says("is not an approval").silent();
    scene.run_args(["respond", &id, "--reject", "no"]).code(7).silent();
    assert_eq!(inbox(&scene).len(), 1);
}

#[test]
fn relay_answer_works_across_a_kill() {
    let scene = scene();
    killed_at(&scene, "run human.yaml --input Ada", "RELAY_MODEL");
    let waiting = scene.run("resume last --no-input").code(4);
    assert!(waiting.stderr.contains("What is here, Ada?") && waiting.stderr.contains("--text ANSWER"), "{waiting}");
    let open = inbox(&scene).remove(0);
    let prompt = open["prompt"].as_str().unwrap();
    for part in ["Be brief.", "What is here, Ada?", "`list_folder`", r#"{"tool_calls": ["#] {
        assert!(prompt.contains(part), "{prompt}");
    }
    let id = open["id"].as_str().unwrap();
    scene.run_args(["respond", id, "--value", r#"{"tool_calls": [{"name": "fly"}]}"#]).code(7).says("no tool `fly`");
    scene.run_args(["respond", id, "--text", ""]).code(7).says("empty");
    scene
        .run_args([
            "respond",
            id,
            "--value",
            r#"{"tool_calls": [{"name": "list_folder", "arguments": {"path": "."}}]}"#,
        ])
        .ok();
    scene.run("resume last --workspace workspace --no-input").code(4);
    scene.run_args(["respond", &question(&scene), "--text", "Nothing is here."]).ok();
    assert_eq!(scene.run("resume last --json").ok().json()["output"], "Nothing is here.");
    let events = names_of_events(&scene);
    assert!(!events.contains(&"LLM_CALL_RETRIED".to_owned()), "{events:?}");
    assert!(events.contains(&"TOOL_EXECUTION_COMPLETED".to_owned()), "{events:?}");
}

#[test]
fn support_example_asks_until_the_customer_accepts() {
    let scene = scene();
    let file = root().join("docs/examples/support.yaml");
    let file = file.to_str().unwrap();
    killed_at(&scene, &format!("run {file} --no-input"), "ANSWER_TOOL");
    // What is asked, and what the customer says to it.
    let conversation = [
        ("What is the number of your order?", "1234"),
        ("What shall we do?", "refund it"),
        ("Does that help?", "no"),
        ("What is still open?", "I want to speak to somebody"),
        ("Does that help?", "yes"),
    ];
    for (asked, answer) in conversation {
        let waiting = scene.run("resume last --no-input").code(4);
        assert!(waiting.stderr.contains(asked), "{asked}: {waiting}");
        scene.run_args(["respond", &question(&scene), "--text", answer]).ok();
    }
    let outcome = scene.run("resume last --json").ok().json();
    assert_eq!(outcome["status"], "completed");
    let state = scene.run(&format!("show {} --json", id_of(&outcome))).ok().json();
    let said = state["messages"].to_string();
    for answer in ["1234", "refund it", "I want to speak to somebody"] {
        assert!(said.contains(answer), "{said}");
    }
}

#[test]
fn run_lists_the_questions_of_its_branches() {
    let scene = scene();
    scene.write(
        "branches.yaml",
        r#"
version: "1"
name: branches
nodes:
  - id: both
    parallel:
      branches:
        left:
          nodes:
            - id: ask
              user_interaction:
                operation_type: UPDATE_VARIABLES
                prompt: Left?
                variables: [{variable_name: output, expression: "{{ input }}"}]
        right:
          nodes:
            - id: model
              llm:
                provider: mock
                model: scripted
                user_prompt: go
                tool_mode: auto
                available_tools: [ask_user]
                extra:
                  script:
                    answers:
                      - tool_calls: [{name: ask_user, arguments: {question: Right?}}]
                      - text: Good.
"#,
    );
    let waiting = scene.run("run branches.yaml --no-input").code(4).says("Left?").says("Right?");
    let open = inbox(&scene);
    assert_eq!(open.len(), 2);
    for question in open {
        let id = question["id"].as_str().unwrap();
        assert!(waiting.stderr.contains(&format!("rethread respond {id} ")), "{waiting}");
        scene.run_args(["respond", id, "--text", "yes"]).ok();
    }
    scene.run("resume --all").ok();
    assert_eq!(inbox(&scene), Vec::<Value>::new());
}
