//! An agent at a real task with the real program: it reads, edits and runs a test in a workspace. If it is killed in
//! the middle, at any of its steps, it has the same result.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rethread_tests::binary::{HANG, Running, Scene, root};
use serde_json::{Value, json};

const SWITCHES: [&str; 5] = ["--allow-write", "--allow-commands", "--allow-shell", "--workspace", "workspace"];
const END: &str = "The program subtracted; now it adds, and the test passes.";

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("workspace/sum.sh", "echo $(($1 - $2))\n");
    scene.write("workspace/test.sh", "test \"$(sh sum.sh 2 3)\" = 5 && echo passed\n");
    scene.write("repair.yaml", fs::read_to_string(root().join("docs/examples/repair.yaml")).unwrap());
    scene
}

fn words<'a>(words: &[&'a str]) -> Vec<&'a str> {
    words.iter().chain(&SWITCHES).copied().collect()
}

/// The result: the output, the files, and each tool that ran, in order.
fn end(scene: &Scene) -> (String, String, Vec<String>) {
    let shown = scene.run("show last --json").ok().json();
    assert_eq!(shown["status"], "completed", "{shown}");
    let asked = scene.run("events last --jsonl --type TOOL_EXECUTION_REQUEST").ok().lines();
    let tools = asked.iter().map(|event| event["data"]["name"].as_str().unwrap().to_owned()).collect();
    let program = fs::read_to_string(scene.file("workspace/sum.sh")).unwrap();
    scene.run("verify").ok();
    (shown["output"].as_str().unwrap().to_owned(), program, tools)
}

#[test]
fn killed_agent_repairs_a_program_with_the_same_result() {
    let whole = scene();
    whole.run_args(words(&["run", "repair.yaml"])).ok();
    let expected = end(&whole);
    assert_eq!((expected.0.as_str(), expected.1.as_str()), (END, "echo $(($1 + $2))\n"));
    assert_eq!(expected.2, ["run_command", "read_file", "read_file", "edit_file", "run_command"]);

    // Killed while the model thinks, before each of its five answers.
    for n_calls in 1..=5 {
        let scene = scene();
        let mut running = Running::start(scene.command(words(&["run", "repair.yaml", "--jsonl"])));
        for _ in 0..n_calls {
            running.wait_for("\"LLM_CALL_REQUESTED\"");
        }
        assert_eq!(running.kill().code, None);
        scene.run_args(words(&["resume", "last"])).ok();
        assert_eq!(end(&scene), expected, "killed at call {n_calls}");
        let retried = scene.run("events last --jsonl --type LLM_CALL_RETRIED").ok().lines();
        assert_eq!(retried.len(), 1, "killed at call {n_calls}");
    }
}

#[test]
fn repeatedly_killed_agent_reaches_the_same_result() {
    let scene = scene();
    let mut running = Running::start(scene.command(words(&["run", "repair.yaml", "--jsonl"])));
    running.wait_for("\"LLM_CALL_REQUESTED\"");
    // Each life gets one answer further, and ends while the next one is awaited.
    for _ in 0..4 {
        running.wait_for("\"LLM_CALL_COMPLETED\"");
        running.wait_for("\"LLM_CALL_REQUESTED\"");
        running.kill();
        running = Running::start(scene.command(words(&["resume", "last", "--jsonl"])));
    }
    running.end().ok();
    let (output, program, tools) = end(&scene);
    assert_eq!((output.as_str(), program.as_str()), (END, "echo $(($1 + $2))\n"));
    assert_eq!(tools, ["run_command", "read_file", "read_file", "edit_file", "run_command"]);
}

/// Repairs, runs the test in the background, and when it has passed hands the program out: a command that says so in a
/// file, and then takes as long as it is made to wait.
fn release() -> String {
    let call = |name: &str, arguments: Value| json!({ "tool_calls": [{ "name": name, "arguments": arguments }] });
    let test = "sh test.sh > result.new; mv result.new result.txt";
    let wait = "while ! test -f result.txt; do sleep 0.02; done; cat result.txt";
    let release = "echo out >> released.txt; while ! test -f go; do sleep 0.02; done";
    let answers = json!([
        call("edit_file", json!({ "path": "sum.sh", "old_text": "$1 - $2", "new_text": "$1 + $2" })),
        call("start_process", json!({ "command": test })),
        call("run_command", json!({ "command": wait })),
        call("run_command", json!({ "command": release })),
        { "match": "not run again", "text": "It may be out: I do not hand it out twice." },
        { "text": "It is out." },
    ]);
    let llm = json!({
        "provider": "mock", "model": "scripted", "user_prompt": "Repair it and hand it out.", "tool_mode": "auto",
        "available_tools": ["edit_file", "start_process", "run_command"], "extra": { "script": { "answers": answers } },
    });
    json!({ "version": "1", "name": "release", "nodes": [{ "id": "work", "llm": llm }] }).to_string()
}

/// Waits until a file is there.
fn appears(file: &Path) {
    let limit = Instant::now() + HANG;
    while !file.exists() {
        assert!(Instant::now() < limit, "{} does not appear", file.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn command_interrupted_by_a_kill_is_not_run_twice() {
    let scene = scene();
    scene.write("release.json", release());
    let running = Running::start(scene.command(words(&["run", "release.json", "--jsonl"])));
    let (released, go) = (scene.file("workspace/released.txt"), scene.file("workspace/go"));
    appears(&released);
    assert_eq!(running.kill().code, None);
    scene.run_args(words(&["resume", "last"])).ok();
    scene.write("workspace/go", "");
    assert!(go.exists());
    let (output, program, tools) = end(&scene);
    assert_eq!(
        (output.as_str(), program.as_str()),
        ("It may be out: I do not hand it out twice.", "echo $(($1 + $2))\n")
    );
    assert_eq!(tools, ["edit_file", "start_process", "run_command", "run_command"]);
    assert_eq!(fs::read_to_string(released).unwrap(), "out\n");
    assert_eq!(fs::read_to_string(scene.file("workspace/result.txt")).unwrap(), "passed\n");
    let failed = scene.run("events last --jsonl --type TOOL_EXECUTION_FAILED").ok().lines();
    assert_eq!((failed.len(), &failed[0]["data"]["error"]["kind"]), (1, &json!("indeterminate")));
}
