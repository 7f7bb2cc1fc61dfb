//! The hosted part of GETTING_STARTED, followed against the fake providers.

use std::fs;
use std::process::{Command, Stdio};

use rethread_tests::binary::{Ran, Running, program, root};

use crate::fakes::{Lane, Protocol};

fn shell(lane: &Lane, command: &str, variables: &[(&str, String)]) -> Ran {
    let mut shell = Command::new("sh");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program().parent().unwrap().display());
    shell.args(["-c", command]).current_dir(lane.scene.path()).env_clear().env("PATH", path);
    for (name, folder) in [("XDG_CONFIG_HOME", "home/config"), ("XDG_STATE_HOME", "home/state")] {
        shell.env(name, lane.scene.file(folder));
    }
    shell.envs(variables.iter().map(|(name, value)| (*name, value.as_str()))).stdin(Stdio::null());
    Running::start(shell).end()
}

/// The blocks of a kind in a text.
fn blocks<'a>(text: &'a str, kind: &str) -> Vec<&'a str> {
    text.split(&format!("```{kind}\n")).skip(1).map(|rest| rest.split_once("```").unwrap().0).collect()
}

fn commands(text: &str) -> Vec<&str> {
    blocks(text, "console")
        .into_iter()
        .flat_map(|block| block.lines().filter_map(|line| line.strip_prefix("$ ")))
        .collect()
}

/// A folder as the page leaves it before its hosted part: a local model has run the agent once.
fn begun(page: &str) -> Lane {
    let lane = Lane::new();
    lane.run("init").ok();
    let file = lane.scene.file("rethread.toml");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("http://127.0.0.1:11434/v1"), "{text}");
    fs::write(&file, text.replace("http://127.0.0.1:11434/v1", &lane.local_url())).unwrap();
    lane.scene.write("agent.yaml", blocks(page, "yaml")[0]);
    lane.scene.write("notes.txt", "milk, eggs\n");
    shell(&lane, "rethread doctor", &[]).ok();
    shell(&lane, "rethread validate agent.yaml", &[]).ok();
    shell(&lane, "rethread run agent.yaml --input 'CALL read_file'", &[]).ok();
    lane
}

fn append(lane: &Lane, toml: &str) {
    let file = lane.scene.file("rethread.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}\n{toml}\n")).unwrap();
}

#[test]
fn hosted_part_works_as_it_stands() {
    let page = fs::read_to_string(root().join("docs/GETTING_STARTED.md")).unwrap();
    let (before, hosted) = page.split_once("## A hosted model").unwrap();
    let hosted = hosted.split("\n## ").next().unwrap();
    let lane = begun(before);
    append(&lane, blocks(hosted, "toml")[0]);
    let variables = [("OPENAI_API_KEY", "sk-test".to_owned()), ("OPENAI_BASE_URL", lane.url("openai"))];
    let n_before = lane.accepted().len();
    let commands = commands(hosted);
    assert!(commands.len() >= 2, "{commands:?}");
    for command in commands {
        let ran = shell(&lane, command, &variables).ok();
        if command.starts_with("rethread doctor") {
            assert!(!ran.stdout.contains("error"), "{ran}");
            assert!(ran.stdout.contains("profile hosted"), "{ran}");
            // The model of the page is one that will be there for a while.
            let is_of_chat = |line: &&str| line.contains("over Chat Completions");
            let left_out = ran.stdout.lines().filter(|line| line.contains("left out of requests"));
            assert!(
                !ran.stdout.contains("ends on") && left_out.clone().count() == left_out.filter(is_of_chat).count(),
                "{ran}"
            );
        } else {
            assert!(ran.stdout.contains("answer") || ran.stdout.contains("\n"), "{ran}");
        }
    }
    let requests = lane.accepted();
    assert!(requests.len() > n_before, "no call of the hosted model");
}

#[test]
fn hosted_part_works_with_each_provider() {
    let page = fs::read_to_string(root().join("docs/GETTING_STARTED.md")).unwrap();
    for protocol in Protocol::ALL {
        let lane = begun(&page);
        append(
            &lane,
            &format!("[profiles.hosted]\nprovider = \"{}\"\nmodel = \"{}\"\n", protocol.provider(), protocol.model()),
        );
        let key = |name| (name, "sk-test".to_owned());
        let variables = [
            key("OPENAI_API_KEY"),
            key("ANTHROPIC_API_KEY"),
            key("GEMINI_API_KEY"),
            ("OPENAI_BASE_URL", lane.url("openai")),
            ("ANTHROPIC_BASE_URL", lane.url("anthropic")),
            ("GEMINI_BASE_URL", lane.url("gemini")),
        ];
        shell(&lane, "rethread doctor", &variables).ok();
        shell(&lane, "rethread fork last --at 0 --profile hosted", &variables).ok();
        let hosted = lane.requests_of(protocol).into_iter().filter(|request| request.body()["model"] != "qwen3:8b");
        assert!(hosted.count() >= 4, "{protocol:?}");
        lane.accepted();
    }
}
