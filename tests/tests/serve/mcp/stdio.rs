//! `rethread mcp`, over stdio.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Stdio;

use rethread_tests::binary::{Running, Scene, program};
use serde_json::{Value, json};

use super::{Door, LEGACY, TWO, python, run, text};
use crate::place::Place;

/// A log with the workflows and these, which no process holds.
pub(super) fn log_alone(more: &[&str]) -> Scene {
    let Door { place, .. } = Door::new();
    more.iter().for_each(|workflow| drop(place.put(workflow)));
    let Place { scene, server, .. } = place;
    server.kill();
    scene
}

#[test]
fn mcp_client_for_python_works_over_stdio_with_a_server() {
    for generation in ["legacy", "auto"] {
        let door = Door::new();
        let program = program().to_str().unwrap();
        let Some(mut command) = python(generation, &["stdio", program, "mcp"]) else { return };
        command.current_dir(door.place.scene.path()).env("RETHREAD_TOKEN", &door.token);
        run(command);
    }
}

#[test]
fn mcp_client_for_python_works_over_stdio_on_a_log() {
    for generation in ["legacy", "auto"] {
        let scene = log_alone(&[]);
        let program = program().to_str().unwrap();
        let Some(mut command) = python(generation, &["stdio", program, "mcp"]) else { return };
        command.current_dir(scene.path()).env("XDG_CONFIG_HOME", scene.file("home"));
        run(command);
    }
}

#[test]
fn log_is_free_for_other_commands_between_tools_over_stdio() {
    let scene = log_alone(&[]);
    let mut command = scene.command(["mcp"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut ask = |method: &str, params: Value| -> Value {
        writeln!(stdin, "{}", json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })).unwrap();
        serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
    };
    let about =
        json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
    assert_eq!(ask("initialize", about)["result"]["serverInfo"]["name"], "rethread");
    let mut threads = BTreeMap::new();
    for n in 1..=3 {
        let called = ask("tools/call", json!({ "name": "chat", "arguments": { "input": "Hello" } }));
        assert_eq!(text(&called["result"]), "Hello, Ada!", "{called}");
        scene.write("two.yaml", TWO);
        scene.run("run two.yaml --input x").ok();
        let listed = ask("tools/call", json!({ "name": "threads", "arguments": {} }));
        let found = listed["result"]["structuredContent"]["threads"].as_array().unwrap().len();
        threads.insert(n, found);
    }
    assert_eq!(threads.into_values().collect::<Vec<_>>(), [2, 4, 6]);
    // What cannot be parsed ends nothing.
    writeln!(stdin, "rubbish").unwrap();
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn stdio_that_only_reads_runs_nothing() {
    let scene = log_alone(&[]);
    let mut command = scene.command(["mcp", "--read-only"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let about =
        json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
    for (id, method, params) in [
        (1, "initialize", about),
        (2, "tools/list", json!({})),
        (3, "tools/call", json!({ "name": "chat", "arguments": { "input": "Hello" } })),
    ] {
        writeln!(stdin, "{}", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).unwrap();
    }
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut answers = BTreeMap::new();
    while answers.len() < 3 {
        let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        answers.insert(answer["id"].as_u64().unwrap(), answer["result"].clone());
    }
    drop(stdin);
    let tools: Vec<_> = answers[&2]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(tools, ["threads", "explain", "events", "state", "diff", "bisect", "questions"]);
    assert!(text(&answers[&3]).contains("--read-only"), "{}", answers[&3]);
    assert!(child.wait().unwrap().success());
}

#[test]
fn stdio_without_a_log_creates_none() {
    let scene = Scene::new();
    let mut command = scene.command(["mcp"]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    let about =
        json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
    for (id, method, params) in
        [(1, "initialize", about), (2, "tools/list", json!({})), (3, "tools/call", json!({ "name": "chat" }))]
    {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        running.write(&format!("{request}\n"));
    }
    let answers = running.end().ok().lines();
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert!(answers.iter().any(|answer| answer["result"]["tools"].as_array().is_some_and(|tools| tools.len() == 7)));
    assert!(answers.iter().any(|answer| answer["id"] == 3 && text(&answer["result"]).contains("there is no log")));
    assert!(!scene.data_dir().exists());
}

#[test]
fn stdio_answers_each_request_that_a_server_refuses() {
    let scene = Scene::new();
    let token = scene.run("token create --scope operate").ok().stdout.trim().to_owned();
    let place = Place::at(scene, "0.0.0.0:0", "");
    let mut command = place.scene.command(["mcp"]);
    command.stdin(Stdio::piped()).env("RETHREAD_TOKEN", token);
    let mut running = Running::start(command);
    let about =
        json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
    let request = json!({ "jsonrpc": "2.0", "id": "first", "method": "initialize", "params": about });
    running.write(&format!("{request}\n"));
    let answer: Value = serde_json::from_str(&running.wait_for("jsonrpc")).unwrap();
    assert_eq!(answer["id"], "first", "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("door is closed"), "{answer}");
}

#[test]
fn stdio_that_is_closed_during_a_run_ends_at_once_and_the_run_can_be_resumed() {
    let scene = log_alone(&[]);
    let mut command = scene.command(["mcp"]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    let about =
        json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
    let call = json!({ "name": "hangs", "arguments": { "input": "Hello" }, "_meta": { "progressToken": "p" } });
    for (id, method, params) in [(1, "initialize", about), (2, "tools/call", call)] {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        running.write(&format!("{request}\n"));
    }
    running.wait_for("notifications/progress");
    // The transport by itself gives a request in progress 5 seconds, and then no answer.
    let answers = running.end().ok().lines();
    let last = answers.iter().find(|answer| answer["id"] == 2).unwrap();
    assert!(text(&last["result"]).contains("the connection has ended"), "{last}");
    let thread = scene.run("threads --json").ok().json()[0].clone();
    assert_eq!(thread["status"], "interrupted", "{thread}");
}
