//! A log that a command holds: others read it through that command, and answer its questions.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rethread_tests::attack;
use rethread_tests::binary::{Running, Scene};
use rethread_tests::needs;
use rethread_tests::provider::{Provider, Said, Wire};
use serde_json::json;

use crate::{id_of, scene};

/// A thread that asks a person in one branch and calls a slow model in the other.
const BUSY: &str = r#"
version: "1"
name: busy
nodes:
  - id: both
    parallel:
      branches:
        people:
          nodes:
            - id: ask
              user_interaction:
                operation_type: UPDATE_VARIABLES
                prompt: What is your name?
                variables: [{variable_name: name, expression: "{{ input }}"}]
        models:
          nodes:
            - {id: think, llm: {provider: mock, model: m, user_prompt: hi, extra: {script: {answers: [{text: At last., delay_ms: 60000}]}}}}
"#;

/// A run of a workflow that takes a minute, once its model call is in the log.
fn holding(scene: &Scene, file: &str) -> Running {
    let mut holder = Running::start(scene.command(["run", file, "--jsonl", "--no-input"]));
    holder.wait_for("LLM_CALL_REQUESTED");
    holder
}

#[test]
fn show_says_that_a_model_is_asked_again_and_when() {
    let scene = scene();
    let provider = Provider::start(|_, _| Said::Refused(429));
    let url = provider.base_url(Wire::OpenaiChat);
    let retry = "retry = { base_ms = 60000, wait_max_ms = 60000 }";
    let profile =
        format!("provider = \"openai_chat\"\nmodel = \"m\"\nbase_url = \"{url}\"\nauth = \"none\"\n{retry}\n");
    scene.write("rethread.toml", format!("[profiles.main]\n{profile}"));
    let nodes = "nodes: [{id: think, llm: {profile_id: main, user_prompt: hi}}]";
    scene.write("limited.yaml", format!("version: '1'\nname: limited\n{nodes}\n"));
    let mut holder = Running::start(scene.command(["run", "limited.yaml", "--jsonl", "--no-input"]));
    holder.wait_for("LLM_TRY_FAILED");
    let shown = scene.run("show last").ok().stdout;
    assert!(shown.contains("try 1 failed (rate_limit), the next one begins at 2"), "{shown}");
    let state = scene.run("replay last --json").ok().json();
    let failed = &state["pending"][0]["failed_try"];
    assert_eq!((&failed["number"], &failed["kind"]), (&json!(1), &json!("rate_limit")), "{state}");
    holder.kill();
}

#[test]
fn log_is_readable_while_a_run_holds_it() {
    let scene = scene();
    scene.run("run greeting.yaml --input Ada").ok();
    let holder = holding(&scene, "slow.yaml");
    for command in [
        "threads",
        "show last",
        "events last",
        "tail",
        "replay last",
        "explain last",
        "diff last@1 @2",
        "bisect last --when 'true'",
        "tree last",
        "inbox",
        "export last",
        "verify",
    ] {
        scene.run_args(command.replace('\'', "").split_whitespace()).ok();
    }
    let threads = scene.run("threads --json").ok().json();
    assert_eq!(threads.as_array().unwrap().len(), 2, "{threads}");
    // What would run here, or delete, is refused: the log has one writer.
    let pid = format!("rethread run, pid {}", holder.pid());
    scene.run("run greeting.yaml").code(7).says(&pid).silent();
    scene.run("gc --older-than 0s").code(7).says(&pid);
    holder.kill();
    // The remains of its socket block no command.
    scene.run("threads").ok();
    scene.run("run greeting.yaml").ok();
}

#[test]
fn a_question_of_a_running_command_is_answered_by_another() {
    let scene = scene();
    scene.write("busy.yaml", BUSY);
    let mut holder = Running::start(scene.command(["run", "busy.yaml", "--jsonl", "--no-input"]));
    let (mut is_asked, mut is_called) = (false, false);
    while !(is_asked && is_called) {
        let line = holder.wait_for("_REQUESTED");
        is_asked |= line.contains("USER_INTERACTION_REQUESTED");
        is_called |= line.contains("LLM_CALL_REQUESTED");
    }
    let inbox = scene.run("inbox --json").ok().json();
    let question = inbox[0]["id"].as_str().unwrap();
    let pid = format!("it continues at rethread run, pid {}", holder.pid());
    scene.run(&format!("respond {question} --text Ada")).ok().says(&pid);
    assert!(holder.wait_for("USER_INTERACTION_RESPONDED").contains(r#""by":{"kind":"command"}"#));
    assert_eq!(scene.run("inbox --json").ok().stdout, "[]\n");
    scene.run("pause last").ok();
    let ran = holder.end();
    assert!(ran.stdout.contains("THREAD_PAUSED"), "{ran}");
}

#[test]
fn command_of_a_model_cannot_approve_a_call_over_the_socket() {
    if !needs::program("python3") {
        return;
    }
    let scene = Scene::new();
    scene.write("attack.json", attack::workflow(&scene, "socket"));
    scene.run(&format!("run attack.json --no-input {}", attack::OPTIONS)).code(4);
    let ran = scene.run("events last --jsonl --type TOOL_EXECUTION_COMPLETED").ok().stdout;
    assert!(ran.contains("socket: 7") && ran.contains("--isolate-commands"), "{ran}");
    assert!(!scene.file(attack::WRITTEN).exists());
    assert_eq!(scene.run("inbox --json").ok().json().as_array().map(Vec::len), Some(1));
}

#[test]
fn run_with_isolated_commands_is_answered_by_another_command() {
    let scene = scene();
    scene.write("busy.yaml", BUSY);
    let options = "--allow-commands --isolate-commands --workspace workspace";
    let words = format!("run busy.yaml --jsonl --no-input {options}");
    let mut holder = Running::start(scene.command(words.split_whitespace()));
    holder.wait_for("USER_INTERACTION_REQUESTED");
    let inbox = scene.run("inbox --json").ok().json();
    scene.run(&format!("respond {} --text Ada", inbox[0]["id"].as_str().unwrap())).ok();
    holder.wait_for("USER_INTERACTION_RESPONDED");
    holder.kill();
}

#[test]
fn command_changes_only_threads_that_it_runs() {
    let scene = scene();
    let asked = scene.run("run asking.yaml --input Ada --no-input --json").code(4).json();
    let question = scene.run("inbox --json").ok().json()[0]["id"].as_str().unwrap().to_owned();
    let holder = holding(&scene, "slow.yaml");
    for command in [format!("respond {question} --text yes"), format!("cancel {}", id_of(&asked))] {
        scene.run(&command).code(7).says("does not run in that process");
    }
    assert_eq!(scene.run("inbox --json").ok().json()[0]["id"], question.as_str());
    holder.kill();
    scene.run(&format!("respond {question} --value true")).ok();
}

#[test]
fn socket_is_private_and_removed_with_the_command() {
    let scene = scene();
    let holder = holding(&scene, "slow.yaml");
    let folder = scene.data_dir().join("socket");
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(folder.join("api").exists());
    holder.signal("INT");
    holder.end().code(130);
    assert!(!folder.join("api").exists());
}

#[test]
fn data_directory_with_a_long_path_is_readable_while_held() {
    let scene = scene();
    let folder = scene.file(&"deep/".repeat(40));
    fs::create_dir_all(&folder).unwrap();
    let folder = folder.to_str().unwrap();
    let mut holder = Running::start(scene.command(["run", "slow.yaml", "--jsonl", "--no-input", "--data-dir", folder]));
    holder.wait_for("LLM_CALL_REQUESTED");
    scene.run(&format!("threads --data-dir {folder}")).ok();
}

#[test]
fn reading_commands_do_not_block_each_other() {
    let scene = scene();
    scene.run("run greeting.yaml --input Ada").ok();
    let commands = ["threads", "show last", "events last", "explain last", "inbox"].repeat(3);
    let start = |words: &&str| Running::start(scene.command(words.split_whitespace()));
    let all: Vec<_> = commands.iter().map(start).collect();
    for reading in all {
        reading.end().ok();
    }
}

#[test]
fn a_log_is_read_while_another_command_follows_it() {
    let scene = scene();
    scene.run("run asking.yaml --input Ada --no-input").code(4);
    let mut following = Running::start(scene.command(["tail", "--follow", "--jsonl"]));
    following.wait_for("THREAD_STARTED");
    scene.run("threads").ok();
    scene.run("inbox").ok();
}
