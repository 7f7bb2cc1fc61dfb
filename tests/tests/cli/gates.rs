//! Gates that must not open by accident: typed questions, conditions, expressions.

use rethread_tests::binary::{Ran, Scene};
use serde_json::{Value, json};

/// A gate after a question; `QUESTION` is the rest of the question.
const GATE: &str = r#"
version: "1"
name: gate
nodes:
  - id: ask
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: Deploy?
      QUESTION
  - {id: deploy, context_processor: {processor_name: extract, processor_config: {variable: r, expression: "'DEPLOYED'"}}}
  - {id: stop, context_processor: {processor_name: extract, processor_config: {variable: r, expression: "'stopped'"}}}
edges:
  - {from: ask, to: deploy, when: approved}
  - {from: ask, to: stop}
end_points: [deploy, stop]
"#;

fn gate(question: &str) -> Scene {
    let scene = Scene::new();
    scene.write("gate.yaml", GATE.replace("QUESTION", question));
    scene.run("run gate.yaml").code(4);
    scene
}

fn answer(scene: &Scene, flag: &str, answer: &str) -> Ran {
    let open = scene.run("inbox --json").ok().json();
    let id = open[0]["id"].as_str().unwrap();
    scene.run_args(["respond", id, flag, answer])
}

fn output(scene: &Scene) -> Value {
    scene.run("resume last").ok();
    scene.run("show last --json").ok().json()["output"].clone()
}

#[test]
fn negative_answer_does_not_open_the_gate() {
    const TYPED: &str = "answer: boolean\n      variables: [{variable_name: approved, expression: input}]";
    for (flag, said, expected) in [
        ("--text", "no", "stopped"),
        ("--text", "N", "stopped"),
        ("--text", "false", "stopped"),
        ("--value", "false", "stopped"),
        ("--text", "yes", "DEPLOYED"),
        ("--text", "Y", "DEPLOYED"),
        ("--value", "true", "DEPLOYED"),
    ] {
        let scene = gate(TYPED);
        answer(&scene, flag, said).ok();
        assert_eq!(output(&scene), json!(expected), "{flag} {said}");
    }
    let scene = gate(TYPED);
    for said in ["maybe", "0", "", "yes please", "1"] {
        answer(&scene, "--text", said).code(7).says("yes or no (also y, n, true, false)");
    }
    answer(&scene, "--value", "1").code(7).says("yes or no");
    // The question stays open for a better answer.
    assert!(scene.run("inbox").ok().stdout.contains("answer with yes or no"));
    answer(&scene, "--text", "no").ok();
    assert_eq!(output(&scene), json!("stopped"));
}

#[test]
fn bare_expression_of_an_answer_is_a_boolean() {
    for (said, expected) in [("yes", "DEPLOYED"), ("no", "stopped"), ("0", "stopped"), ("maybe", "stopped")] {
        let scene = gate("variables: [{variable_name: approved, expression: \"input == 'yes'\"}]");
        answer(&scene, "--text", said).ok();
        assert_eq!(output(&scene), json!(expected), "{said}");
    }
}

#[test]
fn text_as_condition_fails_and_opens_no_gate() {
    for said in ["no", "false", "0", "yes"] {
        let scene = gate("variables: [{variable_name: approved, expression: \"{{ input }}\"}]");
        answer(&scene, "--text", said).ok();
        let ran = scene.run("resume last").code(1);
        for part in [&format!("`approved` is the text \"{said}\""), "approved == \"yes\"", "answer: boolean"] {
            assert!(ran.stderr.contains(part), "{part}: {ran}");
        }
        assert!(!scene.run("show last --json").ok().json()["path"].to_string().contains("deploy"));
    }
}

#[test]
fn comparison_of_a_text_with_a_number_opens_no_gate() {
    for said in ["2", "8"] {
        let scene = gate("variables: [{variable_name: approved, expression: input > 7}]");
        // The question stays open: its answer cannot be used.
        let ran = answer(&scene, "--text", said).code(7);
        for part in ["the text \"".to_owned() + said + "\"", "the number 7".into(), "| int".into()] {
            assert!(ran.stderr.contains(&part), "{part}: {ran}");
        }
    }
    let scene = gate("variables: [{variable_name: approved, expression: (input | int) > 7}]");
    answer(&scene, "--text", "8").ok();
    assert_eq!(output(&scene), json!("DEPLOYED"));
    let scene = Scene::new();
    let node = "{id: a, llm: {provider: mock, model: m, user_prompt: Hi, extra: {script: {answers: [{text: '2'}]}}}}";
    let end = |id: &str| {
        format!(
            "{{id: {id}, context_processor: {{processor_name: extract, processor_config: {{variable: x, expression: input}}}}}}"
        )
    };
    let yaml = |when: &str| {
        format!(
            "version: '1'\nname: n\nnodes:\n  - {node}\n  - {}\n  - {}\nedges:\n  - {{from: a, to: high, when: {when}}}\n  - {{from: a, to: low}}\n",
            end("high"),
            end("low")
        )
    };
    for when in ["output > 7", "output == 2", "output is gt(7)"] {
        scene.write("n.yaml", yaml(when));
        scene.run("run n.yaml --input x").code(1).says("the text \"2\"");
        assert!(!scene.run("show last --json").ok().json()["path"].to_string().contains("high"));
    }
    scene.write("n.yaml", yaml("(output | int) > 7"));
    scene.run("run n.yaml --input x").ok();
    scene.write("n.yaml", yaml("(output | length) == '2'"));
    scene.run("validate n.yaml").code(3).says("a text and a number cannot be compared");
}

#[test]
fn answer_that_sets_output_is_the_output() {
    let scene = Scene::new();
    scene.write("o.yaml", "version: '1'\nname: o\nnodes:\n  - {id: q, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: 'How many?', answer: number, variables: [{variable_name: output, expression: input * 3}]}}\n");
    scene.run("run o.yaml --no-input --input x").code(4);
    answer(&scene, "--text", "7").ok();
    assert_eq!(output(&scene), json!(21));
}

#[test]
fn choice_question_takes_its_choices_only() {
    let scene = gate(
        "answer: choice\n      choices: [ship it, wait]\n      variables: [{variable_name: approved, expression: \"input == 'ship it'\"}]",
    );
    answer(&scene, "--text", "yes").code(7).says("one of `ship it`, `wait`");
    answer(&scene, "--text", "Ship it").ok();
    assert_eq!(output(&scene), json!("DEPLOYED"));
}

#[test]
fn expressions_of_an_answer_keep_their_types() {
    let scene = Scene::new();
    scene.write(
        "types.yaml",
        r#"
version: "1"
name: types
nodes:
  - id: ask
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: Which?
      variables:
        - {variable_name: a, expression: "1"}
        - {variable_name: b, expression: "'T'"}
        - {variable_name: c, expression: "input"}
        - {variable_name: d, expression: "input ~ '!'"}
        - {variable_name: e, expression: "{{ 1 }}"}
        - {variable_name: f, expression: "true"}
        - {variable_name: g, expression: "input == 'G'"}
        - {variable_name: h, expression: "{{ input }}-{{ 1 }}"}
  - {id: all, context_processor: {processor_name: extract, processor_config: {variable: r, expression: "[a, b, c, d, e, f, g, h]"}}}
"#,
    );
    scene.run("run types.yaml").code(4);
    answer(&scene, "--text", "G").ok();
    assert_eq!(output(&scene), json!([1, "T", "G", "G!", 1, true, true, "G-1"]));
}

#[test]
fn writes_and_commands_need_an_option() {
    let scene = Scene::new();
    for (tool, parameters, option) in [
        ("run_command", "{command: [touch, made]}", "--allow-commands"),
        ("write_file", "{path: made, content: x}", "--allow-write"),
    ] {
        let node = format!("{{id: work, tool: {{tool_name: {tool}, parameters: {parameters}}}}}");
        scene.write("flow.yaml", format!("version: '1'\nname: flow\nnodes: [{node}]\n"));
        scene.run("run flow.yaml --workspace .").code(3).says(option);
        assert!(!scene.file("made").exists());
    }
}
