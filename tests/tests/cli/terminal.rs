//! What a person at a terminal sees and types.

use rethread_tests::binary::Scene;

use crate::families::FAMILY;

#[test]
fn questions_of_branches_are_asked_with_branch_names() {
    let scene = Scene::new();
    scene.write("family.yaml", FAMILY);
    // The two at the end run side by side, and either may be asked first.
    let steps = [("[right] asks:", ""), ("Pay?", "true\n"), ("[right/#", ""), ("Item", "so\n"), ("Item", "so\n")];
    scene.run_on_terminal(&steps, "run family.yaml").ok();
    let shown = scene.run("show last --json").ok().json();
    assert_eq!(shown["output"], serde_json::json!({ "left": "L", "right": ["so", "so"] }));
}

#[test]
fn question_stays_open_without_a_person() {
    let scene = Scene::new();
    scene.write("family.yaml", FAMILY);
    // Ctrl-D.
    let ran = scene.run_on_terminal(&[("Pay?", "\u{4}")], "run family.yaml").code(4);
    assert!(ran.stdout.contains("rethread respond"), "{ran}");
    assert_eq!(scene.run("inbox --json").ok().json().as_array().unwrap().len(), 1);
}

/// Two questions; the first is not answered in time.
const LATE: &str = r#"
version: "1"
name: late
nodes:
  - id: first
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: First?
      timeout_ms: 300
      variables: [{variable_name: first, expression: "{{ input }}"}]
    on_error: second
  - id: second
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: Second?
      variables: [{variable_name: second, expression: "{{ input }}"}]
edges:
  - {from: first, to: second}
"#;

#[test]
fn typed_answer_belongs_to_the_shown_question() {
    let scene = Scene::new();
    scene.write("late.yaml", LATE);
    scene.run_on_terminal(&[("Second?", "this one\n")], "run late.yaml").ok();
    let variables = &scene.run("replay last --json").ok().json()["variables"];
    assert_eq!((&variables["second"], &variables["first"]), (&serde_json::json!("this one"), &serde_json::Value::Null));
}
