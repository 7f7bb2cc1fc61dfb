//! What happened in a thread, where the time and the money went, and why it failed.

use rethread_tests::binary::Scene;
use serde_json::{Value, json};

use crate::{keys, scene};

/// Fails in the second try of a node of a branch; a person is asked before that.
pub(crate) const INVOICES: &str = r#"
version: "1"
name: invoices
nodes:
  - id: read
    llm:
      {provider: mock, model: m, user_prompt: "Read {{ input }}", tool_mode: auto, extra: {script: {answers: [
        {text: I look., tool_calls: [{name: list_folder, arguments: {path: .}}]}, {text: Three invoices.}]}}}
  - {id: may, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: Go on?, variables: [{variable_name: may, expression: "{{ input }}"}]}}
  - id: check
    parallel:
      branches:
        sums: {nodes: [{id: add, llm: {provider: mock, model: m, user_prompt: add, extra: {script: {answers: [{text: "42 EUR"}]}}}}]}
        people:
          nodes:
            - {id: lookup, llm: {provider: mock, model: m, user_prompt: who, extra: {script: {answers: [{error: {kind: overloaded, message: no room}}]}}}, retry: {max_attempts: 2, backoff_ms: 500}}
"#;

pub(crate) fn invoices() -> Scene {
    let scene = scene();
    scene.write("invoices.yaml", INVOICES);
    scene.run("run invoices.yaml --quiet --input all").code(4);
    let inbox = scene.run("inbox --json").ok().json();
    scene.run(&format!("respond {} --value true", inbox[0]["id"].as_str().unwrap())).ok();
    scene.run("resume last --quiet").code(1);
    scene
}

#[test]
fn failed_run_is_explained_from_its_end_to_its_cause() {
    let scene = invoices();
    let told = scene.run("explain last").ok().stdout;
    for line in scene.run_on_terminal(&[], "explain last").ok().stdout.lines() {
        assert!(line.trim_end().chars().count() <= 80, "{line}");
    }
    for part in [
        "invoices\nfailed after",
        "read: agent loop, \"Read all\"",
        "tool list_folder {\"path\":\".\"} →",
        "may: person, \"Go on?\" → true",
        "✗ branch people: mock: overloaded",
        "waits to try again",
        "waiting for people",
        "in 2 branches, added up:",
        "in 3 model calls",
        "the thread failed (seq",
        "fork check failed",
        "branch people failed (seq",
        "node lookup failed in each of 2 tries",
        "a try failed at seq",
        "model m gave no answer",
    ] {
        assert!(told.contains(part), "`{part}` is missing:\n{told}");
    }
    let why = told.find("\nwhy\n").unwrap();
    let order: Vec<_> = ["the thread", "fork check", "branch people", "node lookup", "model m gave"]
        .iter()
        .map(|part| told[why..].find(part).unwrap())
        .collect();
    assert!(order.is_sorted(), "{told}");

    let json = scene.run("explain last --json").ok().json();
    assert_eq!(
        keys(&json),
        "thread_id run_id status workflow seq error usage steps branches branches_left_out longest dearest causes"
    );
    assert_eq!(keys(&json["causes"][0]), "thread_id seq what error failed_tries");
    let what: Vec<_> = json["causes"].as_array().unwrap().iter().map(|cause| cause["what"].clone()).collect();
    assert_eq!(what.len(), 5, "{what:?}");
    assert_eq!(json["causes"][3]["failed_tries"][0]["error"]["kind"], "overloaded");
    assert_eq!((&json["status"], json["branches"].as_array().unwrap().len()), (&json!("error"), 2));
    let results = json["steps"]["results"].as_array().unwrap();
    let nodes: Vec<_> = results.iter().map(|result| result["node"].as_str().unwrap()).collect();
    assert_eq!(nodes, ["read", "may", "check"]);
    assert_eq!(results[0]["metadata"]["tool_calls"], 1);
}

#[test]
fn explain_of_a_moment_shows_the_state_at_that_moment() {
    let scene = invoices();
    let all = scene.run("explain last --json").ok().json();
    let asked = &all["steps"]["results"][1]["calls"][0]["id"];
    let then = scene.run(&format!("explain last --at {asked}")).ok().stdout;
    assert!(then.contains("waits for a person after"), "{then}");
    assert!(
        then.contains("… may: person, \"Go on?\"") && then.contains("waits for\n  person, \"Go on?\", id "),
        "{then}"
    );
    assert!(!then.contains("check"), "{then}");
    scene.run("explain last --at nowhere").code(5).silent();
}

#[test]
fn completed_run_has_no_causes() {
    let scene = scene();
    scene.run("run greeting.yaml --quiet --input Ada").ok();
    let told = scene.run("explain last").ok().stdout;
    assert!(told.contains("greeting\ncompleted in") && !told.contains("\nwhy"), "{told}");
    assert!(told.contains("greet: model scripted → Hello, all of you."), "{told}");
    assert_eq!(scene.run("explain last --json").ok().json()["causes"], Value::Array(Vec::new()));
}
