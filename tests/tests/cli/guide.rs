//! The guides: every command on a page is run, and prints what the page says.

use std::fs;

use rethread_tests::binary::{Ran, Running, Scene, program, root};

/// A command of a page, what it prints and how it ends.
struct Shown {
    command: String,
    code: i32,
    /// Lines in their order; `…` stands for anything.
    prints: Vec<String>,
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
    let mut shell = std::process::Command::new("sh");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program().parent().unwrap().display());
    shell.args(["-c", command]).current_dir(scene.path()).env_clear().env("PATH", path);
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
fn every_command_of_the_debugging_guide_does_what_the_guide_says() {
    let page = fs::read_to_string(root().join("docs/guides/debugging.md")).unwrap();
    let scene = Scene::new();
    let yaml = page.split("```yaml\n").nth(1).unwrap().split_once("```").unwrap().0;
    scene.write("refund.yaml", yaml);
    let commands = commands(&page);
    assert!(commands.len() >= 14, "the guide has {} commands", commands.len());
    for shown in commands {
        let ran = run(&scene, &shown.command).code(shown.code);
        // Data first, then talk; each in its own order.
        let printed = format!("{}\n{}", ran.stdout, ran.stderr);
        let mut lines = printed.lines();
        for expected in &shown.prints {
            assert!(lines.any(|line| is_like(line, expected)), "`{expected}` is missing, or not there: {ran}");
        }
    }
    let xml = fs::read_to_string(scene.file("report.xml")).unwrap();
    assert!(xml.contains("failures=\"0\""), "{xml}");
}
