//! What a person approves is shown whole, wherever it is shown.

use rethread_tests::binary::Scene;
use serde_json::{Value, json};

/// A command that ends beyond what a line, a screen and a cut text show.
fn hostile() -> String {
    format!("ls{}; rm -rf ~ {}; rm -rf /", " ".repeat(3_000), "# nothing to see here ".repeat(400))
}

fn shown() -> String {
    hostile().replace(&" ".repeat(3_000), "⟨3000 spaces⟩")
}

/// A thread that wants the command approved.
fn asking() -> Scene {
    let scene = Scene::new();
    let calls = json!([{ "name": "list_folder", "arguments": { "path": hostile() } }]);
    let answers = json!([{ "tool_calls": calls }, { "text": "Done." }]);
    let llm = json!({
        "provider": "mock", "model": "m", "user_prompt": "go", "tool_mode": "auto",
        "available_tools": ["list_folder"], "approve_tools": ["list_folder"],
        "extra": { "script": { "answers": answers } },
    });
    let workflow = json!({ "version": "1", "name": "hostile", "nodes": [{ "id": "look", "llm": llm }] });
    scene.write("hostile.json", workflow.to_string());
    scene
}

fn decisions(scene: &Scene) -> Vec<Value> {
    let events = scene.run("events last --jsonl --type USER_INTERACTION_PROCESSED").ok().lines();
    events.iter().map(|event| event["data"]["results"]["decision"]["decision"].clone()).collect()
}

#[test]
fn call_that_waits_for_approval_is_shown_in_full() {
    let scene = asking();
    let waiting = scene.run("run hostile.json").code(4);
    assert!(waiting.stderr.contains(&shown()), "{waiting}");
    for words in ["inbox", "show last"] {
        let ran = scene.run(words).ok();
        assert!(ran.stdout.contains(&shown()), "{words}: {ran}");
    }
    let asked = scene.run("inbox --json").ok().json();
    let pending = scene.run("show last --json").ok().json()["pending"].take();
    for question in [&asked[0], &pending[0]] {
        let whole = format!("May the tool `list_folder` run with {}?", json!({ "path": hostile() }));
        assert_eq!(question["prompt"], whole);
        assert_eq!(question["tool_call"]["arguments"]["path"], hostile());
    }
}

#[test]
fn approval_is_shown_in_parts_on_a_terminal() {
    let scene = asking();
    // An answer is one only below the last part.
    let mut steps = vec![("part 1 of 6:", "yes\n")];
    steps.extend(["part 2 of 6:", "part 3 of 6:", "part 4 of 6:", "part 5 of 6:"].map(|part| (part, "\n")));
    steps.push(("an empty line postpones the answer", "no\n"));
    let ran = scene.run_on_terminal(&steps, "run hostile.json").ok();
    let answered = scene.run("events last --jsonl --type USER_INTERACTION_RESPONDED").ok().stdout;
    assert!(answered.contains(r#""by":{"kind":"terminal"}"#), "{answered}");
    assert!(ran.stdout.contains("⟨3000 spaces⟩; rm -rf ~") && ran.stdout.contains("; rm -rf /\"}?"), "{ran}");
    assert_eq!(decisions(&scene), ["reject"]);
}

#[test]
fn approval_that_is_not_read_to_its_end_stays_open() {
    let scene = asking();
    // Ctrl-D.
    let ran =
        scene.run_on_terminal(&[("part 1 of 6:", "yes\n"), ("part 2 of 6:", "\u{4}")], "run hostile.json").code(4);
    assert!(ran.stdout.contains("rethread respond"), "{ran}");
    assert_eq!(decisions(&scene), Vec::<Value>::new());
}
