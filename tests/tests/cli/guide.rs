//! The guides: every command on a page is run, and prints what the page says.

use std::fs;

use rethread_tests::binary::{Ran, Running, Scene, program, root};
use rethread_tests::provider::{Provider, Said, Wire};
use serde_json::{Value, json};

/// A command of a page, what it prints and how it ends.
struct Shown {
    command: String,
    code: i32,
    /// Lines in their order; `…` matches anything.
    prints: Vec<String>,
}

impl Shown {
    #[track_caller]
    fn check(&self, ran: &Ran) {
        let ran = ran.clone().code(self.code);
        // Data first, then talk; each in its own order.
        let printed = format!("{}\n{}", ran.stdout, ran.stderr);
        let mut lines = printed.lines();
        for expected in &self.prints {
            assert!(lines.any(|line| is_like(line, expected)), "`{expected}` is missing, or not there: {ran}");
        }
    }
}

fn commands(page: &str) -> Vec<Shown> {
    let mut shown: Vec<Shown> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        for line in block.split_once("```").unwrap().0.lines() {
            match (line.strip_prefix("$ "), shown.last_mut()) {
                (Some(command), _) => {
                    let (command, code) = match command.split_once("  # exit ") {
                        Some((command, code)) => (command, code.parse().unwrap()),
                        None => (command, 0),
                    };
                    shown.push(Shown { command: command.to_owned(), code, prints: Vec::new() });
                }
                (None, Some(last)) => last.prints.push(line.to_owned()),
                (None, None) => panic!("a console block begins with a command: {line}"),
            }
        }
    }
    shown
}

fn run(scene: &Scene, command: &str) -> Ran {
    run_with(scene, command, &[])
}

fn run_with(scene: &Scene, command: &str, variables: &[(&str, &str)]) -> Ran {
    let mut shell = std::process::Command::new("sh");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program().parent().unwrap().display());
    shell.args(["-c", command]).current_dir(scene.path()).env_clear().env("PATH", path);
    shell.envs(variables.iter().copied());
    shell.stdin(std::process::Stdio::null());
    Running::start(shell).end()
}

fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a line is as the page says; the number of blanks does not count.
fn is_like(line: &str, shown: &str) -> bool {
    let (line, shown) = (words(line), words(shown));
    let mut parts = shown.split('…').map(str::trim);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() {
        return rest.is_empty();
    }
    for (i, part) in parts.iter().enumerate() {
        if i + 1 == parts.len() && !part.is_empty() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[test]
fn debugging_guide_shows_the_actual_output() {
    let page = fs::read_to_string(root().join("docs/guides/debugging.md")).unwrap();
    let scene = Scene::new();
    let yaml = page.split("```yaml\n").nth(1).unwrap().split_once("```").unwrap().0;
    scene.write("refund.yaml", yaml);
    let commands = commands(&page);
    assert!(commands.len() >= 14, "the guide has {} commands", commands.len());
    for shown in commands {
        shown.check(&run(&scene, &shown.command));
    }
    let xml = fs::read_to_string(scene.file("report.xml")).unwrap();
    assert!(xml.contains("failures=\"0\""), "{xml}");
}

/// The model of the page: it reads, it asks, it answers.
fn shopper(request: &Value) -> Said {
    let messages = request["messages"].as_array().unwrap();
    let has_read = messages.iter().any(|message| message["role"] == "tool");
    let asks_how_many = messages.iter().any(|message| message["content"].to_string().contains("How many eggs?"));
    let text = |text: &str| Said::Text(text.to_owned());
    match (request["model"].as_str().unwrap(), asks_how_many, has_read) {
        ("gpt-6-luna", ..) => text("Twelve eggs."),
        (_, true, false) => Said::Call("ask_user".into(), json!({ "question": "How many people will eat?" })),
        (_, true, true) => text("Eight eggs."),
        (_, false, false) => Said::Call("read_file".into(), json!({ "path": "notes.txt" })),
        (_, false, true) => text("Milk and eggs."),
    }
}

#[test]
fn getting_started_shows_the_actual_output() {
    let page = fs::read_to_string(root().join("docs/GETTING_STARTED.md")).unwrap();
    let scene = Scene::new();
    let provider = Provider::start(|_, request| shopper(request));
    let address = provider.base_url(Wire::OpenaiChat);
    let variables = [("OPENAI_API_KEY", "sk-test"), ("OPENAI_BASE_URL", address.as_str())];
    let configuration = scene.file("rethread.toml");
    let mut n_commands = 0;
    for block in page.split("\n```").skip(1).step_by(2) {
        let (kind, text) = block.split_once('\n').unwrap();
        match kind {
            "yaml" => drop(scene.write("agent.yaml", text)),
            "toml" => {
                let before = fs::read_to_string(&configuration).unwrap();
                fs::write(&configuration, format!("{before}\n{text}\n")).unwrap();
            }
            "console" => {
                for mut shown in commands(&format!("```console\n{text}\n```")) {
                    if shown.command.contains(" ID ") {
                        let id = scene.run("inbox --json").ok().json()[0]["id"].as_str().unwrap().to_owned();
                        shown.command = shown.command.replace("ID", &id);
                        shown.prints.iter_mut().for_each(|line| *line = line.replace("ID", &id));
                    }
                    shown.check(&run_with(&scene, &shown.command, &variables));
                    n_commands += 1;
                    if let Ok(text) = fs::read_to_string(&configuration) {
                        fs::write(&configuration, text.replace("http://127.0.0.1:11434/v1", &address)).unwrap();
                    }
                }
            }
            "sh" => {}
            other => panic!("a block of {other}"),
        }
    }
    assert!(n_commands >= 12, "the page has {n_commands} commands");
}
