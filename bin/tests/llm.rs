//! `rethread llm` as a script sees it: what is printed where, and the exit code.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use expect_test::expect;

/// Runs the command in an empty environment and folder, with this on stdin.
fn run(args: &[&str], stdin: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_rethread"))
        .args(args)
        .current_dir(folder.path())
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Prints exit code, stdout and stderr.
fn shown(args: &[&str], stdin: &str) -> String {
    let output = run(args, stdin);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "{}\n{}{}",
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr).lines().map(|line| format!("! {line}\n")).collect::<String>()
    )
}

const HELLO: &str = r#"{"model": "m", "messages": [{"role": "user", "content": "Say this is a test!"}]}"#;

#[test]
fn a_call_prints_the_text_or_one_object() {
    expect![[r#"
        0
        This is the mock model: give it a script.
    "#]]
    .assert_eq(&shown(&["llm", "call", "--provider", "mock", "--request", "-"], HELLO));
    let output = run(&["llm", "call", "--provider", "mock", "--request", "-", "--stream", "--json"], HELLO);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["finish_reason"], "stop");
    assert_eq!(answer["message"]["role"], "assistant");
}

#[test]
fn an_error_of_the_call_is_an_object_and_exit_code_1() {
    expect![[r#"
        1
        {"error":{"kind":"authentication","status":null,"provider":"anthropic","code":null,"message":"there is no key: set ANTHROPIC_API_KEY","retry_after_ms":null,"retryable":false,"request_id":null}}
    "#]]
    .assert_eq(&shown(&["llm", "call", "--provider", "anthropic", "--request", "-", "--json"], HELLO));
}

#[test]
fn invalid_input_is_reported_on_stderr() {
    expect![[r#"
        2
        ! error: - is not a request: unknown field `message`, expected one of `model`, `messages`, `tools`, `usable_tools`, `tool_additions`, `instructions`, `tool_choice`, `parallel_tool_calls`, `max_tokens`, `temperature`, `top_p`, `top_k`, `seed`, `stop`, `response_format`, `reasoning`, `service_tier`, `verbosity`, `cache`, `extra`, `stream` at line 1 column 10
    "#]]
    .assert_eq(&shown(&["llm", "call", "--provider", "mock", "--request", "-"], r#"{"message":[]}"#));
    expect![[r#"
        3
        ! error: no profile is named `x`; there are: none
    "#]]
    .assert_eq(&shown(&["llm", "check", "--profile", "x"], ""));
}

#[test]
fn counting_knows_requests_from_text() {
    expect![[r#"
        0
        13
    "#]]
    .assert_eq(&shown(&["llm", "count", "-"], HELLO));
    expect![[r#"
        0
        {"tokens":6,"encoding":"cl100k_base","counted":"text"}
    "#]]
    .assert_eq(&shown(&["llm", "count", "-", "--encoding", "cl100k_base", "--json"], "tiktoken is great!"));
}

#[test]
fn person_can_answer_as_the_model() {
    let output = run(&["llm", "call", "--provider", "human", "--model", "m", "--request", "-", "--json"], HELLO);
    // The request came from stdin, so there is nothing left for the answer.
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Say this is a test!"));
}
