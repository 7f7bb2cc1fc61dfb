//! The configuration is opened once in a command.

use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fs, thread};

use rethread_tests::binary::{Running, Scene};

const CONFIGURATION: &str = "
[profiles.fast]
provider = 'mock'
script = { answers = [{ text = 'Hi.' }] }
[limits]
crashes_max = 5
[memory]
namespace = []
[serve.client_tools.locate]
description = 'Where the user is.'
[commands]
network = true
";

/// How long a command may take. One that opens the configuration again waits for good.
const MAX: Duration = Duration::from_secs(60);

/// Makes `rethread.toml` a named pipe that yields the configuration to the first reader, and nothing to a second one.
fn configured(scene: &Scene) -> JoinHandle<()> {
    let file = scene.file("rethread.toml");
    let _ = fs::remove_file(&file);
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    thread::spawn(move || fs::write(file, CONFIGURATION).unwrap())
}

#[test]
fn command_opens_the_configuration_once() {
    let scene = Scene::new();
    scene.write("w.yaml", "{version: '1', name: w, nodes: [{id: a, llm: {profile_id: fast, user_prompt: Hello.}}]}");
    for words in [
        "run w.yaml --allow-write --allow-commands",
        "validate w.yaml",
        "doctor --offline",
        "threads",
        "show last",
        "tools list",
        "tools call list_folder",
        "gc --older-than 30d",
        "llm check --profile fast",
    ] {
        let written = configured(&scene);
        Running::start(scene.command(words.split_whitespace())).end_within(MAX).ok();
        written.join().unwrap();
    }
}

#[test]
fn server_opens_the_configuration_once() {
    let scene = Scene::new();
    let written = configured(&scene);
    let mut server = Running::start(scene.command(["serve", "--listen", "127.0.0.1:0", "--allow-commands"]));
    server.wait_until_said("serving");
    written.join().unwrap();
    server.signal("TERM");
    server.end_within(MAX).ok();
}
