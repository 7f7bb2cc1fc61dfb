use std::time::Instant;

use rethread_events::fault::ErrorKind;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::built_in::fixture::Fixture;
use crate::built_in::register_processes;
use crate::{CommandOptions, ProcessOptions};

/// Writes its number and that of a process it starts into `ids`; neither ends when asked to.
const STUBBORN: &str =
    "trap '' TERM INT HUP; sleep 1000 & echo $$ > ids; echo $! >> ids; while :; do wait; sleep 1; done";

fn with_shell() -> CommandOptions {
    CommandOptions { shell: Some("/bin/sh".into()), isolation: crate::Isolation::off(), ..CommandOptions::default() }
}

fn fixture_with(options: ProcessOptions) -> (Fixture, Processes) {
    let f = Fixture::new([]);
    let processes = Processes::in_memory(with_shell(), options);
    register_processes(&f.registry, &processes).unwrap();
    (f, processes)
}

fn fixture() -> (Fixture, Processes) {
    fixture_with(ProcessOptions::default())
}

async fn start(f: &Fixture, cx: ToolContext, arguments: Value) -> String {
    let output = f.registry.call("start_process", arguments, cx).await.unwrap();
    output.value.unwrap().0["id"].as_str().unwrap().to_owned()
}

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

async fn ids(f: &Fixture, n: usize) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(f.path("ids")).unwrap_or_default();
        let ids: Vec<_> = text.lines().map(str::to_owned).collect();
        if ids.len() == n && text.ends_with('\n') {
            return ids;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "the ids did not come");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn background_process_is_read_in_parts() {
    let (f, _) = fixture();
    let id =
        start(&f, f.cx(), json!({ "command": "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two >&2" })).await;
    let read = |wait_ms: u64| f.call("read_process", json!({ "id": id, "wait_ms": wait_ms }));
    assert_eq!(read(20_000).await, "one\n[running]\n");
    assert_eq!(read(0).await, "[running]\n");
    assert!(f.call("list_processes", json!({})).await.starts_with(&format!("{id}  running for ")));
    f.write("go", "");
    ended(&f, &id).await;
    assert_eq!(read(0).await, "two\n[ended with exit code 0]\n");
    assert_eq!(read(0).await, "[ended with exit code 0]\n");
}

async fn ended(f: &Fixture, id: &str) {
    let begun = Instant::now();
    while f.call("list_processes", json!({})).await.contains("running") {
        assert!(begun.elapsed() < Duration::from_secs(120), "{id} is still running");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_filter_shows_and_waits_for_the_lines_that_match() {
    let (f, _) = fixture();
    let command = "echo noise; sleep 0.2; echo noise; echo listening on 8080; echo part | tr -d '\\n'; sleep 1000";
    let id = start(&f, f.cx(), json!({ "command": command })).await;
    let arguments = json!({ "id": id, "filter": "^listening", "wait_ms": 20_000 });
    assert_eq!(f.call("read_process", arguments).await, "listening on 8080\n[running]\n");
    // The line that is still being printed was not taken by the filter.
    assert_eq!(f.call("read_process", json!({ "id": id, "wait_ms": 20_000 })).await, "part\n[running]\n");
    let text = f.call("read_process", json!({ "id": id, "filter": "(" })).await;
    assert!(text.starts_with("invalid_arguments: `filter` cannot be used"), "{text}");
}

#[tokio::test]
async fn repeated_read_with_one_key_returns_the_same_output() {
    let (f, _) = fixture();
    let id = start(&f, f.cx(), json!({ "command": "echo one; sleep 1000" })).await;
    for _ in 0..2 {
        let read = f.registry.call("read_process", json!({ "id": id, "wait_ms": 20_000 }), f.cx().key("k")).await;
        assert_eq!(read.unwrap().text, "one\n[running]\n");
    }
    assert_eq!(f.call("read_process", json!({ "id": id })).await, "[running]\n");
}

#[tokio::test]
async fn process_that_fails_at_once_is_reported_at_once() {
    // As long as it takes, however busy the machine is.
    let (f, _) = fixture_with(ProcessOptions { first_look_ms: 20_000, ..ProcessOptions::default() });
    let text = f.call("start_process", json!({ "command": "echo no such thing >&2; exit 7" })).await;
    assert!(text.ends_with(" is ended with exit code 7]\nno such thing\n"), "{text}");
}

#[tokio::test]
async fn endless_output_is_bounded_and_losses_are_reported() {
    let (f, _) = fixture_with(ProcessOptions { output_bytes_max: 1000, ..ProcessOptions::default() });
    let id = start(&f, f.cx(), json!({ "command": "head -c 100000 /dev/zero | tr '\\0' x; echo end" })).await;
    ended(&f, &id).await;
    let text = f.call("read_process", json!({ "id": id })).await;
    assert!(text.starts_with("[99004 bytes were not read in time and are gone]\nxxx"), "{text}");
    assert!(text.ends_with("xxxend\n[ended with exit code 0]\n") && text.len() < 1200, "{text}");
    let id = start(&f, f.cx(), json!({ "command": "yes" })).await;
    assert!(f.call("kill_process", json!({ "id": id })).await.ends_with(" was killed as asked]\n"));
}

#[tokio::test]
async fn process_that_ignores_signals_is_killed_with_its_children() {
    let (f, _) = fixture();
    let id = start(&f, f.cx(), json!({ "command": STUBBORN })).await;
    let ids = ids(&f, 2).await;
    assert!(ids.iter().all(|id| is_running(id)));
    assert_eq!(f.call("kill_process", json!({ "id": id })).await, format!("[process {id} was killed as asked]\n"));
    for id in ids {
        is_gone(&id).await;
    }
    assert_eq!(f.call("kill_process", json!({ "id": id })).await, format!("[process {id} was killed as asked]\n"));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn process_that_left_its_group_is_killed_too() {
    let (f, _) = fixture();
    let command = "setsid sh -c 'trap \"\" TERM; echo $$ > ids; while :; do sleep 1; done' & sleep 1000";
    let id = start(&f, f.cx(), json!({ "command": command })).await;
    let ids = ids(&f, 1).await;
    f.call("kill_process", json!({ "id": id })).await;
    is_gone(&ids[0]).await;
}

#[tokio::test]
async fn process_is_killed_at_its_timeout() {
    let (f, _) = fixture();
    let id = start(&f, f.cx(), json!({ "command": STUBBORN, "timeout_ms": 500 })).await;
    let text = f.call("read_process", json!({ "id": id, "wait_ms": 20_000 })).await;
    assert_eq!(text, "[killed because its time was up]\n");
    for id in ids(&f, 2).await {
        is_gone(&id).await;
    }
}

#[tokio::test]
async fn shutdown_kills_processes_and_refuses_new_ones() {
    let (f, processes) = fixture();
    start(&f, f.cx(), json!({ "command": STUBBORN })).await;
    let ids = ids(&f, 2).await;
    processes.shutdown().await;
    for id in ids {
        is_gone(&id).await;
    }
    assert!(f.call("list_processes", json!({})).await.contains("  killed when the runtime was shut down  "));
    let text = f.call("start_process", json!({ "command": "true" })).await;
    assert_eq!(text, "cancelled: the runtime is shutting down");
}

#[tokio::test]
async fn processes_end_with_their_owner_only() {
    let (f, processes) = fixture();
    let own = start(&f, f.cx().owner("a"), json!({ "command": "sleep 1000" })).await;
    let other = start(&f, f.cx().owner("b"), json!({ "command": "sleep 1000" })).await;
    processes.end_owner("a");
    let read = |owner: &str, id: &str| {
        f.registry.call("read_process", json!({ "id": id, "wait_ms": 20_000 }), f.cx().owner(owner))
    };
    assert_eq!(read("a", &own).await.unwrap().text, "[killed when its thread ended]\n");
    let list = f.registry.call("list_processes", json!({}), f.cx().owner("b")).await.unwrap().text;
    assert!(list.starts_with(&format!("{other}  running")) && !list.contains(&own), "{list}");
    // No thread reaches the processes of another.
    let error = read("a", &other).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.message.starts_with(&format!("there is no process `{other}`; known: {own}")), "{}", error.message);
}

#[tokio::test]
async fn number_of_running_processes_is_limited() {
    let (f, _) = fixture_with(ProcessOptions { n_running_per_owner_max: 2, ..ProcessOptions::default() });
    let calls = (0..10).map(|_| f.registry.call("start_process", json!({ "command": "sleep 1000" }), f.cx()));
    let answers = futures_util::future::join_all(calls).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 2);
    let error = answers.into_iter().find_map(Result::err).unwrap();
    assert_eq!(error.kind, ErrorKind::Limit);
    // A place that was taken by a start that failed is free again.
    let text = f.call("start_process", json!({ "command": "true", "folder": "none" })).await;
    assert_eq!(text, "not_found: there is nothing at `none`");
}

#[tokio::test]
async fn cancelled_read_takes_no_output() {
    let (f, _) = fixture();
    let id =
        start(&f, f.cx(), json!({ "command": "while [ ! -e go ]; do sleep 0.01; done; echo late; sleep 1000" })).await;
    let cancel = CancellationToken::new();
    let read = f.registry.call("read_process", json!({ "id": id, "wait_ms": 60_000 }), f.cx().cancel(cancel.clone()));
    let (read, ()) = tokio::join!(read, async {
        sleep(Duration::from_millis(20)).await;
        cancel.cancel();
    });
    assert_eq!(read.unwrap_err().kind, ErrorKind::Cancelled);
    f.write("go", "");
    assert_eq!(f.call("read_process", json!({ "id": id, "wait_ms": 20_000 })).await, "late\n[running]\n");
}

#[tokio::test]
async fn background_command_sees_no_secrets_and_obeys_the_rules() {
    let f = Fixture::new([]);
    let rules = crate::CommandRules::new(["env"], ["rm"]).unwrap();
    let processes = Processes::in_memory(CommandOptions { rules, ..with_shell() }, ProcessOptions::default());
    register_processes(&f.registry, &processes).unwrap();
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
    let id = start(&f, f.cx(), json!({ "command": "env" })).await;
    let text = f.call("read_process", json!({ "id": id, "wait_ms": 20_000 })).await;
    assert!(text.contains("PATH=") && !text.contains("CARGO_PKG_NAME"), "{text}");
    let text = f.call("start_process", json!({ "command": "rm x" })).await;
    assert!(text.starts_with("denied: nothing was run: "), "{text}");
}
