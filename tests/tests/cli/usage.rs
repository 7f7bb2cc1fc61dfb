//! How it is called: names, places, inputs, help, exit codes.

use std::collections::BTreeSet;
use std::process::Stdio;

use expect_test::expect;
use rethread_tests::binary::{Ran, Running, Scene, root};
use serde_json::json;

use crate::{GREETING, id_of, keys, scene};

#[test]
fn every_outcome_has_its_exit_code() {
    let scene = scene();
    scene.run("run greeting.yaml").code(0);
    let failed = scene.run("run failing.yaml --json").code(1);
    assert_eq!(failed.json()["error"]["kind"], "authentication");
    assert!(failed.stderr.contains("no such key"), "{failed}");
    scene.run("run failing.yaml").code(1).silent();
    scene.run("run").code(2).silent();
    scene.run("dance").code(2).silent();
    scene.write("wrong.yaml", GREETING.replace("tool_mode", "tool_mood"));
    scene.run("run wrong.yaml").code(3).says("wrong.yaml:11:7").says("tool_mood").silent();
    let waiting = scene.run("run asking.yaml --input Ada --json").code(4);
    assert_eq!(waiting.json()["status"], "waiting");
    scene.run("show 01a00000-0000-7000-8000-000000000000").code(5).silent();
    let other = Scene::new();
    other.run("threads").code(5).says("run a workflow first").silent();
    scene.run("resume --all --json").code(4);
}

#[test]
fn a_thread_is_named_by_its_id_a_part_of_it_or_last() {
    let scene = scene();
    let ids: Vec<_> = (0..3).map(|_| id_of(&scene.run("run greeting.yaml --json").ok().json())).collect();
    let shown = |name: &str| id_of(&scene.run(&format!("show {name} --json")).ok().json());
    assert_eq!(shown("last"), ids[2]);
    assert_eq!(shown(&ids[0]), ids[0]);
    assert_eq!(shown(&ids[1][24..]), ids[1]);
    scene.run(&format!("show {}", &ids[0][..6])).code(5).says("give more of it");
}

#[test]
fn data_directory_is_taken_from_flag_environment_or_default() {
    let scene = scene();
    let in_environment = |words: &str| {
        let mut command = scene.command(words.split(' '));
        command.env("RETHREAD_DATA_DIR", scene.file("from-environment"));
        Running::start(command).end()
    };
    in_environment("run greeting.yaml --data-dir from-flag").ok();
    assert!(scene.file("from-flag/format").is_file() && !scene.file("from-environment").exists());
    in_environment("run greeting.yaml").ok();
    assert!(scene.file("from-environment/format").is_file() && !scene.data_dir().exists());
    scene.run("run greeting.yaml").ok();
    assert!(scene.data_dir().join("format").is_file());
    assert_eq!(scene.run("--data-dir from-flag threads --json").ok().json().as_array().unwrap().len(), 1);
}

#[test]
fn input_is_text_json_or_a_file() {
    let scene = scene();
    let input = |arguments: &[&str]| {
        scene.run_args(["run", "greeting.yaml", "--quiet"].iter().chain(arguments)).ok();
        scene.run("replay last --to 0 --json").ok().json()["variables"]["input"].clone()
    };
    scene.write("input.txt", "from a file\n");
    assert_eq!(input(&["--input", "Ada"]), "Ada");
    assert_eq!(input(&["--input-json", "{\"a\": [1, 2.5]}"]), json!({ "a": [1, 2.5] }));
    assert_eq!(input(&["--input-file", "input.txt"]), "from a file\n");
    assert_eq!(input(&[]), "");
    let mut command = scene.command(["run", "greeting.yaml", "--quiet", "--input-file", "-"]);
    let mut running = Running::start({
        command.stdin(Stdio::piped());
        command
    });
    running.write("from a pipe");
    running.end().ok();
    assert_eq!(scene.run("replay last --to 0 --json").ok().json()["variables"]["input"], "from a pipe");
    scene.run_args(["run", "greeting.yaml", "--input", "a", "--input-json", "1"]).code(2);
}

#[test]
fn validate_and_schema_need_no_log() {
    let scene = scene();
    let valid = scene.run("validate greeting.yaml asking.yaml --json").ok().json();
    assert_eq!(keys(&valid[0]), "file valid name hash faults not_checked options warnings");
    assert_eq!((&valid[0]["valid"], &valid[1]["name"]), (&json!(true), &json!("asking")));
    scene.write("wrong.yaml", GREETING.replace("{{ input }}?", "{{ input "));
    let wrong = scene.run("validate greeting.yaml wrong.yaml --json").code(3).json();
    assert_eq!(wrong[1]["valid"], false);
    assert_eq!(wrong[1]["faults"][0]["path"], "nodes[0].llm.user_prompt");
    let schema = scene.run("schema").ok().json();
    assert_eq!(schema["title"], "rethread workflow, version 1");
    assert!(!scene.data_dir().exists());
    let drawn = scene.run("graph asking.yaml").ok().stdout;
    assert!(drawn.starts_with("---\ntitle: \"asking\"\n---\nflowchart TD\n") && drawn.contains("n0 --> n1"), "{drawn}");
    scene.run("graph wrong.yaml").code(3).says("wrong.yaml:10:20:").silent();
    scene.run("graph nowhere.yaml").code(5).says("there is no file nowhere.yaml").silent();
    assert!(!scene.data_dir().exists());
    let hello: Ran = scene.run_args(["validate".into(), root().join("docs/examples/hello.yaml")]).ok();
    assert!(hello.stdout.contains("ok, workflow `hello`"), "{hello}");
}

#[test]
fn completions_exist_for_common_shells() {
    let scene = Scene::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = scene.run(&format!("completions {shell}")).ok().stdout;
        assert!(script.contains("rethread") && script.contains("resume"), "{shell}");
    }
    scene.run("completions dos").code(2);
}

#[test]
fn alone_it_names_the_first_commands() {
    let ran = Scene::new().run("").code(2);
    expect![[r#"
        Usage: rethread COMMAND

          run          Run a workflow to its end
          chat         Talk with an agent or a workflow
          threads      List threads
          show         Show one thread: its path, cost and open questions
          explain      Explain what a thread did, where time and money went, and why it failed
          serve        Serve the log and its threads over HTTP

        `rethread --help` lists all commands, `rethread COMMAND --help` explains one.
    "#]]
    .assert_eq(&ran.stderr);
}

#[test]
fn the_help_lists_the_commands() {
    let help = Scene::new().run("--help").ok().stdout;
    let groups = help.split_once("\n\nStart:\n").unwrap().1.split("\n\nOptions:").next().unwrap();
    let commands: BTreeSet<&str> = groups
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_once("  "))
        .map(|(name, about)| {
            assert!(!about.trim().is_empty(), "{name}");
            name.trim()
        })
        .collect();
    assert!(commands.len() > 40 && commands.contains("validate"), "{groups}");
    assert!(help.contains("130 interrupted"), "{help}");
    for command in ["schema", "validate"] {
        let help = Scene::new().run(&format!("{command} --help")).ok();
        assert!(help.stdout.contains("docs/WORKFLOWS.md"), "{help}");
    }
    for command in commands {
        let help = Scene::new().run(&format!("{command} --help")).ok();
        assert!(help.stdout.contains("Usage: rethread"), "{help}");
    }
}
