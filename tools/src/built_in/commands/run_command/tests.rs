use std::time::Instant;

use expect_test::expect;
use serde_json::Value;

use super::*;
use crate::Progress;
use crate::built_in::fixture::Fixture;
use crate::process::{GUARDED, environment};

fn with_shell() -> CommandOptions {
    CommandOptions { shell: Some("/bin/sh".into()), isolation: crate::Isolation::off(), ..CommandOptions::default() }
}

fn fixture() -> Fixture {
    Fixture::new([run_command(with_shell())])
}

async fn run_it(f: &Fixture, command: &str) -> String {
    f.call("run_command", json!({ "command": command })).await
}

/// Whether a process is there and not just waiting to be buried.
fn is_running(id: &str) -> bool {
    match std::fs::read_to_string(format!("/proc/{id}/stat")) {
        Ok(stat) => !stat.rsplit(") ").next().unwrap().starts_with('Z'),
        Err(_) => false,
    }
}

async fn is_gone(id: &str) {
    let begun = Instant::now();
    while is_running(id) {
        assert!(begun.elapsed() < Duration::from_secs(120), "process {id} is still running");
        sleep(Duration::from_millis(5)).await;
    }
}

/// The process numbers that a command has written into a file, once it is there.
async fn ids(f: &Fixture, file: &str, n: usize) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(f.path(file)).unwrap_or_default();
        let ids: Vec<_> = text.lines().map(str::to_owned).collect();
        if ids.len() == n && text.ends_with('\n') {
            return ids;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{file} did not come");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn command_returns_output_and_exit_code() {
    let f = fixture();
    expect![[r#"
        out
        [standard error]
        err
        [exit code 3]
    "#]]
    .assert_eq(&run_it(&f, "echo out; printf err >&2; exit 3").await);
    expect![[r#"
        [exit code 0]
    "#]]
    .assert_eq(&run_it(&f, "true").await);
    expect![[r#"
        [killed by signal 9]
    "#]]
    .assert_eq(&run_it(&f, "kill -KILL $$").await);
    let arguments = json!({ "command": "printf 123; exit 1" });
    let output = f.registry.call("run_command", arguments, f.cx()).await.unwrap();
    expect![[r#"{"exit_code":1,"signal":null,"stdout":"123","stderr":"","stdout_bytes":3,"stderr_bytes":0,"is_cut":false,"full_output":null}"#]]
    .assert_eq(&output.value.unwrap().0.to_string());
}

#[tokio::test]
async fn long_output_is_cut_in_the_value_and_named_by_its_id() {
    let f = fixture();
    let arguments = json!({ "command": "yes | head -c 200000; echo err >&2" });
    let output = f.registry.call("run_command", arguments, f.cx()).await.unwrap();
    let value = output.value.unwrap().0;
    assert_eq!(value["is_cut"], true);
    assert!(value["stdout"].as_str().unwrap().len() < VALUE_BYTES_MAX + 100);
    assert_eq!((&value["stderr"], &value["stdout_bytes"]), (&json!("err\n"), &json!(200_000)));
    let full = output.full.unwrap();
    assert_eq!(value["full_output"], Hash::of(full.as_bytes()).to_string());
    assert!(full.len() > 200_000 && full.ends_with("[standard error]\nerr\n[exit code 0]\n"));
}

#[tokio::test]
async fn a_command_runs_in_the_workspace_or_a_folder_of_it() {
    let f = fixture();
    f.write("sub/file", "here");
    assert_eq!(run_it(&f, "cat sub/file").await, "here\n[exit code 0]\n");
    let arguments = |folder: &str| json!({ "command": "cat file", "folder": folder });
    assert_eq!(f.call("run_command", arguments("sub")).await, "here\n[exit code 0]\n");
    for (folder, error) in [
        ("..", "denied: `..` is outside the workspace; use a path inside it, relative to its folder"),
        ("none", "not_found: there is nothing at `none`"),
        ("sub/file", "invalid_arguments: `sub/file` leads through something that is not a folder"),
    ] {
        assert_eq!(f.call("run_command", arguments(folder)).await, error);
    }
}

#[tokio::test]
async fn command_has_no_input() {
    let f = fixture();
    assert_eq!(run_it(&f, "read answer; echo \"got $?\"").await, "got 1\n[exit code 0]\n");
}

#[tokio::test]
async fn command_sees_only_allowed_environment_variables() {
    let f =
        Fixture::new([run_command(CommandOptions { environment: vec!["CARGO_MANIFEST_DIR".into()], ..with_shell() })]);
    // Cargo sets this for tests; it represents everything that was not allowed.
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
    let text = run_it(&f, "env").await;
    let names: Vec<_> = text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    assert!(names.contains(&"PATH") && names.contains(&"CARGO_MANIFEST_DIR"), "{text}");
    const BY_THE_SHELL: [&str; 4] = ["PWD", "OLDPWD", "SHLVL", "_"];
    for name in names {
        let is_known = environment::allowed(&["CARGO_MANIFEST_DIR".into()]).iter().any(|(n, _)| n == name);
        assert!(is_known || BY_THE_SHELL.contains(&name) || name == GUARDED, "{name}");
    }
}

#[tokio::test]
async fn endless_output_is_stopped_and_bounded() {
    let f = fixture();
    let arguments = json!({ "command": "yes", "timeout_ms": 1000 });
    let text = f.call("run_command", arguments).await;
    assert!(text.starts_with("timeout: y\ny\n"), "{}", &text[..40]);
    assert!(text.ends_with("y\n[stopped after 1000 ms; its effects until then remain]\n"));
    assert!(text.len() < 2 * STREAM_BYTES_MAX, "{}", text.len());
}

#[tokio::test]
async fn long_output_has_head_and_tail() {
    let f = fixture();
    let text = run_it(&f, "echo begin; head -c 1000000 /dev/zero | tr '\\0' x; echo; echo end").await;
    assert!(text.starts_with("begin\nxxx") && text.ends_with("xxx\nend\n[exit code 0]\n"));
    assert!(text.len() < 33 * 1024 && text.contains(" of 1000025 bytes left out here]\n"), "{}", text.replace('x', ""));
    let arguments = json!({ "command": "head -c 10000000 /dev/zero | tr '\\0' x" });
    let full = f.registry.call("run_command", arguments, f.cx()).await.unwrap().full.unwrap();
    assert!(full.contains("\n[5805696 of 10000000 bytes left out here]\n"), "{}", full.replace('x', ""));
}

/// Writes its number and that of a process it starts into `ids`; neither ends when asked to.
const STUBBORN: &str =
    "trap '' TERM INT HUP; sleep 1000 & echo $$ > ids; echo $! >> ids; while :; do wait; sleep 1; done";

#[tokio::test]
async fn command_and_its_children_are_killed_at_the_timeout() {
    let f = fixture();
    let arguments = json!({ "command": STUBBORN, "timeout_ms": 2000 });
    let text = f.call("run_command", arguments).await;
    assert_eq!(text, "timeout: [stopped after 2000 ms; its effects until then remain]\n");
    for id in ids(&f, "ids", 2).await {
        is_gone(&id).await;
    }
}

#[tokio::test]
async fn cancelled_command_is_killed_with_its_children() {
    let f = fixture();
    let cx = f.cx();
    let cancel = cx.cancel.clone();
    let answer = f.registry.call("run_command", json!({ "command": STUBBORN }), cx);
    let (answer, ids) = tokio::join!(answer, async {
        let ids = ids(&f, "ids", 2).await;
        cancel.cancel();
        ids
    });
    assert_eq!(answer.unwrap_err().kind, ErrorKind::Cancelled);
    for id in ids {
        is_gone(&id).await;
    }
}

#[tokio::test]
async fn command_and_its_children_are_killed_if_the_call_is_dropped() {
    let f = fixture();
    let answer = tokio::spawn(f.registry.call("run_command", json!({ "command": STUBBORN }), f.cx()));
    let ids = ids(&f, "ids", 2).await;
    assert!(ids.iter().all(|id| is_running(id)));
    answer.abort();
    for id in ids {
        is_gone(&id).await;
    }
}

#[tokio::test]
async fn background_children_do_not_outlive_the_command() {
    let f = fixture();
    let text = run_it(&f, "sleep 1000 & echo $! > ids; echo done").await;
    assert_eq!(text, "done\n[exit code 0]\n");
    for id in ids(&f, "ids", 1).await {
        is_gone(&id).await;
    }
}

#[tokio::test]
async fn process_outside_the_group_does_not_delay_the_answer() {
    let f = fixture();
    // It holds the pipes open; where there is no `setsid`, there is nothing to show.
    let text =
        run_it(&f, "setsid sh -c 'echo $$ > ids; exec sleep 30' & while [ ! -s ids ]; do :; done; echo out").await;
    assert_eq!(text, "out\n[exit code 0]\n");
    for id in ids(&f, "ids", 1).await {
        let id = id.parse().ok().and_then(rustix::process::Pid::from_raw).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
    }
}

#[tokio::test]
async fn command_stops_before_the_call_timeout_to_return_output() {
    let f = fixture();
    let cx = f.cx().timeout(MARGIN + Duration::from_millis(1500));
    let arguments = json!({ "command": "echo half; sleep 1000" });
    let error = f.registry.call("run_command", arguments, cx).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert!(!error.retryable);
    assert_eq!(error.message, "half\n[stopped after 1500 ms; its effects until then remain]\n");
}

#[tokio::test]
async fn output_is_reported_while_the_command_runs() {
    let f = fixture();
    let (sender, receiver) = std::sync::mpsc::channel();
    let cx = f.cx().progress(Progress::new(move |text| sender.send(text).unwrap()));
    let arguments = json!({ "command": "echo first; read answer" });
    f.registry.call("run_command", arguments, cx).await.unwrap();
    assert_eq!(receiver.recv().unwrap(), "first\n");
}

#[tokio::test(start_paused = true)]
async fn fast_output_is_reported_at_intervals() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut captured = Captured::new(100, Progress::new(move |text| sender.send(text).unwrap()));
    captured.take(b"1");
    captured.take(b"2");
    tokio::time::advance(Duration::from_millis(499)).await;
    captured.take(b"3");
    tokio::time::advance(Duration::from_millis(1)).await;
    captured.take(b"4");
    drop(captured);
    assert_eq!(receiver.iter().collect::<Vec<_>>(), ["1", "4"]);
}

#[tokio::test]
async fn a_command_that_cannot_start_is_an_error() {
    let f = fixture();
    let text = run_it(&f, "a\0b").await;
    assert!(text.starts_with("failed: `/bin/sh` cannot be started: "), "{text}");
    let options = CommandOptions { shell: Some("/no/such/shell".into()), ..with_shell() };
    let f = Fixture::new([run_command(options)]);
    let text = run_it(&f, "true").await;
    assert!(text.starts_with("failed: `/no/such/shell` cannot be started: "), "{text}");
}

#[tokio::test]
async fn invalid_arguments_are_refused() {
    let f = fixture();
    for arguments in [
        json!({}),
        json!({ "command": "" }),
        json!({ "command": [] }),
        json!({ "command": [""] }),
        json!({ "command": ["ls", 1] }),
        json!({ "command": ["ls", "x".repeat(60_000), "x".repeat(60_000)] }),
        json!({ "command": "x".repeat(100_001) }),
        json!({ "command": "ls", "timeout_ms": 0 }),
        json!({ "command": "ls", "timeout_ms": 10_000_000 }),
        Value::Null,
    ] {
        let text = f.call("run_command", arguments).await;
        assert!(text.starts_with("invalid_arguments: "), "{text}");
    }
}

#[tokio::test]
async fn command_is_a_list_of_words_and_a_text_needs_a_shell() {
    let f = Fixture::new([run_command(CommandOptions::default())]);
    f.write("x", "");
    let words = json!({ "command": ["printf", "%s|", "$HOME", "*", "; touch made", "`touch made`", "a\nb"] });
    assert_eq!(f.call("run_command", words).await, "$HOME|*|; touch made|`touch made`|a\nb|\n[exit code 0]\n");
    let text = run_it(&f, "touch made").await;
    assert!(text.starts_with("invalid_arguments: ") && text.contains("is not of type \"array\""), "{text}");
    assert!(!f.path("made").exists());
    let tool = f.registry.get("run_command").unwrap();
    assert!(tool.spec().description.as_ref().unwrap().contains("There is no shell"));
    let schema = |f: &Fixture| f.registry.get("run_command").unwrap().spec().parameters.0.clone();
    assert_eq!(schema(&f)["properties"]["command"]["type"], "array");
    assert_eq!(schema(&fixture())["properties"]["command"]["anyOf"][1]["type"], "string");
}

#[test]
fn output_at_the_size_limit_is_not_cut() {
    let mut captured = Captured::new(9, Progress::default());
    for part in ["abc", "def", "ghi"] {
        captured.take(part.as_bytes());
    }
    assert_eq!(captured.text(), "abcdefghi");
    assert_eq!(captured.lines(), "abcdefghi\n");
    captured.take(b"j\n");
    assert_eq!(captured.lines(), "abcdef\n[2 of 11 bytes left out here]\nij\n");
    captured.take("é".repeat(100).as_bytes());
    assert!(captured.text().starts_with("abcdef\n[202 of 211 bytes left out here]\n"));
}
