//! Runs and agent loops from their events.

use serde_json::{Value, json};

use super::*;

fn fed(durations: &mut RunDurations, rows: &[(u64, &str, Value)]) -> Vec<(Part, String, u64, Option<ErrorKind>)> {
    let mut ended = Vec::new();
    for (ms, name, data) in rows {
        let event = Event::from_data(name, data.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
        ended.extend(durations.follow(&[event], Time::from_unix_us(ms * 1_000)));
    }
    ended.into_iter().map(|ended| (ended.part, ended.name, ended.us / 1_000, ended.error)).collect()
}

fn started() -> Value {
    json!({
        "workflow": { "name": "review", "hash": "0".repeat(64) }, "input": null, "variables": {}, "entry": "think",
        "deadline": null, "max_iterations": 100, "workspace": null, "budget": null, "on_limit": "fail",
        "labels": {}, "messages": [],
    })
}

fn node(id: &str, attempt: u32) -> Value {
    json!({ "node_id": id, "attempt": attempt, "deadline": null })
}

fn llm() -> Value {
    json!({
        "node_id": "think", "prompt": "", "system_prompt": null, "model": { "profile": "main" }, "tool_mode": "auto",
        "tools": [], "tool_catalog": null, "max_iterations": 5, "concurrent_tools_max": 1, "llm_timeout_ms": 1000,
        "approve_tools": [], "person_tools": [], "relay": false, "summary": null, "strategy": { "strategy": "react" },
        "context": "shared", "agents": [], "handoffs": [], "guardrails": [], "joins": true, "client_tools": [],
    })
}

fn failed(retry_at: Option<&str>) -> Value {
    let error = json!({ "kind": "server", "message": "", "retryable": true });
    json!({ "node_id": "think", "attempt": 1, "error": error, "retry_at": retry_at })
}

#[test]
fn loop_has_the_time_of_all_tries_and_other_nodes_have_none() {
    let mut durations = RunDurations::default();
    let rows = [
        (10, "THREAD_STARTED", started()),
        (11, "NODE_STARTED", node("think", 1)),
        (12, "LLM_EXECUTION_REQUEST", llm()),
        (20, "NODE_FAILED", failed(Some("1970-01-01T00:00:00.030Z"))),
        (30, "NODE_STARTED", node("think", 2)),
        (31, "LLM_EXECUTION_REQUEST", llm()),
        (51, "NODE_COMPLETED", json!({ "node_id": "think", "duration_ms": 21 })),
        (52, "NODE_STARTED", node("mark", 1)),
        (53, "NODE_COMPLETED", json!({ "node_id": "mark", "duration_ms": 1 })),
        (60, "THREAD_COMPLETED", json!({ "node_id": "mark", "run_follows": false })),
    ];
    let ended = fed(&mut durations, &rows);
    assert_eq!(ended, [(Part::AgentLoop, "think".into(), 40, None), (Part::Run, "review".into(), 50, None)]);
}

#[test]
fn open_loop_ends_with_the_run() {
    let mut durations = RunDurations::default();
    let begins = [
        (10, "THREAD_STARTED", started()),
        (11, "NODE_STARTED", node("think", 1)),
        (12, "LLM_EXECUTION_REQUEST", llm()),
    ];
    assert_eq!(fed(&mut durations, &begins), []);
    let cancelled = Some(ErrorKind::Cancelled);
    let ended = fed(&mut durations, &[(30, "THREAD_CANCELLED", json!({ "reason": null, "run_follows": false }))]);
    assert_eq!(ended, [(Part::AgentLoop, "think".into(), 19, cancelled), (Part::Run, "review".into(), 20, cancelled)]);
    // Each run is measured by itself.
    assert_eq!(fed(&mut durations, &[(40, "THREAD_CANCELLED", json!({ "reason": null, "run_follows": false }))]), []);
}

#[test]
fn branch_is_no_run_and_fork_begins_with_itself() {
    let forked = |branch: Value| json!({ "parent": "00000000-0000-0000-0000-000000000001", "seq": 2, "changes": {}, "branch": branch, "branches": [], "globals": {} });
    let begins = [
        (10, "THREAD_STARTED", started()),
        (11, "NODE_STARTED", node("think", 1)),
        (12, "LLM_EXECUTION_REQUEST", llm()),
    ];
    let ends = [
        (1_020, "NODE_FAILED", failed(None)),
        (1_030, "THREAD_COMPLETED", json!({ "node_id": "think", "run_follows": false })),
    ];
    let failed = (Part::AgentLoop, "think".to_owned(), 20, Some(ErrorKind::Server));
    let mut fork = RunDurations::default();
    fed(&mut fork, &begins);
    fed(&mut fork, &[(1_000, "THREAD_FORKED", forked(Value::Null))]);
    assert_eq!(fed(&mut fork, &ends), [failed.clone(), (Part::Run, "review".into(), 30, None)]);
    let mut branch = RunDurations::default();
    fed(&mut branch, &begins);
    let of = json!({ "owner": "00000000-0000-0000-0000-000000000001", "index": 0 });
    fed(&mut branch, &[(1_000, "THREAD_FORKED", forked(of))]);
    assert_eq!(fed(&mut branch, &ends), [failed]);
}
