//! What a person at a terminal sees and types.

use std::process::{Command, Stdio};

use rethread_tests::binary::{Ran, Running, Scene, program};

use crate::families::FAMILY;

/// Runs a command on a terminal; each answer is typed once what it is for was said.
fn on_terminal(scene: &Scene, steps: &[(&str, &str)], words: &str) -> Ran {
    let script = scene.write("terminal.py", include_str!("../../src/terminal.py"));
    let mut command = Command::new("python3");
    command.arg(script).arg(serde_json::to_string(steps).unwrap()).arg(program()).args(words.split_whitespace());
    command.current_dir(scene.path()).env_clear().stdin(Stdio::null());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("TERM", "xterm").env("NO_COLOR", "1");
    Running::start(command).end()
}

#[test]
fn the_questions_of_branches_are_asked_in_place_by_the_names_of_the_branches() {
    let scene = Scene::new();
    scene.write("family.yaml", FAMILY);
    // The two at the end stand side by side, and either may be asked first.
    let steps = [("[right] asks:", ""), ("Pay?", "true\n"), ("[right/#", ""), ("Item", "so\n"), ("Item", "so\n")];
    on_terminal(&scene, &steps, "run family.yaml").ok();
    let shown = scene.run("show last --json").ok().json();
    assert_eq!(shown["output"], serde_json::json!({ "left": "L", "right": ["so", "so"] }));
}

#[test]
fn a_question_that_is_put_off_stays_open() {
    let scene = Scene::new();
    scene.write("family.yaml", FAMILY);
    let ran = on_terminal(&scene, &[("Pay?", "\n")], "run family.yaml").code(4);
    assert!(ran.stdout.contains("rethread respond"), "{ran}");
    assert_eq!(scene.run("inbox --json").ok().json().as_array().unwrap().len(), 1);
}
